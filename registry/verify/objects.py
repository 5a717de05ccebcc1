"""Verification of the objects: the store's names beside the lines of all inventories.

Of an attempt, a paid reply or a result that no inventory lists, a wave that is not closed yet may
know. If its episode is of a closed wave, or no wave is open, it was put there afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from registry.canonical import digest_bytes
from registry.checkpoints.checkpoint import CHECKPOINTS
from registry.errors import BrokenPromise, MissingKey
from registry.ledger.chain import COPY, LEDGER, Entry
from registry.ledger.inventory import (
    CALIBRATIONS,
    CHECKS,
    PARTS,
    RUN_FOLDERS,
    InventoryTrees,
    grades_folder,
    head_key,
    read_inventory,
)
from registry.ledger.records import (
    FILES,
    CalibrationMade,
    Graded,
    JudgeChecked,
    Probed,
    Regraded,
    WaveClosed,
    pin_digest,
)
from registry.sealing import decrypt
from registry.verify.findings import Derived, Findings, Progress

_PROMISING = {
    "wave-closed": "closed waves",
    "graded": "waves graded by judges",
    "regraded": "waves graded again by judges",
    "judge-checked": "checks of judges",
    "calibrated": "calibrations",
    "probed": "models probed",
}
_NAMED_BY_DIGEST = (PARTS, CHECKS, CALIBRATIONS, CHECKPOINTS, FILES)
# Of these folders no record names the objects.
_UNNAMED = {
    "tables": "parts of tables",
    "drawn": "lists of drawn instances without arms",
    "epochs": "epochs of sweeps",
    "begun": "pages of lists of begun attempts",
    "stamps": "time-stamps",
    "foreign": "foreign objects that were set aside",
}
_OPEN = "open objects (no record names them yet)"
_SEALED = re.compile(r"sealed/[0-9a-f]{64}\.age")
# Encrypted without a signature: a digest or a key in the ledger, or an HMAC, stands for it; or it
# is a sweep's sign of life, which is no evidence.
_UNSIGNED = re.compile(r"sealed/.*|files/.*|tables/.*|epochs/.*|runs/[0-9a-f]{64}/key\.age")
_REMOVED = "missing: it was removed from the store"
_FOREIGN = "foreign/"
_ATTEMPT = re.compile(r"attempts/[0-9a-f]{2}/[0-9a-f]{64}-([0-9]{4})\.cell")


def check_objects(findings: Findings, progress: Progress | None) -> None:
    """Walk the store's names beside the inventories' lines, both in key order. Raises
    StoreError."""
    promises = []
    for kind, name in _PROMISING.items():
        records = findings.of(kind)
        if records or kind == "wave-closed":
            findings.counts[name] = len(records)
        promises += [_Promise.of(*pair) for pair in records if pair[1].objects_root]
    expected = sum(promise.record.objects for promise in promises)
    stored = ((key, "") for key in findings.store.list())
    lines = (_inventory_lines(findings, promise) for promise in promises)
    checked_elsewhere = {head_key(promise.record.objects_root) for promise in promises}
    named = chain(findings.of("sealed-set"), findings.of("revealed"))
    checked_elsewhere.update(record.uri for _, record in named)
    episodes = _Episodes(findings, has_open_waves=_has_open_waves(findings))
    for done, (key, group) in enumerate(groupby(merge(stored, *lines), key=itemgetter(0)), 1):
        digests = {digest for _, digest in group}
        episodes.add(key, digests)
        if "" not in digests:
            findings.add(key, _REMOVED)
        elif not key.startswith((LEDGER, COPY)) and key not in checked_elsewhere:
            _check_object(findings, key, digests - {""})
        if progress:
            progress(done, max(done, expected))
    episodes.end()
    for _, record in findings.of("study-files"):
        if not findings.store.exists(record.key):
            findings.add(record.key, _REMOVED)
    whole = [promise for promise in promises if not promise.broken]
    for promise in whole:
        for problem in _broken_inventory(promise, whole):
            findings.add(promise.place, problem)


def check_derived(findings: Findings, derive: Derived) -> None:
    """Check the objects that holders of the key have derived from closed waves' results."""
    known = {place for place, _ in findings.problems}
    for _, record in findings.of("wave-closed") if findings.identities is not None else ():
        for key, problem in derive(record):
            findings.counts["parts of tables derived again"] += 1
            if problem and key not in known:
                findings.add(key, problem)


def _has_open_waves(findings: Findings) -> bool:
    begun = {record.wave for _, record in findings.of("run-manifest")}
    return bool(begun - {r.wave for _, r in findings.of("wave-closed") if r.objects_root})


