"""Names of the objects that a run stores. None depends on an arm."""

from __future__ import annotations

from registry.canonical import digest_bytes
from registry.ledger import CALIBRATIONS, CHECKS, grades_folder

RESULTS = "results/"
ATTEMPTS = "attempts/"
RESPONSES = "responses/"
RUNS = "runs/"
GRADES = "grades/"
JUDGE_CALLS = "judgements/"
PROBES = "probes/"


def hex_of(digest: str) -> str:
    """The 64 digits of a digest."""
    return digest.removeprefix("sha256:")


def result_key(episode: str) -> str:
    """Key of the grade of the attempt that counts."""
    return f"{RESULTS}{hex_of(episode)}.age"


def attempt_key(episode: str, attempt: int) -> str:
    """Key of a whole attempt, counted from 1."""
    return f"{ATTEMPTS}{hex_of(episode)}/{attempt:04d}.age"


def attempt_replies(episode: str, attempt: int) -> str:
    """Common stem of the keys of an attempt's paid replies."""
    return f"{RESPONSES}{hex_of(episode)}/{attempt:04d}"


def judge_replies(judge: str, call: str) -> str:
    """Common stem of the keys of a judge's replies to one call; ``judge`` is the digest of its
    pin, ``call`` that of the request's content."""
    return f"{JUDGE_CALLS}{hex_of(judge)}/{hex_of(call)}"


def probe_replies(model: str, call: str) -> str:
    """Common stem of the keys of the replies to a probe; ``model`` is the digest of its pin."""
    return f"{PROBES}{hex_of(model)}/{hex_of(call)}"


def reply_key(stem: str, turn: int) -> str:
    """Key of the reply to a turn, counted from 0."""
    return f"{stem}-{turn:04d}.age"


def failed_key(stem: str, turn: int, number: int) -> str:
    """Key of the ``number``-th failed request of a turn, both counted from 0."""
    return f"{stem}-{turn:04d}-{number:04d}.age"


def is_reply(key: str) -> bool:
    """Whether a key is that of a paid reply, and not of a failed request or of a probe's result."""
    return key.rpartition("/")[2].count("-") == 1


def run_key_key(recipient: str) -> str:
    """Key of a run's sealed identity. It is named by the public key, since the manifest, whose
    digest names the run, states this name."""
    return f"{RUNS}{hex_of(digest_bytes(recipient.encode()))}/key.age"


def worklist_key(recipient: str) -> str:
    """Key of the cells that a run owes."""
    return f"{RUNS}{hex_of(digest_bytes(recipient.encode()))}/worklist.age"


def grade_key(judge: str, episode: str, look: int | None = None) -> str:
    """Key of a judge's grade of an episode; ``judge`` is the digest of its pin, ``look`` the wave
    at which it graded the episode once more."""
    return f"{grades_folder(judge, look)}{hex_of(episode)}.age"


def probe_key(model: str, call: str) -> str:
    """Key of a probe's result; ``model`` is the digest of its pin."""
    return f"{PROBES}{hex_of(model)}/{hex_of(call)}.age"


def check_key(result: str) -> str:
    """Key of the result of a judge check, by its digest."""
    return f"{CHECKS}{hex_of(result)}.json"


def calibration_key(result: str) -> str:
    """Key of the result of a calibration, by its digest."""
    return f"{CALIBRATIONS}{hex_of(result)}.json"
