"""Find faulty power supplies, and the machines that make them, from Lissajous figures."""

from __future__ import annotations

from generators.family import Drawn, FamilyOfParts, InputFiles, read_part
from generators.physics.lissajous_figures.parameters import (
    BY_DIFFICULTY,
    COIL_TABLE,
    NAME,
    PICTURE_BYTES,
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
    from generators.physics.lissajous_figures.render import (
        draw_picture,
        encode_png,
        write_coils,
        write_table,
    )

    sample = draw_sample(parameters, streams)
    table, coils = write_table(sample.units), write_coils(sample.coils)
    files, ratios = InputFiles(), {}
    files.add_text(TABLE, "text/csv", table)
    files.add_text(COIL_TABLE, "text/csv", coils)
    for unit in sample.units:
        if unit.figure is not None:
            pixels = draw_picture(unit.figure)
            path = picture_path(unit.measurement_id)
            files.add_picture(path, encode_png(pixels), pixels, PICTURE_BYTES)
            ratios[unit.measurement_id] = unit.figure.ratio
    return Drawn(files, make_truth(table, coils, ratios), {"redraws": sample.redraws})


FAMILY = FamilyOfParts(  # after PARAMETR-Bench's lissajous_figures
    name=NAME,
    version="3",
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
