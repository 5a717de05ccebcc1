"""Calibrate Cepheids' relation of period and luminosity from redshifts read off spectra."""

from __future__ import annotations

from generators.family import Drawn, FamilyOfParts, read_part
from generators.physics.cepheid_calibration.parameters import BY_DIFFICULTY, NAME, Parameters
from generators.physics.cepheid_calibration.render import render_sample
from generators.physics.cepheid_calibration.rubric import ANSWER_SCHEMA, make_nulls, make_rubric
from generators.physics.cepheid_calibration.sample import draw_sample
from generators.physics.cepheid_calibration.truth import make_key, make_truth
from generators.seed import Streams


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input files and the truth of one seed."""
    sample = draw_sample(parameters, streams)
    truth = make_truth(parameters, sample)
    return Drawn(render_sample(sample), truth, {"redraws": sample.redraws})


FAMILY = FamilyOfParts(  # after PARAMETR-Bench's cepheid_calibration
    name=NAME,
    version="1",
    summary="calibrate Cepheids' period and luminosity with redshifts read off spectra",
    package=__name__,
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=read_part(__name__, "prompt.txt"),
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
)
