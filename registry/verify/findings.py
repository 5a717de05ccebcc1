"""What a verification has counted and found so far, and its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from typing import Any

from registry.checkpoints.timestamp import Stamp
from registry.errors import BrokenPromise, MissingKey, RegistryError, StoreError
from registry.ledger.chain import Entry, head_digest, signers_of
from registry.ledger.records import RunManifest, WaveClosed, record_digest
from registry.sealing import Keys, open_run, run_name
from registry.stores.base import Store

Progress = Callable[[int, int], None]  # objects checked, and of how many (0 if not known)
Derived = Callable[[WaveClosed], Iterable[tuple[str, str]]]  # objects derived from a wave's results

_LISTED = 1000  # problems that are listed one by one


class Standing(StrEnum):
    """What a verification says of a promise."""

    HOLDS = "holds"
    UNSHOWN = "could not be shown"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise, whether it holds, and what that rests on."""

    promise: str
    standing: Standing
    reason: str


def promise_of(
    promise: str, holds: str, unshown: Sequence[str], problems: Sequence[str]
) -> Promise:
    """Return a promise by what was found: broken by any problem, not shown by anything left."""
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        return Promise(promise, Standing.BROKEN, f"{problems[0]}{more}")
    if unshown:
        return Promise(promise, Standing.UNSHOWN, "; ".join(dict.fromkeys(unshown)))
    return Promise(promise, Standing.HOLDS, holds)


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of a verification: the checks made, the errors, and the checks not possible."""

    head: str  # digest of the ledger's newest record
    signer: str  # public key that signed its first record; "" for an empty ledger
    counts: tuple[tuple[str, int], ...]
    problems: tuple[tuple[str, str], ...]  # place, what is wrong there
    unchecked: tuple[str, ...]
    promises: tuple[Promise, ...] = ()
    stamps: tuple[Stamp, ...] = ()

    @property
    def holds(self) -> bool:
        """Report if no problem was found."""
        return not self.problems


@dataclass
class Findings:
    """The records of a study's ledger, and the findings so far."""

    store: Store
    identities: Sequence[str] | None  # the study's, if a key was given
    entries: Sequence[Entry]
    records: list[tuple[Entry, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[tuple[str, str]] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    stamps: tuple[Stamp, ...] = ()  # that hold
    unlisted: int = 0

    def read_records(self) -> None:
        """Read the body of each entry; one of another form is a problem."""
        for entry in self.entries:
            try:
                self.records.append((entry, entry.record))
            except BrokenPromise as error:
                self.add(entry.place, str(error))

    def add(self, place: str, problem: str) -> None:
        """Add a problem."""
        if len(self.problems) < _LISTED:
            self.problems.append((place, problem.removeprefix(f"{place}: ")))
        else:
            self.unlisted += 1

    def check(self, place: str, step: Callable[[], None]) -> None:
        """Take a step that reads objects; what it raises of them is a problem. Raises StoreError if
        the store cannot be read."""
        try:
            step()
        except RegistryError as error:
            if isinstance(error, StoreError) and not isinstance(error, MissingKey):
                raise
            self.add(place, str(error))

    def of(self, kind: str) -> list[tuple[Entry, Any]]:
        """Return the entries of a kind with their records."""
        return [(entry, record) for entry, record in self.records if entry.kind == kind]

    @cached_property
    def manifests(self) -> dict[str, RunManifest]:
        """The manifests of runs by their digests."""
        return {record_digest(record): record for _, record in self.of("run-manifest")}

    @cached_property
    def keys(self) -> Keys:
        """The keys that open the study's objects, and that count on them."""
        try:
            signers = signers_of(self.entries[:1])
        except BrokenPromise:  # a problem already: its body has another form
            signers = {}
        runs = cache(self._identity_of)
        return Keys(identities=tuple(self.identities or ()), trusted=signers, runs=runs)

    def _identity_of(self, run: str) -> str | None:
        found = {run_name(each.run_recipient): each for each in self.manifests.values()}.get(run)
        if found is None:
            return None
        return open_run(self.store.get(found.run_key), found, self.identities or ())

    def result(self) -> Verification:
        """Return what was found."""
        more = [("and more", f"{self.unlisted} other problems")] if self.unlisted else []
        return Verification(
            head_digest(self.entries),
            self.entries[0].signer if self.entries else "",
            tuple(self.counts.items()),
            (*self.problems, *more),
            tuple(self.unchecked),
            stamps=self.stamps,
        )
