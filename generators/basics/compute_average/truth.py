"""What is true of the numbers as they are written, and the answer that says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from generators.basics.compute_average.parameters import AVERAGE_TOLERANCE, NAME, NUMBER_TOLERANCE
from generators.task import Asset, GroundTruth, Table


def make_truth(lines: Sequence[str], asset: Asset) -> GroundTruth:
    """Tables ``numbers`` (written, value, copy: the how-manieth of its value, from 1) and
    ``final_result`` (average, the float nearest to the exact mean)."""
    seen: Counter[float] = Counter()
    rows = []
    for line in lines:
        value = float(line)
        seen[value] += 1
        rows.append((line, value, seen[value]))
    average = float(sum(map(Fraction, lines)) / len(lines))
    return GroundTruth(
        tables=(
            ("numbers", Table(("written", "value", "copy"), tuple(rows))),
            ("final_result", Table(("average",), ((average,),))),
        ),
        tolerances=(("average", AVERAGE_TOLERANCE), ("numbers", NUMBER_TOLERANCE)),
        digests=((asset.path, asset.digest),),
    )


def make_key(truth: GroundTruth) -> dict[str, Any]:
    return {
        "task": NAME,
        "numbers": list(truth.table("numbers").column("value")),
        "average": truth.table("final_result").column("average")[0],
    }
