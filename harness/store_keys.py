"""Names of the objects that a run stores. None tells an arm."""

from __future__ import annotations

from registry.canonical import digest_bytes
from registry.ledger import CALIBRATIONS, CHECKS, grades_folder

RESULTS = "results/"
ATTEMPTS = "attempts/"
RESPONSES = "responses/"
RUNS = "runs/"
GRADES = "grades/"
JUDGEMENTS = "judgements/"
PROBES = "probes/"


def hex_of(digest: str) -> str:
    """The 64 digits of a digest."""
    return digest.removeprefix("sha256:")


def result_key(episode: str) -> str:
    return f"{RESULTS}{hex_of(episode)}.age"


def attempt_key(episode: str, attempt: int) -> str:
    return f"{ATTEMPTS}{hex_of(episode)}/{attempt:04d}.age"


def response_key(episode: str, attempt: int, turn: int) -> str:
    return f"{RESPONSES}{hex_of(episode)}/{attempt:04d}-{turn:04d}.age"


def try_key(episode: str, attempt: int, turn: int, number: int) -> str:
    """Of a request that failed: the ``number``-th of its turn, counted from 0."""
    return f"{RESPONSES}{hex_of(episode)}/{attempt:04d}-{turn:04d}-{number:04d}.age"


def run_key_key(recipient: str) -> str:
    """Of a run's sealed identity. It is named by the public key, since the manifest, whose
    digest names the run, tells this name."""
    return f"{RUNS}{hex_of(digest_bytes(recipient.encode()))}/key.age"


def worklist_key(recipient: str) -> str:
    return f"{RUNS}{hex_of(digest_bytes(recipient.encode()))}/worklist.age"


def grade_key(judge: str, episode: str, look: int | None = None) -> str:
    """Of a judge's grade of an episode; ``judge`` is the digest of its pin, ``look`` the wave at
    which it graded the episode once more."""
    return f"{grades_folder(judge, look)}{hex_of(episode)}.age"


def judgement_key(judge: str, call: str, tried: int) -> str:
    """Of a judge's reply, by the digest of what it was asked."""
    return f"{JUDGEMENTS}{hex_of(judge)}/{hex_of(call)}-{tried:02d}.age"


def judge_try_key(judge: str, call: str, tried: int, number: int) -> str:
    """Of a request to a judge that failed: the ``number``-th of its try, counted from 0."""
    return f"{JUDGEMENTS}{hex_of(judge)}/{hex_of(call)}-{tried:02d}-{number:04d}.age"


def probe_key(model: str, call: str) -> str:
    """Of what a probe came to; ``model`` is the digest of its pin."""
    return f"{PROBES}{hex_of(model)}/{hex_of(call)}.age"


def probe_reply_key(model: str, call: str) -> str:
    return f"{PROBES}{hex_of(model)}/{hex_of(call)}-reply.age"


def probe_try_key(model: str, call: str, number: int) -> str:
    """Of a request that failed, counted from 0."""
    return f"{PROBES}{hex_of(model)}/{hex_of(call)}-{number:04d}.age"


def check_key(result: str) -> str:
    """Of what a judge check found, by the digest of it."""
    return f"{CHECKS}{hex_of(result)}.json"


def calibration_key(result: str) -> str:
    """Of what a calibration found, by the digest of it."""
    return f"{CALIBRATIONS}{hex_of(result)}.json"
