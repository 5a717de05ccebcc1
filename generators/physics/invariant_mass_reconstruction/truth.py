"""Ground truth of the files, and the answer that states it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from generators.physics.invariant_mass_reconstruction.parameters import (
    NAME,
    RADIUS_TOLERANCE,
    SIGMAS,
    Parameters,
)
from generators.task import GroundTruth, TruthTable

if TYPE_CHECKING:
    from generators.physics.invariant_mass_reconstruction.sample import Sample

_INTERVAL_DECIMALS = 6


def make_truth(parameters: Parameters, sample: Sample) -> GroundTruth:
    """Tables ``detector`` (layer, radius in m), ``events`` and ``events_sampled`` (event_id,
    mass in GeV), ``misc`` (events), ``new_particle_properties`` (what the reference fit finds,
    with the closed intervals that are granted) and ``drawn``."""
    masses = dict(enumerate(sample.spectrum.masses, 1))
    sampled = tuple((number, masses[number]) for number in sample.sampled)
    return GroundTruth(
        tables=(
            ("detector", _detector_table(sample)),
            ("events", TruthTable(("event_id", "mass"), tuple(masses.items()))),
            ("events_sampled", TruthTable(("event_id", "mass"), sampled)),
            ("misc", TruthTable.of_row(events=len(masses))),
            ("new_particle_properties", _properties_table(parameters, sample)),
            ("drawn", _drawn_table(sample)),
        ),
        tolerances=(
            ("event_mass", parameters.event_tolerance),
            ("radius", RADIUS_TOLERANCE),
            ("sigmas", SIGMAS),
        ),
    )


def _detector_table(sample: Sample) -> TruthTable:
    layers = [
        (f"layer {number}", radius) for number, radius in enumerate(sample.detector.layers, 1)
    ]
    return TruthTable(("layer", "radius"), (*layers, ("calorimeter", sample.detector.calorimeter)))


def _properties_table(parameters: Parameters, sample: Sample) -> TruthTable:
    """An interval's half-width is SIGMAS errors of the reference fit, and as much as the value
    moves when all masses are off by the tolerance of one (R8d)."""
    fit, scale = sample.spectrum.reference, parameters.event_tolerance
    row: dict[str, float] = {}
    values = {"mass": (fit.mass, fit.sigma_mass), "width": (fit.width, fit.sigma_width)}
    for name, (value, sigma) in values.items():
        reach = SIGMAS * sigma + scale * value
        row[name], row[f"{name}_sigma"] = value, sigma
        row[f"{name}_low"] = round(value - reach, _INTERVAL_DECIMALS)
        row[f"{name}_high"] = round(value + reach, _INTERVAL_DECIMALS)
    return TruthTable.of_row(**row)


def _drawn_table(sample: Sample) -> TruthTable:
    drawn = sample.spectrum.particle
    return TruthTable.of_row(
        mass=drawn.mass,
        width=drawn.width,
        slope=drawn.slope,
        field=sample.detector.field,
        lead=sample.spectrum.reference.lead,
    )


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    *layers, calorimeter = truth.table("detector").column("radius")
    particle = truth.table("new_particle_properties").records()[0]
    return {
        "task": NAME,
        "layer_radii_m": layers,
        "ecal_radius_m": calorimeter,
        "events": [list(row) for row in truth.table("events").rows],
        "mass_GeV": particle["mass"],
        "width_GeV": particle["width"],
    }