@dataclass(slots=True)
class _Episodes:
    """Accounts for the attempts, paid replies and results of each episode, which come in key
    order: memory holds the names of one episode in one folder."""

    findings: Findings
    has_open_waves: bool
    stem: str = ""  # folder and episode
    promised: bool = False
    unlisted: list[str] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)

    def add(self, key: str, digests: set[str]) -> None:
        """Add an object; ``digests`` has "" if it is stored, and those that inventories give."""
        if not key.startswith(RUN_FOLDERS):
            return
        if (stem := key[: key.rfind("/") + 65]) != self.stem:
            self.end()
            self.stem = stem
        if digests - {""}:
            self.promised = True
        else:
            self.unlisted.append(key)
        if found := _ATTEMPT.fullmatch(key):
            self.attempts.append(int(found[1]))

    def end(self) -> None:
        """Report what is wrong with the episode that was added last."""
        if self.promised or not self.has_open_waves:
            for key in self.unlisted:
                self.findings.add(key, "an extra object: no inventory of a closed wave lists it")
        for before, number in zip([0, *self.attempts], self.attempts, strict=False):
            if number > before + 1:
                lost = f"attempt {before + 1} of this episode is not stored"
                self.findings.add(f"{self.stem}-{number:04d}.cell", f"{lost}, and this one is")
        self.promised, self.unlisted, self.attempts = False, [], []


def _inventory_lines(findings: Findings, promise: _Promise) -> Iterator[tuple[str, str]]:
    """Key and digest of each object; an inventory that breaks off is a problem."""
    try:
        for key, digest in read_inventory(findings.store, promise.record.objects_root):
            promise.trees.add(key, digest)
            yield key, digest
    except (MissingKey, BrokenPromise) as error:
        promise.broken = True
        findings.add(promise.place, str(error))


def _check_object(findings: Findings, key: str, promised: set[str]) -> None:
    """Check one object of the store; ``promised`` are the digests that inventories give it."""
    if _SEALED.fullmatch(key) or key.startswith(_NAMED_BY_DIGEST):
        promised.add("sha256:" + key.rpartition("/")[2].partition(".")[0])
    data = findings.store.get(key)
    actual = digest_bytes(data)
    unnamed = _UNNAMED.get(key.partition("/")[0], _OPEN)
    findings.counts["objects" if promised else unnamed] += 1
    for digest in promised - {actual}:
        findings.add(key, f"was altered: digest {digest} expected, {actual} found")
    sealed = key.endswith((".age", ".cell")) and not key.startswith(_FOREIGN)
    if findings.identities is not None and sealed and promised <= {actual}:
        findings.check(key, partial(_open, findings, key, data))


def _open(findings: Findings, key: str, data: bytes) -> None:
    """Open a sealed object. Raises RegistryError."""
    if _UNSIGNED.fullmatch(key):
        decrypt(data, findings.keys.identities, key)
    else:
        findings.keys.open(key, data)
        findings.counts["authors of objects"] += 1
    findings.counts["ciphertexts opened"] += 1


@dataclass(slots=True)
class _Promise:
    """A record that promises objects, and the roots of its inventory as far as it was read."""

    place: str
    record: WaveClosed | Graded | Regraded | JudgeChecked | CalibrationMade | Probed
    trees: InventoryTrees
    broken: bool = False

    @classmethod
    def of(cls, entry: Entry, record: Any) -> _Promise:
        match record:
            case WaveClosed() | CalibrationMade():
                trees = InventoryTrees()
            case Probed():
                trees = InventoryTrees(model=pin_digest(record.model).removeprefix("sha256:"))
            case _:
                look = record.wave if isinstance(record, Regraded) else None
                trees = InventoryTrees(grades_folder(pin_digest(record.judge), look))
        return cls(entry.place, record, trees)


def _broken_inventory(promise: _Promise, every: Sequence[_Promise]) -> Iterator[str]:
    """Report where the inventory, read to its end, is not the one that the ledger promises."""
    inventory, record = promise.trees.inventory(), promise.record
    pairs: list[tuple[str, object, object]] = [
        ("objects root", record.objects_root, inventory.objects_root),
        ("objects", record.objects, inventory.objects),
    ]
    match record:
        case WaveClosed():
            name = f"wave {record.wave}"
            pairs += [
                ("results root", record.results_root, inventory.results_root),
                ("results", record.owed, inventory.results),
                ("cells", record.owed, record.finished + record.missing),
            ]
        case Graded() | Regraded():
            name = f"wave {record.wave} by judge {record.judge.name}"
            share = 1.0
            if isinstance(record, Regraded):
                share = record.share
                name = (
                    f"wave {record.first} by judge {record.judge.name} again at wave {record.wave}"
                )
            pairs.append(("grades", record.graded, promise.trees.graded))
            pairs += [
                ("graded episodes", other.trees.episodes, promise.trees.episodes)
                for other in every
                if isinstance(other.record, WaveClosed)
                and other.record.manifest == record.manifest
                and share == 1
            ]
        case Probed():
            name = f"wave {record.wave}, {record.what} put to {record.model.name}"
            pairs.append(("probes", record.probes, promise.trees.graded))
        case JudgeChecked() | CalibrationMade():
            folder, name = CALIBRATIONS, "calibration"
            if isinstance(record, JudgeChecked):
                folder, name = CHECKS, f"check of judge {record.judge.name}"
            key = f"{folder}{record.result.removeprefix('sha256:')}.json"
            pairs.append(("the name of its result", key, record.uri))
    for what, expected, is_now in pairs:
        if expected != is_now:
            yield f"{name}: {what} {expected}, {is_now} found"
