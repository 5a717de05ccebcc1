"""Models whose requests fail, in words: the name, the address, what is wrong and the remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from harness.errors import Boundary
from harness.storage import EPISODE_CODEC, attempt_key, hex_of
from registry.ledger.records import JudgePin, ModelPin
from study.workspace.snapshot import WaveSnapshot

Failing = tuple[str, str, int]  # model, class of the failure, how often
_MOST_READ = 50  # attempts of one model

# Class of a provider's failure: its reason, and the remedy.
_PROVIDER = {
    "connection": ("nothing answers", "is the server running, and is `base_url` right?"),
    "quota": ("the account's quota is used up", "raise it at the provider; a sweep waits for it"),
    "rate_limit": ("too many requests", "nothing, or state `sweep: {requests_per_minute: …}`"),
    "overload": ("the server is overloaded or fails (5xx)", "nothing: a sweep waits for it"),
    "timeout": ("no reply in time", "raise `seconds`, or lower the load"),
    "bad_request": ("the server refuses the request", "are `model` and its settings right?"),
    "not_found": ("the address or the model is not there", "are `base_url` and `model` right?"),
    "malformed": ("the reply cannot be read", "is this address that of such a server?"),
    "too_large": ("the reply has more than 64 MiB", "is this address that of such a server?"),
    "unfinished": ("the server ended the reply, as it says", "nothing: a sweep waits for it"),
    "no_reply": ("an error or a page came for a reply", "is this address that of such a server?"),
    "recitation": ("a filter cut the reply off", "nothing: a sweep waits for it"),
}
_SANDBOX = {
    "not created": ("the sandbox did not start", "see the engine, disk and memory of that machine"),
    "no room": (
        "no memory came free for the sandbox",
        "lower `parallel` or `workers`, or raise `sandbox: {memory_gb: …}`",
    ),
}
_SANDBOX_LOST = (
    "the sandbox was lost, and not by its programs",
    "see the engine and the memory of that machine",
)
_WORKER = {
    "wall_limit": (
        "the episode took longer than it may",
        "lower `parallel`, or see what slows it down",
    ),
    "killed": (
        "its worker's process was killed, as for its memory",
        "lower `sweep: {parallel: …}`",
    ),
}
_BUG = ("an error in the program, at this place", "report it; the name holds nothing of the study")
_UNKNOWN = ("", "run the command again with -v, and see its log")


@dataclass(frozen=True, slots=True)
class FailureCause:
    """A class of failures in words. The reason is "" if it is not known."""

    name: str  # class and boundary
    reason: str
    remedy: str
    address: str = ""  # of the provider that failed


def address_of(pin: ModelPin | JudgePin) -> str:
    """Return the address that a model's requests go to; "" if it has none."""
    # Imported here: agents and providers cost `status` a twentieth of a second.
    from harness.build_model import endpoint_of

    return endpoint_of(pin)[0]


def failing_words(pins: Iterable[ModelPin | JudgePin], failing: Iterable[Failing]) -> list[str]:
    """Return a line for each model and class of failure."""
    known = {pin.name: pin for pin in pins}
    return [_words(name, known.get(name), failure, times) for name, failure, times in failing]


def _words(name: str, pin: ModelPin | JudgePin | None, failure: str, times: int) -> str:
    cause = explain_failure(pin, failure)
    place = f"{name} at {cause.address}" if cause.address else name
    about = f"; {cause.reason}: {cause.remedy}" if cause.reason else ""
    return f"{place}: {cause.name} × {times}{about}"


def explain_failure(pin: ModelPin | JudgePin | None, failure: str) -> FailureCause:
    """Return a class of failures of a model in words."""
    from harness.build_model import endpoint_of

    boundary, _, kind = failure.partition(":")
    address, variable = ("", "") if pin is None else endpoint_of(pin)
    reason, remedy = _UNKNOWN
    if boundary == Boundary.PROVIDER:
        reason, remedy = (_PROVIDER | {"auth": _key_words(variable)}).get(
            kind.partition(" ")[0], _UNKNOWN
        )
    elif boundary == Boundary.SANDBOX:
        lost = _SANDBOX_LOST if kind.startswith("server ") else _UNKNOWN
        reason, remedy = _SANDBOX.get(kind, lost)
    elif boundary == Boundary.WORKER:
        reason, remedy = _WORKER.get(kind, _BUG)
    remote = address if boundary == Boundary.PROVIDER else ""
    return FailureCause(f"{kind or failure} ({boundary})", reason, remedy, remote)


def _key_words(variable: str) -> tuple[str, str]:
    if not variable:
        return "no key is sent, and one is wanted (401 or 403)", "name its variable: `api_key_env`"
    return f"the key in {variable} is refused (401 or 403)", "put a valid key into it"


def stored_failures(wave: WaveSnapshot) -> tuple[Failing, ...]:
    """Return the failures of the last attempts at episodes that a wave owes: of each model up to 50
    are read. Needs the study's key. Raises RegistryError."""
    study, counts, read = wave.study, Counter[tuple[str, str]](), Counter[str]()
    for cell in wave.owed_cells():
        attempts = study.attempts[hex_of(cell.episode)]
        if not attempts or read[cell.model] >= _MOST_READ:
            continue
        read[cell.model] += 1
        key = attempt_key(cell.episode, attempts)
        episode = EPISODE_CODEC.read(study.store, key, study.keys())
        if episode.error_class:
            counts[cell.model, episode.error_class] += 1
    return tuple((model, kind, times) for (model, kind), times in sorted(counts.items()))
