from .check import CheckRequest, check_judge
from .grade import GradeOutcome, GradeRequest, grade_study
from .records import (
    FIRST,
    archived_cells,
    graded_by,
    graded_records,
    grades_of,
    judge_grades,
    judge_pin,
    labelled,
    rates_of,
    regradings_of,
)

__all__ = [
    "FIRST",
    "CheckRequest",
    "GradeOutcome",
    "GradeRequest",
    "archived_cells",
    "check_judge",
    "grade_study",
    "graded_by",
    "graded_records",
    "grades_of",
    "judge_grades",
    "judge_pin",
    "labelled",
    "rates_of",
    "regradings_of",
]
