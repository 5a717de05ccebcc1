from .programs import with_printed
from .result import CRITERION_RATE, NULL_SCORE, SOLVER_SCORE, Survey, Validation
from .scores import PERTURBED_RATE, perturb_answer
from .validate import survey

__all__ = [
    "CRITERION_RATE",
    "NULL_SCORE",
    "PERTURBED_RATE",
    "SOLVER_SCORE",
    "Survey",
    "Validation",
    "perturb_answer",
    "survey",
    "with_printed",
]
