"""Shortcuts that must not pay, and solvers that err."""

from __future__ import annotations

import csv
from functools import partial

from generators.attackers import Access, AnswerBlock, Attacker, Files, NoisySolver
from generators.ladder.sequence_variants.parameters import (
    GENE,
    MISSENSE,
    NAME,
    NONCODING,
    REFERENCE,
    SAMPLE,
    SUBSTITUTED,
)
from generators.ladder.sequence_variants.rubric import variants_block
from generators.ladder.sequence_variants.solver import Call, call_variants, describe, read_sequence
from generators.stream import Stream

# Probability of each mistake, by solver.
_MISTAKE = (0.06, 0.18, 0.33, 0.5)
_FAR = 3000  # bases over which a position is counted wrong with the probability of a mistake
_SPACED = 40  # bases


def guess_evenly(files: Files) -> AnswerBlock:
    """A variant every few bases of a reference as long as its file."""
    positions = range(_SPACED, len(files[REFERENCE]), _SPACED)
    return variants_block((position, "C", "T", MISSENSE) for position in positions)


def skip_translation(files: Files) -> AnswerBlock:
    """All variants, those in the gene called missense."""
    gene = _gene(files)
    start, end = int(gene["start"]), int(gene["end"])
    return variants_block(
        (*call, MISSENSE if start <= call[0] <= end else NONCODING)
        for call in call_variants(_bases(files, REFERENCE), _bases(files, SAMPLE))
    )


def skip_frame(files: Files) -> AnswerBlock:
    """All variants, translated as though the gene began at the first base."""
    reference = _bases(files, REFERENCE)
    whole = {"start": "1", "end": str(len(reference) // 3 * 3), "strand": "+"}
    calls = call_variants(reference, _bases(files, SAMPLE))
    return _block([(call, *describe(call, reference, whole)) for call in calls])


def mistake(probability: float, files: Files, draws: Stream) -> AnswerBlock:
    """The solver's answer, but a variant is missed and a codon mistranslated with the probability,
    and the more likely a position is off by one the further it is counted."""
    reference, gene = _bases(files, REFERENCE), _gene(files)
    listed = []
    for call in call_variants(reference, _bases(files, SAMPLE)):
        effect, change = describe(call, reference, gene)
        missed, mistaken = draws.chance(probability), draws.chance(probability)
        guess, miscounted = draws.choice(SUBSTITUTED), draws.chance(probability * call[0] / _FAR)
        if mistaken:
            effect, change = guess, "X1X"
        if not missed:
            listed.append(((call[0] + miscounted, *call[1:]), effect, change))
    return _block(listed)


def _block(described: list[tuple[Call, str, str]]) -> AnswerBlock:
    variants = [
        {"position": position, "ref": ref, "alt": alt, "effect": effect, "change": change}
        for (position, ref, alt), effect, change in described
    ]
    return {"task": NAME, "variants": variants}


def _bases(files: Files, path: str) -> str:
    return read_sequence(files[path].decode())


def _gene(files: Files) -> dict[str, str]:
    return next(csv.DictReader(files[GENE].decode().splitlines()))


ATTACKERS = (
    Attacker("evenly spread", Access.METADATA, guess_evenly),
    Attacker("not translated", Access.STEP_SKIPPED, skip_translation),
    Attacker("reading frame ignored", Access.STEP_SKIPPED, skip_frame),
)
NOISY = tuple(
    NoisySolver(f"errs at {probability:.0%}", partial(mistake, probability))
    for probability in _MISTAKE
)
