"""The task as the agent reads it, and the form of its answer."""

from __future__ import annotations

from typing import Any

import rfc8785

from generators.physics.hubble_constant.parameters import LAB_IMAGE, MEASUREMENTS, NAME, Parameters

_PROMPT = """\
Determine the Hubble constant of a fictitious universe from the spectra of galaxies and from \
the Cepheid stars that were observed in some of them. The work folder holds:

- `{table}`: a table of {galaxies} galaxies, a row each. Columns: `galaxy_ID`; \
`cepheid_ID`, the Cepheid observed in that galaxy (one at most); `mean_mag_cepheid`, its mean \
apparent magnitude; `period [days]`, its period. What was not observed or not measured is \
left empty.
- `{lab}`: the emission lines of a gas as seen in the laboratory, at rest: a strip whose \
brightness is the intensity, over a scale that runs from 400 nm (first tick mark) to 750 nm \
(last one), with a tick mark each nanometre.
- `observed_spectra/<galaxy_ID>.png`: the spectrum of that galaxy in the same form, for each \
galaxy of which one was taken. Its lines are a subset of the laboratory's lines: each may be \
missing, whatever its intensity, so the brightest line that you see need not be the brightest \
of the laboratory. All of them are shifted by the galaxy's redshift z, which lies between 0 and \
0.08. The intensities of the lines relative to each other are unchanged; the brightest line of \
a picture is always white.

A galaxy enters the analysis if, and only if, it has a spectrum and a Cepheid with both its \
magnitude and its period. Discard all others. Then proceed thus:

1. Identify the lines of each spectrum and measure the redshift, z = λ_observed / λ_laboratory − 1.
2. Find the distance of each Cepheid, and thus of its galaxy, from the relation between period \
and absolute magnitude, M = −2.43 · (log10(P / 1 day) − 1) − 4.05, and from the distance \
modulus, m − M = 5 · log10(d / 10 pc). There is no extinction.
3. Turn each redshift into a velocity by the relativistic Doppler formula, \
v = c · ((1 + z)² − 1) / ((1 + z)² + 1) with c = 299792 km/s. This is a convention of this \
analysis; use it in place of any cosmological relation.
4. Fit the function that Hubble's law implies to velocity against distance: unweighted least \
squares of v on d, with v as the ordinate, taking d as exact. Hubble's law has no offset: \
galaxies at no distance have no velocity.
5. The statistical uncertainty of the Hubble constant is the standard error of the fitted \
slope: the sum of squared residuals, divided by n − 1 for n galaxies, gives the variance of the \
residuals; this divided by the sum of the squared distances is the variance of the slope.

The data determine the answer. Do not use a value of the Hubble constant that you know from \
elsewhere: this universe has its own.

Report your findings in three sections:

SUMMARY: what you did, with the fitted function.
REDSHIFTS OF GALAXIES USED IN THE ANALYSIS: one line for each galaxy that entered the analysis, \
and for no other: its galaxy_ID and its redshift, to at least five decimals.
HUBBLE CONSTANT ± STDEV: the Hubble constant and its statistical uncertainty in km/s/Mpc, to at \
least two decimals each.

End with one JSON object between two lines of their own, as shown here, with the same galaxies \
under `redshifts`; `fit` is "linear_through_zero", "linear_free_intercept" or "other":

<answer>
{{"task": "{name}", "redshifts": [{{"id": "<galaxy_ID>", "z": <number>}}, …], \
"H0": <number>, "sigma_H0": <number>, "fit": "<function>"}}
</answer>

You may instead write the same object to the file `answer.json` in the work folder.
"""

_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["task", "redshifts", "H0", "sigma_H0", "fit"],
    "properties": {
        "task": {"const": NAME},
        "redshifts": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "z"],
                "properties": {"id": {"type": "string"}, "z": {"type": "number"}},
            },
        },
        "H0": {"type": "number"},
        "sigma_H0": {"type": "number"},
        "fit": {"enum": ["linear_free_intercept", "linear_through_zero", "other"]},
    },
}

ANSWER_SCHEMA = rfc8785.dumps(_SCHEMA).decode()


def make_prompt(parameters: Parameters) -> str:
    """The task as the agent reads it."""
    return _PROMPT.format(
        table=MEASUREMENTS, lab=LAB_IMAGE, galaxies=parameters.galaxies, name=NAME
    )
