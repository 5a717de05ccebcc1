"""Answer questions on order statistics of short lists of numbers."""

from __future__ import annotations

from generators.family import Drawn, FamilyOfParts, InputFiles, read_part
from generators.ladder.order_statistics.parameters import (
    BY_DIFFICULTY,
    LISTS,
    NAME,
    QUESTIONS,
    Parameters,
)
from generators.ladder.order_statistics.rubric import (
    ANSWER_SCHEMA,
    make_key,
    make_nulls,
    make_rubric,
)
from generators.ladder.order_statistics.sample import (
    draw_sample,
    make_truth,
    write_lists,
    write_questions,
)
from generators.seed import Streams


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input files and the truth of one seed."""
    sample, files = draw_sample(parameters, streams), InputFiles()
    files.add_text(LISTS, "text/plain", write_lists(sample))
    files.add_text(QUESTIONS, "text/plain", write_questions(sample))
    return Drawn(files, make_truth(sample), {"redraws": sample.redraws})


FAMILY = FamilyOfParts(
    name=NAME,
    version="1",
    summary="answer questions on the order statistics of short lists of numbers",
    package=__name__,
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=read_part(__name__, "prompt.txt"),
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
)
