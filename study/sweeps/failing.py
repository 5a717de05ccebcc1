"""Models whose requests fail, in words: the name, the address, what is wrong and the remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from harness.errors import Boundary
from harness.storage import EPISODE_CODEC, attempt_key, hex_of
from registry.ledger import JudgePin, ModelPin
from study.workspace import WaveSnapshot

Failing = tuple[str, str, int]  # model, class of the failure, how often
_MOST_READ = 50  # attempts of one model

_REMEDIES = {
    "connection": "nothing answers there: is the server running, and is `base_url` right?",
    "quota": "the account's quota is used up",
    "rate_limit": "too many requests: lower `sweep: {parallel: …}`, or wait",
    "overload": "the server is overloaded or fails (5xx): wait",
    "timeout": "no reply in time: raise `seconds`, or lower the load",
    "bad_request": "the server refuses the request: are `model` and its settings right?",
    "malformed": "the reply cannot be read: is this address that of such a server?",
    "killed": "its worker's process was killed, as for its memory: lower `sweep: {parallel: …}`",
    "too_large": "the reply has more than 64 MiB: is this address that of such a server?",
}


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
    from harness.build_model import endpoint_of

    address, variable = ("", "") if pin is None else endpoint_of(pin)
    boundary, _, kind = failure.partition(":")
    remote = boundary == Boundary.PROVIDER
    place = f"{name} at {address}" if address and remote else name
    remedies = _REMEDIES | {"auth": _key_words(variable)}
    known = (remote or kind == "killed") and kind in remedies
    reason = f"; {remedies[kind]}" if known else ""
    return f"{place}: {kind or failure} ({boundary}) × {times}{reason}"


def _key_words(variable: str) -> str:
    if not variable:
        return "no key is sent, and one is wanted (401 or 403): name its variable in `api_key_env`"
    return f"the key in {variable} is refused (401 or 403): put a valid one there"


def stored_failures(wave: WaveSnapshot) -> tuple[Failing, ...]:
    """Return the failures of the last attempts at episodes that a wave owes: of each model up to 50
    are read. Needs the study's key. Raises RegistryError."""
    study, counts, read = wave.study, Counter[tuple[str, str]](), Counter[str]()
    for cell in wave.owed_cells:
        attempts = study.attempts[hex_of(cell.episode)]
        if not attempts or read[cell.model] >= _MOST_READ:
            continue
        read[cell.model] += 1
        key = attempt_key(cell.episode, attempts)
        episode, _ = EPISODE_CODEC.open(study.store, key, study.identities())
        if episode.error_class:
            counts[cell.model, episode.error_class] += 1
    return tuple((model, kind, times) for (model, kind), times in sorted(counts.items()))
