"""The task as the agent reads it, and the form of its answer."""

from __future__ import annotations

from typing import Any

import rfc8785

from generators.physics.invariant_mass_reconstruction.parameters import (
    CALORIMETER_FILE,
    HIGH_MASS,
    LONGITUDINAL_FILE,
    LOW_MASS,
    NAME,
    SOUGHT_MASSES,
    SOUGHT_WIDTHS,
    TRACKER_FILE,
    TRANSVERSE_FILE,
    Parameters,
)

_PROMPT = """\
A detector has recorded {events} events. In each, a pair of an electron and a positron was \
produced at the origin of the coordinate system, and nothing else. Your work folder holds:

`{tracker}`: where the two tracks crossed each layer of the tracker; columns `event_id`, \
`layer`, and `x`, `y`, `z` in metres.
`{calorimeter}`: where the two tracks entered the calorimeter, and the energy of each; columns \
`event_id`, `x`, `y`, `z` in metres and `energy` in GeV.
`{transverse}` and `{longitudinal}`: drawings of the detector. Its geometry is stated there \
alone.

The coordinate system is right-handed with the beam along z; the layers of the tracker and the \
calorimeter are cylinders about the z axis; the pseudorapidity eta is −ln tan(θ/2), with θ the \
angle to the z axis. A uniform magnetic field points along +z throughout the detector, so that \
tracks are helices: the transverse momentum in GeV is 0.3 times the field in tesla times the \
radius in metres, and a positive charge turns clockwise seen from +z. {field} There is no \
material, energy loss or other force, all is measured perfectly, and all hits of an event belong \
to its pair; which of the two hits of a layer belongs to which track is not recorded, and their \
order means nothing.

Some of the pairs come from the decay of a particle yet unknown, the others from a background. \
Both kinds have invariant masses from {low:g} to {high:g} GeV: the background's fall \
exponentially; those of the particle follow a Breit–Wigner (Cauchy) distribution around its mass \
M, with Γ the full width at half maximum. M is known to lie between {light:g} and {heavy:g} GeV, \
and Γ between {narrow:g} and {wide:g} GeV. All masses, momenta and energies are in GeV, with \
c = 1; the electron's mass is 0.000511 GeV.

Reconstruct the invariant mass of the pair in every event. Then find M and Γ by an unbinned \
maximum-likelihood fit of a Breit–Wigner and an exponential, both truncated to and normalised in \
{low:g} to {high:g} GeV, to the masses of all events; M, Γ, the slope of the exponential and the \
fraction of the particle's events are free. Take the highest maximum of the likelihood within the \
ranges of M and Γ.

Report your findings in three sections:

SUMMARY: how you reconstructed the masses, with formulas and constants, and how you fitted them; \
the radius of each layer of the tracker and of the calorimeter, in metres to three decimals.
INTERMEDIATE RESULTS FOR EVERY EVENT: one line for each event with its number and its mass in \
GeV, to at least 1 part in {precision}; or the name of a file in the work folder that holds them.
FINAL RESULTS: M and Γ in GeV.

End with one JSON object between two lines of their own, as shown here, with the radii of the \
tracker's layers from the innermost outwards:

<answer>
{{"task": "{name}", "layer_radii_m": [<number>, …], "ecal_radius_m": <number>, \
"events": [[<event_id>, <mass>], …], "mass_GeV": <number>, "width_GeV": <number>}}
</answer>

Instead of `events` you may give `"events_file": "<name>"`, the name of a CSV file in the work \
folder with one line `event_id,mass` for each event. You may also write the object to the file \
`answer.json` in the work folder.
"""

_STATED = "The field's strength is stated in the transverse drawing."
_WITHHELD = "The field's strength is not stated."

_NUMBER = {"type": "number"}
_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["task", "layer_radii_m", "ecal_radius_m", "mass_GeV", "width_GeV"],
    "properties": {
        "task": {"const": NAME},
        "layer_radii_m": {"type": "array", "items": _NUMBER},
        "ecal_radius_m": _NUMBER,
        "events": {
            "type": "array",
            "items": {
                "type": "array",
                "prefixItems": [{"type": "integer"}, _NUMBER],
                "minItems": 2,
                "maxItems": 2,
            },
        },
        "events_file": {"type": "string"},
        "mass_GeV": _NUMBER,
        "width_GeV": _NUMBER,
    },
    "anyOf": [{"required": ["events"]}, {"required": ["events_file"]}],
}

ANSWER_SCHEMA = rfc8785.dumps(_SCHEMA).decode()


def make_prompt(parameters: Parameters) -> str:
    """The task as the agent reads it."""
    return _PROMPT.format(
        events=parameters.events,
        tracker=TRACKER_FILE,
        calorimeter=CALORIMETER_FILE,
        transverse=TRANSVERSE_FILE,
        longitudinal=LONGITUDINAL_FILE,
        field=_STATED if parameters.states_field else _WITHHELD,
        low=LOW_MASS,
        high=HIGH_MASS,
        light=SOUGHT_MASSES[0],
        heavy=SOUGHT_MASSES[1],
        narrow=SOUGHT_WIDTHS[0],
        wide=SOUGHT_WIDTHS[1],
        precision=round(1 / parameters.event_tolerance),
        name=NAME,
    )
