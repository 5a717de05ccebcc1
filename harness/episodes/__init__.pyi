from .grading import DETERMINISTIC, Verdicts, grade_episode
from .result import (
    LENIENT,
    EpisodeResult,
    decode_result,
    encode_result,
    judged_row,
    rows_of,
    summarise_episode,
)
from .rollout import AttemptRequest, run_attempt

__all__ = [
    "DETERMINISTIC",
    "LENIENT",
    "AttemptRequest",
    "EpisodeResult",
    "Verdicts",
    "decode_result",
    "encode_result",
    "grade_episode",
    "judged_row",
    "rows_of",
    "run_attempt",
    "summarise_episode",
]
