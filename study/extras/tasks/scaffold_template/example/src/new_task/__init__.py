"""Average the good readings of a table: the family, its parts in the order in which they work."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from typing import Any

from generators.family import (
    NUMBER,
    TEXT,
    Drawn,
    FamilyOfParts,
    FamilyParameters,
    InputFiles,
    answer_schema,
    form_criteria,
    list_of,
    read_part,
)
from generators.grading.checks import Gated, ShareOf
from generators.grading.item_lists import TEXTS, ItemList, ItemPrecision, ItemRecall, ListsItem
from generators.grading.rubric import Metarubric, Row, Rubric, fill_rubric, number_near
from generators.seed import Streams, redraw
from generators.task import GroundTruth, Limits, TruthTable

NAME = "new_task"

INPUT = "readings.csv"
LOW, HIGH = 10.0, 1000.0
DECIMALS = 6
MEAN_TOLERANCE = 0.005


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """How many readings, and what share of them is bad on average."""

    readings: int
    bad_share: float


BY_DIFFICULTY = {
    "easy": Parameters(5, 0.3, limits=Limits(turns=10)),
    "medium": Parameters(15, 0.3, limits=Limits(turns=10)),
    "hard": Parameters(40, 0.3, limits=Limits(turns=15)),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of an instrument. ``id`` cannot be guessed."""

    id: str
    bad: bool
    value: float


def draw_sample(parameters: Parameters, streams: Streams) -> tuple[tuple[Reading, ...], int]:
    """The readings in the order of the file, and how many draws were refused. Raises
    GuardExhausted where a draw stays degenerate."""
    return redraw(lambda attempt: _readings(parameters, streams, attempt), "readings")


def _readings(parameters: Parameters, streams: Streams, attempt: int) -> tuple[Reading, ...] | None:
    """None where none is bad, or half of them and more."""
    readings = tuple(
        Reading(
            id=f"{streams.at('id', index, attempt).word():016x}"[:12],
            bad=streams.at("bad", index, attempt).chance(parameters.bad_share),
            value=streams.at("value", index, attempt).uniform(LOW, HIGH),
        )
        for index in range(parameters.readings)
    )
    bad = sum(reading.bad for reading in readings)
    return readings if 0 < bad < len(readings) / 2 else None


def write_table(readings: Iterable[Reading]) -> bytes:
    """The bytes of the input file."""
    lines = ["id,status,value\n"]
    for reading in readings:
        status = "bad" if reading.bad else "good"
        lines.append(f"{reading.id},{status},{reading.value:.{DECIMALS}f}\n")
    return "".join(lines).encode("utf-8")


def make_truth(table: bytes) -> GroundTruth:
    """Tables ``readings`` (id, status, value), ``bad`` (id) and ``result`` (mean)."""
    written = list(csv.DictReader(io.StringIO(table.decode("utf-8"))))
    rows = tuple((row["id"], row["status"], float(row["value"])) for row in written)
    good = [value for _, status, value in rows if status == "good"]
    bad = tuple((name,) for name, status, _ in rows if status == "bad")
    return GroundTruth(
        tables=(
            ("readings", TruthTable(("id", "status", "value"), rows)),
            ("bad", TruthTable(("id",), bad)),
            ("result", TruthTable.of_row(mean=fsum(good) / len(good))),
        ),
        tolerances=(("mean", MEAN_TOLERANCE),),
    )


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    return {
        "task": NAME,
        "bad": list(truth.table("bad").column("id")),
        "mean": truth.table("result").column("mean")[0],
    }


PROMPT = read_part(__name__, "prompt.md")  # braces that stay are written twice

ANSWER_SCHEMA = answer_schema(NAME, {"bad": list_of(TEXT), "mean": NUMBER})

_BAD = ItemList(("bad",), TEXTS)


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    ids = tuple(str(name) for name in truth.table("bad").column("id"))
    precise = ItemPrecision(_BAD, ids, source="bad.id")
    # A mean without a look at the table is a guess.
    read = ShareOf((precise, ItemRecall(_BAD, ids, source="bad.id")), share=1.0)

    def listed(row: Row) -> Gated:
        return Gated(ListsItem(_BAD, str(row["id"])), precise)

    metarubrics = (
        *form_criteria(NAME, ANSWER_SCHEMA, 0.2),
        Metarubric(
            "bad_readings",
            "DH",
            4.0,
            "The answer lists the reading {id} as bad.",
            listed,
            source="bad",
        ),
        Metarubric(
            "mean",
            "SR",
            8.0,
            f"The answer states that the mean is {{mean:.2f}} (± {MEAN_TOLERANCE}).",
            number_near("mean", MEAN_TOLERANCE, read),
            source="result",
        ),
    )
    return fill_rubric(metarubrics, dict(truth.tables))


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, a list of whatever comes to mind, and the middle of the range."""
    middle = (LOW + HIGH) / 2
    return {
        "empty": {},
        "everything": {"task": NAME, "bad": [f"{n:012x}" for n in range(1000)], "mean": middle},
        "prior": {"task": NAME, "bad": [], "mean": middle},
    }


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input files and the truth of one seed."""
    readings, redraws = draw_sample(parameters, streams)
    table, files = write_table(readings), InputFiles()
    files.add_text(INPUT, "text/csv", table)
    return Drawn(files, make_truth(table), {"redraws": redraws})


FAMILY = FamilyOfParts(
    name=NAME,
    version="1",
    summary="average the good readings of a table",
    package=__name__,
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=PROMPT,
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
    # What of the truth the input files state; all else must be derived from them.
    given=("readings.value",),
)
