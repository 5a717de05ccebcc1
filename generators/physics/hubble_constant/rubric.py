"""The form of the answer, what earns marks, and guesses that must not.

See spec/physics.md, §3; gates as R8; docs/decisions/0006.
"""

from __future__ import annotations

from typing import Any

from generators.family import NUMBER, TEXT, answer_schema, form_criteria, list_of, record_of
from generators.grading import (
    Gated,
    ItemCount,
    ItemList,
    ItemNumber,
    ItemPrecision,
    ItemRecall,
    Metarubric,
    NumberWithin,
    Row,
    Rubric,
    ShareOf,
    ValueEquals,
    fill_rubric,
    number_between,
)
from generators.physics.hubble_constant.parameters import (
    CONSTANT_RANGE,
    GATE_TOLERANCE,
    NAME,
    REDSHIFT_RANGE,
    SCATTER,
    Parameters,
)
from generators.task import GroundTruth

_REDSHIFTS = ItemList(("redshifts",), "id")
_SOURCE = "analyzed_galaxies.galaxy_ID"
_LARGEST = 1e6  # km/s/Mpc: whatever is below was meant as a Hubble constant


ANSWER_SCHEMA = answer_schema(
    NAME,
    {
        "redshifts": list_of(record_of(id=TEXT, z=NUMBER)),
        "H0": NUMBER,
        "sigma_H0": NUMBER,
        "fit": {"enum": ["linear_free_intercept", "linear_through_zero", "other"]},
    },
)


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    galaxies = truth.table("analyzed_galaxies").records()
    ids = tuple(str(row["galaxy_ID"]) for row in galaxies)
    # A list of everything is no finding (R8a) ...
    listed = ShareOf(
        (
            ItemPrecision(_REDSHIFTS, ids, source=_SOURCE),
            ItemRecall(_REDSHIFTS, ids, source=_SOURCE),
        ),
        share=1.0,
    )
    # ... and a constant without its redshifts is a guess (R8e).
    measured = ShareOf(
        tuple(
            ItemNumber(
                *(_REDSHIFTS, str(row["galaxy_ID"]), "z"),
                low=float(row["z"]) - GATE_TOLERANCE,
                high=float(row["z"]) + GATE_TOLERANCE,
            )
            for row in galaxies
        )
    )
    metarubrics = (*_sections(), *_readings(ids, listed), *_fits(measured))
    return fill_rubric(metarubrics, dict(truth.tables))


def _sections() -> tuple[Metarubric, ...]:
    """Criteria on the parts that an answer must have: 0.45 of 28.45."""
    some = ItemPrecision(_REDSHIFTS, ("any",), share=0.0)
    return (
        *form_criteria(NAME, ANSWER_SCHEMA, 0.15),
        Metarubric(
            "z_estimation_section",
            "IF",
            0.15,
            "The answer has a section that lists galaxies with their redshifts.",
            some,
        ),
        Metarubric(
            "hubble_section",
            "IF",
            0.15,
            "The answer has a section that states the Hubble constant as a number.",
            NumberWithin(("H0",), 0.0, _LARGEST),
        ),
    )


def _readings(ids: tuple[str, ...], listed: ShareOf) -> tuple[Metarubric, ...]:
    def z_is_right(row: Row) -> ItemNumber:
        name, low, high = str(row["galaxy_ID"]), float(row["z_min"]), float(row["z_max"])
        return ItemNumber(_REDSHIFTS, name, "z", low, high)

    return (
        Metarubric(
            "no_of_galaxies",
            "DH",
            2.0,
            "The answer lists exactly {n} galaxies as used in the analysis.",
            Gated(ItemCount(_REDSHIFTS, len(ids)), listed),
            "results",
        ),
        Metarubric(
            "z_estimation",
            "IM",
            10.0,
            "The answer states that the redshift of galaxy {galaxy_ID} is {z:.6f}: anything "
            "from {z_min:.6f} to {z_max:.6f}.",
            z_is_right,
            "analyzed_galaxies",
        ),
    )


def _fits(measured: ShareOf) -> tuple[Metarubric, ...]:
    lines = ("linear_through_zero", "linear_free_intercept")
    linear = ShareOf(tuple(ValueEquals(("fit",), line) for line in lines))

    return (
        Metarubric(
            "fit_function",
            "SR",
            0.5,
            "The answer fits a straight line to velocity against distance.",
            Gated(linear, measured),
        ),
        Metarubric(
            "fit_function_offset",
            "SR",
            0.5,
            "The fitted function has no offset: it is a straight line through zero.",
            Gated(ValueEquals(("fit",), "linear_through_zero"), measured),
        ),
        Metarubric(
            "h_estimation",
            "SR",
            10.0,
            "The answer states that the Hubble constant is {H0:.3f} km/s/Mpc: anything from "
            "{H0_min:.3f} to {H0_max:.3f}.",
            number_between("H0", "H0_min", "H0_max", measured),
            "results",
            headline=True,
        ),
        Metarubric(
            "h_stdev_estimation",
            "SR",
            5.0,
            "The answer states that the statistical uncertainty of the Hubble constant is "
            "{sigma_H0:.4f} km/s/Mpc: anything from {sigma_min:.4f} to {sigma_max:.4f}.",
            number_between("sigma_H0", "sigma_min", "sigma_max", measured),
            "results",
            headline=True,
        ),
    )


# --- answers of an agent that opens no file

# Hubble constants that readers of journals remember, km/s/Mpc, with their errors.
_LITERATURE = {"planck-2018": (67.4, 0.5), "shoes-2022": (73.04, 1.04), "key-project": (72.0, 8.0)}


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing, everything at once, the middles of the ranges, and the literature."""
    expected = round(parameters.galaxies * parameters.p_cepheid * parameters.p_spectrum * 0.7225)
    zs = [number / 1000 for number in range(81)]
    many = [{"id": f"GID{number:010d}", "z": z} for number, z in enumerate(zs)]
    constant = sum(CONSTANT_RANGE) / 2
    # A magnitude's scatter is 0.46 times as large in a distance, and averages out over galaxies.
    error = constant * 0.46 * SCATTER / expected**0.5
    literature = {name: _answer(expected, *values) for name, values in _LITERATURE.items()}
    return {
        "empty": {},
        "everything": {
            "task": NAME,
            "redshifts": many,
            "H0": list(range(40, 91)),
            "sigma_H0": list(range(10)),
            "fit": ["linear_through_zero", "linear_free_intercept", "other"],
        },
        "prior": _answer(expected, constant, error),
        **literature,
    }


def _answer(galaxies: int, constant: float, error: float) -> dict[str, Any]:
    z = sum(REDSHIFT_RANGE) / 2
    return {
        "task": NAME,
        "redshifts": [{"id": f"GID{number:010d}", "z": z} for number in range(galaxies)],
        "H0": constant,
        "sigma_H0": error,
        "fit": "linear_through_zero",
    }
