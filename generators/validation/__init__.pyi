from .careless_reader import misread
from .result import CRITERION_RATE, SOLVER_SCORE
from .scores import NOISE_RATE, MeanScore
from .validate import NULL_SCORE, Survey, Validation, survey

__all__ = [
    "CRITERION_RATE",
    "NOISE_RATE",
    "NULL_SCORE",
    "SOLVER_SCORE",
    "MeanScore",
    "Survey",
    "Validation",
    "misread",
    "survey",
]
