"""Verification of what the ledger's records say of each other: each names records before it, each
promise is made once, and times never go back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any

from registry.ledger.chain import Entry
from registry.ledger.draw_records import SealedSet
from registry.ledger.records import (
    ELSEWHERE,
    Graded,
    Regraded,
    Release,
    RunManifest,
    answering_pin,
    pin_digest,
    record_digest,
)
from registry.verify.findings import Findings

# What a study has one record of, by kind: in words, and its subject.
_ONE: dict[str, tuple[str, Callable[[Any], Hashable]]] = {
    "preregistration": ("plan for this draw", lambda record: record.sealed_root),
    "wave-closed": ("closing of this wave", lambda record: record.wave),
    "graded": ("grading of this wave by this judge", lambda r: (r.wave, pin_digest(r.judge))),
    "regraded": (
        "second grading by this judge at this wave",
        lambda r: (r.wave, pin_digest(r.judge)),
    ),
}
# What may stand in a ledger word for word more than once.
_REPEATED = frozenset(("announcement", "run-manifest", "exported", *_ONE))


def check_records(findings: Findings) -> None:
    """Check the records against each other."""
    _check_times(findings)
    _check_repetitions(findings)
    _check_manifests(findings)
    _check_links(findings)


def _check_times(findings: Findings) -> None:
    latest: tuple[datetime, Entry] | None = None
    for entry in findings.entries:
        try:
            time = datetime.fromisoformat(entry.time)
            earlier = latest is not None and time < latest[0]
        except (TypeError, ValueError):
            findings.add(entry.place, f"{entry.time[:40]!r} is not a time")
            continue
        if latest is not None and earlier:
            before = f"{latest[1].place}, which stands before it, {latest[1].time}"
            findings.add(entry.place, f"its time goes back: it is dated {entry.time}, and {before}")
        else:
            latest = time, entry


def _check_repetitions(findings: Findings) -> None:
    seen: dict[Hashable, Entry] = {}
    for entry, record in findings.records:
        if entry.kind in _ONE:
            words, subject = _ONE[entry.kind]
            first = seen.setdefault((entry.kind, subject(record)), entry)
            problem = f"a second {entry.kind}: there is one {words}, {first.place}"
        elif entry.kind not in _REPEATED:
            first = seen.setdefault((entry.kind, record_digest(record)), entry)
            problem = f"a second {entry.kind} with the same content as {first.place}"
        else:
            continue
        if first is not entry:
            findings.add(entry.place, problem)


def _check_manifests(findings: Findings) -> None:
    """Check that manifests of one wave differ in code, environment and what changes no answer
    only, and stand before its closing; and that no two waves share a run's keys."""
    first: dict[int, RunManifest] = {}
    closed: set[int] = set()
    for entry, record in findings.records:
        if entry.kind == "wave-closed":
            closed.add(record.wave)
        if entry.kind != "run-manifest":
            continue
        if record.wave in closed:
            findings.add(entry.place, f"a manifest of wave {record.wave}, which was closed before")
        begun = first.setdefault(record.wave, record)
        again = replace(
            record, provenance=begun.provenance, prices=begun.prices, retention=begun.retention
        )
        if [*map(answering_pin, record.models)] == [*map(answering_pin, begun.models)]:
            again = replace(again, models=begun.models)
        for name in RunManifest.__slots__:
            if getattr(again, name) != getattr(begun, name):
                problem = f"a second manifest of wave {record.wave} with another {name}"
                findings.add(entry.place, problem)
        others = [other.run_recipient for other in first.values() if other is not record]
        if record is begun and record.run_recipient in others:
            findings.add(entry.place, f"wave {record.wave} has the keys of another wave's run")


