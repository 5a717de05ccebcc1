"""The tranches of private seeds that are burned for a model, derived from the ledger, and the rows
of results, joined to them.

A tranche's private seeds are burned for a provider once a run has sent them to a model of it, a
judge of it has read answers to them, or a model of it was probed on them, unless its documented
retention is that nothing is kept; and for everybody from the day on which any of them is declared
to have leaked, or once they are revealed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class Sent:
    """A tranche that was sent to a provider that may keep it; runs after the record ``after`` of
    the ledger are exposed to it."""

    provider: str
    tranche: int
    after: int


def burned_tranches(entries: Sequence[Entry]) -> Burned:
    """Return, by wave and model, the tranches with private seeds that were burned for the model
    when the wave was begun. ``entries`` are the ledger's, oldest first."""
    sent = list(_sent(entries))
    leaks: list[Leak] = [entry.record for entry in entries if entry.kind == "leak"]
    revealed: set[int] = set()
    burned: dict[tuple[int, str], frozenset[int]] = {}
    for entry in entries:
        if entry.kind == "revealed":
            revealed.update(entry.body["tranches"])
        if entry.kind == "run-manifest":
            run: RunManifest = entry.record
            leaked = {leak.tranche for leak in leaks if leak.since <= entry.time[:10]}
            for pin in run.models:
                seen = _seen(sent, pin, entry.sequence)
                burned.setdefault((run.wave, pin.name), seen | leaked | revealed)  # as it was begun
    return burned


def burned_of_wave(study: Study, entries: Sequence[Entry], wave: int) -> dict[str, tuple[int, ...]]:
    """Return the tranches that a model of a wave runs and that are burned for it, for models with
    any: as of the wave's begin, or as of now."""
    begun = burned_tranches(entries)
    sent = list(_sent(entries))
    leaked = {entry.record.tranche for entry in entries if entry.kind == "leak"}
    for entry in entries:
        if entry.kind == "revealed":
            leaked.update(entry.record.tranches)
    by_model = {}
    for pin in study.protocol.wave_models(wave):
        burned = begun.get((wave, pin.name), _seen(sent, pin, len(entries)) | leaked)
        if lost := burned & set(study.protocol.wave_tranches(wave)[pin.name]):
            by_model[pin.name] = tuple(sorted(lost))
    return by_model


def _seen(sent: Sequence[Sent], pin: ModelPin, sequence: int) -> frozenset[int]:
    """Return the tranches sent to a model's provider before a place in the ledger."""
    provider = provider_of(pin)
    return frozenset(s.tranche for s in sent if s.after < sequence and s.provider == provider)


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
            yield Sent(provider_of(pin), tranche, entry.sequence)


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
