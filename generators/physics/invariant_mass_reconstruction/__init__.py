"""Find an unknown particle's mass and width from its decays into pairs of electrons or muons."""

from __future__ import annotations

from generators.family import Drawn, FamilyOfParts, InputFiles, read_part
from generators.physics.invariant_mass_reconstruction.parameters import (
    BY_DIFFICULTY,
    CALORIMETER_FILE,
    DETECTOR_FILE,
    FIELD_FILE,
    GAINS_FILE,
    NAME,
    PICTURE_BYTES,
    TRACKER_FILE,
    Parameters,
)
from generators.physics.invariant_mass_reconstruction.rubric import (
    ANSWER_SCHEMA,
    make_nulls,
    make_rubric,
)
from generators.physics.invariant_mass_reconstruction.truth import make_key, make_truth
from generators.seed import Streams


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input files and the truth of one seed."""
    # Imported here: listing the families should not cost numpy and Pillow.
    from generators.physics.invariant_mass_reconstruction import render
    from generators.physics.invariant_mass_reconstruction.measure import draw_graded, measure
    from generators.physics.invariant_mass_reconstruction.sample import draw_sample

    sample = draw_sample(parameters, streams)
    events = measure(parameters, sample, streams)
    files = InputFiles()
    files.add_text(TRACKER_FILE, "text/csv", render.write_tracker_hits(events))
    files.add_text(CALORIMETER_FILE, "text/csv", render.write_calorimeter_hits(events))
    for path, pixels in (
        (DETECTOR_FILE, render.draw_detector(sample.detector)),
        (GAINS_FILE, render.draw_gains(sample.detector)),
        (FIELD_FILE, render.draw_field(sample.detector)),
    ):
        files.add_picture(path, render.encode_png(pixels), pixels, PICTURE_BYTES)
    graded = draw_graded(parameters, sample, events, streams)
    redraws = {"redraws": sample.redraws, "pair_redraws": sample.pair_redraws}
    return Drawn(files, make_truth(parameters, sample, graded), redraws)


FAMILY = FamilyOfParts(  # after PARAMETR-Bench's invariant_mass_reconstruction
    name=NAME,
    version="3",
    summary="measure the masses of lepton pairs, and an unknown particle's mass and width",
    package=__name__,
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=read_part(__name__, "prompt.txt"),
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
)
