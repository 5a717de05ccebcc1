"""Measure a Hubble constant from spectra of galaxies and from their Cepheids."""

from __future__ import annotations

from generators.family import Drawn, FamilyOfParts, InputFiles, read_part
from generators.physics.hubble_constant.parameters import (
    BY_DIFFICULTY,
    LAB_IMAGE,
    MEASUREMENTS,
    NAME,
    PICTURE_BYTES,
    Parameters,
    image_name,
)
from generators.physics.hubble_constant.rubric import ANSWER_SCHEMA, make_nulls, make_rubric
from generators.physics.hubble_constant.sample import draw_sample, write_table
from generators.physics.hubble_constant.truth import make_key, make_truth
from generators.physics.spectra import encode_page, lab_spectrum, observe, paint_strip
from generators.seed import Streams


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input files and the truth of one seed."""
    sample = draw_sample(parameters, streams)
    files = InputFiles()
    files.add_text(MEASUREMENTS, "text/csv", write_table(sample))
    # The plate's number keeps apart the files of any two instances.
    lab = paint_strip(f"Laboratory lines, plate {sample.plate}", lab_spectrum())
    files.add_picture(LAB_IMAGE, encode_page(lab), lab, PICTURE_BYTES)
    for galaxy in sorted(sample.galaxies, key=lambda galaxy: galaxy.id):
        if (spectrum := galaxy.spectrum) is not None:
            page = paint_strip(galaxy.id, observe(spectrum.z, spectrum.kept))
            files.add_picture(image_name(galaxy.id), encode_page(page), page, PICTURE_BYTES)
    return Drawn(files, make_truth(parameters, sample), {"redraws": sample.redraws})


FAMILY = FamilyOfParts(  # after PARAMETR-Bench's hubble_constant
    name=NAME,
    version="3",
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
