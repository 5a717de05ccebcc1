from .breakdown import APART, GOOD, POOR, AnswerRow, Answers, QuestionFacts
from .breakdown_tables import TableSet, make_tables, table_csv, write_tables
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
    "table_csv",
    "write_tables",
]
