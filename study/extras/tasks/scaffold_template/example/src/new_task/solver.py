"""Average the good readings of readings.csv in the current folder; write answer.json there.

A program of its own: reads the input file alone, with what the sandbox has (the standard
library, numpy, scipy, pandas, Pillow).
"""

from __future__ import annotations

import csv
import json
from math import fsum
from pathlib import Path


def solve(folder: Path) -> dict[str, object]:
    """The answer block for the table in the folder."""
    with (folder / "readings.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    good = [float(row["value"]) for row in rows if row["status"] == "good"]
    bad = [row["id"] for row in rows if row["status"] == "bad"]
    return {"task": "new_task", "bad": bad, "mean": fsum(good) / len(good)}


if __name__ == "__main__":
    Path("answer.json").write_text(json.dumps(solve(Path())), encoding="utf-8")
