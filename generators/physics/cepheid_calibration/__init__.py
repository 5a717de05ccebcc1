"""Calibrate Cepheids' relation of period and luminosity from redshifts read off spectra."""

from __future__ import annotations

from generators.family import Drawn, FamilyOfParts, InputFiles, read_part
from generators.physics.cepheid_calibration.parameters import (
    BY_DIFFICULTY,
    LAB_IMAGE,
    NAME,
    PICTURE_BYTES,
    TABLE,
    Parameters,
    image_path,
)
from generators.physics.cepheid_calibration.rubric import ANSWER_SCHEMA, make_nulls, make_rubric
from generators.physics.cepheid_calibration.sample import draw_sample, write_table
from generators.physics.cepheid_calibration.truth import make_key, make_truth
from generators.physics.spectra import encode_page, lab_spectrum, observe, paint_bars
from generators.seed import Streams


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input files and the truth of one seed."""
    sample = draw_sample(parameters, streams)
    files = InputFiles()
    files.add_text(TABLE, "text/csv", write_table(sample.galaxies))
    lab = paint_bars(f"Laboratory spectrum, plate {sample.plate}", lab_spectrum())
    files.add_picture(LAB_IMAGE, encode_page(lab), lab, PICTURE_BYTES)
    lines = dict(sample.lines)
    for galaxy in sample.galaxies:
        if galaxy.z is not None:
            page = paint_bars(f"Galaxy {galaxy.id}", observe(galaxy.z, lines[galaxy.id]))
            files.add_picture(image_path(galaxy.id), encode_page(page), page, PICTURE_BYTES)
    return Drawn(files, make_truth(parameters, sample), {"redraws": sample.redraws})


FAMILY = FamilyOfParts(  # after PARAMETR-Bench's cepheid_calibration
    name=NAME,
    version="3",
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
