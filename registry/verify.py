"""Verification: every promise of a study recomputed from what its store holds.

Without a key: the ledger's chain and the form of its records, the commitments' root, the digest
of the sealed set, and of every object of a closed wave against its inventory and the roots in
the ledger. With the study's key also: that the sealed set opens to what was committed to, that
its arms follow from the allocation seed, and that every ciphertext can be opened. age does not
show who encrypted: an object that no record names yet ("open") is only known to be whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Any

from registry.canonical import digest_bytes
from registry.draw import allocate, sealed_key
from registry.errors import BrokenPromise, MissingKey, RegistryError, StoreError
from registry.ledger import (
    CALIBRATIONS,
    CHECKS,
    LEDGER,
    PARTS,
    RECEIPTS,
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
    head_digest,
    head_key,
    inspect_chain,
    read_inventory,
    record_digest,
)
from registry.result_row import Arm
from registry.sealing import (
    commitments_of,
    commitments_root,
    decrypt,
    open_entries,
    recipient_of,
)
from registry.stores import Store

Progress = Callable[[int, int], None]  # objects checked, and of how many (0 if not known)
Derived = Callable[[WaveClosed], Iterable[tuple[str, str]]]  # objects derived from a wave's results

_LISTED = 1000  # problems that are listed one by one
_PROMISING = {
    "wave-closed": "closed waves",
    "graded": "waves graded by judges",
    "regraded": "waves graded again by judges",
    "judge-checked": "checks of judges",
    "calibrated": "calibrations",
    "probed": "models probed",
}
_NAMED_BY_DIGEST = (PARTS, CHECKS, CALIBRATIONS, RECEIPTS)
# Of these folders no record names the objects.
_UNNAMED = {
    "pilots": "objects of pilots",
    "tables": "parts of tables",
    "drawn": "lists of drawn instances without arms",
    "epochs": "epochs of sweeps",
}
_OPEN = "open objects (no record names them yet)"
_SEALED = re.compile(r"sealed/[0-9a-f]{64}\.age")


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of a verification: the checks made, the errors, and the checks not possible."""

    head: str  # digest of the ledger's newest record
    counts: tuple[tuple[str, int], ...]
    problems: tuple[tuple[str, str], ...]  # place, what is wrong there
    unchecked: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Report if no problem was found."""
        return not self.problems


def verify_study(
    store: Store,
    identities: Sequence[str] | None = None,
    expected_head: str | None = None,
    progress: Progress | None = None,
    derive: Derived = lambda closed: (),
) -> Verification:
    """Check all that the store holds, reading each object once, one in memory at a time.

    ``identities`` are the study's; ``expected_head`` is a head of the ledger that was noted
    elsewhere. ``derive`` makes stored objects of a closed wave again from its results, which are
    read once more, and yields the key of each, and how it differs; "" if not.

    Errors are listed and do not stop the rest. Raises StoreError if the store itself cannot be
    read, RegistryError for a malformed identity.
    """
    entries, broken = inspect_chain(store, expected_head)
    check = _Check(store, identities)
    for place, problem in broken:
        check.add(place, problem)
    check.counts["ledger records"] = len(entries)
    for entry in entries:
        try:
            check.records.append((entry, entry.record))
        except BrokenPromise as error:
            check.add(entry.place, str(error))
    check.check_identities()
    check.check_links()
    check.check_sealed_sets()
    check.check_objects(progress)
    check.check_derived(derive)
    unchecked = tuple(check.unchecked(expected_head))
    return Verification(
        head_digest(entries), tuple(check.counts.items()), check.listed_problems(), unchecked
    )


@dataclass(slots=True)
class _Check:
    """The records of a study's ledger, and the findings so far."""

    store: Store
    identities: Sequence[str] | None
    records: list[tuple[Entry, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[tuple[str, str]] = field(default_factory=list)
    unlisted: int = 0

    def add(self, place: str, problem: str) -> None:
        if len(self.problems) < _LISTED:
            self.problems.append((place, problem.removeprefix(f"{place}: ")))
        else:
            self.unlisted += 1

    def listed_problems(self) -> tuple[tuple[str, str], ...]:
        more = [("and more", f"{self.unlisted} other problems")] if self.unlisted else []
        return (*self.problems, *more)

    def of(self, kind: str) -> list[tuple[Entry, Any]]:
        return [(entry, record) for entry, record in self.records if entry.kind == kind]

    def unchecked(self, expected_head: str | None) -> Iterator[str]:
        if expected_head is None:
            yield (
                "whether records were dropped from the ledger's end: no head noted elsewhere was"
                " given"
            )
        if self.identities is None:
            yield "what is sealed (commitments, allocation, ciphertexts): no key was given"
        for _, record in self.of("wave-closed"):
            if not record.objects_root:
                yield f"objects of wave {record.wave}: closed without an inventory"

    def check_identities(self) -> None:
        """Report one error for a wrong key, instead of one for each object."""
        if self.identities is None:
            return
        given = {recipient_of(identity) for identity in self.identities}
        for _, record in self.of("sealed-set"):
            if given.isdisjoint(record.recipients):
                raise RegistryError(
                    f"{record.uri}: sealed to {', '.join(record.recipients)}; the key given is of"
                    f" {', '.join(sorted(given)) or 'nobody'}: use the study's key file"
                )

    # -- what records say of each other ---------------------------------------------------------

    def check_links(self) -> None:
        """Check that each record names ones that stand in the ledger before it."""
        roots, plans, closed, graded = set[str](), set[str](), set[str](), set[str]()
        manifests: dict[str, RunManifest] = {}
        drawn: SealedSet | None = None
        for entry, record in self.records:
            match entry.kind:
                case "sealed-set":
                    roots.add(record.root)
                    drawn = record
                case "preregistration":
                    self._check_known(entry, "sealed root", record.sealed_root, roots)
                    plans.add(record_digest(record))
                case "run-manifest":
                    self._check_known(entry, "instances root", record.instances_root, roots)
                    self._check_known(entry, "plan", record.plan, plans)
                    self._check_tranches(entry, record.tranches, len(record.models), drawn)
                    manifests[record_digest(record)] = record
                case "wave-closed":
                    self._check_known(entry, "manifest", record.manifest, manifests)
                    closed.add(record.manifest)
                case "calibrated" | "probed":
                    self._check_known(entry, "plan", record.plan, plans)
                case "graded":
                    self._check_known(entry, "closed wave's manifest", record.manifest, closed)
                    self._check_pinned(entry, record, manifests.get(record.manifest))
                    graded.add(_grading(record))
                case "regraded":
                    self._check_known(entry, "first grading", _grading(record), graded)
                case "leak":
                    self._check_tranches(entry, ((record.tranche,),), 1, drawn)
                    self._check_leak(entry, record, drawn)

    def _check_known(self, entry: Entry, what: str, named: str, known: Collection[str]) -> None:
        if named not in known:
            self.add(entry.place, f"{entry.kind}: its {what} {named} is of no record before it")

    def _check_tranches(
        self, entry: Entry, tranches: Sequence[Sequence[int]], models: int, drawn: SealedSet | None
    ) -> None:
        """Check that a record names tranches that were drawn, for each model those that it runs."""
        last = 0 if drawn is None else len(drawn.reserve)
        for tranche in sorted(set(chain.from_iterable(tranches))):
            if not 0 <= tranche <= last:
                self.add(entry.place, f"{entry.kind}: tranche {tranche} was not drawn")
        if tranches and (len(tranches) != models or not all(tranches)):
            self.add(entry.place, f"{entry.kind}: its tranches are not those of its models")

    def _check_leak(self, entry: Entry, leak: Leak, drawn: SealedSet | None) -> None:
        """Check that each leaked commitment is of the draw, private and in that tranche."""
        if drawn is None or not leak.commitments:
            return
        places = allocate(drawn.strata, drawn.seeds_per_arm, drawn.allocation_seed, drawn.reserve)
        where = dict(zip(drawn.commitments, places, strict=False))
        for commitment in leak.commitments:
            if where.get(commitment) != (Arm.PRIVATE, leak.tranche):
                problem = f"{commitment[:16]}… is no private seed of tranche {leak.tranche}"
                self.add(entry.place, f"leak: {problem}")

    def _check_pinned(self, entry: Entry, record: Graded, manifest: RunManifest | None) -> None:
        if manifest is not None and record.pinned != (record.judge in manifest.judges):
            is_now = "names it" if record.judge in manifest.judges else "does not name it"
            promise = f"graded by judge {record.judge.name}: pinned {record.pinned}"
            self.add(entry.place, f"{promise}, but the wave's manifest {is_now}")

    # -- the draw -------------------------------------------------------------------------------

    def check_sealed_sets(self) -> None:
        sets = self.of("sealed-set")
        self.counts["sealed sets"] = len(sets)
        for entry, record in sets:
            for problem in _broken_promises(record):
                self.add(entry.place, problem)
            try:
                self._check_ciphertext(record)
            except RegistryError as error:
                if isinstance(error, StoreError) and not isinstance(error, MissingKey):
                    raise
                self.add(record.uri, str(error))
        if len(sets) > 1:
            self.add(sets[1][0].place, "a second sealed-set: there is one to a study")

    def _check_ciphertext(self, record: SealedSet) -> None:
        """The sealed object is the one promised; its entries are those committed to, in the arms
        that the allocation gives."""
        ciphertext = self.store.get(record.uri)
        digest = digest_bytes(ciphertext)
        if digest != record.ciphertext:
            raise BrokenPromise(f"was altered: digest {record.ciphertext} expected, {digest} found")
        if self.identities is None:
            return
        entries = open_entries(ciphertext, self.identities, record.uri)
        self.counts["sealed entries opened"] += len(entries)
        made = commitments_of(entries)
        if len(made) != len(record.commitments):
            raise BrokenPromise(f"{len(record.commitments)} entries expected, {len(made)} found")
        for index, (is_now, was) in enumerate(zip(made, record.commitments, strict=True)):
            if is_now != was:
                raise BrokenPromise(f"entry {index} is not what was committed to")
        places = allocate(
            record.strata, record.seeds_per_arm, record.allocation_seed, record.reserve
        )
        for name in ("arm", "tranche"):
            if [*map(attrgetter(name), entries)] != [*map(attrgetter(name), places)]:
                problem = "do not follow from the allocation seed of its record"
                raise BrokenPromise(f"its {name}s {problem}")
        strata = tuple(dict.fromkeys(entry.stratum for entry in entries))
        if strata != record.strata:
            raise BrokenPromise(f"strata {record.strata} expected, {strata} found")

    # -- the objects ----------------------------------------------------------------------------

    def check_objects(self, progress: Progress | None) -> None:
        """Walk the store's names beside the inventories' lines, both in key order."""
        promises = []
        for kind, name in _PROMISING.items():
            records = self.of(kind)
            if records or kind == "wave-closed":
                self.counts[name] = len(records)
            promises += [_Promise.of(*pair) for pair in records if pair[1].objects_root]
        expected = sum(promise.record.objects for promise in promises)
        stored = ((key, "") for key in self.store.list())
        walk = merge(stored, *(self._inventory_lines(promise) for promise in promises))
        checked_elsewhere = {head_key(promise.record.objects_root) for promise in promises}
        checked_elsewhere.update(record.uri for _, record in self.of("sealed-set"))
        for done, (key, group) in enumerate(groupby(walk, key=itemgetter(0)), 1):
            digests = {digest for _, digest in group}
            if "" not in digests:
                self.add(key, "missing: it was removed from the store")
            elif not key.startswith(LEDGER) and key not in checked_elsewhere:
                self._check_object(key, digests - {""})
            if progress:
                progress(done, max(done, expected))
        whole = [promise for promise in promises if not promise.broken]
        for promise in whole:
            for problem in _broken_inventory(promise, whole):
                self.add(promise.place, problem)

    def check_derived(self, derive: Derived) -> None:
        """Check the objects that holders of the key have derived from closed waves' results."""
        known = {place for place, _ in self.problems}
        for _, record in self.of("wave-closed") if self.identities is not None else ():
            for key, problem in derive(record):
                self.counts["parts of tables derived again"] += 1
                if problem and key not in known:
                    self.add(key, problem)

    def _inventory_lines(self, promise: _Promise) -> Iterator[tuple[str, str]]:
        """Key and digest of each object; an inventory that breaks off is a problem."""
        try:
            for key, digest in read_inventory(self.store, promise.record.objects_root):
                promise.trees.add(key, digest)
                yield key, digest
        except (MissingKey, BrokenPromise) as error:
            promise.broken = True
            self.add(promise.place, str(error))

    def _check_object(self, key: str, promised: set[str]) -> None:
        """Check one object of the store; ``promised`` are the digests that inventories give it."""
        if _SEALED.fullmatch(key) or key.startswith(_NAMED_BY_DIGEST):
            promised.add("sha256:" + key.rpartition("/")[2].partition(".")[0])
        data = self.store.get(key)
        actual = digest_bytes(data)
        unnamed = _UNNAMED.get(key.partition("/")[0], _OPEN)
        self.counts["objects" if promised else unnamed] += 1
        for digest in promised - {actual}:
            self.add(key, f"was altered: digest {digest} expected, {actual} found")
        if self.identities is not None and key.endswith(".age") and promised <= {actual}:
            try:
                decrypt(data, self.identities, key)
            except RegistryError as error:
                self.add(key, str(error))
            else:
                self.counts["ciphertexts opened"] += 1


def _grading(record: Graded | Regraded) -> str:
    """Name the judge and the run that it graded."""
    return f"of {record.manifest} by judge {record.judge.name} ({record_digest(record.judge)})"


def _broken_promises(record: SealedSet) -> Iterator[str]:
    """Report contradictions within a sealed set's record."""
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
                trees = InventoryTrees(model=record_digest(record.model).removeprefix("sha256:"))
            case _:
                look = record.wave if isinstance(record, Regraded) else None
                trees = InventoryTrees(grades_folder(record_digest(record.judge), look))
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
