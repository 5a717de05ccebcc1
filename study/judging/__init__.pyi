from .check import BudgetSpentError, CheckRequest, check_judge
from .drift import regradings_of
from .estimate import estimate_judges, estimate_regrading
from .grade import GradeOutcome, GradeRequest, grade_study
from .records import graded_records, grades_of, judge_grades, labelled, rates_of

__all__ = [
    "BudgetSpentError",
    "CheckRequest",
    "GradeOutcome",
    "GradeRequest",
    "check_judge",
    "estimate_judges",
    "estimate_regrading",
    "grade_study",
    "graded_records",
    "grades_of",
    "judge_grades",
    "labelled",
    "rates_of",
    "regradings_of",
]
