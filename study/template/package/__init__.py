"""Average the good readings of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from generators.family import Drawn, FamilyOfParts, Parts
from generators.streams import Streams
from generators.task import Asset, GroundTruth

from .null_answers import make_nulls
from .parameters import INPUT, NAME, VERSION, Parameters, parameters_of
from .prompt import ANSWER_SCHEMA, make_prompt
from .render import write_table
from .rubric import make_rubric
from .sample import draw_sample
from .truth import make_key, make_truth

PARTS = Parts(__name__, parameters_of, make_prompt, ANSWER_SCHEMA, make_rubric, make_nulls)


@dataclass(frozen=True, slots=True)
class NewTask(FamilyOfParts[Parameters]):
    """The family: its parts, and how they make an instance of a seed."""

    name: str = NAME
    version: str = VERSION
    summary: str = "average the good readings of a table"
    # What of the truth the input files state; all else must be derived from them.
    given: tuple[str, ...] = ("readings.value",)
    parts: Parts[Parameters] = PARTS

    def describe(self, meant: Parameters) -> dict[str, int | float | str]:
        return {"readings": meant.readings, "bad_share": meant.bad_share}

    def draw(self, meant: Parameters, streams: Streams) -> Drawn:
        sample = draw_sample(meant, streams)
        asset = Asset(INPUT, "text/csv", write_table(sample.readings))
        return Drawn((asset,), make_truth(asset), {"redraws": sample.redraws})

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        return make_key(truth)


FAMILY = NewTask()
