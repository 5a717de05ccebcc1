"""Count the black discs of each picture, and average the counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from generators.basics.count_circles.nulls import make_nulls
from generators.basics.count_circles.parameters import NAME, VERSION, file_names, parameters_of
from generators.basics.count_circles.prompt import ANSWER_SCHEMA, make_prompt
from generators.basics.count_circles.rubric import make_rubric
from generators.basics.count_circles.truth import make_key, make_truth
from generators.draws import SeedStreams
from generators.seed import Seed
from generators.task import Asset, Brief, GroundTruth, TaskInstance, TaskSpec, make_instance


@dataclass(frozen=True, slots=True)
class CountCircles:
    """The family, after PARAMETR-Bench's _count_circles."""

    name: str = NAME
    version: str = VERSION
    summary: str = "count the discs in each of several pictures, and average the counts"

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        meant = parameters_of(difficulty)
        return {"files": meant.files, "most": meant.most}

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        # numpy and Pillow are loaded where pictures are drawn, not where families are listed.
        from generators.basics.count_circles.render import draw_image, encode_png
        from generators.basics.count_circles.sample import draw_sample

        meant = parameters_of(difficulty)
        sample = draw_sample(meant, SeedStreams(seed, NAME, VERSION, difficulty))
        pixels = [draw_image(centres) for centres in sample.images]
        assets = tuple(
            Asset(name, "image/png", encode_png(drawn))
            for name, drawn in zip(file_names(meant.files), pixels, strict=True)
        )
        counts = [len(centres) for centres in sample.images]
        truth = make_truth(counts, assets, [drawn.tobytes() for drawn in pixels])
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


FAMILY = CountCircles()
