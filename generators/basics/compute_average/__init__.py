"""List the numbers of a file and average them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from generators.basics.compute_average.null_answers import make_nulls
from generators.basics.compute_average.parameters import (
    INPUT,
    NAME,
    VERSION,
    Parameters,
    parameters_of,
)
from generators.basics.compute_average.prompt import ANSWER_SCHEMA, make_prompt
from generators.basics.compute_average.render import encode_lines, write_lines
from generators.basics.compute_average.rubric import make_rubric
from generators.basics.compute_average.sample import draw_sample
from generators.basics.compute_average.truth import make_key, make_truth
from generators.family import Drawn, FamilyOfParts, Parts
from generators.streams import Streams
from generators.task import Asset, GroundTruth

PARTS = Parts(__name__, parameters_of, make_prompt, ANSWER_SCHEMA, make_rubric, make_nulls)


@dataclass(frozen=True, slots=True)
class ComputeAverage(FamilyOfParts[Parameters]):
    """The family, after PARAMETR-Bench's _compute_average."""

    name: str = NAME
    version: str = VERSION
    summary: str = "list the numbers of a text file, and average them"
    given: tuple[str, ...] = ("numbers.written", "numbers.value")
    parts: Parts[Parameters] = PARTS

    def describe(self, meant: Parameters) -> dict[str, int | float | str]:
        return {
            "numbers": meant.numbers,
            "repeats": meant.repeats,
            "negatives": meant.negatives,
            "exponents": meant.exponents,
        }

    def draw(self, meant: Parameters, streams: Streams) -> Drawn:
        sample = draw_sample(meant, streams)
        lines = write_lines(sample)
        asset = Asset(INPUT, "text/plain", encode_lines(lines))
        return Drawn((asset,), make_truth(lines, asset), {"redraws": sample.redraws})

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        return make_key(truth)


FAMILY = ComputeAverage()
