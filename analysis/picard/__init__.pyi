from .breakdown import APART, GOOD, POOR, Answer, Answers, QuestionFacts
from .breakdown_tables import TableSet, make_tables, table_csv, write_tables
from .sample_size import WIDTHS, Guidance

__all__ = [
    "APART",
    "GOOD",
    "POOR",
    "WIDTHS",
    "Answer",
    "Answers",
    "Guidance",
    "QuestionFacts",
    "TableSet",
    "make_tables",
    "table_csv",
    "write_tables",
]
