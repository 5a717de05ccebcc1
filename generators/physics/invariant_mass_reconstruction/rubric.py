"""The form of the answer, what earns marks, and guesses that must not.

See docs/decisions/0007."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from generators.family import NUMBER, TEXT, answer_schema, form_criteria, list_of
from generators.grading.checks import Check, Gated, NumberWithin
from generators.grading.item_lists import PAIRS, ItemList, ItemNumber, ItemsNear
from generators.grading.rubric import Metarubric, Row, Rubric, fill_rubric, number_between
from generators.physics.invariant_mass_reconstruction.parameters import (
    CALORIMETER_RADIUS,
    FIELD_TOLERANCE,
    FIELDS,
    GAIN_TOLERANCE,
    GAINS,
    GATE_SHARE,
    GATE_TOLERANCES,
    LOWEST_MASSES,
    MUON_PAIRS_TOLERANCE,
    MUON_SHARE,
    NAME,
    PARTICLE_MASSES,
    RADIUS_TOLERANCE,
    Parameters,
)
from generators.task import GroundTruth, TruthTable

_EVENTS = ItemList(("events",), PAIRS)
_INTERVAL_DECIMALS = 6


_EVENT = {
    "type": "array",
    "prefixItems": [{"type": "integer"}, NUMBER],
    "minItems": 2,
    "maxItems": 2,
}
_NUMBERS = {"type": "object", "additionalProperties": NUMBER}
_READINGS: Mapping[str, Mapping[str, Any]] = {
    "radii_m": _NUMBERS,
    "gains_MeV": _NUMBERS,
    "field_T": NUMBER,
    "muon_pairs": {"type": "integer"},
    "mass_GeV": NUMBER,
    "width_GeV": NUMBER,
    "slope_per_GeV": NUMBER,
    "signal_fraction": NUMBER,
}
ANSWER_SCHEMA = answer_schema(
    NAME,
    {**_READINGS, "events": list_of(_EVENT), "events_file": TEXT},
    required=["task", *_READINGS],
    anyOf=[{"required": ["events"]}, {"required": ["events_file"]}],
)


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    tolerance = dict(truth.tolerances)["event_mass"]
    graded = truth.table("events_graded")
    # A remembered particle earns nothing: two thirds of the masses must be readings (R8e).
    read = ItemsNear(
        _EVENTS,
        tuple(str(number) for number in graded.column("event_id")),
        "value",
        tuple(float(mass) for mass in graded.column("mass")),
        GATE_TOLERANCES * tolerance,
        share=GATE_SHARE,
        source="events_graded",
    )
    tables = {
        **dict(truth.tables),
        "events_graded": _with_intervals(graded, tolerance),
        "layers": _in_words(truth.table("layers")),
    }
    return fill_rubric(_metarubrics(truth, read, tolerance), tables)


def _in_words(layers: TruthTable) -> TruthTable:
    """The layers with their names in a sentence."""
    rows = tuple(
        (layer, radius, "the calorimeter" if layer == "calorimeter" else f"tracker layer {layer}")
        for layer, radius in layers.rows
    )
    return TruthTable((*layers.columns, "words"), rows)


def _with_intervals(events: TruthTable, tolerance: float) -> TruthTable:
    """The events with the closed interval that each one's mass is granted."""
    rows = []
    for number, mass in events.rows:
        value = float(mass)
        low = round(value * (1 - tolerance), _INTERVAL_DECIMALS)
        high = round(value * (1 + tolerance), _INTERVAL_DECIMALS)
        rows.append((number, value, low, high))
    return TruthTable(("event_id", "mass", "low", "high"), tuple(rows))


def _mass_is_right(row: Row) -> ItemNumber:
    low, high = float(row["low"]), float(row["high"])
    return ItemNumber(_EVENTS, str(row["event_id"]), "value", low, high)


def _radius_is_right(row: Row) -> NumberWithin:
    value = float(row["radius"])
    return NumberWithin(
        ("radii_m", str(row["layer"])), value - RADIUS_TOLERANCE, value + RADIUS_TOLERANCE
    )


def _gain_is_right(row: Row) -> NumberWithin:
    value, reach = float(row["gain"]), GAIN_TOLERANCE * float(row["gain"])
    return NumberWithin(("gains_MeV", str(row["module"])), value - reach, value + reach)


def _field_is_right(row: Row) -> NumberWithin:
    value, reach = float(row["field"]), FIELD_TOLERANCE * float(row["field"])
    return NumberWithin(("field_T",), value - reach, value + reach)


