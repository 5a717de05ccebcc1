"""A gene on a reference, and the effect of a variant on its protein.

The standard genetic code is translation table 1 of the NCBI (The Genetic Codes, compiled by
A. Elzanowski and J. Ostell).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from generators.ladder.sequence_variants.parameters import (
    FRAMESHIFT,
    MISSENSE,
    NONCODING,
    NONSENSE,
    SYNONYMOUS,
)

BASES = "TCAG"
_AMINO_ACIDS = "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
CODE = {
    "".join(codon): acid
    for codon, acid in zip(itertools.product(BASES, repeat=3), _AMINO_ACIDS, strict=True)
}
START = "ATG"
SENSE = tuple(codon for codon, acid in CODE.items() if acid != "*")
STOPS = tuple(codon for codon, acid in CODE.items() if acid == "*")
_COMPLEMENT = str.maketrans("ACGT", "TGCA")


def reverse_complement(bases: str) -> str:
    """The other strand, read in its own direction."""
    return bases.translate(_COMPLEMENT)[::-1]


@dataclass(frozen=True, slots=True)
class Gene:
    """A coding sequence: the places of its first and last base on the reference, from 1."""

    start: int
    end: int
    strand: str

    @property
    def codons(self) -> int:
        """Number of codons, with the last, a stop codon."""
        return (self.end - self.start + 1) // 3

    def offset(self, position: int) -> int:
        """How far a base of the reference lies from the gene's first one, in its direction."""
        return position - self.start if self.strand == "+" else self.end - position

    def read(self, bases: str) -> str:
        """Bases of the reference, in the gene's direction."""
        return bases if self.strand == "+" else reverse_complement(bases)


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant as VCF has it: ``position`` from 1, of the first base of ``ref``."""

    position: int
    ref: str
    alt: str

    @property
    def end(self) -> int:
        """The place of the last base of ``ref``."""
        return self.position + len(self.ref) - 1

    def applied(self, bases: str) -> str:
        """The reference with this variant."""
        return bases[: self.position - 1] + self.alt + bases[self.end :]


def effect_of(variant: Variant, reference: str, gene: Gene) -> tuple[str, str]:
    """The effect of a variant by itself, and the change of the protein, such as R12K."""
    if not gene.start <= variant.position <= gene.end:
        return NONCODING, "none"
    place, shift = divmod(gene.offset(variant.position), 3)
    at = shift if gene.strand == "+" else 2 - shift  # in the codon as the reference writes it
    first = variant.position - 1 - at
    bases = reference[first : first + 3]
    before = CODE[gene.read(bases)]
    if len(variant.ref) != len(variant.alt):
        return FRAMESHIFT, f"{before}{place + 1}fs"
    after = CODE[gene.read(bases[:at] + variant.alt + bases[at + 1 :])]
    change = f"{before}{place + 1}{after}"
    if after == before:
        return SYNONYMOUS, change
    return (NONSENSE if after == "*" else MISSENSE), change
