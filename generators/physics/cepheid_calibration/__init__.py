"""Calibrate Cepheids' relation of period and luminosity from redshifts read off spectra."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from generators.draws import SeedStreams
from generators.physics.cepheid_calibration.nulls import make_nulls
from generators.physics.cepheid_calibration.parameters import NAME, VERSION, parameters_of
from generators.physics.cepheid_calibration.prompt import ANSWER_SCHEMA, make_prompt
from generators.physics.cepheid_calibration.render import render_sample
from generators.physics.cepheid_calibration.rubric import make_rubric
from generators.physics.cepheid_calibration.sample import draw_sample
from generators.physics.cepheid_calibration.truth import make_key, make_truth
from generators.seed import Seed
from generators.task import Brief, GroundTruth, TaskInstance, TaskSpec, make_instance


@dataclass(frozen=True, slots=True)
class CepheidCalibration:
    """The family, after PARAMETR-Bench's cepheid_calibration."""

    name: str = NAME
    version: str = VERSION
    summary: str = "calibrate Cepheids' period and luminosity with redshifts read off spectra"

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        meant = parameters_of(difficulty)
        return {
            "galaxies": meant.galaxies,
            "p_cepheid": meant.p_cepheid,
            "p_spectrum": meant.p_spectrum,
            "error_share": meant.error_share,
            "sigma_tolerance": meant.sigma_tolerance,
        }

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        meant = parameters_of(difficulty)
        sample = draw_sample(meant, SeedStreams(seed, NAME, VERSION, difficulty))
        assets, digests = render_sample(sample)
        truth = make_truth(meant, sample, digests)
        parameters = (*self.parameters(difficulty).items(), ("redraws", sample.redraws))
        return make_instance(
            TaskSpec(NAME, VERSION, difficulty, parameters),
            seed,
            Brief(make_prompt(meant), assets, ANSWER_SCHEMA, meant.limits),
            truth,
            make_rubric(truth),
        )

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        return make_key(truth)

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        return make_nulls(parameters_of(instance.spec.difficulty))

    def solver(self) -> str:
        return files(__package__).joinpath("solve.py").read_text(encoding="utf-8")


FAMILY = CepheidCalibration()
