"""The sections ``reserve:`` and ``waves:`` of study.yaml: which tranches there are, and which of
them each model of a wave runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from study.errors import StudyError
from study.protocol.plan_section import Count, Section
from study.protocol.yaml import Document

Tranches = tuple[int, ...]
PANEL: Tranches = (0,)


class ReserveSection(Section):
    """Tranches beside the panel, each with as many public as private seeds in every stratum."""

    tranches: Annotated[int, Field(ge=1, le=1000)]
    seeds_per_arm: Count


@dataclass(frozen=True, slots=True)
class WaveTranches:
    """What a wave's mapping says: ``every`` for all of its models, or by name."""

    every: Any = None
    named: Mapping[str, Any] | None = None


def spell_out_waves(document: Document) -> dict[int, WaveTranches]:
    """Replace each wave ``{models: […], tranches: …}`` by the list of its models, and return what
    is said of tranches, by wave. Raises StudyError for other keys."""
    waves = document.value.get("waves")
    found: dict[int, WaveTranches] = {}
    for number, wave in enumerate(waves if isinstance(waves, list) else []):
        if not isinstance(wave, dict):
            continue
        for key in wave:
            if key not in ("models", "tranches"):
                place = document.place(("waves", number, key))
                raise StudyError(f"{place}: unknown key; a wave has models and tranches")
        if "models" not in wave:
            place = document.place(("waves", number))
            raise StudyError(f"{place}: the key 'models' is missing")
        said = wave.get("tranches")
        named = isinstance(said, dict)
        found[number] = WaveTranches(None if named else said, said if named else None)
        waves[number] = wave["models"]
    return found


def planned_tranches(
    document: Document,
    waves: Sequence[Sequence[str]],
    said: Mapping[int, WaveTranches],
    reserve: Sequence[int],
) -> tuple[tuple[Tranches, ...], ...]:
    """By wave, the tranches of each of its models in order; () for a wave that runs the panel
    alone. Raises StudyError for a tranche that is not drawn and a model that is not there."""
    return tuple(
        _of_wave(document, number, models, said.get(number, WaveTranches()), len(reserve))
        for number, models in enumerate(waves)
    )


def write_tranches(tranches: Mapping[str, Tranches]) -> str:
    """The mapping as a line of YAML has it."""
    return f"{{{', '.join(f'{name}: {list(own)}' for name, own in tranches.items())}}}"


def _of_wave(
    document: Document, wave: int, models: Sequence[str], said: WaveTranches, last: int
) -> tuple[Tranches, ...]:
    for name in said.named or ():
        if name not in models:
            place = document.place(("waves", wave, "tranches", name))
            raise StudyError(f"{place}: the wave has no model {name!r}; it has {', '.join(models)}")
    named = said.named or {}
    every = PANEL if said.every is None else _read(document, (wave, "tranches"), said.every, last)
    chosen = tuple(
        _read(document, (wave, "tranches", name), named[name], last) if name in named else every
        for name in models
    )
    return () if set(chosen) == {PANEL} else chosen


def _read(document: Document, place: tuple[str | int, ...], said: Any, last: int) -> Tranches:
    """One number or a list of them, in order. Raises StudyError."""
    numbers = said if isinstance(said, list) else [said]
    where = document.place(("waves", *place))
    if not numbers or not all(type(each) is int for each in numbers):
        raise StudyError(f"{where}: a tranche is a whole number, or a list of them: 0 is the panel")
    if len(set(numbers)) < len(numbers):
        raise StudyError(f"{where}: a tranche is named twice")
    for each in numbers:
        if not 0 <= each <= last:
            there = (
                f"0 (the panel) and 1 to {last}"
                if last
                else ("0, the panel: a reserve is drawn with the seeds, by `reserve:`")
            )
            raise StudyError(f"{where}: there is no tranche {each}; there is {there}")
    return tuple(sorted(numbers))