def _check_links(findings: Findings) -> None:
    """Check that each record names ones that stand in the ledger before it."""
    roots, plans, closed, graded = set[str](), set[str](), set[str](), set[str]()
    calibrations, begun, ended = set[str](), set[int](), set[int]()
    releases: list[Release] = []
    manifests: dict[str, RunManifest] = {}
    drawn: SealedSet | None = None

    def known(entry: Entry, what: str, named: object, there: Collection[Any]) -> None:
        if named not in there:
            findings.add(entry.place, f"{entry.kind}: its {what} {named} is of no record before it")

    for entry, record in findings.records:
        match entry.kind:
            case "sealed-set":
                roots.add(record.root)
                drawn = record
            case "preregistration":
                known(entry, "sealed root", record.sealed_root, roots)
                plans.add(record_digest(record))
            case "run-manifest":
                known(entry, "instances root", record.instances_root, roots)
                known(entry, "plan", record.plan, plans)
                _check_tranches(findings, entry, record.tranches, len(record.models), drawn)
                manifests[record_digest(record)] = record
                begun.add(record.wave)
            case "wave-closed":
                known(entry, "manifest", record.manifest, manifests)
                closed.add(record.manifest)
                ended.add(record.wave)
                manifest = manifests.get(record.manifest)
                if manifest is not None and manifest.wave != record.wave:
                    problem = f"closes wave {record.wave} for a manifest of wave {manifest.wave}"
                    findings.add(entry.place, problem)
                if manifest is not None:
                    promised = manifest.models if manifest.sandbox == ELSEWHERE else ()
                    if [ran.model for ran in record.elsewhere] != [pin.name for pin in promised]:
                        problem = "wave-closed: the models run elsewhere are not its manifest's"
                        findings.add(entry.place, problem)
            case "exported" | "attempts-begun":
                known(entry, "manifest", record.manifest, manifests)
            case "study-files" if not plans:
                findings.add(entry.place, "study-files: no plan was registered before it")
            case "calibrated" | "probed":
                known(entry, "plan", record.plan, plans)
                if entry.kind == "calibrated":
                    calibrations.add(record.result)
            case "graded":
                known(entry, "closed wave's manifest", record.manifest, closed)
                _check_pinned(findings, entry, record, manifests.get(record.manifest))
                graded.add(_grading(record))
            case "regraded":
                known(entry, "first grading", _grading(record), graded)
            case "leak":
                _check_tranches(findings, entry, ((record.tranche,),), 1, drawn)
            case "release":
                known(entry, "instances root", record.instances_root, roots)
                if not plans:
                    findings.add(entry.place, "release: no plan was registered before it")
                _check_release(findings, entry, record, releases)
                releases.append(record)
            case "look":
                for wave, _ in record.waves:
                    known(entry, "wave", wave, begun)
            case "report":
                known(entry, "plan", record.plan, plans)
                known(entry, "last wave", record.through_wave, ended)
                for result in record.calibrations:
                    known(entry, "calibration", result, calibrations)


def _check_tranches(
    findings: Findings,
    entry: Entry,
    tranches: Sequence[Sequence[int]],
    models: int,
    drawn: SealedSet | None,
) -> None:
    """Check that a record names tranches that were drawn, for each model those that it runs."""
    last = 0 if drawn is None else len(drawn.reserve)
    for tranche in sorted(set(chain.from_iterable(tranches))):
        if not 0 <= tranche <= last:
            findings.add(entry.place, f"{entry.kind}: tranche {tranche} was not drawn")
    if tranches and (len(tranches) != models or not all(tranches)):
        findings.add(entry.place, f"{entry.kind}: its tranches are not those of its models")


def _check_release(
    findings: Findings, entry: Entry, record: Release, releases: Sequence[Release]
) -> None:
    """Check that a release is the first of its draw, the same again, or one with more tranches."""
    for before in releases:
        if before.instances_root != record.instances_root:
            continue
        if before.content != record.content and not set(before.tranches) < set(record.tranches):
            problem = "a second release of this draw, of other content and no further tranche"
            findings.add(entry.place, problem)
            return


def _check_pinned(
    findings: Findings, entry: Entry, record: Graded, manifest: RunManifest | None
) -> None:
    named = manifest is not None and pin_digest(record.judge) in map(pin_digest, manifest.judges)
    if manifest is not None and record.pinned != named:
        is_now = "names it" if named else "does not name it"
        promise = f"graded by judge {record.judge.name}: pinned {record.pinned}"
        findings.add(entry.place, f"{promise}, but the wave's manifest {is_now}")


def _grading(record: Graded | Regraded) -> str:
    """Name the judge and the run that it graded."""
    return f"of {record.manifest} by judge {record.judge.name} ({pin_digest(record.judge)})"
