"""Call the variants of sample.fasta against reference.fasta, and their effects on the gene of
gene.csv; write answer.json.

A program of its own: reads the input files alone, with the standard library.
"""

from __future__ import annotations

import csv
import json
from itertools import product
from pathlib import Path

# NCBI translation table 1, with the bases in the order TCAG.
ACIDS = "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
CODE = {"".join(codon): acid for codon, acid in zip(product("TCAG", repeat=3), ACIDS, strict=True)}
COMPLEMENT = str.maketrans("ACGT", "TGCA")
AHEAD = 10  # bases after a difference that decide of which kind it is
SHIFTS = ((1, 1), (1, 0), (2, 0), (0, 1), (0, 2))  # bases passed in the reference, in the sample

Call = tuple[int, str, str]  # position, ref, alt


def read_sequence(text: str) -> str:
    """The bases of a FASTA file of one sequence."""
    return "".join(text.splitlines()[1:])


def call_variants(reference: str, sample: str) -> list[Call]:
    """The differences in order, found along both sequences at once."""
    calls, at, here = [], 0, 0
    while at < len(reference) and here < len(sample):
        if reference[at] == sample[here]:
            at, here = at + 1, here + 1
            continue

        def alike(shift: tuple[int, int], at: int = at, here: int = here) -> int:
            ahead = reference[at + shift[0] :][:AHEAD], sample[here + shift[1] :][:AHEAD]
            return sum(a == b for a, b in zip(*ahead, strict=False))

        passed, taken = max(SHIFTS, key=alike)
        if passed == taken:
            calls.append((at + 1, reference[at], sample[here]))
        else:
            calls.append(move_left(reference, at, passed, sample[here : here + taken]))
        at, here = at + passed, here + taken
    return calls


def move_left(reference: str, at: int, deleted: int, inserted: str) -> Call:
    """An insertion or deletion before the base at a place, written as far left as it can be."""
    moving = reference[at : at + deleted] or inserted
    while reference[at - 1] == moving[-1]:
        at -= 1
        moving = reference[at] + moving[:-1]
    anchor = reference[at - 1]
    return (at, anchor + moving, anchor) if deleted else (at, anchor, anchor + moving)


def describe(call: Call, reference: str, gene: dict[str, str]) -> tuple[str, str]:
    """The effect of a call and the change of the protein."""
    position, ref, alt = call
    start, end = int(gene["start"]), int(gene["end"])
    if not start <= position <= end:
        return "noncoding", "none"
    changed = reference[: position - 1] + alt + reference[position - 1 + len(ref) :]
    offset = position - start if gene["strand"] == "+" else end - position
    first = 3 * (offset // 3)

    def acid(bases: str) -> str:
        coding = bases[start - 1 : end]
        if gene["strand"] == "-":
            coding = coding.translate(COMPLEMENT)[::-1]
        return CODE[coding[first : first + 3]]

    before = f"{acid(reference)}{offset // 3 + 1}"
    if len(ref) != len(alt):
        return "frameshift", before + "fs"
    after = acid(changed)
    if after == before[0]:
        return "synonymous", before + after
    return ("nonsense" if after == "*" else "missense"), before + after


def solve(folder: Path) -> dict[str, object]:
    """The answer block for the files in the folder."""
    reference = read_sequence((folder / "reference.fasta").read_text(encoding="ascii"))
    sample = read_sequence((folder / "sample.fasta").read_text(encoding="ascii"))
    with (folder / "gene.csv").open(encoding="ascii", newline="") as lines:
        gene = next(csv.DictReader(lines))
    variants = []
    for call in call_variants(reference, sample):
        effect, change = describe(call, reference, gene)
        position, ref, alt = call
        variants.append(
            {"position": position, "ref": ref, "alt": alt, "effect": effect, "change": change}
        )
    return {"task": "sequence_variants", "variants": variants}


if __name__ == "__main__":
    Path("answer.json").write_text(json.dumps(solve(Path())), encoding="utf-8")
