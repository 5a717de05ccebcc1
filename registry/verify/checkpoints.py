"""Checks of a ledger against its checkpoints: a rollback, a split view and a rewritten record are
named by anyone, with no key.

What a store holds can be removed from it. A checkpoint that was kept elsewhere (in a release, in a
report) shows that; it is given as a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from registry.checkpoints.checkpoint import (
    CHECKPOINTS,
    Checkpoint,
    SignedCheckpoint,
    leaf_hashes,
    read_checkpoint,
    stored_checkpoints,
    stored_leaves,
)
from registry.checkpoints.timestamp import Authorities, Stamp, read_stamps
from registry.errors import BrokenPromise
from registry.ledger.chain import LEDGER, Entry, record_key
from registry.ledger.merkle import MerkleTree
from registry.stores.base import Store


@dataclass(slots=True)
class CheckpointFindings:
    """The time-stamps that hold; what is wrong, by place; what could not be checked; and counts of
    what was."""

    stamps: tuple[Stamp, ...] = ()
    problems: list[tuple[str, str]] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def check_checkpoints(
    store: Store,
    entries: Sequence[Entry],
    given: Mapping[str, bytes] | None = None,
    authorities: Authorities | None = None,
    noted: bool = False,
) -> CheckpointFindings:
    """Check the records that can be read of a ledger against the checkpoints in its store and those
    ``given`` from elsewhere, by place, and read its time-stamps, if ``authorities`` are given.
    ``noted`` is whether the head is checked against one that was noted elsewhere, so that a ledger
    without time-stamps is checked as well. Raises StoreError."""
    findings = CheckpointFindings()
    if not entries:
        for key in store.list(CHECKPOINTS):
            findings.problems.append((LEDGER, f"rolled back: no records, and there is {key}"))
            break
        for place in given or ():
            findings.problems.append((place, "a checkpoint, and the ledger has no records"))
        return findings
    signed = _read_all(store, entries[0].signer, given or {}, findings)
    leaves = leaf_hashes(entry for number, entry in enumerate(entries) if entry.sequence == number)
    roots = _roots_of(leaves, {one.checkpoint.size for one in signed})
    findings.problems += _split_views(signed)
    for one in signed:
        problem = _contradiction(store, one.checkpoint, entries, leaves, roots)
        if problem is not None:
            findings.problems.append(problem)
    if signed:
        findings.counts["checkpoints"] = len(signed)
    if authorities is not None:
        doubt = findings.unchecked.append
        findings.stamps = read_stamps(store, entries, authorities, doubt)
    stamped = max((stamp.sequence + 1 for stamp in findings.stamps), default=0)
    if findings.stamps:
        findings.counts["time-stamps"] = len(findings.stamps)
        findings.counts["records under time-stamps"] = stamped
    if stamped < len(entries) and not noted:
        findings.unchecked.append(
            f"whether {_spell_records(stamped, len(entries))} rewritten by the study's own key: no"
            " time-stamp that was checked covers them"
        )
    return findings


def _read_all(
    store: Store, study: str, given: Mapping[str, bytes], findings: CheckpointFindings
) -> list[SignedCheckpoint]:
    """Return the checkpoints of a study, from its store and from elsewhere, by size. A note in the
    store that the study did not sign is none of its promises; a given one is a problem."""

    def doubt(place: str, reason: str) -> None:
        findings.unchecked.append(f"{place}: {reason}")

    read = {one.checkpoint: one for one in stored_checkpoints(store, study, doubt)}
    for place, data in given.items():
        try:
            signed = read_checkpoint(data, place)
            if (named := signed.checkpoint.study) != study:
                raise BrokenPromise(
                    f"{place}: the study's key is {named[:16]}… there, and the ledger's first "
                    f"record is signed by {study[:16]}…: the ledger was replaced, or is another's"
                )
        except BrokenPromise as error:
            findings.problems.append((place, str(error).removeprefix(f"{place}: ")))
            continue
        read[signed.checkpoint] = signed
    return sorted(read.values(), key=lambda one: (one.checkpoint.size, one.checkpoint.text))


def _roots_of(leaves: Sequence[bytes], sizes: set[int]) -> dict[int, bytes]:
    """Return the root over the first so many leaves, for each size that there is."""
    tree, roots = MerkleTree(), dict[int, bytes]()
    for size, leaf in enumerate((*leaves, b"")):
        if size in sizes:
            roots[size] = tree.root()
        tree.add_hash(leaf)
    return roots


def _split_views(signed: Iterable[SignedCheckpoint]) -> Iterator[tuple[str, str]]:
    """Report different checkpoints of the same size: the study signed both."""
    for one, other in pairwise(each.checkpoint for each in signed):
        if one.size == other.size:
            roots = " and ".join(f"root {each.root.hex()[:16]}…" for each in (one, other))
            yield (
                f"{CHECKPOINTS}{one.size:08d}/",
                f"a split view: the study signed two checkpoints of {one.size} records: {roots}",
            )


def _contradiction(
    store: Store,
    checkpoint: Checkpoint,
    entries: Sequence[Entry],
    leaves: Sequence[bytes],
    roots: Mapping[int, bytes],
) -> tuple[str, str] | None:
    """Report how a ledger differs from a checkpoint; None if it extends it."""
    size = checkpoint.size
    promised = f"the checkpoint of {size} records, which the study's key signed"
    if roots.get(size) == checkpoint.root:
        head = entries[size - 1].digest if size else checkpoint.head
        if head == checkpoint.head:
            return None
        return f"{CHECKPOINTS}{size:08d}/", f"its head {checkpoint.head} is not of its root: {head}"
    known = stored_leaves(store, checkpoint) or ()
    for number, (then, now) in enumerate(zip(known, leaves, strict=False)):
        if then != now:
            problem = f"was rewritten: it is not the record in {promised}"
            return record_key(number), problem
    if len(leaves) < size:
        gone = f"{_spell_records(len(leaves), size)} in {promised}"
        return LEDGER, f"rolled back to {len(leaves)} records: {gone}"
    return (
        f"{record_key(0)} to {record_key(size - 1)[len(LEDGER) :]}",
        f"one of these was rewritten: they are not those in {promised}",
    )


def _spell_records(start: int, end: int) -> str:
    """Name the records from one number up to before another, with the verb of what they were."""
    return f"record {start} was" if end == start + 1 else f"records {start} to {end - 1} were"
