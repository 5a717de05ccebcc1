"""Verification: every promise of a study recomputed from what its store holds.

Without a key: the ledger's chain and the form of its records, the commitments' root, the digest
of the sealed set, and of every object of a closed wave against its inventory and the roots in
the ledger. With the study's key also: that the sealed set opens to what was committed to, that
its arms follow from the allocation seed, and that every ciphertext can be opened. age does not
show who encrypted: what no record names yet ("open") is only known to be whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any

from registry.canonical import digest_bytes
from registry.draw import allocate, sealed_key
from registry.errors import BrokenPromise, MissingKey, RegistryError, StoreError
from registry.ledger import (
    CALIBRATIONS,
    CHECKS,
    GENESIS,
    PARTS,
    CalibrationMade,
    Entry,
    Graded,
    InventoryTrees,
    JudgeChecked,
    Leak,
    Probed,
    Regraded,
    RunManifest,
    SealedSet,
    WaveClosed,
    grades_folder,
    head_key,
    inspect_chain,
    read_inventory,
    record_digest,
)
from registry.result_row import Arm
from registry.sealing import (
    SealedEntry,
    commitments_of,
    commitments_root,
    decrypt,
    open_entries,
    recipient_of,
)
from registry.stores import Store

Progress = Callable[[int, int], None]  # objects checked, and of how many (0 if not known)

_LEDGER = "ledger/"
_KEPT = 1000  # problems that are listed one by one
_PROMISING = {
    "wave-closed": "closed waves",
    "graded": "waves graded by judges",
    "regraded": "waves graded again by judges",
    "judge-checked": "checks of judges",
    "calibrated": "calibrations",
    "probed": "models probed",
}
_SEALED = re.compile(r"sealed/[0-9a-f]{64}\.age")


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked, what is broken, what could not be checked and why."""

    head: str  # digest of the ledger's newest record
    counts: tuple[tuple[str, int], ...]
    problems: tuple[tuple[str, str], ...]  # place, what is wrong there
    unchecked: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the items meet the check."""
        return not self.problems


def verify_study(
    store: Store,
    identities: Sequence[str] | None = None,
    expected_head: str | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Check all that the store holds, reading each object once, one in memory at a time.

    ``identities`` are the study's; ``expected_head`` is a head of the ledger that was noted
    elsewhere. What is broken is listed and does not stop the rest. Raises StoreError where the
    store itself cannot be read, RegistryError for a malformed identity.
    """
    findings = _Findings()
    entries, broken = inspect_chain(store, _LEDGER, expected_head)
    for place, problem in broken:
        findings.add(place, problem)
    findings.counts["ledger records"] = len(entries)
    records = tuple(_records(entries, findings))
    _check_identities(records, identities)
    _check_links(records, findings)
    _check_sealed_sets(store, records, identities, findings)
    _check_objects(store, records, identities, findings, progress)
    _note_unchecked(records, identities, expected_head, findings)
    head = entries[-1].digest if entries else GENESIS
    return Verification(
        head, tuple(findings.counts.items()), findings.listed(), tuple(findings.unchecked)
    )


