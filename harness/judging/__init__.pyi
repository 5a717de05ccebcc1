from .answer_sheets import Sheet, make_sheets
from .grade import build_judge, judge_episode, keep_grade, pin_judge, read_grade, submission_of
from .judge import (
    MAX_CHARS,
    TRIES,
    Judge,
    Submission,
    call_digest,
    call_texts,
    chunks_of,
    judge_criteria,
    judging_bound,
    make_request,
    prompt_digest,
    questions_of,
)

__all__ = [
    "MAX_CHARS",
    "TRIES",
    "Judge",
    "Sheet",
    "Submission",
    "build_judge",
    "call_digest",
    "call_texts",
    "chunks_of",
    "judge_criteria",
    "judge_episode",
    "judging_bound",
    "keep_grade",
    "make_request",
    "make_sheets",
    "pin_judge",
    "prompt_digest",
    "questions_of",
    "read_grade",
    "submission_of",
]
