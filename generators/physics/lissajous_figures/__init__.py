"""Find faulty power supplies, and the machines that make them, from Lissajous figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from generators.family import Drawn, FamilyOfParts, Parts
from generators.physics.lissajous_figures.null_answers import make_nulls
from generators.physics.lissajous_figures.parameters import (
    NAME,
    TABLE,
    VERSION,
    Parameters,
    parameters_of,
    picture_path,
)
from generators.physics.lissajous_figures.prompt import ANSWER_SCHEMA, make_prompt
from generators.physics.lissajous_figures.rubric import make_rubric
from generators.physics.lissajous_figures.truth import make_key, make_truth
from generators.streams import Streams
from generators.task import Asset, GroundTruth

PARTS = Parts(__name__, parameters_of, make_prompt, ANSWER_SCHEMA, make_rubric, make_nulls)


@dataclass(frozen=True, slots=True)
class LissajousFigures(FamilyOfParts[Parameters]):
    """The family, after PARAMETR-Bench's lissajous_figures."""

    name: str = NAME
    version: str = VERSION
    summary: str = "find faulty power supplies, and the machines that make them, on oscilloscopes"
    parts: Parts[Parameters] = PARTS

    def describe(self, parameters: Parameters) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        return {
            "units": parameters.units,
            "days": parameters.days,
            "machines": parameters.machines,
            "tested_per_machine": parameters.tested,
            "batches": parameters.batches,
            "frequencies": len(parameters.ratios),
            "leading_zeros": parameters.zeros,
        }

    def draw(self, parameters: Parameters, streams: Streams) -> Drawn:
        """The input files and the truth of one seed."""

        from generators.physics.lissajous_figures.render import (
            draw_picture,
            encode_png,
            write_table,
        )
        from generators.physics.lissajous_figures.sample import draw_sample

        sample = draw_sample(parameters, streams)
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
        return Drawn(tuple(assets), truth, {"redraws": sample.redraws})

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        """The answer block that scores full marks."""
        return make_key(truth)


FAMILY = LissajousFigures()
