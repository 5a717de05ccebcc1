"""The form of the answer, what earns marks, and guesses that must not.

See docs/decisions/0025."""

from __future__ import annotations

from typing import Any

from generators.family import NUMBER, TEXT, answer_schema, form_criteria, list_of, record_of
from generators.grading.checks import Check, Gated, NumberWithin, ShareOf
from generators.grading.item_lists import (
    ItemCount,
    ItemList,
    ItemNumber,
    ItemPrecision,
    ItemRecall,
    ListsItem,
)
from generators.grading.rubric import Metarubric, Row, Rubric, fill_rubric, number_between
from generators.physics.hubble_constant.parameters import (
    CONSTANT_RANGE,
    DISTANCE_RANGE,
    GATE_TOLERANCE,
    LIGHT,
    NAME,
    SCATTER,
    Parameters,
)
from generators.task import GroundTruth

_GALAXIES = ItemList(("galaxies",), "id")
_SOURCE = "analyzed_galaxies.galaxy_ID"
_LARGEST = 1e6  # km/s/Mpc: whatever is below was meant as a Hubble constant


ANSWER_SCHEMA = answer_schema(
    NAME,
    {"galaxies": list_of(record_of(id=TEXT, z=NUMBER, d=NUMBER)), "H0": NUMBER, "sigma_H0": NUMBER},
)


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    galaxies = truth.table("analyzed_galaxies").records()
    result = truth.table("results").records()[0]
    ids = tuple(str(row["galaxy_ID"]) for row in galaxies)
    # A list of everything is no finding (R8a) ...
    listed = ShareOf(
        (ItemPrecision(_GALAXIES, ids, source=_SOURCE), ItemRecall(_GALAXIES, ids, source=_SOURCE)),
        share=1.0,
    )
    # ... a constant without its redshifts is a guess (R8e) ...
    measured = ShareOf(tuple(_z_near(row, GATE_TOLERANCE) for row in galaxies))
    # ... and so is the error of a constant that is wrong (R8b).
    constant = NumberWithin(("H0",), float(result["H0_min"]), float(result["H0_max"]))
    right = ShareOf((measured, constant), share=1.0)
    metarubrics = (*_sections(), *_readings(len(ids), listed), *_results(measured, right))
    return fill_rubric(metarubrics, dict(truth.tables))


def _z_near(row: Row, tolerance: float) -> ItemNumber:
    z = float(row["z"])
    return ItemNumber(_GALAXIES, str(row["galaxy_ID"]), "z", z - tolerance, z + tolerance)


def _sections() -> tuple[Metarubric, ...]:
    """Criteria on the parts that an answer must have: 0.45 of 29.95."""
    some = ItemPrecision(_GALAXIES, ("any",), share=0.0)
    return (
        *form_criteria(NAME, ANSWER_SCHEMA, 0.15),
        Metarubric(
            "galaxies_section",
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


def _readings(count: int, listed: ShareOf) -> tuple[Metarubric, ...]:
    def is_listed(row: Row) -> Gated:
        return Gated(ListsItem(_GALAXIES, str(row["galaxy_ID"])), listed)

    def z_is_right(row: Row) -> ItemNumber:
        name, low, high = str(row["galaxy_ID"]), float(row["z_min"]), float(row["z_max"])
        return ItemNumber(_GALAXIES, name, "z", low, high)

    return (
        Metarubric(
            "no_of_galaxies",
            "DH",
            1.0,
            "The answer lists exactly {n} galaxies as used in the analysis.",
            Gated(ItemCount(_GALAXIES, count), listed),
            source="results",
        ),
        Metarubric(
            "galaxies_used",
            "DH",
            1.0,
            "The answer lists the galaxy {galaxy_ID} as used in the analysis.",
            is_listed,
            source="analyzed_galaxies",
        ),
        Metarubric(
            "z_estimation",
            "IM",
            7.0,
            "The answer states that the redshift of galaxy {galaxy_ID} is {z:.6f}: anything "
            "from {z_min:.6f} to {z_max:.6f}.",
            z_is_right,
            source="analyzed_galaxies",
        ),
    )


def _results(measured: Check, right: Check) -> tuple[Metarubric, ...]:
    def distance_is_right(row: Row) -> Gated:
        low, high = float(row["distance_min"]), float(row["distance_max"])
        check = ItemNumber(_GALAXIES, str(row["galaxy_ID"]), "d", low, high)
        return Gated(check, measured)

    return (
        Metarubric(
            "distances",
            "SR",
            2.0,
            "The answer states that the distance of galaxy {galaxy_ID}, from its Cepheid alone, "
            "is {distance_Mpc:.3f} Mpc: anything from {distance_min:.3f} to {distance_max:.3f}.",
            distance_is_right,
            source="analyzed_galaxies",
        ),
        Metarubric(
            "h_estimation",
            "SR",
            13.0,
            "The answer states that the Hubble constant is {H0:.3f} km/s/Mpc: anything from "
            "{H0_min:.3f} to {H0_max:.3f}.",
            number_between("H0", "H0_min", "H0_max", measured),
            source="results",
            headline=True,
        ),
        Metarubric(
            "h_stdev_estimation",
            "SR",
            5.5,
            "The answer states that the statistical uncertainty of the Hubble constant is "
            "{sigma_H0:.4f} km/s/Mpc: anything from {sigma_min:.4f} to {sigma_max:.4f}.",
            number_between("sigma_H0", "sigma_min", "sigma_max", right),
            source="results",
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
    many = [{"id": f"GID{number:010d}", "z": z, "d": 25.0} for number, z in enumerate(zs)]
    constant = sum(CONSTANT_RANGE) / 2
    # A magnitude's scatter is 0.46 times as large in a distance, and averages out over galaxies.
    error = constant * 0.46 * SCATTER / expected**0.5
    literature = {name: _answer(expected, *values) for name, values in _LITERATURE.items()}
    return {
        "empty": {},
        "everything": {
            "task": NAME,
            "galaxies": many,
            "H0": list(range(40, 101)),
            "sigma_H0": list(range(10)),
        },
        "prior": _answer(expected, constant, error),
        **literature,
    }


def _answer(count: int, constant: float, error: float) -> dict[str, Any]:
    away = sum(DISTANCE_RANGE) / 2
    galaxies = [
        {"id": f"GID{number:010d}", "z": constant * away / LIGHT, "d": away}
        for number in range(count)
    ]
    return {"task": NAME, "galaxies": galaxies, "H0": constant, "sigma_H0": error}
