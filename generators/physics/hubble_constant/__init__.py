"""Measure a Hubble constant from spectra of galaxies and from their Cepheids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from generators.draws import SeedStreams
from generators.physics.hubble_constant.nulls import make_nulls
from generators.physics.hubble_constant.parameters import NAME, VERSION, parameters_of
from generators.physics.hubble_constant.prompt import ANSWER_SCHEMA, make_prompt
from generators.physics.hubble_constant.rubric import make_rubric
from generators.physics.hubble_constant.truth import make_key, make_truth
from generators.seed import Seed
from generators.task import Brief, GroundTruth, TaskInstance, TaskSpec, make_instance


@dataclass(frozen=True, slots=True)
class HubbleConstant:
    """The family, after PARAMETR-Bench's hubble_constant."""

    name: str = NAME
    version: str = VERSION
    summary: str = "measure the Hubble constant from pictures of spectra and a table of Cepheids"

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        meant = parameters_of(difficulty)
        names = ("galaxies", "p_cepheid", "p_spectrum", "p_line", "usable")
        tolerances = ("z_tolerance", "constant_tolerance", "error_tolerance")
        return {name: getattr(meant, name) for name in (*names, *tolerances)}

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        # numpy and Pillow are loaded where pictures are drawn, not where families are listed.
        from generators.physics.hubble_constant.render import draw_assets
        from generators.physics.hubble_constant.sample import draw_sample

        meant = parameters_of(difficulty)
        sample = draw_sample(meant, SeedStreams(seed, NAME, VERSION, difficulty))
        assets, digests = draw_assets(sample)
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


FAMILY = HubbleConstant()