@dataclass(slots=True)
class _Findings:
    """What has come to light so far."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[tuple[str, str]] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    unlisted: int = 0

    def add(self, place: str, problem: str) -> None:
        if len(self.problems) < _KEPT:
            self.problems.append((place, problem.removeprefix(f"{place}: ")))
        else:
            self.unlisted += 1

    def listed(self) -> tuple[tuple[str, str], ...]:
        more = [("and more", f"{self.unlisted} other problems")] if self.unlisted else []
        return (*self.problems, *more)


def _records(entries: Sequence[Entry], findings: _Findings) -> Iterator[tuple[Entry, Any]]:
    for entry in entries:
        try:
            yield entry, entry.record
        except BrokenPromise as error:
            findings.add(entry.place, str(error))


_Records = Sequence[tuple[Entry, Any]]


def _of(records: _Records, kind: str) -> list[tuple[Entry, Any]]:
    return [(entry, record) for entry, record in records if entry.kind == kind]


def _check_identities(records: _Records, identities: Sequence[str] | None) -> None:
    """One error for a wrong key, instead of one for each object."""
    if identities is None:
        return
    given = {recipient_of(identity) for identity in identities}
    for _, record in _of(records, "sealed-set"):
        if given.isdisjoint(record.recipients):
            raise RegistryError(
                f"{record.uri}: sealed to {', '.join(record.recipients)}; the key given is of"
                f" {', '.join(sorted(given)) or 'nobody'}: use the study's key file"
            )


def _check_links(records: _Records, findings: _Findings) -> None:
    """That each record names ones that stand in the ledger before it."""
    roots: set[str] = set()
    plans: set[str] = set()
    manifests: dict[str, RunManifest] = {}
    closed: set[str] = set()
    drawn: SealedSet | None = None
    graded: set[str] = set()
    for entry, record in records:
        if entry.kind == "sealed-set":
            roots.add(record.root)
            drawn = record
        elif entry.kind == "preregistration":
            _check_known(entry, "sealed root", record.sealed_root, roots, findings)
            plans.add(record_digest(record))
        elif entry.kind == "run-manifest":
            _check_known(entry, "instances root", record.instances_root, roots, findings)
            _check_known(entry, "plan", record.plan, plans, findings)
            _check_tranches(entry, record.tranches, len(record.models), drawn, findings)
            manifests[record_digest(record)] = record
        elif entry.kind == "wave-closed":
            _check_known(entry, "manifest", record.manifest, manifests, findings)
            closed.add(record.manifest)
        elif entry.kind == "calibrated":
            _check_known(entry, "plan", record.plan, plans, findings)
        elif entry.kind == "graded":
            _check_known(entry, "closed wave's manifest", record.manifest, closed, findings)
            _check_pinned(entry, record, manifests.get(record.manifest), findings)
            graded.add(_grading(record))
        elif entry.kind == "regraded":
            _check_known(entry, "first grading", _grading(record), graded, findings)
        elif entry.kind == "probed":
            _check_known(entry, "plan", record.plan, plans, findings)
        elif entry.kind == "leak":
            _check_tranches(entry, ((record.tranche,),), 1, drawn, findings)
            _check_leak(entry, record, drawn, findings)


def _check_tranches(
    entry: Entry,
    tranches: Sequence[Sequence[int]],
    models: int,
    drawn: SealedSet | None,
    findings: _Findings,
) -> None:
    """That a record names tranches that were drawn, for each model those that it runs."""
    last = 0 if drawn is None else len(drawn.reserve)
    for tranche in sorted({number for model_tranches in tranches for number in model_tranches}):
        if not 0 <= tranche <= last:
            findings.add(entry.place, f"{entry.kind}: tranche {tranche} was not drawn")
    if tranches and (len(tranches) != models or not all(tranches)):
        findings.add(entry.place, f"{entry.kind}: its tranches are not those of its models")


def _check_leak(entry: Entry, leak: Leak, drawn: SealedSet | None, findings: _Findings) -> None:
    """That what is said to have leaked was committed to, as private and in that tranche."""
    if drawn is None or not leak.commitments:
        return
    places = allocate(drawn.strata, drawn.seeds_per_arm, drawn.allocation_seed, drawn.reserve)
    where = dict(zip(drawn.commitments, places, strict=False))
    for commitment in leak.commitments:
        if where.get(commitment) != (Arm.PRIVATE, leak.tranche):
            problem = f"{commitment[:16]}… is no private seed of tranche {leak.tranche}"
            findings.add(entry.place, f"leak: {problem}")


def _grading(record: Graded | Regraded) -> str:
    """Which judge graded the answers of which run."""
    return f"of {record.manifest} by judge {record.judge.name} ({record_digest(record.judge)})"


def _check_pinned(
    entry: Entry, record: Graded, manifest: RunManifest | None, findings: _Findings
) -> None:
    if manifest is not None and record.pinned != (record.judge in manifest.judges):
        is_now = "names it" if record.judge in manifest.judges else "does not name it"
        says = f"graded by judge {record.judge.name}: pinned {record.pinned}"
        findings.add(entry.place, f"{says}, but the wave's manifest {is_now}")


def _check_known(
    entry: Entry, what: str, named: str, known: Collection[str], findings: _Findings
) -> None:
    if named not in known:
        findings.add(entry.place, f"{entry.kind}: its {what} {named} is of no record before it")


def _check_sealed_sets(
    store: Store, records: _Records, identities: Sequence[str] | None, findings: _Findings
) -> None:
    sets = _of(records, "sealed-set")
    findings.counts["sealed sets"] = len(sets)
    for entry, record in sets:
        for problem in _broken_promises(record):
            findings.add(entry.place, problem)
        try:
            _check_ciphertext(store, record, identities, findings)
        except RegistryError as error:
            if isinstance(error, StoreError) and not isinstance(error, MissingKey):
                raise
            findings.add(record.uri, str(error))
    if len(sets) > 1:
        findings.add(sets[1][0].place, "a second sealed-set: there is one to a study")


def _broken_promises(record: SealedSet) -> Iterator[str]:
    """What a sealed set's record says against itself."""
    if not all(re.fullmatch("[0-9a-f]{64}", text) for text in record.commitments):
        yield "a commitment in it is not 64 hexadecimal digits"
        return
    root = commitments_root(record.commitments)
    if root != record.root:
        yield f"root {record.root} expected over the commitments, {root} found"
    drawn = 2 * (record.seeds_per_arm + sum(record.reserve)) * len(record.strata)
    if not drawn == record.count == len(record.commitments):
        yield f"{drawn} commitments expected, {len(record.commitments)} found"
    if record.uri != sealed_key(record.ciphertext):
        yield f"the sealed object's name {record.uri} is not that of its digest"


