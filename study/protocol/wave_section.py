"""The sections ``reserve:`` and ``waves:`` of study.yaml: which tranches there are, and which of
them each model of a wave runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from generators.yaml_lines import YamlDocument
from study.errors import StudyError
from study.protocol.plan_section import Count, Section

Tranches = tuple[int, ...]
PANEL: Tranches = (0,)


class ReserveSection(Section):
    """Tranches beside the panel, each with as many public as private seeds in every stratum."""

    tranches: Annotated[int, Field(ge=1, le=1000)]
    seeds_per_arm: Count


@dataclass(frozen=True, slots=True)
class WaveTranches:
    """The tranches that a wave's mapping states: ``every`` for all of its models, or by name."""

    every: Any = None
    named: Mapping[str, Any] | None = None


def spell_out_waves(document: YamlDocument) -> dict[int, WaveTranches]:
    """Replace each wave ``{models: […], tranches: …}`` by the list of its models, and return what
    is stated of tranches, by wave. Raises StudyError for other keys."""
    waves = document.value.get("waves")
    by_wave: dict[int, WaveTranches] = {}
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
        stated = wave.get("tranches")
        named = isinstance(stated, dict)
        by_wave[number] = WaveTranches(None if named else stated, stated if named else None)
        waves[number] = wave["models"]
    return by_wave


def planned_tranches(
    document: YamlDocument,
    waves: Sequence[Sequence[str]],
    stated: Mapping[int, WaveTranches],
    reserve: Sequence[int],
) -> tuple[tuple[Tranches, ...], ...]:
    """Return by wave the tranches of each of its models, in order; () for a wave that runs
    the panel alone. Raises StudyError for a tranche that is not drawn and an unknown model."""
    return tuple(
        _of_wave(document, number, models, stated.get(number, WaveTranches()), len(reserve))
        for number, models in enumerate(waves)
    )


def write_tranches(tranches: Mapping[str, Tranches]) -> str:
    """Return the mapping as one line of YAML."""
    return f"{{{', '.join(f'{name}: {list(numbers)}' for name, numbers in tranches.items())}}}"


def _of_wave(
    document: YamlDocument, wave: int, models: Sequence[str], stated: WaveTranches, last: int
) -> tuple[Tranches, ...]:
    for name in stated.named or ():
        if name not in models:
            place = document.place(("waves", wave, "tranches", name))
            raise StudyError(f"{place}: the wave has no model {name!r}; it has {', '.join(models)}")
    named = stated.named or {}
    every = (
        PANEL if stated.every is None else _read(document, (wave, "tranches"), stated.every, last)
    )
    chosen = tuple(
        _read(document, (wave, "tranches", name), named[name], last) if name in named else every
        for name in models
    )
    return () if set(chosen) == {PANEL} else chosen


def _read(document: YamlDocument, place: tuple[str | int, ...], stated: Any, last: int) -> Tranches:
    """Return one number, or a list of them, as a sorted tuple. Raises StudyError."""
    numbers = stated if isinstance(stated, list) else [stated]
    where = document.place(("waves", *place))
    if not numbers or not all(type(number) is int for number in numbers):
        raise StudyError(f"{where}: a tranche is a whole number, or a list of them: 0 is the panel")
    if len(set(numbers)) < len(numbers):
        raise StudyError(f"{where}: a tranche is named twice")
    for number in numbers:
        if not 0 <= number <= last:
            there = (
                f"0 (the panel) and 1 to {last}"
                if last
                else ("0, the panel: a reserve is drawn with the seeds, by `reserve:`")
            )
            raise StudyError(f"{where}: there is no tranche {number}; there is {there}")
    return tuple(sorted(numbers))
