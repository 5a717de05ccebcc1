from .breakdown import APART, GOOD, POOR, AnswerRow, Answers, QuestionFacts
from .breakdown_tables import TableSet, make_tables, table_csv, write_tables
from .sample_size import WIDTHS, Guidance

__all__ = [
    "APART",
    "GOOD",
    "POOR",
    "WIDTHS",
    "AnswerRow",
    "Answers",
    "Guidance",
    "QuestionFacts",
    "TableSet",
    "make_tables",
    "table_csv",
    "write_tables",
]
