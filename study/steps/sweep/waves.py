"""Waves of a study: listed, opened for new models, closed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

from harness.storage import attempted_names
from registry.errors import BrokenPromise
from registry.ledger.chain import Entry
from registry.ledger.records import Plan, WaveClosed
from study.errors import StudyError
from study.files import exclusive
from study.protocol.protocol import FILE_NAME, Protocol, read_protocol
from study.protocol.sections import PANEL, Tranches, write_tranches
from study.protocol.yaml import quoted, read_yaml
from study.steps.sweep.exposure_ledger import burned_of_wave
from study.steps.sweep.manifests import check_here
from study.steps.sweep.spending import NO_PRICING
from study.workspace.setup import Watch, check_plan, find_registration, pinned_image
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study, closed_wave, manifest_of


@dataclass(frozen=True, slots=True)
class Wave:
    """One wave: ``state`` is planned, begun or closed; ``look`` its place among the looks that
    the plan counts, None where all of its models are controls or it was begun before the release
    of the public arm; times are UTC, "" for not yet."""

    wave: int
    models: tuple[str, ...]
    tranches: dict[str, Tranches]  # that each model runs; 0 is the panel
    burned: dict[str, Tranches]  # of these, those that its provider may store or has leaked
    state: str
    look: int | None
    beyond: bool  # the plan's looks
    begun: str
    closed: str
    reported: str
    scored: int | None
    missing: int | None


def list_waves(study: Study) -> list[Wave]:
    """Return every wave that study.yaml plans, with its state by the ledger."""
    from study.steps.sweep.history import begun_waves

    entries = study.ledger.entries()
    begun = {each.wave: each for each in begun_waves(entries)}
    reports = [(e.record.through_wave, e.time) for e in entries if e.kind == "report"]
    plan = study.protocol.registered_plan()
    looks = _looks(study.protocol, plan, entries)
    waves = []
    for wave, models in enumerate(study.protocol.waves):
        run = begun.get(wave)
        closed = run.closed if run else None
        waves.append(
            Wave(
                wave=wave,
                models=models,
                tranches=study.protocol.wave_tranches(wave),
                burned=burned_of_wave(study, entries, wave),
                state="closed" if closed else "begun" if run else "planned",
                look=looks.get(wave),
                beyond=looks.get(wave, 0) > plan.looks,
                begun=run.begun if run else "",
                closed=closed.time if closed else "",
                reported=next((time for through, time in reports if through >= wave), ""),
                scored=closed.record.finished if closed else None,
                missing=closed.record.missing if closed else None,
            )
        )
    return waves


def open_wave(
    study: Study, models: Sequence[str], tranches: Mapping[str, Tranches] = MappingProxyType({})
) -> tuple[int, bool]:
    """Plan one more wave for some models of study.yaml, with each task in its registered mode.
    Return its number, and whether it is new: a last wave of the same models, tranches and modes
    that was not begun is returned as it is. Models that ``tranches`` does not name run the panel.

    Only the list of waves in study.yaml grows, a line, whole or not at all. Raises StudyError for
    unknown models and tranches, and if the registered plan would change.
    """
    _check_models(study, models)
    wanted = _check_tranches(study, models, tranches)
    waves = study.protocol.waves
    last = len(waves) - 1
    same = (
        waves[last] == tuple(models)
        and study.protocol.wave_tranches(last) == wanted
        and study.protocol.wave_tasks(last) == study.protocol.tasks
    )
    if same and manifest_of(study.ledger, last) is None:
        return last, False
    path = study.folder / FILE_NAME
    draft = study.folder / f".{FILE_NAME}.new"
    try:
        draft.write_text(_with_wave(path, models, tranches), encoding="utf-8")
        planned = read_protocol(study.folder, draft.name)
        _check_opened(study, planned, models, wanted)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return last + 1, True


def close_wave_now(
    study: Study, wave: int, now: Callable[[], str], watch: Watch = lambda what, done, of: None
) -> tuple[WaveClosed, bool]:
    """Close a wave if every episode has a result or has failed; failed ones are recorded as
    missing. Nothing is run. Return the record, and whether it is new. ``watch`` gets the steps and
    progress.

    Raises StudyError if the wave was not begun, or episodes were never tried.
    """
    from study.steps.sweep.sweep import close_wave, context_of

    study.protocol.wave_models(wave)
    if (closed := closed_wave(study.ledger, wave)) is not None:
        return closed, False
    if (manifest := manifest_of(study.ledger, wave)) is None:
        raise StudyError(f"wave {wave} is not begun; run `dosimeter sweep --wave {wave}` first")
    check_here(manifest)
    with exclusive(study.folder / f".sweep-{wave}.lock", f"a sweep of wave {wave}"):
        begun = take_snapshot(study).waves[wave]
        cells, finished = begun.cells, begun.finished
        tried = cells.marks(attempted_names(study.store))
        if untried := sum(not any(marks) for marks in zip(finished, tried, strict=True)):
            raise StudyError(
                f"wave {wave}: {untried} of {len(cells)} episodes were never tried, "
                f"and what was never tried is not missing; run `dosimeter sweep --wave {wave}`"
            )
        context = context_of(study, manifest, pinned_image(study.protocol), None, NO_PRICING)
        return close_wave(study, context, manifest, cells, finished, now, watch), True


def _looks(protocol: Protocol, plan: Plan, entries: Sequence[Entry]) -> dict[int, int]:
    """Return the number of the look at each wave, counted from 1. Waves that were begun before the
    release are none; planned ones are taken to come after it."""
    from analysis.plan.presets import control_models
    from study.steps.sweep.history import history_of

    controls = control_models(plan)
    waves = [wave for wave, models in enumerate(protocol.waves) if set(models) - controls]
    return history_of(entries, plan).number_looks(waves)


def _check_models(study: Study, models: Sequence[str]) -> None:
    known = [pin.name for pin in study.protocol.models]
    if not models:
        raise StudyError(f"a wave runs at least one model; study.yaml has {', '.join(known)}")
    for place, name in enumerate(models):
        if name not in known:
            close = get_close_matches(name, known, n=1)
            more = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
            raise StudyError(f"{study.folder / FILE_NAME}: models: there is no {name!r}{more}")
        if name in models[:place]:
            raise StudyError(f"{name!r} is named twice for one wave")


def _check_tranches(
    study: Study, models: Sequence[str], tranches: Mapping[str, Tranches]
) -> dict[str, Tranches]:
    """Return the tranches that each of the models is to run."""
    last = len(study.protocol.reserve)
    for name, chosen in tranches.items():
        if name not in models:
            raise StudyError(f"--tranche: {name!r} is not of this wave; it has {', '.join(models)}")
        for tranche in chosen:
            if not 0 <= tranche <= last:
                there = f"0 (the panel) to {last}" if last else "0, the panel: no reserve is drawn"
                raise StudyError(f"--tranche: there is no tranche {tranche}; there is {there}")
    return {name: tuple(sorted(tranches.get(name, PANEL))) for name in models}


def _with_wave(path: Path, models: Sequence[str], tranches: Mapping[str, Tranches]) -> str:
    """Return the file's text with one more line in its list of waves."""
    document = read_yaml(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    count = len(document.value["waves"])
    numbers = [document.lines.get(("waves", wave), 0) for wave in range(count)]
    last = numbers[-1]
    if inline := re.match(
        r"(waves: *\[[^#]*\])( *\](?: *#.*)?)$", lines[last - 1]
    ):  # all in one line
        wave = _wave_text(models, tranches)
        lines[last - 1] = f"{inline[1]}, {wave}{inline[2]}"
        return "\n".join(lines) + "\n"
    if last in (0, document.lines.get(("waves",))) or len(set(numbers)) < count:
        raise StudyError(
            f"{document.place(('waves',))}: write the waves as a list, one `- [model, …]` a line, "
            "for another to be added"
        )
    first = lines[numbers[0] - 1]
    indent = first[: len(first) - len(first.lstrip())]
    if not first.lstrip().startswith("- "):
        raise StudyError(f"{path}:{numbers[0]}: waves: a wave starts with `- `")
    end = last  # a wave may go on over lines that are further in
    while end < len(lines) and lines[end].startswith(f"{indent} ") and lines[end].strip():
        end += 1
    lines.insert(end, f"{indent}- {_wave_text(models, tranches)}")
    return "\n".join(lines) + "\n"


def _wave_text(models: Sequence[str], tranches: Mapping[str, Tranches]) -> str:
    """Return a wave as it is written in the file."""
    wave = f"[{', '.join(map(quoted, models))}]"
    return f"{{models: {wave}, tranches: {write_tranches(tranches)}}}" if tranches else wave


def _check_opened(
    study: Study, planned: Protocol, models: Sequence[str], tranches: Mapping[str, Tranches]
) -> None:
    """Raise StudyError if the file would plan another wave than asked for, or change the registered
    plan."""
    added = planned.waves == (*study.protocol.waves, tuple(models))
    if not added or planned.wave_tranches(len(study.protocol.waves)) != tranches:
        raise StudyError(
            f"{study.folder / FILE_NAME}: waves: the new wave cannot be added to the list as it is "
            "written; add it by hand"
        )
    if (registered := find_registration(study.ledger)) is None:
        return
    opened = Study(study.folder, planned, study.store, study.ledger)
    try:
        check_plan(opened, registered)
    except BrokenPromise:
        looks = registered.plan.looks
        if planned.registered_plan().looks == looks:
            raise
        raise StudyError(
            f"{study.folder / FILE_NAME}: plan: {looks} looks are registered, as many as there "
            f"were waves with models to test; write `looks: {looks}` into it, as registered, and "
            "open the wave again: its results will be exploratory"
        ) from None
