"""Measure a Hubble constant from spectra of galaxies and from their Cepheids."""

from __future__ import annotations

from generators.family import Drawn, FamilyOfParts, read_part
from generators.physics.hubble_constant.parameters import BY_DIFFICULTY, NAME, Parameters
from generators.physics.hubble_constant.render import render_sample
from generators.physics.hubble_constant.rubric import ANSWER_SCHEMA, make_nulls, make_rubric
from generators.physics.hubble_constant.sample import draw_sample
from generators.physics.hubble_constant.truth import make_key, make_truth
from generators.seed import Streams


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input files and the truth of one seed."""
    sample = draw_sample(parameters, streams)
    truth = make_truth(parameters, sample)
    return Drawn(render_sample(sample), truth, {"redraws": sample.redraws})


FAMILY = FamilyOfParts(  # after PARAMETR-Bench's hubble_constant
    name=NAME,
    version="1",
    summary="measure the Hubble constant from pictures of spectra and a table of Cepheids",
    package=__name__,
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=read_part(__name__, "prompt.txt"),
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
)
