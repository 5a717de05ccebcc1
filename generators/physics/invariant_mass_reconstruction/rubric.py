"""The form of the answer, what earns marks, and guesses that must not.

See spec/physics.md, §4; gates as R8; docs/decisions/0007.
"""

from __future__ import annotations

import math
from typing import Any

from generators.family import NUMBER, TEXT, answer_schema, form_criteria, list_of
from generators.grading import (
    PAIRS,
    Check,
    Gated,
    ItemCount,
    ItemList,
    ItemNumber,
    ItemRecall,
    ItemsNear,
    ListsNumber,
    Metarubric,
    NumberPrecision,
    NumberWithin,
    Row,
    Rubric,
    ShareOf,
    fill_rubric,
    number_between,
)
from generators.physics.invariant_mass_reconstruction.parameters import (
    GATE_SHARE,
    GATE_TOLERANCES,
    NAME,
    PARTICLE_MASSES,
    RADIUS_TOLERANCE,
    Parameters,
)
from generators.task import GroundTruth, TruthTable

_EVENTS = ItemList(("events",), PAIRS)
_INTERVAL_DECIMALS = 6
_ANY_GEV = (0.0, 1e6)


_EVENT = {
    "type": "array",
    "prefixItems": [{"type": "integer"}, NUMBER],
    "minItems": 2,
    "maxItems": 2,
}
ANSWER_SCHEMA = answer_schema(
    NAME,
    {
        "layer_radii_m": list_of(NUMBER),
        "ecal_radius_m": NUMBER,
        "events": list_of(_EVENT),
        "events_file": TEXT,
        "mass_GeV": NUMBER,
        "width_GeV": NUMBER,
    },
    required=["task", "layer_radii_m", "ecal_radius_m", "mass_GeV", "width_GeV"],
    anyOf=[{"required": ["events"]}, {"required": ["events_file"]}],
)


def make_rubric(truth: GroundTruth) -> Rubric:
    """The criteria of an instance with this truth."""
    tolerance = dict(truth.tolerances)["event_mass"]
    sampled = _with_intervals(truth.table("events_sampled"), tolerance)
    # A remembered particle earns nothing: half of the masses must be readings (R8e).
    read = ItemsNear(
        _EVENTS,
        tuple(str(number) for number in sampled.column("event_id")),
        "value",
        tuple(float(mass) for mass in sampled.column("mass")),
        GATE_TOLERANCES * tolerance,
        GATE_SHARE,
        source="events_sampled",
    )
    tables = {
        **dict(truth.tables),
        "events_sampled": sampled,
        "detector": _in_words(truth.table("detector")),
    }
    return fill_rubric(_metarubrics(truth, read, tolerance), tables)


def _in_words(detector: TruthTable) -> TruthTable:
    """The layers as a sentence names them."""
    named = [
        ("the tracker's " + str(name) if index < len(detector.rows) - 1 else f"the {name}", radius)
        for index, (name, radius) in enumerate(detector.rows)
    ]
    return TruthTable(detector.columns, tuple(named))


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


def _metarubrics(truth: GroundTruth, read: ItemsNear, tolerance: float) -> tuple[Metarubric, ...]:
    *layers, _ = (float(radius) for radius in truth.table("detector").column("radius"))
    precise = NumberPrecision(("layer_radii_m",), tuple(layers), tolerance=RADIUS_TOLERANCE)
    numbers = tuple(str(number) for number in truth.table("events").column("event_id"))
    every = ShareOf(
        (
            ItemRecall(_EVENTS, numbers, share=1.0, source="events.event_id"),
            ItemCount(_EVENTS, len(numbers)),
        ),
        share=1.0,
    )

    def radius(row: Row) -> Check:
        value = float(row["radius"])
        if value in layers:
            measured = ListsNumber(("layer_radii_m",), value, 1, RADIUS_TOLERANCE)
            return Gated(measured, precise)
        low, high = value - RADIUS_TOLERANCE, value + RADIUS_TOLERANCE
        return NumberWithin(("ecal_radius_m",), low, high)

    def fitted(key: str, weight: float, name: str, what: str) -> Metarubric:
        return Metarubric(
            key,
            "SR",
            weight,
            f"The answer states a {what} of the new particle from {{{name}_low:.6f}} to "
            f"{{{name}_high:.6f}} GeV (the reference fit finds {{{name}:.4f}}).",
            number_between(f"{name}_GeV", f"{name}_low", f"{name}_high", read),
            "new_particle_properties",
            headline=True,
        )

    return (
        *form_criteria(NAME, ANSWER_SCHEMA, 0.15),
        _stated("final_result_mass", "mass_GeV", "mass"),
        _stated("final_result_width", "width_GeV", "decay width"),
        Metarubric(
            "detector_dimensions",
            "IM",
            1.0,
            "The answer states that the radius of {layer} is {radius:.3f} m "
            f"(± {RADIUS_TOLERANCE}).",
            radius,
            "detector",
        ),
        Metarubric(
            "no_of_particles",
            "DH",
            0.5,
            "The answer lists all {events} events and no others.",
            Gated(every, read),
            "misc",
        ),
        Metarubric(
            "invariant_masses",
            "SR",
            8.0,
            "The answer states for event {event_id} an invariant mass from {low:.6f} to "
            f"{{high:.6f}} GeV (true is {{mass:.6f}} ± {100 * tolerance:g} %).",
            _mass_is_right,
            "events_sampled",
        ),
        fitted("new_particle_mass", 10.0, "mass", "mass"),
        fitted("new_particle_decay_width", 8.0, "width", "decay width (FWHM)"),
    )


def _stated(key: str, path: str, what: str) -> Metarubric:
    return Metarubric(
        key,
        "IF",
        0.15,
        f"The answer states a {what} of the new particle in GeV.",
        NumberWithin((path,), *_ANY_GEV),
    )


# --- answers of an agent that opens no file

# Mass and width in GeV (Particle Data Group), and the detector of the original.
_LITERATURE = {
    "z-boson": (91.1880, 2.4955),
    "w-boson": (80.369, 2.085),
    "upsilon": (9.4604, 5.4e-5),
}
_USUAL_CALORIMETER = 1.5


def make_nulls(parameters: Parameters) -> dict[str, dict[str, Any]]:
    """By name: nothing; every radius and mass at once; the middle of what is drawn, with each
    event's mass there, or at the background's median; and what the literature knows."""
    middle = sum(PARTICLE_MASSES) / 2
    width = math.sqrt(parameters.widths[0] * parameters.widths[1])
    median = 5.0 + math.log(2.0) / parameters.slope
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
    return {
        "task": NAME,
        "layer_radii_m": list(parameters.radii),
        "ecal_radius_m": _USUAL_CALORIMETER,
        "events": [[number, event_mass] for number in range(1, parameters.events + 1)],
        "mass_GeV": mass,
        "width_GeV": width,
    }


def _everything(parameters: Parameters) -> dict[str, Any]:
    masses = range(5, 86, 10)
    return {
        "task": NAME,
        "layer_radii_m": [thousandth / 1000 for thousandth in range(1, 2001)],
        "ecal_radius_m": [thousandth / 1000 for thousandth in range(1, 2001)],
        "events": [[number, mass] for number in range(1, parameters.events + 1) for mass in masses],
        "mass_GeV": list(range(20, 71)),
        "width_GeV": list(range(1, 17)),
    }
