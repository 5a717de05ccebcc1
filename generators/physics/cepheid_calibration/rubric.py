"""The form of the answer, what earns marks, and guesses that must not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from generators.family import NUMBER, TEXT, answer_schema, form_criteria, list_of, record_of
from generators.grading.checks import Check, Gated, NumberWithin, ShareOf
from generators.grading.item_lists import (
    ItemList,
    ItemNumber,
    ItemPrecision,
    ItemRecall,
    ListsItem,
    OmitsItem,
)
from generators.grading.rubric import Metarubric, Row, Rubric, fill_rubric, number_between
from generators.physics.cepheid_calibration.parameters import (
    GATE_TOLERANCE,
    NAME,
    NEAREST,
    OFFSETS,
    P_MISSING,
    PERIODS,
    SCATTER,
    SLOPES,
    Parameters,
)
from generators.physics.cepheid_calibration.sample import Relation, farthest_z
from generators.physics.spectra import ID_DIGITS
from generators.task import GroundTruth

_LIST = ItemList(("cepheids",), "id")
_SOURCE = "redshifts.cepheid_id"


ANSWER_SCHEMA = answer_schema(
    NAME,
    {
        "cepheids": list_of(record_of(id=TEXT, z=NUMBER, M=NUMBER)),
        **dict.fromkeys(("a", "sigma_a", "b", "sigma_b"), NUMBER),
    },
)


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    redshifts = truth.table("redshifts").records()
    used = tuple(str(row["cepheid_id"]) for row in redshifts)
    # A list of everything is no selection, nor is a short one an exclusion (R8a) ...
    precise = ItemPrecision(_LIST, used, source=_SOURCE)
    ample = ItemRecall(_LIST, used, source=_SOURCE)
    # ... and a line without its redshifts is a guess (R8e).
    read = ShareOf(tuple(_redshift_near(row, GATE_TOLERANCE) for row in redshifts))
    form = form_criteria(NAME, ANSWER_SCHEMA, 0.2)
    (result,) = truth.table("results").records()
    metarubrics = (*form, *_lists(precise, ample, read), *_fit(read, result))
    return fill_rubric(metarubrics, dict(truth.tables))


def _redshift_near(row: Row, tolerance: float) -> ItemNumber:
    z = float(row["z"])
    return ItemNumber(_LIST, str(row["cepheid_id"]), "z", z - tolerance, z + tolerance)


def _within(field: str) -> Callable[[Row], ItemNumber]:
    def check(row: Row) -> ItemNumber:
        low, high = float(row[f"{field}_min"]), float(row[f"{field}_max"])
        return ItemNumber(_LIST, str(row["cepheid_id"]), field, low, high)

    return check


def _lists(precise: Check, ample: Check, read: Check) -> tuple[Metarubric, ...]:
    return (
        Metarubric(
            "cepheids_with_data",
            "DH",
            1.5,
            "The answer lists the Cepheid {cepheid_id} among those used.",
            lambda row: Gated(ListsItem(_LIST, str(row["cepheid_id"])), precise),
            source="redshifts",
        ),
        Metarubric(
            "cepheids_without_data",
            "DH",
            1.5,
            "The answer does not list the Cepheid {cepheid_id} (which lacks: {lacks}) among those "
            "used.",
            lambda row: Gated(OmitsItem(_LIST, str(row["cepheid_id"])), ample),
            source="excluded",
        ),
        Metarubric(
            "estimated_redshifts",
            "IM",
            10.5,
            "The answer states that the redshift of the Cepheid {cepheid_id} is {z:.6f}: anything "
            "from {z_min:.6f} to {z_max:.6f}.",
            _within("z"),
            source="redshifts",
        ),
        Metarubric(
            "absolute_magnitudes",
            "SR",
            3.0,
            "The answer states that the absolute magnitude of the Cepheid {cepheid_id} is "
            "{M:.4f}: anything from {M_min:.4f} to {M_max:.4f}.",
            lambda row: Gated(_within("M")(row), read),
            source="redshifts",
        ),
    )


def _fit(read: Check, result: Row) -> tuple[Metarubric, ...]:
    def value(key: str, weight: float, name: str, what: str, gate: Check) -> Metarubric:
        text = (
            f"The answer states that {what} is {{{name}:.5f}}: anything from {{{name}_min:.5f}} "
            f"to {{{name}_max:.5f}}."
        )
        check = number_between(name, f"{name}_min", f"{name}_max", gate)
        return Metarubric(key, "SR", weight, text, check, source="results", headline=True)

    def beside(name: str) -> ShareOf:  # the error of a value that is wrong is a guess (R8b)
        within = NumberWithin((name,), float(result[f"{name}_min"]), float(result[f"{name}_max"]))
        return ShareOf((read, within), share=1.0)

    slope, offset = "the slope a", "the offset b"
    return (
        value("estimated_a", 9.0, "a", slope, read),
        value("estimated_b", 9.0, "b", offset, read),
        value("estimated_a_sigma", 3.5, "sigma_a", f"the uncertainty of {slope}", beside("a")),
        value("estimated_b_sigma", 3.5, "sigma_b", f"the uncertainty of {offset}", beside("b")),
    )


# --- answers of an agent that opens no file

# Slopes, and offsets at ten days, that readers of journals remember.
LITERATURE = {
    "benedict-2007-v": (-2.43, -4.05),
    "freedman-2001-i": (-2.962, -4.904),
    "riess-2019-h": (-3.26, -5.93),
}


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, a list of identifiers as long as the table, the middles of all ranges,
    and the relations of the literature."""
    errors = expected_errors(parameters)
    middle = (_middle(SLOPES), _middle(OFFSETS))
    literature = {name: _answer(line, errors) for name, line in LITERATURE.items()}
    return {
        "empty": {},
        "everything": _answer(middle, errors, range(parameters.galaxies)),
        "prior": _answer(middle, errors, range(12)),
        **literature,
    }


def expected_errors(parameters: Parameters) -> tuple[float, float]:
    """Standard errors of slope and offset that the ranges of the draws lead to expect."""
    complete = parameters.p_cepheid * parameters.p_spectrum * (1.0 - P_MISSING) ** 2
    count = parameters.galaxies * complete
    low, high = (math.log10(period) - 1.0 for period in PERIODS)
    s_xx = count * (high - low) ** 2 / 12.0
    middle = (low + high) / 2.0
    return SCATTER / math.sqrt(s_xx), SCATTER * math.sqrt(1.0 / count + middle**2 / s_xx)


def _middle(span: tuple[float, float]) -> float:
    return (span[0] + span[1]) / 2.0


def _answer(
    line: tuple[float, float], errors: tuple[float, float], numbers: Sequence[int] = ()
) -> dict[str, Any]:
    z = farthest_z(Relation(*line)) * (1.0 + NEAREST) / 2.0
    cepheids = [
        {"id": f"CEPH_{number:0{ID_DIGITS}d}", "z": z, "M": line[1] + line[0] / 2}
        for number in numbers
    ]
    return {
        "task": NAME,
        "cepheids": cepheids,
        "a": line[0],
        "sigma_a": errors[0],
        "b": line[1],
        "sigma_b": errors[1],
    }
