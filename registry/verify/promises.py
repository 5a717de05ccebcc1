"""What a study promises, and how far others can check that it holds.

An owner who can choose before anything is recorded needs no tampering: the arms after trying many
allotments, the plan after seeing data, attempts from several copies of a run. Time-stamps that
others sign at the moment show that nothing was chosen later than that."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.checkpoints.timestamp import Authorities, Stamp, first_stamp, read_stamps
from registry.draws.beacon import round_time
from registry.errors import BrokenPromise, MissingKey
from registry.ledger.begun import Step, begun_folder, find_heads, read_list
from registry.ledger.chain import Entry
from registry.ledger.inventory import read_inventory
from registry.ledger.records import ListHead, WaveClosed
from registry.stores.base import Store
from registry.verify.findings import Findings, Promise, Standing, promise_of

SHOWN = "Time-stamps show others that"
_LATE_SECONDS = 1200.0  # from a step of an attempt to the stamp of its list
_AHEAD_SECONDS = 60.0  # by which a worker's clock may be ahead of the authority's
_MOST_REPEATED = 0.05  # of the episodes of a model in an arm: fewer move no verdict
_ATTEMPT = re.compile(r"attempts/[0-9a-f]{2}/([0-9a-f]{64})-([0-9]{4})\.cell")
_ARMS = "the arms could have been chosen by the owner"
_PLAN, _ATTEMPTS = "the plan may be younger than the data", "attempts could have been chosen"


def selection_promises(findings: Findings, stamps: Sequence[Stamp]) -> tuple[Promise, ...]:
    """Return the promises that an owner could break by choosing, with no key. Adds to the findings
    what does not hold of the lists of begun attempts. Raises StoreError."""
    return (
        _allotted(findings, stamps),
        _planned(findings, stamps),
        _attempted(findings, stamps),
        Promise(
            "this is the owner's only study, and its only draw",
            Standing.UNSHOWN,
            "an owner can make several and publish one: ask where this one was announced",
        ),
    )


def selection_words(
    store: Store, entries: Sequence[Entry], authorities: Authorities | None = None
) -> str:
    """Return a sentence on what an owner could have chosen, by a ledger that holds, its time-stamps
    and the lists of begun attempts. Raises StoreError, BrokenPromise for a record of another
    form."""
    findings = Findings(store, None, entries, [(entry, entry.record) for entry in entries])
    known = authorities or Authorities.known()
    stamps = read_stamps(store, entries, known, lambda doubt: None)
    promises = selection_promises(findings, stamps)[:3]
    doubts = [p.reason.partition(":")[0] for p in promises if p.standing is Standing.UNSHOWN]
    doubts += [f"{p.promise}: {p.reason}" for p in promises if p.standing is Standing.BROKEN]
    if doubts:
        return f"By what others can check, {'; '.join(doubts)}."
    numbers = f"{stamps[0].serial:x} to {stamps[-1].serial:x}, of {stamps[-1].authority}"
    shown = f"{SHOWN} {', that '.join(p.promise for p in promises)}"
    return f"{shown} ({len(stamps)} of them, number {numbers})."


def _allotted(findings: Findings, stamps: Sequence[Stamp]) -> Promise:
    promise = "the arms were allotted by chance"
    announced = findings.of("announcement")
    holds, unshown = "", [f"{_ARMS}: no draw is announced"]
    if announced:
        entry, record = announced[-1]
        stamp = first_stamp(stamps, entry.sequence)
        if record.beacon is None:
            unshown = [f"{_ARMS}: a secret of theirs allotted them, not a public beacon"]
        elif stamp is None or _time(stamp.time) >= round_time(record.beacon):
            unshown = [f"{_ARMS}: no time-stamp of the announcement before the beacon's"]
            unshown[0] += f" round {record.beacon.round}"
        else:
            due = round_time(record.beacon)
            holds, unshown = f"announced before {stamp.time}, drand round of {due:%F %T} UTC", []
            holds += "; others announced for that round are seen only where they are published"
        if len(announced) > 1:
            unshown.append(f"drawn {len(announced)} times, for the reasons in the ledger")
    return promise_of(promise, holds, unshown, _problems(findings, "announcement", "sealed-set"))


def _planned(findings: Findings, stamps: Sequence[Stamp]) -> Promise:
    promise = "the plan came before the data"
    plans, waves = findings.of("preregistration"), findings.of("run-manifest")
    holds, unshown = "", [f"{_PLAN}: no plan is registered"]
    if plans:
        begun = waves[0][0].sequence if waves else None
        stamp = first_stamp(stamps, plans[0][0].sequence, begun)
        later = stamp if begun is None else first_stamp(stamps, begun)
        if stamp is None or later is None or later.time < stamp.time:
            unshown = [f"{_PLAN}: no time-stamps of the plan and then of the first wave"]
        else:
            holds, unshown = f"registered before {stamp.time}", []
    return promise_of(promise, holds, unshown, _problems(findings, "preregistration"))


def _attempted(findings: Findings, stamps: Sequence[Stamp]) -> Promise:
    promise = "no attempt was thrown away"
    doubts, problems, counts = defaultdict[str, list[int]](list), list[str](), Counter[str]()
    closed = findings.of("wave-closed")
    begun = {record.wave for _, record in findings.of("run-manifest")}
    for wave in sorted(begun - {record.wave for _, record in closed}):
        doubts["begun and not closed"].append(wave)
    scoring = [record.plan.scorer for _, record in findings.of("preregistration")]
    for _, record in findings.of("graded") if any(scoring) else ():
        doubts["a judge's replies stand in no list"].append(record.wave)
    for _, record in closed:
        wave = record.wave
        if record.elsewhere:
            doubts["run elsewhere"].append(wave)
        elif not record.heads or not record.objects_root:
            doubts["no list of those begun"].append(wave)
        else:
            try:
                manifest = findings.manifests[record.manifest]
                found = _Attempts.read(findings, record, manifest.run_recipient, stamps)
                group = record.owed / 2 / len(manifest.models)
            except MissingKey:  # it may lie in the outbox of a machine that was lost
                doubts["a page of its lists is missing"].append(wave)
                continue
            except (BrokenPromise, KeyError, ValueError) as error:
                problems.append(f"wave {wave}: {error}")
                continue
            counts.update(attempts=len(found.stored), again=found.again)
            problems += [f"wave {wave}: {text}" for text in found.problems()]
            for text in found.doubts(group):
                doubts[text].append(wave)
    for problem in problems:
        findings.add("begun/", problem)
    unshown = [f"{text} (wave {', '.join(map(str, n))})" for text, n in doubts.items()]
    if not closed:
        unshown.append("no wave is closed yet")
    holds = f"{counts['attempts']} were begun in time-stamped lists"
    again = f"{counts['again']} failed or were begun more than once"
    words = [f"{_ATTEMPTS}: {', '.join(unshown)}"] if unshown else []
    return promise_of(promise, f"{holds}; {again}", words, problems)


@dataclass(frozen=True, slots=True)
class _Attempts:
    """The attempts of a closed wave, and what its lists say of them."""

    stored: dict[tuple[str, int], str]  # digests of 64 digits, by episode and number
    results: frozenset[str]  # episodes that have one
    begun: Counter[tuple[str, int]]
    ended: dict[tuple[str, int], list[str]]  # digests
    unnamed: int  # lists that the wave's closing does not name
    waits: tuple[float, float]  # seconds from a step to its stamp, least and most; infinite if none

    @classmethod
    def read(
        cls, findings: Findings, closed: WaveClosed, recipient: str, stamps: Sequence[Stamp]
    ) -> _Attempts:
        """Read the lists of a wave, and compare them with what was recorded of them before it was
        closed. Raises BrokenPromise, MissingKey, StoreError."""
        folder, last = begun_folder(recipient), {head.worker: head for head in closed.heads}
        marks = [
            (first_stamp(stamps, at.sequence), record.heads)
            for at, record in findings.records
            if at.kind in ("attempts-begun", "wave-closed") and record.wave == closed.wave
        ]
        known = defaultdict[str, list[tuple[Stamp | None, ListHead]]](list)
        for stamp, heads in marks:
            for head in heads:
                known[head.worker].append((stamp, head))
        begun, ended = Counter[tuple[str, int]](), defaultdict[Any, list[str]](list)
        waits = [0.0]
        for worker, recorded in known.items():
            pages = [*read_list(findings.store, folder, last.get(worker, recorded[-1][1]))]
            for _, then in recorded:
                if then.pages > len(pages) or pages[then.pages - 1][0] != then.digest:
                    raise BrokenPromise(f"{folder}{worker}: not the list recorded before")
            if worker not in last:
                raise BrokenPromise(f"{folder}{worker}: recorded before, and left out at the close")
            own = set[tuple[str, int]]()
            for number, (_, steps) in enumerate(pages):
                stamp = next(stamp for stamp, then in recorded if then.pages > number)
                waits += [_seconds(step, stamp) for step in steps]
                for step in steps:
                    place = step.episode, step.attempt
                    if not step.digest:
                        own.add(place)
                        begun[place] += 1
                    elif place in own:  # an end before its beginning is none
                        ended[place].append(step.digest)
        unnamed = sum(head.worker not in last for head in find_heads(findings.store, folder))
        objects = [*read_inventory(findings.store, closed.objects_root)]
        attempts = ((_ATTEMPT.fullmatch(key), digest) for key, digest in objects)
        stored = {(a[1], int(a[2])): digest[-64:] for a, digest in attempts if a}
        results = frozenset(key[-69:-5] for key, _ in objects if key.startswith("results/"))
        return cls(stored, results, begun, ended, unnamed, (min(waits), max(waits)))

    @property
    def again(self) -> int:
        """The beginnings, or ends, beyond one of each episode."""
        ends = sum(map(len, self.ended.values()))
        return max(self.begun.total(), ends) - len({episode for episode, _ in self.stored})

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the stored attempts."""
        if extra := sum(place not in self.begun for place in self.stored):
            yield f"{extra} stored attempts were never begun by a list"
        if other := sum(digest not in self.ended[place] for place, digest in self.stored.items()):
            yield f"{other} stored attempts are not those that ended by a list"
        if bare := len(self.results - {episode for episode, _ in self.stored}):
            yield f"{bare} results have no attempt"

    def doubts(self, group: float) -> Iterator[str]:
        """Yield why attempts could have been chosen all the same. ``group`` is the mean number of
        episodes of a model in an arm."""
        soonest, latest = self.waits
        if math.isinf(latest):
            yield "its lists have no time-stamp"
        elif latest > _LATE_SECONDS:
            yield f"a step of an attempt was stamped {latest / 60:.0f} minutes later"
        if soonest < -_AHEAD_SECONDS:
            yield "a step of an attempt is dated after its time-stamp"
        if self.unnamed:
            yield f"{self.unnamed} lists that its closing does not name"
        if self.again > _MOST_REPEATED * group:
            yield f"{self.again} failed or were begun more than once, of {self.begun.total()}"


def _seconds(step: Step, stamp: Stamp | None) -> float:
    """The seconds from a step to its stamp."""
    if stamp is None:
        return math.inf
    return (_time(stamp.time) - _time(step.time)).total_seconds()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _problems(findings: Findings, *kinds: str) -> list[str]:
    places = {entry.place for entry, _ in findings.records if entry.kind in kinds}
    return [f"{place}: {problem}" for place, problem in findings.problems if place in places]
