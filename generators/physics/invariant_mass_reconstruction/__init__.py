"""Find an unknown particle's mass and width from the tracks of its decays into e⁺e⁻."""

from __future__ import annotations

from generators.family import Drawn, FamilyOfParts, InputFiles, read_part
from generators.physics.invariant_mass_reconstruction.parameters import (
    BY_DIFFICULTY,
    CALORIMETER_FILE,
    LONGITUDINAL_FILE,
    NAME,
    TRACKER_FILE,
    TRANSVERSE_FILE,
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
    from generators.physics.invariant_mass_reconstruction.sample import draw_sample

    sample = draw_sample(parameters, streams)
    files = InputFiles()
    files.add_text(TRACKER_FILE, "text/csv", render.write_tracker_hits(sample))
    files.add_text(CALORIMETER_FILE, "text/csv", render.write_calorimeter_hits(sample))
    transverse = render.draw_transverse(sample.detector, parameters.states_field)
    files.add_picture(TRANSVERSE_FILE, render.encode_png(transverse), transverse)
    longitudinal = render.draw_longitudinal(sample.detector)
    files.add_picture(LONGITUDINAL_FILE, render.encode_png(longitudinal), longitudinal)
    redraws = {"redraws": sample.redraws, "pair_redraws": sample.pair_redraws}
    return Drawn(files, make_truth(parameters, sample), redraws)


FAMILY = FamilyOfParts(  # after PARAMETR-Bench's invariant_mass_reconstruction
    name=NAME,
    version="2",
    summary="reconstruct the masses of electron pairs, and fit an unknown particle's peak",
    package=__name__,
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=read_part(__name__, "prompt.txt"),
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
)
