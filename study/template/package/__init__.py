"""Average the good readings of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from generators.draws import SeedStreams
from generators.seed import Seed
from generators.task import Asset, Brief, GroundTruth, TaskInstance, TaskSpec, make_instance

from .nulls import make_nulls
from .parameters import INPUT, NAME, VERSION, parameters_of
from .prompt import ANSWER_SCHEMA, make_prompt
from .render import write_table
from .rubric import make_rubric
from .sample import draw_sample
from .truth import make_key, make_truth


@dataclass(frozen=True, slots=True)
class NewTask:
    """The family: each method hands on to the part of its name."""

    name: str = NAME
    version: str = VERSION
    summary: str = "average the good readings of a table"
    # What of the truth the input files state; all else must be derived from them.
    given: tuple[str, ...] = ("readings.value",)

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        meant = parameters_of(difficulty)
        return {"readings": meant.readings, "bad_share": meant.bad_share}

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        meant = parameters_of(difficulty)
        sample = draw_sample(meant, SeedStreams(seed, NAME, VERSION, difficulty))
        asset = Asset(INPUT, "text/csv", write_table(sample.readings))
        truth = make_truth(asset)
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
        return make_nulls()

    def solver(self) -> str:
        return files(__package__).joinpath("solve.py").read_text(encoding="utf-8")


FAMILY = NewTask()
