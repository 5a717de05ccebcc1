"""Find faulty power supplies, and the machines that make them, from Lissajous figures."""

from __future__ import annotations

from generators.family import Drawn, FamilyOfParts, InputFiles, read_part
from generators.physics.lissajous_figures.parameters import (
    BY_DIFFICULTY,
    NAME,
    TABLE,
    Parameters,
    picture_path,
)
from generators.physics.lissajous_figures.rubric import ANSWER_SCHEMA, make_nulls, make_rubric
from generators.physics.lissajous_figures.sample import draw_sample
from generators.physics.lissajous_figures.truth import make_key, make_truth
from generators.seed import Streams


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input files and the truth of one seed."""
    # Imported here: listing the families should not cost numpy and Pillow.
    from generators.physics.lissajous_figures.render import draw_picture, encode_png, write_table

    sample = draw_sample(parameters, streams)
    table, files, ratios = write_table(sample.units), InputFiles(), {}
    files.add_text(TABLE, "text/csv", table)
    for unit in sample.units:
        if unit.figure is not None:
            pixels = draw_picture(unit.figure)
            files.add_picture(picture_path(unit.measurement_id), encode_png(pixels), pixels)
            ratios[unit.measurement_id] = unit.figure.ratio
    return Drawn(files, make_truth(table, ratios), {"redraws": sample.redraws})


FAMILY = FamilyOfParts(  # after PARAMETR-Bench's lissajous_figures
    name=NAME,
    version="2",
    summary="find faulty power supplies, and the machines that make them, on oscilloscopes",
    package=__name__,
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=read_part(__name__, "prompt.txt"),
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
)
