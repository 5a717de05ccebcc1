"""Parameters of each difficulty."""

from __future__ import annotations

from dataclasses import dataclass

from generators.family import FamilyParameters
from generators.task import Limits

NAME = "sequence_variants"

REFERENCE, SAMPLE, GENE = "reference.fasta", "sample.fasta", "gene.csv"
NONCODING, SYNONYMOUS, MISSENSE = "noncoding", "synonymous", "missense"
NONSENSE, FRAMESHIFT = "nonsense", "frameshift"
SUBSTITUTED = (NONCODING, SYNONYMOUS, MISSENSE, NONSENSE)
MARGIN = 12  # bases at each end of the reference without a variant


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Bases of the reference, codons of its gene, strands that it may lie on, number of variants,
    and their effects, which come in turn. A frameshift is an insertion or deletion of one base or
    two."""

    bases: int
    codons: int
    strands: tuple[str, ...]
    variants: int
    effects: tuple[str, ...] = SUBSTITUTED
    spacing: int = 12

    @property
    def indels_named(self) -> str:
        """Part of the prompt's sentence on insertions and deletions, or nothing."""
        return " and by one or two bases inserted or deleted" if FRAMESHIFT in self.effects else ""

    def described(self) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        return {
            "bases": self.bases,
            "codons": self.codons,
            "strands": ", ".join(self.strands),
            "variants": self.variants,
            "effects": ", ".join(self.effects),
            "spacing": self.spacing,
        }


BY_DIFFICULTY = {
    "easy": Parameters(bases=240, codons=50, strands=("+",), variants=6, limits=Limits(turns=10)),
    "medium": Parameters(
        bases=720, codons=150, strands=("+", "-"), variants=12, limits=Limits(turns=10)
    ),
    "hard": Parameters(
        bases=1500,
        codons=300,
        strands=("+", "-"),
        variants=16,
        effects=(*SUBSTITUTED, FRAMESHIFT),
        limits=Limits(turns=15),
    ),
}
