from .json_edit import complete_edit
from .response import MOST_READ
from .score import Failure, Scores, score, score_both, score_leniently, scoring_types

__all__ = [
    "MOST_READ",
    "Failure",
    "Scores",
    "complete_edit",
    "score",
    "score_both",
    "score_leniently",
    "scoring_types",
]