def _metarubrics(truth: GroundTruth, read: ItemsNear, tolerance: float) -> tuple[Metarubric, ...]:
    reach = MUON_PAIRS_TOLERANCE * len(truth.table("events").rows)

    def muon_pairs(row: Row) -> Check:
        value = int(row["muon_pairs"])
        return Gated(NumberWithin(("muon_pairs",), value - reach, value + reach), read)

    def fitted(key: str, weight: float, name: str, path: str, what: str) -> Metarubric:
        return Metarubric(
            key,
            "SR",
            weight,
            f"The answer states {what} from {{{name}_low:.8f}} to {{{name}_high:.8f}} (the "
            f"reference fit finds {{{name}:.4f}}).",
            number_between(path, f"{name}_low", f"{name}_high", read),
            source="fit",
            headline=True,
        )

    return (
        *form_criteria(NAME, ANSWER_SCHEMA, 0.4),
        Metarubric(
            "detector_radii",
            "IM",
            2.5,
            "The answer states that the radius of {words} is {radius:.3f} m "
            f"(± {RADIUS_TOLERANCE}).",
            _radius_is_right,
            source="layers",
        ),
        Metarubric(
            "module_gains",
            "IM",
            2.5,
            "The answer states that the gain of calorimeter module {module} is {gain:.2f} MeV per "
            f"count (± {100 * GAIN_TOLERANCE:g} %).",
            _gain_is_right,
            source="gains",
        ),
        Metarubric(
            "magnetic_field",
            "IM",
            1.5,
            "The answer states that the magnetic field is {field:.3f} T "
            f"(± {100 * FIELD_TOLERANCE:g} %).",
            _field_is_right,
            source="field",
        ),
        Metarubric(
            "muon_pairs",
            "DH",
            1.5,
            f"The answer states that {{muon_pairs}} events have two muons (± {reach:g}).",
            muon_pairs,
            source="counts",
        ),
        Metarubric(
            "invariant_masses",
            "SR",
            12.0,
            "The answer states for event {event_id} an invariant mass from {low:.6f} to "
            f"{{high:.6f}} GeV (true is {{mass:.6f}} ± {100 * tolerance:g} %).",
            _mass_is_right,
            source="events_graded",
        ),
        fitted("particle_mass", 3.0, "mass", "mass_GeV", "a mass of the particle in GeV"),
        fitted(
            "particle_width", 2.5, "width", "width_GeV", "a width (FWHM) of the particle in GeV"
        ),
        fitted(
            "background_slope", 2.0, "slope", "slope_per_GeV", "a slope of the background per GeV"
        ),
        fitted(
            "signal_fraction",
            2.5,
            "fraction",
            "signal_fraction",
            "a fraction of pairs that come from the particle",
        ),
    )


# --- answers of an agent that opens no file

# Mass and width in GeV (Particle Data Group).
_LITERATURE = {
    "z-boson": (91.1880, 2.4955),
    "w-boson": (80.369, 2.085),
    "upsilon": (9.4604, 5.4e-5),
}


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing; every mass at once; the middle of what is drawn, with each event's mass
    there, or at the background's median; and what the literature knows."""
    middle = sum(PARTICLE_MASSES) / 2
    width = math.sqrt(parameters.widths[0] * parameters.widths[1])
    median = sum(LOWEST_MASSES) / 2 + math.log(2.0) / parameters.slope
    known = {
        name: _answer(parameters, mass, mass, width) for name, (mass, width) in _LITERATURE.items()
    }
    return {
        "empty": {},
        "everything": _everything(parameters),
        "prior": _answer(parameters, middle, middle, width),
        "prior-background": _answer(parameters, median, middle, width),
        **known,
    }


def _answer(parameters: Parameters, event_mass: float, mass: float, width: float) -> dict[str, Any]:
    radii = (*parameters.radii, CALORIMETER_RADIUS)
    names = (*(str(number) for number, _ in enumerate(parameters.radii, 1)), "calorimeter")
    gain = math.sqrt(GAINS[0] * GAINS[1])
    return {
        "task": NAME,
        "radii_m": dict(zip(names, radii, strict=True)),
        "gains_MeV": {str(number): gain for number in range(1, parameters.modules + 1)},
        "field_T": sum(FIELDS) / 2,
        "muon_pairs": round(MUON_SHARE * parameters.events),
        "events": [[number, event_mass] for number in range(1, parameters.events + 1)],
        "mass_GeV": mass,
        "width_GeV": width,
        "slope_per_GeV": parameters.slope,
        "signal_fraction": parameters.signal_fraction,
    }


def _everything(parameters: Parameters) -> dict[str, Any]:
    prior = _answer(parameters, 0.0, 0.0, 0.0)
    every = [thousandth / 1000 for thousandth in range(1, 2001)]
    return prior | {
        "radii_m": dict.fromkeys(prior["radii_m"], every),
        "gains_MeV": {module: list(range(5, 19)) for module in prior["gains_MeV"]},
        "field_T": every,
        "events": [
            [number, mass]
            for number in range(1, parameters.events + 1)
            for mass in range(5, 44, 10)
        ],
        "mass_GeV": list(range(12, 35)),
        "width_GeV": list(range(1, 9)),
    }
