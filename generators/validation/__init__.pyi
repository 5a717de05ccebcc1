from .result import CRITERION_RATE, NULL_SCORE, SOLVER_SCORE, Survey, Validation
from .scores import PERTURBED_RATE, MeanScore, perturb_answer
from .validate import survey

__all__ = [
    "CRITERION_RATE",
    "NULL_SCORE",
    "PERTURBED_RATE",
    "SOLVER_SCORE",
    "MeanScore",
    "Survey",
    "Validation",
    "perturb_answer",
    "survey",
]