def _check_ciphertext(
    store: Store, record: SealedSet, identities: Sequence[str] | None, findings: _Findings
) -> None:
    ciphertext = store.get(record.uri)
    digest = digest_bytes(ciphertext)
    if digest != record.ciphertext:
        raise BrokenPromise(f"was altered: digest {record.ciphertext} expected, {digest} found")
    if identities is None:
        return
    entries = open_entries(ciphertext, identities, record.uri)
    findings.counts["sealed entries opened"] += len(entries)
    _check_opened(record, entries)


def _check_opened(record: SealedSet, entries: tuple[SealedEntry, ...]) -> None:
    """That the entries are those committed to, in the arms that the allocation gives."""
    made = commitments_of(entries)
    if len(made) != len(record.commitments):
        raise BrokenPromise(f"{len(record.commitments)} entries expected, {len(made)} found")
    for index, (is_now, was) in enumerate(zip(made, record.commitments, strict=True)):
        if is_now != was:
            raise BrokenPromise(f"entry {index} is not what was committed to")
    places = allocate(record.strata, record.seeds_per_arm, record.allocation_seed, record.reserve)
    if tuple(entry.arm for entry in entries) != tuple(place.arm for place in places):
        raise BrokenPromise("its arms do not follow from the allocation seed of its record")
    if tuple(entry.tranche for entry in entries) != tuple(place.tranche for place in places):
        raise BrokenPromise("its tranches do not follow from the allocation seed of its record")
    strata = tuple(dict.fromkeys(entry.stratum for entry in entries))
    if strata != record.strata:
        raise BrokenPromise(f"strata {record.strata} expected, {strata} found")


@dataclass(slots=True)
class _Promised:
    """A record that promises objects, and the roots of its inventory as far as it was read."""

    place: str
    record: WaveClosed | Graded | Regraded | JudgeChecked | CalibrationMade | Probed
    trees: InventoryTrees
    broken: bool = False

    @classmethod
    def by(cls, entry: Entry, record: Any) -> _Promised:
        match record:
            case WaveClosed() | CalibrationMade():
                trees = InventoryTrees()
            case Probed():
                trees = InventoryTrees(model=record_digest(record.model).removeprefix("sha256:"))
            case _:
                look = record.wave if isinstance(record, Regraded) else None
                trees = InventoryTrees(grades_folder(record_digest(record.judge), look))
        return cls(entry.place, record, trees)

    def lines(self, store: Store, findings: _Findings) -> Iterator[tuple[str, str]]:
        """Key and digest of each object; an inventory that breaks off is a finding."""
        try:
            for key, digest in read_inventory(store, self.record.objects_root):
                self.trees.add(key, digest)
                yield key, digest
        except (MissingKey, BrokenPromise) as error:
            self.broken = True
            findings.add(self.place, str(error))


