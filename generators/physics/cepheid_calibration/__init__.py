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

    def describe(self, meant: Parameters) -> dict[str, int | float | str]:
        return {
            "galaxies": meant.galaxies,
            "p_cepheid": meant.p_cepheid,
            "p_spectrum": meant.p_spectrum,
            "error_share": meant.error_share,
            "sigma_tolerance": meant.sigma_tolerance,
        }

    def draw(self, meant: Parameters, streams: Streams) -> Drawn:
        sample = draw_sample(meant, streams)
        assets, digests = render_sample(sample)
        return Drawn(assets, make_truth(meant, sample, digests), {"redraws": sample.redraws})

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        return make_key(truth)


FAMILY = CepheidCalibration()
