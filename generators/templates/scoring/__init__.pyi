from .json_edit import complete_edit, match_edits
from .response import MOST_READ
from .score import Failure, Scored, Scores, score, score_both, score_leniently, scoring_types
from .scorer import SCORING_TYPES, AnswerScore, Key, Workspace
from .targeted_edit import JSON_EDIT, TARGETED_EDIT, TARGETED_KEYS, translate_edit

__all__ = [
    "JSON_EDIT",
    "MOST_READ",
    "SCORING_TYPES",
    "TARGETED_EDIT",
    "TARGETED_KEYS",
    "AnswerScore",
    "Failure",
    "Key",
    "Scored",
    "Scores",
    "Workspace",
    "complete_edit",
    "match_edits",
    "score",
    "score_both",
    "score_leniently",
    "scoring_types",
    "translate_edit",
]
