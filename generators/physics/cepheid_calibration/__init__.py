"""Calibrate Cepheids' relation of period and luminosity from redshifts read off spectra."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from generators.family import Drawn, FamilyOfParts, Parts
from generators.physics.cepheid_calibration.null_answers import make_nulls
from generators.physics.cepheid_calibration.parameters import (
    NAME,
    VERSION,
    Parameters,
    parameters_of,
)
from generators.physics.cepheid_calibration.prompt import ANSWER_SCHEMA, make_prompt
from generators.physics.cepheid_calibration.render import render_sample
from generators.physics.cepheid_calibration.rubric import make_rubric
from generators.physics.cepheid_calibration.sample import draw_sample
from generators.physics.cepheid_calibration.truth import make_key, make_truth
from generators.streams import Streams
from generators.task import GroundTruth

PARTS = Parts(__name__, parameters_of, make_prompt, ANSWER_SCHEMA, make_rubric, make_nulls)


@dataclass(frozen=True, slots=True)
class CepheidCalibration(FamilyOfParts[Parameters]):
    """The family, after PARAMETR-Bench's cepheid_calibration."""

    name: str = NAME
    version: str = VERSION
    summary: str = "calibrate Cepheids' period and luminosity with redshifts read off spectra"
    parts: Parts[Parameters] = PARTS

    def describe(self, parameters: Parameters) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        return {
            "galaxies": parameters.galaxies,
            "p_cepheid": parameters.p_cepheid,
            "p_spectrum": parameters.p_spectrum,
            "error_share": parameters.error_share,
            "sigma_tolerance": parameters.sigma_tolerance,
        }

    def draw(self, parameters: Parameters, streams: Streams) -> Drawn:
        """The input files and the truth of one seed."""
        sample = draw_sample(parameters, streams)
        assets, digests = render_sample(sample)
        return Drawn(assets, make_truth(parameters, sample, digests), {"redraws": sample.redraws})

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        """The answer block that scores full marks."""
        return make_key(truth)


FAMILY = CepheidCalibration()
