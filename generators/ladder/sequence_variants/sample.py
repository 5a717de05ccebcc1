"""Draws: the reference and its gene, the variants of the sample; how they are written."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from generators.ladder.names import draw_name
from generators.ladder.sequence_variants.genes import (
    BASES,
    SENSE,
    START,
    STOPS,
    Gene,
    Variant,
    effect_of,
)
from generators.ladder.sequence_variants.parameters import FRAMESHIFT, MARGIN, Parameters
from generators.seed import Streams, redraw
from generators.stream import Stream

_WIDTH = 60  # of a line of sequence
_MOST_INDEL = 2
_TRIES = 20  # for each variant


@dataclass(frozen=True, slots=True)
class Sample:
    """A reference with its gene, and the variants of the sample in order of position."""

    name: str
    reference: str
    gene: Gene
    variants: tuple[Variant, ...]
    redraws: int

    @property
    def bases(self) -> str:
        """The sequence of the sample."""
        bases = self.reference
        for variant in reversed(self.variants):
            bases = variant.applied(bases)
        return bases


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted if a draw stays degenerate."""
    name, attempt = draw_name(streams)
    reference, gene = draw_reference(parameters, streams)

    def variants(attempt: int) -> tuple[Variant, ...] | None:
        return draw_variants(parameters, reference, gene, streams.at("variants", 0, attempt))

    drawn, redrawn = redraw(variants, "variants")
    return Sample(name, reference, gene, drawn, attempt + redrawn)


def draw_reference(parameters: Parameters, streams: Streams) -> tuple[str, Gene]:
    """Bases each equally likely, and among them a gene of sense codons each equally likely."""
    bases = streams.at("bases")
    around = "".join(bases.choice(BASES) for _ in range(parameters.bases))
    codons = streams.at("codons")
    coding = "".join(
        (START, *(codons.choice(SENSE) for _ in range(parameters.codons - 2)), codons.choice(STOPS))
    )
    place = streams.at("gene")
    start = place.integer(2 * MARGIN, parameters.bases - len(coding) - 2 * MARGIN)
    strand = place.choice(parameters.strands)
    gene = Gene(start, start + len(coding) - 1, strand)
    return around[: start - 1] + gene.read(coding) + around[gene.end :], gene


def draw_variants(
    parameters: Parameters, reference: str, gene: Gene, stream: Stream
) -> tuple[Variant, ...] | None:
    """Variants whose effects come in turn, each drawn from all that have its effect until it lies
    apart from the others; None if that takes too long."""
    possible = possible_variants(parameters, reference, gene)
    drawn: list[Variant] = []
    for _ in range(_TRIES * parameters.variants):
        variant = stream.choice(possible[parameters.effects[len(drawn) % len(parameters.effects)]])
        if _apart(variant, drawn, parameters.spacing):
            drawn.append(variant)
        if len(drawn) == parameters.variants:
            return tuple(sorted(drawn, key=lambda variant: variant.position))
    return None


def _apart(variant: Variant, others: list[Variant], spacing: int) -> bool:
    """Report if at least ``spacing`` bases lie between a variant and each other one."""
    return all(
        other.position - variant.end > spacing or variant.position - other.end > spacing
        for other in others
    )


def possible_variants(
    parameters: Parameters, reference: str, gene: Gene
) -> dict[str, list[Variant]]:
    """All variants that may be drawn, by effect: none in the first codon or in the last, and none
    across an end of the gene."""
    possible: dict[str, list[Variant]] = {effect: [] for effect in parameters.effects}
    for position in range(MARGIN + 1, len(reference) - MARGIN + 1):
        inside = 1 <= gene.offset(position) // 3 < gene.codons - 1
        if not inside and gene.start - MARGIN <= position <= gene.end + MARGIN:
            continue
        for variant in _substitutions(position, reference):
            effect, _ = effect_of(variant, reference, gene)
            possible[effect].append(variant)
        if FRAMESHIFT in possible and inside:
            indels = _indels(position, reference)
            possible[FRAMESHIFT] += [each for each in indels if is_inside(each, gene)]
    return possible


def is_inside(variant: Variant, gene: Gene) -> bool:
    """Report if all bases of a variant lie in the gene, between its first codon and its last."""
    ends = (gene.offset(variant.position) // 3, gene.offset(variant.end + 1) // 3)
    return all(1 <= codon < gene.codons - 1 for codon in ends)


def _substitutions(position: int, reference: str) -> Iterator[Variant]:
    ref = reference[position - 1]
    return (Variant(position, ref, base) for base in BASES if base != ref)


def _indels(position: int, reference: str) -> Iterator[Variant]:
    """Insertions and deletions after a base that cannot be written further to the left: their last
    base is not the one before them."""
    anchor = reference[position - 1]
    for size in range(1, _MOST_INDEL + 1):
        deleted = reference[position : position + size]
        if deleted[-1] != anchor:
            yield Variant(position, anchor + deleted, anchor)
    for inserted in (*BASES, *(one + other for one in BASES for other in BASES)):
        if inserted[-1] != anchor:
            yield Variant(position, anchor, anchor + inserted)


def key_bits(parameters: Parameters, reference: str, gene: Gene) -> float:
    """Entropy of the key in bits, given the reference and its gene: of the sets of variants that
    may be drawn, as though none kept others at a distance. Their effects follow from them."""
    possible = possible_variants(parameters, reference, gene)
    effects = itertools.islice(itertools.cycle(parameters.effects), parameters.variants)
    drawn = Counter(effects)
    return sum(math.log2(math.comb(len(possible[effect]), drawn[effect])) for effect in drawn)


def write_sequence(name: str, bases: str) -> bytes:
    """A sequence in FASTA, in lines of 60 bases."""
    lines = (bases[at : at + _WIDTH] for at in range(0, len(bases), _WIDTH))
    return "\n".join((f">{name}", *lines, "")).encode()


def write_gene(sample: Sample) -> bytes:
    """The gene's place, under a header."""
    gene = sample.gene
    return f"name,start,end,strand\n{sample.name},{gene.start},{gene.end},{gene.strand}\n".encode()
