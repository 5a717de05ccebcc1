from .result import CRITERION_RATE, SOLVER_SCORE
from .scores import PERTURBED_RATE, MeanScore, perturb_answer
from .validate import NULL_SCORE, Survey, Validation, survey

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
