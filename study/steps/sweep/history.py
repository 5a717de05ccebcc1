"""The waves in the order of the ledger: begun before or after the release of the public arm, closed
or not, looked at or not. Times of records play no part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain

from analysis.plan.history import WaveHistory
from analysis.plan.presets import control_models
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import Entry
from registry.ledger.records import Look, Plan, RunManifest
from registry.provenance import utc_now
from registry.result_row import Arm
from study.errors import StudyError
from study.protocol.protocol import FILE_NAME
from study.protocol.sections import PANEL
from study.workspace.snapshot import StudySnapshot, WaveSnapshot
from study.workspace.study import Study

CALIBRATE = "calibrate"  # its results have records of their own, which reports show


@dataclass(frozen=True, slots=True)
class BegunWave:
    """A wave that was begun, by the first of its manifests."""

    wave: int
    models: tuple[str, ...]
    begun: str  # UTC, ISO 8601
    published: bool  # before it was begun
    closed: Entry | None

    def tests(self, plan: Plan) -> bool:
        """Report whether the wave has a model that is no control."""
        return bool(set(self.models) - control_models(plan))


def begun_waves(entries: Sequence[Entry]) -> tuple[BegunWave, ...]:
    """Return every wave that the ledger has a manifest of, by number."""
    closed = {e.record.wave: e for e in reversed(entries) if e.kind == "wave-closed"}
    waves: dict[int, BegunWave] = {}
    for entry in entries:
        if entry.kind == "run-manifest" and entry.record.wave not in waves:
            wave, models = entry.record.wave, tuple(pin.name for pin in entry.record.models)
            before = entries[: entry.sequence]
            published = _is_published(before, _tested_tranches(before, entry.record))
            waves[wave] = BegunWave(wave, models, entry.time, published, closed.get(wave))
    return tuple(waves[number] for number in sorted(waves))


def early_models(study: Study, wave: int) -> tuple[str, ...]:
    """Return the models of a wave that will get no verdict, since the public arm was not released
    before it."""
    entries = study.ledger.entries()
    begun = {each.wave: each.published for each in begun_waves(entries)}
    controls = control_models(study.protocol.registered_plan())
    runs = study.protocol.wave_tranches(wave)
    tested = {name: runs[name] for name in study.protocol.waves[wave] if name not in controls}
    if begun.get(wave, _is_published(entries, tested.values())):
        return ()
    return tuple(tested)


def history_of(entries: Sequence[Entry], plan: Plan) -> WaveHistory:
    """Return the order of waves and release that decides which waves are looks of a plan."""
    public = (e for e in entries if e.kind == "release" and e.record.arm == Arm.PUBLIC)
    released, waves = next(public, None), begun_waves(entries)
    return WaveHistory(
        None if released is None else date.fromisoformat(released.time[:10]),
        frozenset(wave.wave for wave in waves if not wave.published),
        frozenset(
            wave.wave for wave in waves if wave.published and not wave.closed and wave.tests(plan)
        ),
    )


def unclosed_waves(entries: Sequence[Entry]) -> tuple[int, ...]:
    """Return the waves that were begun and are not closed."""
    return tuple(wave.wave for wave in begun_waves(entries) if not wave.closed)


def count_stored(study: StudySnapshot) -> tuple[tuple[int, int], ...]:
    """Return each wave that was begun and is not closed, with the number of its episodes that have
    a stored attempt. Needs the study's key."""
    return tuple(
        (number, study.waves[number].cells.marks(study.attempts).count(1))
        for number in unclosed_waves(study.ledger.entries())
    )


def unclosed_words(
    entries: Sequence[Entry], plan: Plan, stored: Sequence[tuple[int, int]]
) -> Iterator[str]:
    """A sentence for each wave that was begun and is not closed; ``stored`` as ``count_stored``
    returns it."""
    waves = {wave.wave: wave for wave in begun_waves(entries)}
    for number, count in stored:
        wave = waves[number]
        if not wave.tests(plan):
            look = "It has control models only and is no look."
        elif not wave.published:
            look = "It was begun before the publication and is no look."
        else:
            look = "Its look is spent."
        yield (
            f"Wave {number} ({', '.join(wave.models)}) was begun on {wave.begun[:10]} and is not "
            f"closed, with {count} episodes stored: none of its results is shown. {look}"
        )


def check_listed(study: StudySnapshot) -> None:
    """Raise BrokenPromise if study.yaml no longer lists a wave that was begun."""
    listed = len(study.protocol.waves)
    for wave in begun_waves(study.ledger.entries()):
        if wave.wave >= listed:
            raise BrokenPromise(
                f"{study.folder / FILE_NAME}: waves: wave {wave.wave} "
                f"({', '.join(wave.models)}) was begun on {wave.begun[:10]} and is not listed: "
                "restore its line; a report leaves out no wave that was begun"
            )


def record_look(
    study: StudySnapshot,
    waves: Iterable[WaveSnapshot],
    command: str,
    now: Callable[[], str] = utc_now,
) -> None:
    """Put a look at some waves into the ledger, before anything of it is shown. The same command
    at the same waves, with the same number of results, is recorded once. Needs the study's key.

    Raises StudyError if no record can be written; then nothing may be shown.
    """
    numbers = ((wave.number, len(wave.cells) - wave.owed) for wave in waves)
    record = Look(command, tuple(sorted((number, count) for number, count in numbers if count)))
    if not record.waves:
        return
    try:
        study.ledger.append_once(record, now())
    except RegistryError as error:
        raise StudyError(
            f"`{command}` joins arms and scores, which the ledger records first, and it takes no "
            f"record: {error}"
        ) from error


def look_words(entries: Sequence[Entry]) -> Iterator[str]:
    """A sentence on the looks in the ledger beside reports, if there are any but calibrations: how
    many, and which were at a wave of the plan before the first report through it."""
    looks = [(entry, entry.record) for entry in entries if entry.kind == "look"]
    tested = {wave.wave for wave in begun_waves(entries) if wave.published}
    reports = [(e.sequence, e.record.through_wave) for e in entries if e.kind == "report"]
    early = [
        f"`{look.command}` at wave {wave} on {entry.time[:10]}"
        for entry, look in looks
        for wave, _ in look.waves
        if wave in tested
        and not any(at < entry.sequence and through >= wave for at, through in reports)
    ]
    if early or any(look.command != CALIBRATE for _, look in looks):
        times = "once" if len(looks) == 1 else f"{len(looks)} times"
        before = (
            f"before the report of that wave: {'; '.join(early)}"
            if early
            else ("never before the report of a wave that was begun after the release")
        )
        yield f"Arms and scores were looked at {times} other than by a report, {before}."


def _is_published(before: Sequence[Entry], runs: Iterable[Sequence[int]]) -> bool:
    """Report whether the public arms of all these tranches had been released before."""
    releases = [entry.record for entry in before if entry.kind == "release"]
    released = {tranche for release in releases for tranche in release.tranches}
    return bool(released) and released.issuperset(chain.from_iterable(runs))


def _tested_tranches(before: Sequence[Entry], manifest: RunManifest) -> Iterator[Sequence[int]]:
    """Yield the tranches that each model under test runs, by the plan registered before."""
    plan = next((entry.record.plan for entry in before if entry.kind == "preregistration"), None)
    controls = control_models(plan) if plan else frozenset()
    runs = manifest.tranches or (PANEL,) * len(manifest.models)
    for pin, tranches in zip(manifest.models, runs, strict=True):
        if pin.name not in controls:
            yield tranches
