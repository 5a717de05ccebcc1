"""Count the black discs of each picture, and average the counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from generators.basics.count_circles.null_answers import make_nulls
from generators.basics.count_circles.parameters import (
    NAME,
    VERSION,
    Parameters,
    file_names,
    parameters_of,
)
from generators.basics.count_circles.prompt import ANSWER_SCHEMA, make_prompt
from generators.basics.count_circles.rubric import make_rubric
from generators.basics.count_circles.truth import make_key, make_truth
from generators.family import Drawn, FamilyOfParts, Parts
from generators.streams import Streams
from generators.task import Asset, GroundTruth

PARTS = Parts(__name__, parameters_of, make_prompt, ANSWER_SCHEMA, make_rubric, make_nulls)


@dataclass(frozen=True, slots=True)
class CountCircles(FamilyOfParts[Parameters]):
    """The family, after PARAMETR-Bench's _count_circles."""

    name: str = NAME
    version: str = VERSION
    summary: str = "count the discs in each of several pictures, and average the counts"
    parts: Parts[Parameters] = PARTS

    def describe(self, meant: Parameters) -> dict[str, int | float | str]:
        return {"files": meant.files, "most": meant.most}

    def draw(self, meant: Parameters, streams: Streams) -> Drawn:
        from generators.basics.count_circles.render import draw_image, encode_png
        from generators.basics.count_circles.sample import draw_sample

        sample = draw_sample(meant, streams)
        pixels = [draw_image(centres) for centres in sample.images]
        assets = tuple(
            Asset(name, "image/png", encode_png(drawn))
            for name, drawn in zip(file_names(meant.files), pixels, strict=True)
        )
        counts = [len(centres) for centres in sample.images]
        truth = make_truth(counts, assets, [drawn.tobytes() for drawn in pixels])
        return Drawn(assets, truth, {"redraws": sample.redraws})

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        return make_key(truth)


FAMILY = CountCircles()
