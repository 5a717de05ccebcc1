"""The tranches of private seeds that are burned for a model, derived from the ledger
(spec/statistics.md, B1).

A tranche's private seeds are burned for a provider once a run has sent them to a model of it, a
judge of it has read answers to them, or a model of it was probed on them, unless what is documented
of it says that nothing is kept; and for everybody from the day on which any of them is declared to
have leaked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from harness.build_model import usual_address
from harness.spending import OWN_PROVIDERS
from registry.ledger import Entry, Graded, JudgePin, Leak, ModelPin, Probed, Regraded, RunManifest
from registry.result_row import Arm
from registry.sealing import SealedEntry, commitments_of
from study.errors import StudyError
from study.protocol import MAX_BYTES, read_bounded
from study.workspace import Study

NOTHING_KEPT, UNKNOWN = "none", "unknown"
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
    burned: dict[tuple[int, str], frozenset[int]] = {}
    for entry, run in _runs(entries):
        leaked = {leak.tranche for leak in leaks if leak.since <= entry.time[:10]}
        for pin in run.models:
            seen = _seen(sent, pin, entry.sequence)
            burned.setdefault((run.wave, pin.name), seen | leaked)  # as it was begun
    return burned


def burned_of_wave(study: Study, entries: Sequence[Entry], wave: int) -> dict[str, tuple[int, ...]]:
    """Return the tranches that a model of a wave runs and that are burned for it, for models with
    any: as of the wave's begin, or as of now."""
    begun = burned_tranches(entries)
    sent = list(_sent(entries))
    leaked = {entry.record.tranche for entry in entries if entry.kind == "leak"}
    by_model = {}
    for pin in study.protocol.wave_models(wave):
        burned = begun.get((wave, pin.name), _seen(sent, pin, len(entries)) | leaked)
        if lost := burned & set(study.protocol.wave_tranches(wave)[pin.name]):
            by_model[pin.name] = tuple(sorted(lost))
    return by_model


def _seen(sent: Sequence[Sent], pin: ModelPin, sequence: int) -> frozenset[int]:
    """Return the tranches sent to a model's provider before a place in the ledger."""
    provider = provider_of(pin)
    return frozenset(
        each.tranche for each in sent if each.after < sequence and each.provider == provider
    )


def provider_of(pin: ModelPin | JudgePin) -> str:
    """Return the party that sees a model's requests: the host of its address, or its provider's
    name."""
    stated = dict(pin.settings).get("base_url")
    address = json.loads(stated) if stated else usual_address(pin.provider)
    return urlsplit(address).hostname or pin.provider


def tranches_of(run: RunManifest) -> dict[str, tuple[int, ...]]:
    """Return the tranches that each model of a run was given."""
    given = run.tranches or ((0,),) * len(run.models)
    return {pin.name: tranches for pin, tranches in zip(run.models, given, strict=True)}


def retention_of(run: RunManifest, pin: ModelPin | JudgePin) -> str:
    """Return the retention that a run's manifest documents for a model or judge, or that its kind
    implies."""
    implied = NOTHING_KEPT if pin.provider in OWN_PROVIDERS else UNKNOWN
    return dict(run.retention).get(pin.name, implied)


def _runs(entries: Sequence[Entry]) -> Iterator[tuple[Entry, RunManifest]]:
    for entry in entries:
        if entry.kind == "run-manifest":
            yield entry, entry.record


def _sent(entries: Sequence[Entry]) -> Iterator[Sent]:
    """Yield each tranche sent to a provider that may keep it. A wave that was resumed with another
    documented retention counts by each of its manifests."""
    begun: dict[int, RunManifest] = {}
    for entry in entries:
        if entry.kind == "run-manifest":
            run: RunManifest = entry.record
            begun[run.wave] = run
            tranches = tranches_of(run)
            for pin in run.models:
                if retention_of(run, pin) != NOTHING_KEPT:
                    for tranche in tranches[pin.name]:
                        yield Sent(provider_of(pin), tranche, entry.sequence)
        elif entry.kind in ("graded", "regraded"):
            yield from _read_by_judge(entry, begun)
        elif entry.kind == "probed":
            yield from _sent_by_probes(entry)


def _sent_by_probes(entry: Entry) -> Iterator[Sent]:
    """Yield the tranches of probes: a question or a text reveals its instance."""
    probed: Probed = entry.record
    implied = NOTHING_KEPT if probed.model.provider in OWN_PROVIDERS else UNKNOWN
    if (probed.retention or implied) != NOTHING_KEPT:
        for tranche in probed.tranches or (0,):
            yield Sent(provider_of(probed.model), tranche, entry.sequence)


def _read_by_judge(entry: Entry, begun: Mapping[int, RunManifest]) -> Iterator[Sent]:
    graded: Graded | Regraded = entry.record
    run = begun.get(graded.first if isinstance(graded, Regraded) else graded.wave)
    if run is None:
        return
    if (graded.retention or retention_of(run, graded.judge)) == NOTHING_KEPT:
        return
    for tranche in sorted({each for own in tranches_of(run).values() for each in own}):
        yield Sent(provider_of(graded.judge), tranche, entry.sequence)


def declare_leak(
    study: Study, tranche: int | None, since: str, reason: str, named: Path | None, now: str
) -> tuple[Leak, bool]:
    """Declare in the ledger that private seeds have leaked. Return the record, and whether it is
    new.

    ``named`` is a file of instance ids or seeds known to have leaked, one a line: the record names
    their commitments, which are public, and nothing else. Raises StudyError, which names file and
    line and never the content.
    """
    if not reason.strip() or not reason.isprintable():  # it stays for good, and is public
        raise StudyError("--reason: give it in words, on one line")
    if since > now[:10]:
        raise StudyError(f"--since: {since} is in the future; a day up to {now[:10]} is right")
    sealed = study.sealed_set()
    drawn = range(len(sealed.reserve) + 1)
    entries = [] if named is None else _named(study, named)
    tranches = {entry.tranche for entry in entries}
    if tranche is None and len(tranches) != 1:
        raise StudyError(
            "--tranche: name the tranche that leaked"
            if not tranches
            else f"{named}: names seeds of {len(tranches)} tranches: declare each on its own"
        )
    which = tranches.pop() if tranche is None else tranche
    if which not in drawn:
        raise StudyError(f"--tranche: there is no tranche {which}; 0 to {drawn[-1]} were drawn")
    if tranches - {which}:
        raise StudyError(f"{named}: names seeds of other tranches than {which}")
    record = Leak(which, since, reason, tuple(sorted(commitments_of(entries))))
    _, fresh = study.ledger.append_unless(
        record, now, lambda entry: entry.kind == "leak" and entry.record == record
    )
    return record, fresh


def _named(study: Study, path: Path) -> list[SealedEntry]:
    """Return the private entries that a file names."""
    try:
        lines = read_bounded(path, MAX_BYTES, "such a list").decode().splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        raise StudyError(f"{path}: no readable text file") from None
    private = [entry for entry in study.entries() if entry.arm is Arm.PRIVATE]
    by_name: dict[str, SealedEntry] = {}
    for entry in private:
        by_name[entry.instance] = by_name[entry.seed] = entry
    named: dict[str, SealedEntry] = {}
    for number, line in enumerate(lines, start=1):
        if name := line.strip():
            if name not in by_name:
                raise StudyError(f"{path}:{number}: no instance id or seed of the private arm")
            named[by_name[name].instance] = by_name[name]
    return list(named.values())
