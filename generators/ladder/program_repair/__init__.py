"""Repair the faults of a small program by its docstrings and examples; hidden tests decide."""

from __future__ import annotations

from generators.family import Drawn, FamilyOfParts, InputFiles, read_part
from generators.ladder.program_repair.parameters import (
    BY_DIFFICULTY,
    EXAMPLES,
    NAME,
    PROGRAM_FILE,
    Parameters,
)
from generators.ladder.program_repair.rubric import ANSWER_SCHEMA, make_key, make_nulls, make_rubric
from generators.ladder.program_repair.sample import Sample, draw_sample, write_examples
from generators.seed import Streams
from generators.task import GroundTruth, TruthTable


def make_truth(sample: Sample) -> GroundTruth:
    """Tables ``program`` (the right one) and ``tests``: lines of input and of output, of what a
    fault breaks, of what it does not, and of a function without a fault."""
    columns = ("function", "given", "printed", "kept", "kept_printed", "other", "other_printed")
    rows = (
        (
            test.function,
            *(text for call in (test.broken, *test.kept) for text in (call.given, call.printed)),
        )
        for test in sample.tests
    )
    return GroundTruth(
        tables=(
            ("program", TruthTable.of_row(right=sample.right)),
            ("tests", TruthTable(columns, tuple(rows))),
        )
    )


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input files and the truth of one seed."""
    sample = draw_sample(parameters, streams)
    files = InputFiles()
    files.add_text(PROGRAM_FILE, "text/x-python", sample.faulty.encode("ascii"))
    files.add_text(EXAMPLES, "text/plain", write_examples(sample.examples).encode("ascii"))
    return Drawn(files, make_truth(sample), {"redraws": sample.redraws})


FAMILY = FamilyOfParts(
    name=NAME,
    version="1",
    summary="repair the faults of a small program; hidden tests decide",
    package=__name__,
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=read_part(__name__, "prompt.txt"),
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
)
