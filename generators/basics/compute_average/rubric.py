"""What earns marks (spec/physics.md, §7; gates as R8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from generators.basics.compute_average.parameters import AVERAGE_TOLERANCE, NUMBER_TOLERANCE
from generators.grading import (
    Answered,
    Gated,
    ListsNumber,
    Metarubric,
    NumberPrecision,
    NumberRecall,
    NumberWithin,
    Rubric,
    ShareOf,
    fill_rubric,
)
from generators.task import GroundTruth, Scalar

_LIST = ("numbers",)


def make_rubric(truth: GroundTruth) -> Rubric:
    values = tuple(float(value) for value in truth.table("numbers").column("value"))
    listing: dict[str, Any] = {"tolerance": NUMBER_TOLERANCE, "source": "numbers.value"}
    # A list of everything is no finding (R8a) ...
    precise = NumberPrecision(_LIST, values, **listing)
    # ... and an average without its numbers is a guess (R8e).
    read = ShareOf((precise, NumberRecall(_LIST, values, **listing)), share=1.0)
    return fill_rubric(_metarubrics(precise, read), dict(truth.tables))


def _metarubrics(precise: NumberPrecision, read: ShareOf) -> tuple[Metarubric, ...]:
    def found(row: Mapping[str, Scalar], _: int) -> Gated:
        value, copy = float(row["value"]), int(row["copy"])
        return Gated(ListsNumber(_LIST, value, copy, NUMBER_TOLERANCE), precise)

    def average(row: Mapping[str, Scalar], _: int) -> Gated:
        mean = float(row["average"])
        low, high = mean - AVERAGE_TOLERANCE, mean + AVERAGE_TOLERANCE
        return Gated(NumberWithin(("average",), low, high), read)

    return (
        Metarubric(
            "non_empty_answer",
            "IF",
            0.2,
            "There is an answer.",
            lambda _row, _index: Answered(),
        ),
        Metarubric(
            "found_numbers",
            "DH",
            2.0,
            "The answer lists the number {value:.6f} at least {copy} time(s), and at least half "
            "of the numbers that it lists are in the file.",
            found,
            "numbers",
        ),
        Metarubric(
            "computed_average",
            "SR",
            10.0,
            f"The answer states that the average is {{average:.2f}} (± {AVERAGE_TOLERANCE}), and "
            "lists at least half of the numbers.",
            average,
            "final_result",
        ),
    )
