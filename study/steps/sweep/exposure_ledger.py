"""The tranches of private seeds that are burned for a model, derived from the ledger, and the rows
of results, joined to them.

A tranche's private seeds are burned for a provider once a run has sent them to a model of it, a
judge of it has read answers to them, or a model of it was probed on them, unless its documented
retention is that nothing is kept; and for everybody from the day on which any of them is declared
to have leaked, or once they are revealed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from urllib.parse import urlsplit

from harness.build_model import endpoint_of
from harness.episodes.result import rows_of
from harness.spending.prices import OWN_PROVIDERS
from registry.errors import BrokenPromise
from registry.ledger.chain import Entry
from registry.ledger.records import Graded, JudgePin, Leak, ModelPin, Probed, Regraded, RunManifest
from registry.result_row import Arm, ResultRow
from registry.sealing import DrawnInstance
from study.errors import StudyError
from study.workspace.snapshot import StudySnapshot, WaveSnapshot
from study.workspace.study import Study

NOTHING_KEPT = "none"
Burned = Mapping[tuple[int, str], frozenset[int]]


Sent = tuple[str, int, int]  # to a provider that may keep it: a tranche, by a record's sequence


def burned_tranches(entries: Sequence[Entry]) -> Burned:
    """Return, by wave and model, the tranches with private seeds that were burned for the model
    when the wave was begun. ``entries`` are the ledger's, oldest first."""
    sent, burned = list(_sent(entries)), dict[tuple[int, str], frozenset[int]]()
    for entry in entries:
        if entry.kind == "run-manifest":
            run: RunManifest = entry.record
            for pin in run.models:
                lost = _lost(entries, sent, pin, entry.sequence, entry.time[:10])
                burned.setdefault((run.wave, pin.name), lost)  # as it was begun
    return burned


def burned_of_wave(study: Study, entries: Sequence[Entry], wave: int) -> dict[str, tuple[int, ...]]:
    """Return the tranches that a model of a wave runs and that are burned for it, for models with
    any: as of the wave's begin, or as of now."""
    begun = burned_tranches(entries)
    sent, by_model = list(_sent(entries)), {}
    for pin in study.protocol.wave_models(wave):
        now = _lost(entries, sent, pin, len(entries))
        burned = begun.get((wave, pin.name), now)
        if lost := burned & set(study.protocol.wave_tranches(wave)[pin.name]):
            by_model[pin.name] = tuple(sorted(lost))
    return by_model


def _lost(
    entries: Sequence[Entry], sent: Sequence[Sent], pin: ModelPin, before: int, day: str = "9999"
) -> frozenset[int]:
    """Return the tranches that are burned for a model before a place in the ledger, with leaks up
    to a day."""
    provider = provider_of(pin)
    seen = {tranche for to, tranche, after in sent if to == provider and after < before}
    leaked = {e.record.tranche for e in entries if e.kind == "leak" and e.record.since <= day}
    shown = (e.body["tranches"] for e in entries[:before] if e.kind == "revealed")
    return frozenset(seen.union(leaked, *shown))


def provider_of(pin: ModelPin | JudgePin) -> str:
    """Return the party that sees a model's requests: the host of its address, or its provider's
    name."""
    address, _ = endpoint_of(pin)
    return urlsplit(address).hostname or pin.provider


def keeps_nothing(pin: ModelPin | JudgePin, retention: str) -> bool:
    """Report whether the provider of a model or judge keeps nothing that it is sent, by its
    documented ``retention``, or by its kind if that is ""."""
    return retention == NOTHING_KEPT if retention else pin.provider in OWN_PROVIDERS


def _sent(entries: Sequence[Entry]) -> Iterator[Sent]:
    """Yield each tranche sent to a provider that may keep it. A wave that was resumed with another
    documented retention counts by each of its manifests."""
    begun: dict[int, RunManifest] = {}
    for entry in entries:
        if entry.kind == "run-manifest":
            run: RunManifest = entry.record
            begun[run.wave] = run
            tranches, documented = run.tranches_by_model, dict(run.retention)
            for pin in run.models:
                yield from _kept(entry, pin, documented.get(pin.name, ""), tranches[pin.name])
        elif entry.kind in ("graded", "regraded"):
            graded: Graded | Regraded = entry.record
            graded_wave = graded.first if isinstance(graded, Regraded) else graded.wave
            if (read := begun.get(graded_wave)) is not None:
                judge = graded.judge
                retention = graded.retention or dict(read.retention).get(judge.name, "")
                answered = sorted(set(chain.from_iterable(read.tranches_by_model.values())))
                yield from _kept(entry, judge, retention, answered)
        elif entry.kind == "probed":  # a question or a text reveals its instance
            probed: Probed = entry.record
            yield from _kept(entry, probed.model, probed.retention, probed.tranches or (0,))


def _kept(
    entry: Entry, pin: ModelPin | JudgePin, retention: str, tranches: Iterable[int]
) -> Iterator[Sent]:
    """Yield the tranches of a record that the provider of a model or judge may keep."""
    if not keeps_nothing(pin, retention):
        for tranche in tranches:
            yield provider_of(pin), tranche, entry.sequence


def exact_rows(study: StudySnapshot, waves: Iterable[WaveSnapshot]) -> Iterator[ResultRow]:
    """Yield the exact grader's rows of some waves, joined to arms, tranches and burned seeds; none
    of strata that a judge scores. Needs the study's key. Raises BrokenPromise for a result of no
    instance of the draw."""
    entries = {entry.instance: entry for entry in study.entries()}
    burned = burned_tranches(study.ledger.entries())
    for wave in waves:
        for result in wave.results.values():
            if (entry := entries.get(result.instance)) is None:
                raise BrokenPromise(f"wave {wave.number}: a result is of no instance of the draw")
            if result.stratum not in study.protocol.judged:
                yield from (join_draw(row, entry, burned) for row in rows_of(result, entry.arm))


def join_draw(row: ResultRow, entry: DrawnInstance, burned: Burned) -> ResultRow:
    """Return the row with the tranche of its instance, and whether that is burned for its model."""
    lost = entry.arm is Arm.PRIVATE and entry.tranche in burned.get((row.wave, row.model), ())
    return replace(row, tranche=entry.tranche, burned=int(lost)) if entry.tranche or lost else row


def declare_leak(
    study: Study, tranche: int, since: str, reason: str, now: str
) -> tuple[Leak, bool]:
    """Declare in the ledger that private seeds of a tranche have leaked. Return the record, and
    whether it is new. Raises StudyError."""
    if not reason.strip() or not reason.isprintable():  # it stays for good, and is public
        raise StudyError("--reason: give it in words, on one line")
    if since > now[:10]:
        raise StudyError(f"--since: {since} is in the future; a day up to {now[:10]} is right")
    last = len(study.sealed_set().reserve)
    if tranche > last:
        raise StudyError(f"--tranche: there is no tranche {tranche}; 0 to {last} were drawn")
    record = Leak(tranche, since, reason)
    return record, study.ledger.append_once(record, now)[1]
