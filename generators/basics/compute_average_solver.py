"""Average the numbers of input_numbers.txt in the current folder; write answer.json there.

A program of its own: reads the input file alone, with the standard library.
"""

from __future__ import annotations

import json
from math import fsum
from pathlib import Path


def solve(folder: Path) -> dict[str, object]:
    """The answer block for the numbers in the folder."""
    text = (folder / "input_numbers.txt").read_text(encoding="ascii")
    numbers = [float(line) for line in text.split()]
    return {"task": "compute_average", "numbers": numbers, "average": fsum(numbers) / len(numbers)}


if __name__ == "__main__":
    Path("answer.json").write_text(json.dumps(solve(Path())), encoding="utf-8")
