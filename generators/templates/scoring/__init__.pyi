from .json_edit import complete_edit
from .response import MOST_READ
from .score import Failure, Scored, Scores, score, score_both, score_leniently, scoring_types
from .scorer import SCORING_TYPES, AnswerScore, Key, Workspace

__all__ = [
    "MOST_READ",
    "SCORING_TYPES",
    "AnswerScore",
    "Failure",
    "Key",
    "Scored",
    "Scores",
    "Workspace",
    "complete_edit",
    "score",
    "score_both",
    "score_leniently",
    "scoring_types",
]
