"""Ground truth of the supplies as they are written, and the answer that states it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from generators.physics.lissajous_figures.parameters import (
    FREQUENCY_TOLERANCE,
    NAME,
    NO_COIL,
    PERIOD_TOLERANCE,
    WORST_RATE,
    Ratio,
    fits,
)
from generators.task import GroundTruth, Scalar, TruthTable

_SUPPLY_COLUMNS = (
    "supply_id",
    "machine",
    "batch",
    "frequency_hz",
    "hertz",
    "period_ms",
    "symmetry",
    "coil",
    "measurement_id",
)


def make_truth(table: bytes, coil_table: bytes, ratios: Mapping[str, Ratio]) -> GroundTruth:
    """Tables ``tested`` (a row for each tested supply), ``faulty`` and ``good`` (those that no
    coil fits, and the others), ``machines`` and ``batches`` (faulty supplies of each),
    ``faulty_machines`` and ``not_faulty_machines``, in the order of the file.

    ``ratios`` gives the figure of each measurement of the table.
    """
    coils = [(row["coil"], float(row["inductance_H"])) for row in _rows(coil_table)]
    written = _rows(table)
    tested = [
        _supply(row, ratios[row["measurement_id"]], coils)
        for row in written
        if row["measurement_id"]
    ]
    faulty = [supply for supply in tested if supply["coil"] == NO_COIL]
    good = [supply for supply in tested if supply["coil"] != NO_COIL]
    machines = _counts("machine", tested, faulty)
    columns = ("supply_id", "frequency_hz", "hertz", "coil")
    return GroundTruth(
        tables=(
            ("tested", _table(_SUPPLY_COLUMNS, tested)),
            ("faulty", _table(columns, faulty)),
            ("good", _table(columns, good)),
            ("machines", _table(("machine", "tested", "faulty", "percent"), machines)),
            ("batches", _table(("batch", "tested", "faulty"), _counts("batch", tested, faulty))),
            ("faulty_machines", _machines(machines, faulty=True)),
            ("not_faulty_machines", _machines(machines, faulty=False)),
        ),
        tolerances=(("frequency_hz", FREQUENCY_TOLERANCE), ("period_ms", PERIOD_TOLERANCE)),
    )


Record = Mapping[str, Scalar]


def _rows(table: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table.decode(), newline="")))


def _supply(
    row: Mapping[str, str], ratio: Ratio, coils: Sequence[tuple[str, float]]
) -> dict[str, Scalar]:
    hertz = float(ratio.hertz)
    fitting = [name for name, inductance in coils if fits(inductance, hertz)]
    return {
        "supply_id": row["supply_ID"],
        "machine": row["machine"],
        "batch": row["batch"],
        "frequency_hz": hertz,
        "hertz": round(ratio.hertz),
        "period_ms": ratio.period_ms,
        "symmetry": ratio.symmetry,
        "coil": fitting[0] if fitting else NO_COIL,
        "measurement_id": row["measurement_id"],
    }


def _table(columns: tuple[str, ...], records: Sequence[Record]) -> TruthTable:
    return TruthTable(columns, tuple(tuple(record[name] for name in columns) for record in records))


def _counts(
    column: str, tested: Sequence[Record], faulty: Sequence[Record]
) -> list[dict[str, Scalar]]:
    """How many of the tested supplies there are for each value of the column, and how many of
    them are faulty."""
    of_all = Counter(supply[column] for supply in tested)
    of_faulty = Counter(supply[column] for supply in faulty)
    return [
        {
            column: name,
            "tested": count,
            "faulty": of_faulty[name],
            "percent": 100 * of_faulty[name] / count,
        }
        for name, count in of_all.items()
    ]


def _machines(machines: Sequence[Record], faulty: bool) -> TruthTable:
    rows = [
        record
        for record in machines
        if (Fraction(int(record["faulty"]), int(record["tested"])) > WORST_RATE) == faulty
    ]
    return _table(("machine", "tested", "faulty", "percent"), rows)


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""

    def faults(table: str, column: str) -> dict[str, Any]:
        return {str(row[column]): row["faulty"] for row in truth.table(table).records()}

    return {
        "task": NAME,
        "supplies": [
            {
                "supply_id": row["supply_id"],
                "frequency_hz": row["hertz"],
                "period_ms": row["period_ms"],
                "symmetry": row["symmetry"],
                "coil": row["coil"],
            }
            for row in truth.table("tested").records()
        ],
        "machine_faults": faults("machines", "machine"),
        "batch_faults": faults("batches", "batch"),
        "machines": list(truth.table("faulty_machines").column("machine")),
    }
