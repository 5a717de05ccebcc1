"""Ground truth of the files, and the answer that states it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from generators.physics.invariant_mass_reconstruction.parameters import (
    FIELD_TOLERANCE,
    GAIN_TOLERANCE,
    MUON_PAIRS_TOLERANCE,
    NAME,
    RADIUS_TOLERANCE,
    SIGMAS,
    Parameters,
)
from generators.task import GroundTruth, TruthTable

if TYPE_CHECKING:
    from generators.physics.invariant_mass_reconstruction.sample import Sample

_INTERVAL_DECIMALS = 8


def make_truth(parameters: Parameters, sample: Sample, graded: tuple[int, ...]) -> GroundTruth:
    """Tables ``layers`` (name, radius in m), ``gains`` (module, gain in MeV per count), ``field``
    (T), ``events`` and ``events_graded`` (event_id, mass in GeV), ``counts`` (events and muon
    pairs), ``fit`` (what the reference fit finds, with the closed intervals that are granted) and
    ``drawn``."""
    masses = dict(enumerate(sample.spectrum.masses, 1))
    graded_masses = tuple((number, masses[number]) for number in graded)
    detector, particle = sample.detector, sample.spectrum.particle
    names = (*(str(number) for number, _ in enumerate(detector.layers, 1)), "calorimeter")
    gains = tuple((str(number), gain) for number, gain in enumerate(detector.gains, 1))
    radii = (*detector.layers, detector.calorimeter)
    muon_pairs = sum(pair.muons for pair in sample.pairs)
    return GroundTruth(
        tables=(
            ("layers", TruthTable(("layer", "radius"), tuple(zip(names, radii, strict=True)))),
            ("gains", TruthTable(("module", "gain"), gains)),
            ("field", TruthTable.of_row(field=detector.field)),
            ("events", TruthTable(("event_id", "mass"), tuple(masses.items()))),
            ("events_graded", TruthTable(("event_id", "mass"), graded_masses)),
            ("counts", TruthTable.of_row(events=len(masses), muon_pairs=muon_pairs)),
            ("fit", _fit_table(parameters, sample)),
            (
                "drawn",
                TruthTable.of_row(
                    mass=particle.mass,
                    width=particle.width,
                    slope=particle.slope,
                    lowest=particle.lowest,
                    lead=sample.spectrum.reference.lead,
                ),
            ),
        ),
        tolerances=(
            ("event_mass", parameters.event_tolerance),
            ("radius", RADIUS_TOLERANCE),
            ("field", FIELD_TOLERANCE),
            ("gain", GAIN_TOLERANCE),
            ("muon_pairs", MUON_PAIRS_TOLERANCE),
            ("sigmas", SIGMAS),
        ),
    )


def _fit_table(parameters: Parameters, sample: Sample) -> TruthTable:
    """An interval's half-width is SIGMAS errors of the reference fit, and as much as the value
    moves when all masses are off by the tolerance of one (R8d)."""
    fit, scale = sample.spectrum.reference, parameters.event_tolerance
    values = {
        "mass": (fit.mass, fit.sigma_mass),
        "width": (fit.width, fit.sigma_width),
        "slope": (fit.slope, fit.sigma_slope),
        "fraction": (fit.fraction, fit.sigma_fraction),
    }
    row: dict[str, float] = {}
    for name, (value, sigma) in values.items():
        reach = SIGMAS * sigma + scale * value
        row[name], row[f"{name}_sigma"] = value, sigma
        row[f"{name}_low"] = round(value - reach, _INTERVAL_DECIMALS)
        row[f"{name}_high"] = round(value + reach, _INTERVAL_DECIMALS)
    return TruthTable.of_row(**row)


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    fit, counts = truth.table("fit").records()[0], truth.table("counts").records()[0]
    return {
        "task": NAME,
        "radii_m": {str(layer): radius for layer, radius in truth.table("layers").rows},
        "gains_MeV": {str(module): gain for module, gain in truth.table("gains").rows},
        "field_T": truth.table("field").rows[0][0],
        "muon_pairs": counts["muon_pairs"],
        "events": [list(row) for row in truth.table("events").rows],
        "mass_GeV": fit["mass"],
        "width_GeV": fit["width"],
        "slope_per_GeV": fit["slope"],
        "signal_fraction": fit["fraction"],
    }