def _check_objects(
    store: Store,
    records: _Records,
    identities: Sequence[str] | None,
    findings: _Findings,
    progress: Progress | None,
) -> None:
    """Walk the store's names beside the inventories' lines, both in key order."""
    promises = [_Promised.by(*pair) for kind in _PROMISING for pair in _of(records, kind)]
    promised = [promise for promise in promises if promise.record.objects_root]
    for kind, name in _PROMISING.items():
        if (count := len(_of(records, kind))) or kind == "wave-closed":
            findings.counts[name] = count
    expected = sum(promise.record.objects for promise in promised)
    stored = ((key, "") for key in store.list())
    walk = merge(stored, *(promise.lines(store, findings) for promise in promised))
    promised_keys = {head_key(promise.record.objects_root) for promise in promised}
    promised_keys.update(record.uri for _, record in _of(records, "sealed-set"))
    for done, (key, group) in enumerate(groupby(walk, key=itemgetter(0)), 1):
        digests = {digest for _, digest in group}
        _check_object(store, key, digests, promised_keys, identities, findings)
        if progress:
            progress(done, max(done, expected))
    whole = [promise for promise in promised if not promise.broken]
    for promise in whole:
        _check_promised(promise, whole, findings)


def _check_object(
    store: Store,
    key: str,
    digests: set[str],
    promised_keys: set[str],
    identities: Sequence[str] | None,
    findings: _Findings,
) -> None:
    """One name: ``digests`` are those that inventories give it, and "" if it is in the store.
    Other checks report on the names in ``promised_keys`` and on the ledger's."""
    if "" not in digests:
        findings.add(key, "missing: it was removed from the store")
        return
    if key.startswith(_LEDGER) or key in promised_keys:
        return
    data = store.get(key)
    actual = digest_bytes(data)
    named = (digests - {""}) | _named_digest(key)
    findings.counts["objects" if named else "open objects (no record names them yet)"] += 1
    for digest in named - {actual}:
        findings.add(key, f"was altered: digest {digest} expected, {actual} found")
    if identities is not None and key.endswith(".age") and named <= {actual}:
        _check_opens(key, data, identities, findings)


def _named_digest(key: str) -> set[str]:
    """The digest that a name promises, where it is one that does."""
    if _SEALED.fullmatch(key) or key.startswith((PARTS, CHECKS, CALIBRATIONS)):
        return {"sha256:" + key.rpartition("/")[2].partition(".")[0]}
    return set()


def _check_opens(key: str, data: bytes, identities: Sequence[str], findings: _Findings) -> None:
    try:
        decrypt(data, identities, key)
    except RegistryError as error:
        findings.add(key, str(error))
    else:
        findings.counts["ciphertexts opened"] += 1


def _check_promised(promised: _Promised, every: Sequence[_Promised], findings: _Findings) -> None:
    """That the inventory, read to its end, is the one that the ledger promises."""
    inventory, record = promised.trees.inventory(), promised.record
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
        case Graded():
            name = f"wave {record.wave} by judge {record.judge.name}"
            pairs.append(("grades", record.graded, promised.trees.graded))
            pairs += [
                ("graded episodes", other.trees.episodes, promised.trees.episodes)
                for other in every
                if isinstance(other.record, WaveClosed) and other.record.manifest == record.manifest
            ]
        case Probed():
            name = f"wave {record.wave}, {record.what} put to {record.model.name}"
            pairs.append(("probes", record.probes, promised.trees.graded))
        case Regraded():
            name = f"wave {record.first} by judge {record.judge.name} again at wave {record.wave}"
            pairs.append(("grades", record.graded, promised.trees.graded))
            pairs += [
                ("graded episodes", other.trees.episodes, promised.trees.episodes)
                for other in every
                if isinstance(other.record, WaveClosed)
                and other.record.manifest == record.manifest
                and record.share == 1
            ]
        case JudgeChecked():
            name = f"check of judge {record.judge.name}"
            digits = record.result.removeprefix("sha256:")
            pairs.append(("the name of its result", f"{CHECKS}{digits}.json", record.uri))
        case CalibrationMade():
            name = "calibration"
            digits = record.result.removeprefix("sha256:")
            pairs.append(("the name of its result", f"{CALIBRATIONS}{digits}.json", record.uri))
    for what, expected, is_now in pairs:
        if expected != is_now:
            findings.add(promised.place, f"{name}: {what} {expected}, {is_now} found")


def _note_unchecked(
    records: _Records,
    identities: Sequence[str] | None,
    expected_head: str | None,
    findings: _Findings,
) -> None:
    if expected_head is None:
        findings.unchecked.append(
            "whether records were dropped from the ledger's end: no head noted elsewhere was given"
        )
    if identities is None:
        findings.unchecked.append(
            "what is sealed (commitments, allocation, ciphertexts): no key was given"
        )
    for _, record in _of(records, "wave-closed"):
        if not record.objects_root:
            findings.unchecked.append(f"objects of wave {record.wave}: closed without an inventory")
