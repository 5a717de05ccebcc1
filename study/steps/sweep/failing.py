"""Models whose requests fail, in words: the name, the address, what is wrong and the remedy."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import Boundary
from harness.storage import EPISODE_CODEC, attempt_key, hex_of
from registry.ledger.records import JudgePin, ModelPin
from study.printing import print_records
from study.workspace.snapshot import WaveSnapshot

_MOST_READ = 50  # attempts of one model

_UNKNOWN = ("", "run the command again with -v, and see its log")


@dataclass(frozen=True, slots=True)
class Failing:
    """A class of failures of a model: how often, and of how many episodes, if that is counted."""

    model: str
    failure: str  # its boundary and class
    times: int
    episodes: int | None = None


def address_of(pin: ModelPin | JudgePin) -> str:
    """Return the address that a model's requests go to; "" if it has none."""
    # Imported here: agents and providers cost `status` a twentieth of a second.
    from harness.build_model import endpoint_of

    return endpoint_of(pin)[0]


def print_failing(pins: Iterable[ModelPin | JudgePin], failing: Iterable[Failing]) -> None:
    """Print what failed, why, and what to do, if anything has failed."""
    if rows := failing_rows(pins, failing):
        title = "Failed attempts: what failed, why, and what to do"
        print_records(rows, title=title, right=("episodes", "attempts"))


def failing_words(pins: Iterable[ModelPin | JudgePin], failing: Iterable[Failing]) -> list[str]:
    """Return the same, each on one line."""
    return [
        f"{row['model']}: {row['failure']} × {row['attempts']}; "
        + ": ".join(filter(None, (row["why"], row["what to do"])))
        for row in failing_rows(pins, failing)
    ]


def failing_rows(
    pins: Iterable[ModelPin | JudgePin], failing: Iterable[Failing]
) -> list[dict[str, Any]]:
    """Return a row for each model and class of failure, with the address of a provider."""
    known = {pin.name: pin for pin in pins}
    return [_row(each, known.get(each.model)) for each in failing]


def _row(failing: Failing, pin: ModelPin | JudgePin | None) -> dict[str, Any]:
    from harness.build_model import endpoint_of

    boundary, _, kind = failing.failure.partition(":")
    address, variable = ("", "") if pin is None else endpoint_of(pin)
    causes = _causes().get(boundary, {})
    if failing.failure == "provider:auth":
        reason, remedy = _key_words(variable)
    else:
        known = (causes[name] for name in (kind, kind.partition(" ")[0], "") if name in causes)
        reason, remedy = next(known, _UNKNOWN)
    remote = address if boundary == Boundary.PROVIDER else ""
    return {
        "model": failing.model,
        "failure": f"{kind or failing.failure} ({boundary})",
        "episodes": failing.episodes,
        "attempts": failing.times,
        "why": " at ".join(filter(None, (reason, remote))) or None,
        "what to do": remedy,
    }


@cache
def _causes() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """Return the reason and the remedy of each class of failure, by boundary."""
    return tomllib.loads(Path(__file__).with_name("failures.toml").read_text("utf-8"))


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
    return tuple(Failing(*named, times) for named, times in sorted(counts.items()))
