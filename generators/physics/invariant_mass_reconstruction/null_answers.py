"""Answers of an agent that opens no file."""

from __future__ import annotations

import math
from typing import Any

from generators.physics.invariant_mass_reconstruction.parameters import (
    NAME,
    PARTICLE_MASSES,
    Parameters,
)

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
