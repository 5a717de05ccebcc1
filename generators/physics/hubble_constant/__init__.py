"""Measure a Hubble constant from spectra of galaxies and from their Cepheids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from generators.family import Drawn, FamilyOfParts, Parts
from generators.physics.hubble_constant.null_answers import make_nulls
from generators.physics.hubble_constant.parameters import NAME, VERSION, Parameters, parameters_of
from generators.physics.hubble_constant.prompt import ANSWER_SCHEMA, make_prompt
from generators.physics.hubble_constant.render import draw_assets
from generators.physics.hubble_constant.rubric import make_rubric
from generators.physics.hubble_constant.sample import draw_sample
from generators.physics.hubble_constant.truth import make_key, make_truth
from generators.streams import Streams
from generators.task import GroundTruth

PARTS = Parts(__name__, parameters_of, make_prompt, ANSWER_SCHEMA, make_rubric, make_nulls)


@dataclass(frozen=True, slots=True)
class HubbleConstant(FamilyOfParts[Parameters]):
    """The family, after PARAMETR-Bench's hubble_constant."""

    name: str = NAME
    version: str = VERSION
    summary: str = "measure the Hubble constant from pictures of spectra and a table of Cepheids"
    parts: Parts[Parameters] = PARTS

    def describe(self, parameters: Parameters) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        names = ("galaxies", "p_cepheid", "p_spectrum", "p_line", "usable")
        tolerances = ("z_tolerance", "constant_tolerance", "error_tolerance")
        return {name: getattr(parameters, name) for name in (*names, *tolerances)}

    def draw(self, parameters: Parameters, streams: Streams) -> Drawn:
        """The input files and the truth of one seed."""
        sample = draw_sample(parameters, streams)
        assets, digests = draw_assets(sample)
        return Drawn(assets, make_truth(parameters, sample, digests), {"redraws": sample.redraws})

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        """The answer block that scores full marks."""
        return make_key(truth)


FAMILY = HubbleConstant()
