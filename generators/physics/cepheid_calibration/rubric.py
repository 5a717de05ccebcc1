"""What earns marks (spec/physics.md, §2; gates as R8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from generators.grading import (
    Gated,
    ItemList,
    ItemNumber,
    ItemPrecision,
    ItemRecall,
    ListsItem,
    Metarubric,
    NumberWithin,
    OmitsItem,
    Rubric,
    ShareOf,
    ValueEquals,
    fill_rubric,
)
from generators.physics.cepheid_calibration.parameters import FIT, NEAR, Z_TOLERANCE
from generators.task import GroundTruth, Scalar

Row = Mapping[str, Scalar]

_LIST = ItemList(("redshifts",), "id")
_SOURCE = "redshifts.cepheid_id"
_NEAR = NEAR * Z_TOLERANCE
_AND_READ = (
    f", and gives at least half of the used Cepheids' redshifts to within {_NEAR:.3f} of the truth"
)


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    redshifts = truth.table("redshifts").records()
    used = tuple(str(row["cepheid_id"]) for row in redshifts)
    # A list of everything is no selection, nor is a short one an exclusion (R8a) ...
    precise = ItemPrecision(_LIST, used, source=_SOURCE)
    ample = ItemRecall(_LIST, used, source=_SOURCE)
    # ... and a line without its redshifts is a guess (R8e).
    read = ShareOf(tuple(_redshift_within(row, _NEAR) for row in redshifts))
    metarubrics = (*_lists(precise, ample), *_fit(read))
    return fill_rubric(metarubrics, dict(truth.tables))


def _redshift_within(row: Row, tolerance: float) -> ItemNumber:
    z = float(row["z"])
    return ItemNumber(_LIST, str(row["cepheid_id"]), "z", z - tolerance, z + tolerance)


def _redshift(row: Row, _: int) -> ItemNumber:
    low, high = float(row["z_min"]), float(row["z_max"])
    return ItemNumber(_LIST, str(row["cepheid_id"]), "z", low, high)


def _lists(precise: ItemPrecision, ample: ItemRecall) -> tuple[Metarubric, ...]:
    return (
        Metarubric(
            "cepheids_with_data",
            "DH",
            2.0,
            "The answer lists the Cepheid {cepheid_id} among those used, and at least half of "
            "those that it lists have a spectrum, a magnitude and a period.",
            lambda row, _: Gated(ListsItem(_LIST, str(row["cepheid_id"])), precise),
            "redshifts",
        ),
        Metarubric(
            "cepheids_without_data",
            "DH",
            2.0,
            "The answer does not list the Cepheid {cepheid_id} (which lacks: {lacks}) among those "
            "used, and lists at least half of those that lack nothing.",
            lambda row, _: Gated(OmitsItem(_LIST, str(row["cepheid_id"])), ample),
            "excluded",
        ),
        Metarubric(
            "estimated_redshifts",
            "IM",
            14.0,
            "The answer states that the redshift of the Cepheid {cepheid_id} is {z:.6f}: anything "
            "from {z_min:.6f} to {z_max:.6f}.",
            _redshift,
            "redshifts",
        ),
    )


def _fit(read: ShareOf) -> tuple[Metarubric, ...]:
    def within(name: str) -> Callable[[Row, int], Gated]:
        def check(row: Row, _: int) -> Gated:
            low, high = float(row[f"{name}_min"]), float(row[f"{name}_max"])
            return Gated(NumberWithin((name,), low, high), read)

        return check

    def value(key: str, weight: float, name: str, what: str) -> Metarubric:
        text = (
            f"The answer states that {what} is {{{name}:.5f}}: anything from {{{name}_min:.5f}} "
            f"to {{{name}_max:.5f}}"
        )
        return Metarubric(key, "SR", weight, f"{text}{_AND_READ}.", within(name), "results")

    return (
        Metarubric(
            "fitted_function",
            "SR",
            1.0,
            f"The answer states that a straight line with slope and offset both free was fitted"
            f"{_AND_READ}.",
            lambda _row, _index: Gated(ValueEquals(("fit",), FIT), read),
        ),
        value("estimated_a", 8.0, "a", "the slope a"),
        value("estimated_b", 8.0, "b", "the offset b"),
        value("estimated_a_sigma", 3.0, "sigma_a", "the uncertainty of the slope a"),
        value("estimated_b_sigma", 3.0, "sigma_b", "the uncertainty of the offset b"),
    )
