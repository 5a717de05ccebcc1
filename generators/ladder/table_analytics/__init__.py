"""Answer questions about the sales of a chain of shops, from a CSV file and a SQLite database."""

from __future__ import annotations

from generators.family import Drawn, FamilyOfParts, InputFiles, read_part
from generators.ladder.table_analytics.parameters import (
    BY_DIFFICULTY,
    DATABASE,
    NAME,
    ORDERS,
    QUESTIONS,
    Parameters,
)
from generators.ladder.table_analytics.questions import draw_questions, write_questions
from generators.ladder.table_analytics.rubric import (
    ANSWER_SCHEMA,
    make_key,
    make_nulls,
    make_rubric,
    make_truth,
)
from generators.ladder.table_analytics.sample import draw_sample, write_chain, write_orders
from generators.seed import Streams


def draw(parameters: Parameters, streams: Streams) -> Drawn:
    """The input files and the truth of one seed."""
    sample, files = draw_sample(parameters, streams), InputFiles()
    questions, redraws = draw_questions(parameters, sample, streams)
    files.add_text(ORDERS, "text/csv", write_orders(sample))
    files.add_text(DATABASE, "application/vnd.sqlite3", write_chain(sample))
    files.add_text(QUESTIONS, "text/plain", write_questions(questions))
    return Drawn(files, make_truth(questions), {"redraws": sample.redraws + redraws})


FAMILY = FamilyOfParts(
    name=NAME,
    version="1",
    summary="answer questions about sales from a CSV file and a SQLite database",
    package=__name__,
    by_difficulty=BY_DIFFICULTY,
    draw=draw,
    prompt=read_part(__name__, "prompt.txt"),
    answer_schema=ANSWER_SCHEMA,
    make_rubric=make_rubric,
    key=make_key,
    make_nulls=make_nulls,
)
