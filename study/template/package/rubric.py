"""What earns marks. Gates keep a guess, or a list of everything, from earning any."""

from __future__ import annotations

from collections.abc import Mapping

from generators.grading import (
    TEXTS,
    Gated,
    ItemList,
    ItemPrecision,
    ItemRecall,
    ListsItem,
    Metarubric,
    NumberWithin,
    Rubric,
    ShareOf,
    ValueEquals,
    fill_rubric,
)
from generators.task import GroundTruth, Scalar

from .parameters import MEAN_TOLERANCE, NAME

_BAD = ItemList(("bad",), TEXTS)


def make_rubric(truth: GroundTruth) -> Rubric:
    ids = tuple(str(each) for each in truth.table("bad").column("id"))
    precise = ItemPrecision(_BAD, ids, source="bad.id")
    # A mean without a look at the table is a guess.
    read = ShareOf((precise, ItemRecall(_BAD, ids, source="bad.id")), share=1.0)
    return fill_rubric(_metarubrics(precise, read), dict(truth.tables))


def _metarubrics(precise: ItemPrecision, read: ShareOf) -> tuple[Metarubric, ...]:
    def listed(row: Mapping[str, Scalar], _: int) -> Gated:
        return Gated(ListsItem(_BAD, str(row["id"])), precise)

    def mean(row: Mapping[str, Scalar], _: int) -> Gated:
        value = float(row["mean"])
        within = NumberWithin(("mean",), value - MEAN_TOLERANCE, value + MEAN_TOLERANCE)
        return Gated(within, read)

    return (
        Metarubric(
            "answer_block",
            "IF",
            0.2,
            "The answer ends with the JSON object that the task asks for.",
            lambda _row, _index: ValueEquals(("task",), NAME),
        ),
        Metarubric(
            "bad_readings",
            "DH",
            4.0,
            "The answer lists the reading {id} as bad, and at least half of those that it lists "
            "are bad.",
            listed,
            "bad",
        ),
        Metarubric(
            "mean",
            "SR",
            8.0,
            f"The answer states that the mean is {{mean:.2f}} (± {MEAN_TOLERANCE}), and lists at "
            "least half of the bad readings.",
            mean,
            "result",
        ),
    )
