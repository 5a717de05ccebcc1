from .breakdown import APART, GOOD, POOR, AnswerRow, Answers, QuestionFacts
from .breakdown_tables import TableSet, make_tables, write_tables
from .part import templates_part
from .sample_size import WIDTHS, Curve

__all__ = [
    "APART",
    "GOOD",
    "POOR",
    "WIDTHS",
    "AnswerRow",
    "Answers",
    "Curve",
    "QuestionFacts",
    "TableSet",
    "make_tables",
    "templates_part",
    "write_tables",
]
