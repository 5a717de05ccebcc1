"""The task as the agent reads it, and the form of its answer."""

from __future__ import annotations

from typing import Any

import rfc8785

from generators.physics.cepheid_calibration.parameters import (
    FIT,
    LAB_IMAGE,
    NAME,
    SPECTRA,
    TABLE,
    Z_TOLERANCE,
    Parameters,
)

_PROMPT = """\
You are to calibrate the relation between period and luminosity of (fictitious) Cepheid \
variable stars. Your work folder holds:

`{table}`: a table with one row for each of {galaxies} galaxies. Its columns are galaxy_ID, \
cepheid_ID, mean_mag_cepheid (the mean apparent magnitude m of a Cepheid in that galaxy, in mag) \
and period [days] (the period P of the Cepheid). A field is empty where nothing is known; a \
galaxy in which no Cepheid was found has no cepheid_ID.
`{lab}`: the spectral lines of the laboratory source, at rest.
`{spectra}/<galaxy_ID>.png`: the spectrum of a galaxy, for those that have one.

All spectra are drawn alike: relative intensity against wavelength, from 400 nm to 750 nm, with a \
short tick mark at each nanometre and a long one at each tenth; each spectrum is scaled to its \
own brightest line. The lines of a galaxy are those of the laboratory, shifted by its redshift z \
(observed wavelength = rest wavelength · (1 + z), with 0 < z < 0.08), but many are missing: each \
line shows or not at random, so the brightest one observed need not be the brightest of the \
laboratory.

The relation has the form

M = a · (log10(P / 1 day) − 1) + b

with the absolute magnitude M = m + 5 − 5 · log10(d / 1 pc).

1. Use only the Cepheids for which spectrum, magnitude and period are all known; discard all \
others. The redshift of a Cepheid is that of its galaxy.
2. Find each redshift by comparing the galaxy's spectrum with that of the laboratory, for example \
by cross-correlating the two over the logarithm of the wavelength, with the peak found to a \
fraction of a sample, or by identifying the lines. It should be good to {tolerance}.
3. Take v = c · z (the classical formula) with c = 299792 km/s, and the distance d from Hubble's \
law v = H0 · d with H0 = 67 km/s/Mpc.
4. Fit M against log10(P) − 1 by unweighted linear least squares, slope a and offset b both free. \
Give for both the statistical uncertainty: the standard error that follows from the scatter of \
the residuals, with n − 2 degrees of freedom for n Cepheids.

Report your findings in these sections:

SUMMARY: what you did.
ESTIMATED REDSHIFTS: one line for each Cepheid used, with its cepheid_ID and z, to at least five \
decimals.
PARAMETER a / UNCERTAINTY: a and its standard error, to at least four decimals.
PARAMETER b / UNCERTAINTY: b and its standard error, to at least four decimals.
FILES: the files that you wrote, if any.

End with one JSON object between two lines of their own, as shown here, with every Cepheid that \
you used under `redshifts`. `fit` says what you fitted: "{fit}", "linear_through_zero" or "other".

<answer>
{{"task": "{name}", "redshifts": [{{"id": "<cepheid_ID>", "z": <number>}}, …], "a": <number>, \
"sigma_a": <number>, "b": <number>, "sigma_b": <number>, "fit": <text>}}
</answer>

You may instead write the same object to the file `answer.json` in the work folder.
"""

_NUMBER = {"type": "number"}
_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["task", "redshifts", "a", "sigma_a", "b", "sigma_b", "fit"],
    "properties": {
        "task": {"const": NAME},
        "redshifts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "z"],
                "properties": {"id": {"type": "string"}, "z": _NUMBER},
            },
        },
        "a": _NUMBER,
        "sigma_a": _NUMBER,
        "b": _NUMBER,
        "sigma_b": _NUMBER,
        "fit": {"enum": [FIT, "linear_through_zero", "other"]},
    },
}

ANSWER_SCHEMA = rfc8785.dumps(_SCHEMA).decode()


def make_prompt(parameters: Parameters) -> str:
    """The task as the agent reads it."""
    return _PROMPT.format(
        galaxies=parameters.galaxies,
        table=TABLE,
        lab=LAB_IMAGE,
        spectra=SPECTRA,
        tolerance=f"{Z_TOLERANCE:.4f}",
        fit=FIT,
        name=NAME,
    )
