"""What earns marks (spec/physics.md, §6; gates as R8)."""

from __future__ import annotations

from collections.abc import Mapping

from generators.basics.count_circles.parameters import AVERAGE_TOLERANCE, NAME
from generators.grading import (
    Gated,
    MeanAgrees,
    Metarubric,
    NumberWithin,
    Rubric,
    ShareOf,
    ValueEquals,
    fill_rubric,
)
from generators.task import GroundTruth, Scalar


def make_rubric(truth: GroundTruth) -> Rubric:
    images = truth.table("images").records()
    # A guessed average earns nothing: half of the counts must be right (R8e).
    gate = ShareOf(tuple(_count_is_right(row, 0) for row in images))
    return fill_rubric(_metarubrics(gate, len(images)), dict(truth.tables))


def _count_is_right(row: Mapping[str, Scalar], _: int) -> ValueEquals:
    return ValueEquals(("counts", str(row["filename"])), int(row["n_circles"]))


def _metarubrics(gate: ShareOf, files: int) -> tuple[Metarubric, ...]:
    def average(row: Mapping[str, Scalar], _: int) -> Gated:
        mean = float(row["average"])
        low, high = mean - AVERAGE_TOLERANCE, mean + AVERAGE_TOLERANCE
        return Gated(NumberWithin(("average",), low, high), gate)

    own_mean = MeanAgrees(("average",), ("counts",), files, AVERAGE_TOLERANCE)
    return (
        Metarubric(
            "answer_block",
            "IF",
            0.3,
            "The answer ends with the JSON object that the task asks for.",
            lambda _row, _index: ValueEquals(("task",), NAME),
        ),
        Metarubric(
            "count_circles",
            "IM",
            8.0,
            "The answer states that {filename} shows {n_circles} disc(s).",
            _count_is_right,
            "images",
        ),
        Metarubric(
            "average_circles",
            "SR",
            10.0,
            "The answer states that the average number of discs per picture is {average:.2f} "
            f"(± {AVERAGE_TOLERANCE}), and gets at least half of the counts right.",
            average,
            "result",
        ),
        Metarubric(
            "average_consistent",
            "SR",
            1.0,
            f"The stated average is that of the answer's own counts (± {AVERAGE_TOLERANCE}), and "
            "at least half of the counts are right.",
            lambda _row, _index: Gated(own_mean, gate),
        ),
    )
