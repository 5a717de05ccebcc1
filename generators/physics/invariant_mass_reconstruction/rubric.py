"""What earns marks (spec/physics.md, §4; gates as R8; docs/decisions/0007)."""

from __future__ import annotations

from collections.abc import Mapping

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
    Rubric,
    ShareOf,
    ValueEquals,
    fill_rubric,
)
from generators.physics.invariant_mass_reconstruction.parameters import (
    GATE_SHARE,
    GATE_TOLERANCES,
    NAME,
    RADIUS_TOLERANCE,
)
from generators.task import GroundTruth, Scalar, TruthTable

_EVENTS = ItemList(("events",), PAIRS)
_INTERVAL_DECIMALS = 6
_ANY_GEV = (0.0, 1e6)

Row = Mapping[str, Scalar]


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


def _mass_is_right(row: Row, _: int) -> ItemNumber:
    low, high = float(row["low"]), float(row["high"])
    return ItemNumber(_EVENTS, str(row["event_id"]), "value", low, high)


def _metarubrics(truth: GroundTruth, read: ItemsNear, tolerance: float) -> tuple[Metarubric, ...]:
    gated = (
        "and at least half of the events have stated masses within "
        f"{100 * GATE_TOLERANCES * tolerance:g} % of the true ones"
    )
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

    def radius(row: Row, index: int) -> Check:
        value = float(row["radius"])
        if index < len(layers):
            measured = ListsNumber(("layer_radii_m",), value, 1, RADIUS_TOLERANCE)
            return Gated(measured, precise)
        low, high = value - RADIUS_TOLERANCE, value + RADIUS_TOLERANCE
        return NumberWithin(("ecal_radius_m",), low, high)

    def within(name: str, path: str) -> Metarubric:
        def check(row: Row, _: int) -> Gated:
            low, high = float(row[f"{name}_low"]), float(row[f"{name}_high"])
            return Gated(NumberWithin((path,), low, high), read)

        what = {"mass": "mass", "width": "decay width (FWHM)"}[name]
        return Metarubric(
            _KEYS[name],
            "SR",
            _WEIGHTS[name],
            f"The answer states a {what} of the new particle from {{{name}_low:.6f}} to "
            f"{{{name}_high:.6f}} GeV (the reference fit finds {{{name}:.4f}}), {gated}.",
            check,
            "new_particle_properties",
        )

    return (
        Metarubric(
            "answer_block",
            "IF",
            0.15,
            "The answer ends with the JSON object that the task asks for.",
            lambda _row, _index: ValueEquals(("task",), NAME),
        ),
        _stated("final_result_mass", "mass_GeV", "mass"),
        _stated("final_result_width", "width_GeV", "decay width"),
        Metarubric(
            "detector_dimensions",
            "IM",
            1.0,
            "The answer states that the radius of {layer} is {radius:.3f} m "
            f"(± {RADIUS_TOLERANCE}); for a tracker layer, at least half of the tracker radii that "
            "it lists are right.",
            radius,
            "detector",
        ),
        Metarubric(
            "no_of_particles",
            "DH",
            0.5,
            f"The answer lists all {{events}} events and no others, {gated}.",
            lambda _row, _index: Gated(every, read),
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
        within("mass", "mass_GeV"),
        within("width", "width_GeV"),
    )


_KEYS = {"mass": "new_particle_mass", "width": "new_particle_decay_width"}
_WEIGHTS = {"mass": 10.0, "width": 8.0}


def _stated(key: str, path: str, what: str) -> Metarubric:
    return Metarubric(
        key,
        "IF",
        0.15,
        f"The answer states a {what} of the new particle in GeV.",
        lambda _row, _index: NumberWithin((path,), *_ANY_GEV),
    )
