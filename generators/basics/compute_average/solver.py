"""Average the numbers of input_numbers.txt in the current folder; write answer.json there.

A program of its own: reads the input file alone, with the standard library.
"""

from __future__ import annotations

import json
from math import fsum
from pathlib import Path


def read_blocks(text: str) -> list[list[float]]:
    """The numbers of each block; an empty line stands between blocks."""
    return [[float(line) for line in block.split()] for block in text.split("\n\n")]


def answer(blocks: list[list[float]]) -> dict[str, object]:
    """The answer block for these numbers."""
    numbers = [number for block in blocks for number in block]
    averages = {str(at): mean(block) for at, block in enumerate(blocks, 1)}
    return {
        "task": "compute_average",
        "numbers": numbers,
        "block_averages": averages,
        "average": mean(numbers),
    }


def mean(numbers: list[float]) -> float:
    """The mean; that of no numbers is 0."""
    return fsum(numbers) / len(numbers) if numbers else 0.0


if __name__ == "__main__":
    found = answer(read_blocks(Path("input_numbers.txt").read_text(encoding="ascii")))
    Path("answer.json").write_text(json.dumps(found), encoding="utf-8")
