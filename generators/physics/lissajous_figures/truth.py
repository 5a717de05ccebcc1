"""Ground truth of the supplies as they are written, and the answer that states it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from generators.physics.lissajous_figures.parameters import (
    FREQUENCY_TOLERANCE,
    NAME,
    WORST_RATE,
    Ratio,
)
from generators.task import GroundTruth, Scalar, TruthTable

_SUPPLY_COLUMNS = ("supply_id", "machine", "batch", "frequency_hz", "hertz", "measurement_id")


def make_truth(table: bytes, ratios: Mapping[str, Ratio]) -> GroundTruth:
    """Tables ``qa_data`` and ``complement_qa_data`` (the tested units that are faulty, and those
    that are not), ``faulty_machines`` and ``not_faulty_machines``, in the order of the file.

    ``ratios`` gives the figure of each measurement of the table.
    """
    rows = csv.DictReader(io.StringIO(table.decode(), newline=""))
    tested = [row for row in rows if row["measurement_id"]]
    supplies: dict[bool, list[tuple[Scalar, ...]]] = {True: [], False: []}
    counts: dict[str, list[int]] = {}
    for row in tested:
        ratio = ratios[row["measurement_id"]]
        written = (row["supply_ID"], row["machine"], row["batch"])
        hertz = (float(ratio.hertz), round(ratio.hertz))
        supplies[ratio.is_good].append((*written, *hertz, row["measurement_id"]))
        count = counts.setdefault(row["machine"], [0, 0])
        count[0] += 1
        count[1] += not ratio.is_good
    return GroundTruth(
        tables=(
            ("qa_data", TruthTable(_SUPPLY_COLUMNS, tuple(supplies[False]))),
            ("complement_qa_data", TruthTable(_SUPPLY_COLUMNS, tuple(supplies[True]))),
            ("faulty_machines", _machines(counts, faulty=True)),
            ("not_faulty_machines", _machines(counts, faulty=False)),
        ),
        tolerances=(("frequency_hz", FREQUENCY_TOLERANCE),),
    )


def _machines(counts: Mapping[str, Sequence[int]], faulty: bool) -> TruthTable:
    rows = []
    for machine, (tested, faults) in counts.items():
        rate = Fraction(faults, tested)
        if (rate > WORST_RATE) == faulty:
            rows.append((machine, tested, faults, float(100 * rate)))
    return TruthTable(("machine", "tested", "faulty", "percent"), tuple(rows))


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    names = ("supply_id", "machine", "batch")
    return {
        "task": NAME,
        "faulty": [
            {**{name: row[name] for name in names}, "frequency_hz": row["hertz"]}
            for row in truth.table("qa_data").records()
        ],
        "machines": list(truth.table("faulty_machines").column("machine")),
    }
