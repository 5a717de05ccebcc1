from .grading import grade_episode, make_grade, read_answer
from .result import (
    LENIENT,
    RESULT_CODEC,
    EpisodeResult,
    judged_row,
    row_of,
    rows_of,
    summarise_episode,
)
from .rollout import AttemptRequest, model_seed, run_attempt

__all__ = [
    "LENIENT",
    "RESULT_CODEC",
    "AttemptRequest",
    "EpisodeResult",
    "grade_episode",
    "judged_row",
    "make_grade",
    "model_seed",
    "read_answer",
    "row_of",
    "rows_of",
    "run_attempt",
    "summarise_episode",
]
