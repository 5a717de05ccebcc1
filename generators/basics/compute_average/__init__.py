"""List the numbers of a file and average them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from generators.basics.compute_average.nulls import make_nulls
from generators.basics.compute_average.parameters import INPUT, NAME, VERSION, parameters_of
from generators.basics.compute_average.prompt import ANSWER_SCHEMA, make_prompt
from generators.basics.compute_average.render import encode_lines, write_lines
from generators.basics.compute_average.rubric import make_rubric
from generators.basics.compute_average.sample import draw_sample
from generators.basics.compute_average.truth import make_key, make_truth
from generators.draws import SeedStreams
from generators.seed import Seed
from generators.task import Asset, Brief, GroundTruth, TaskInstance, TaskSpec, make_instance


@dataclass(frozen=True, slots=True)
class ComputeAverage:
    """The family, after PARAMETR-Bench's _compute_average."""

    name: str = NAME
    version: str = VERSION
    summary: str = "list the numbers of a text file, and average them"
    given: tuple[str, ...] = ("numbers.written", "numbers.value")

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        meant = parameters_of(difficulty)
        return {
            "numbers": meant.numbers,
            "repeats": meant.repeats,
            "negatives": meant.negatives,
            "exponents": meant.exponents,
        }

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        meant = parameters_of(difficulty)
        sample = draw_sample(meant, SeedStreams(seed, NAME, VERSION, difficulty))
        lines = write_lines(sample)
        asset = Asset(INPUT, "text/plain", encode_lines(lines))
        truth = make_truth(lines, asset)
        parameters = (*self.parameters(difficulty).items(), ("redraws", sample.redraws))
        return make_instance(
            TaskSpec(NAME, VERSION, difficulty, parameters),
            seed,
            Brief(make_prompt(meant), (asset,), ANSWER_SCHEMA, meant.limits),
            truth,
            make_rubric(truth),
        )

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        return make_key(truth)

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        return make_nulls(parameters_of(instance.spec.difficulty))

    def solver(self) -> str:
        return files(__package__).joinpath("solve.py").read_text(encoding="utf-8")


FAMILY = ComputeAverage()
