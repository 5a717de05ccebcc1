from .result import (
    DETERMINISTIC,
    LENIENT,
    RESULT_CODEC,
    EpisodeResult,
    Verdicts,
    grade_episode,
    judged_row,
    rows_of,
    summarise_episode,
)
from .rollout import AttemptRequest, run_attempt

__all__ = [
    "DETERMINISTIC",
    "LENIENT",
    "RESULT_CODEC",
    "AttemptRequest",
    "EpisodeResult",
    "Verdicts",
    "grade_episode",
    "judged_row",
    "rows_of",
    "run_attempt",
    "summarise_episode",
]
