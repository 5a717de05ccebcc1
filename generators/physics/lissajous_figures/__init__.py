"""Find faulty power supplies, and the machines that make them, from Lissajous figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from generators.draws import SeedStreams
from generators.physics.lissajous_figures.nulls import make_nulls
from generators.physics.lissajous_figures.parameters import (
    NAME,
    TABLE,
    VERSION,
    parameters_of,
    picture_path,
)
from generators.physics.lissajous_figures.prompt import ANSWER_SCHEMA, make_prompt
from generators.physics.lissajous_figures.rubric import make_rubric
from generators.physics.lissajous_figures.truth import make_key, make_truth
from generators.seed import Seed
from generators.task import Asset, Brief, GroundTruth, TaskInstance, TaskSpec, make_instance


@dataclass(frozen=True, slots=True)
class LissajousFigures:
    """The family, after PARAMETR-Bench's lissajous_figures."""

    name: str = NAME
    version: str = VERSION
    summary: str = "find faulty power supplies, and the machines that make them, on oscilloscopes"

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        meant = parameters_of(difficulty)
        return {
            "units": meant.units,
            "days": meant.days,
            "machines": meant.machines,
            "tested_per_machine": meant.tested,
            "batches": meant.batches,
            "frequencies": len(meant.ratios),
            "leading_zeros": meant.zeros,
        }

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        # numpy and Pillow are loaded where pictures are drawn, not where families are listed.
        from generators.physics.lissajous_figures.render import (
            draw_picture,
            encode_png,
            write_table,
        )
        from generators.physics.lissajous_figures.sample import draw_sample

        meant = parameters_of(difficulty)
        sample = draw_sample(meant, SeedStreams(seed, NAME, VERSION, difficulty))
        assets = [Asset(TABLE, "text/csv", write_table(sample.units))]
        digests = [(TABLE, assets[0].digest)]
        ratios = {}
        for unit in sample.units:
            if unit.figure is not None:
                path, pixels = picture_path(unit.measurement_id), draw_picture(unit.figure)
                assets.append(Asset(path, "image/png", encode_png(pixels)))
                digests.append((path, assets[-1].digest))
                digests.append((f"{path}#pixels", Asset("", "", pixels.tobytes()).digest))
                ratios[unit.measurement_id] = unit.figure.ratio
        truth = make_truth(assets[0].data, ratios, digests)
        parameters = (*self.parameters(difficulty).items(), ("redraws", sample.redraws))
        return make_instance(
            TaskSpec(NAME, VERSION, difficulty, parameters),
            seed,
            Brief(make_prompt(meant), tuple(assets), ANSWER_SCHEMA, meant.limits),
            truth,
            make_rubric(truth),
        )

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        return make_key(truth)

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        return make_nulls(parameters_of(instance.spec.difficulty))

    def solver(self) -> str:
        return files(__package__).joinpath("solve.py").read_text(encoding="utf-8")


FAMILY = LissajousFigures()
