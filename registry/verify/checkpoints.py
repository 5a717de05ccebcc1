"""Checks of a ledger against its checkpoints: a rollback, a split view and a rewritten record are
named by anyone, with no key.

What a store holds can be removed from it. A checkpoint that was kept elsewhere (in a release, in a
report) shows that; it is given as a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice, pairwise

from registry.checkpoints.checkpoint import (
    CHECKPOINTS,
    Checkpoint,
    leaf_hashes,
    read_checkpoint,
    stored_checkpoints,
    stored_leaves,
)
from registry.checkpoints.timestamp import Authorities, first_stamp, read_stamps
from registry.errors import BrokenPromise
from registry.ledger.chain import LEDGER, record_key
from registry.ledger.merkle import MerkleTree
from registry.verify.findings import Findings

_DATED = ("announcement", "preregistration", "run-manifest", "release")


def check_checkpoints(
    findings: Findings, given: Mapping[str, bytes], authorities: Authorities, noted: bool
) -> None:
    """Check the records that can be read of a ledger against the checkpoints in its store and those
    ``given`` from elsewhere, by place, and read its time-stamps by these ``authorities``. ``noted``
    is whether the head is checked against one that was noted elsewhere, so that a ledger without
    time-stamps is checked as well. Raises StoreError."""
    store, entries = findings.store, findings.entries
    if not entries:
        for key in islice(store.list(CHECKPOINTS), 1):
            findings.add(LEDGER, f"rolled back: no records, and there is {key}")
        for place in given:
            findings.add(place, "a checkpoint, and the ledger has no records")
        return
    signed = _read_all(findings, given)
    leaves = leaf_hashes(entry for number, entry in enumerate(entries) if entry.sequence == number)
    roots = _roots_of(leaves, {one.size for one in signed})
    contradictions = (_contradiction(findings, one, leaves, roots) for one in signed)
    for problem in (*_split_views(signed), *filter(None, contradictions)):
        findings.add(*problem)
    if signed:
        findings.counts["checkpoints"] = len(signed)
    findings.stamps = read_stamps(store, entries, authorities, findings.unchecked.append)
    stamped = max((stamp.sequence + 1 for stamp in findings.stamps), default=0)
    if findings.stamps:
        findings.counts["time-stamps"] = len(findings.stamps)
        findings.counts["records under time-stamps"] = stamped
    if stamped < len(entries) and not noted:
        findings.unchecked.append(
            f"whether {_spell_records(stamped, len(entries))} rewritten by the study's own key: no"
            " time-stamp that was checked covers them"
        )
    for entry in entries:
        stamp = first_stamp(findings.stamps, entry.sequence)
        if stamp and entry.kind in _DATED and entry.time[:10] < _day_before(stamp.time):
            findings.unchecked.append(
                f"whether {entry.place}, the {entry.kind}, is of {entry.time[:10]} as it says: its "
                f"first time-stamp is of {stamp.time[:10]}"
            )


def _day_before(time: str) -> str:
    """The day before a time, in which an authority may have been away."""
    return (datetime.fromisoformat(time) - timedelta(days=1)).date().isoformat()


def _read_all(findings: Findings, given: Mapping[str, bytes]) -> list[Checkpoint]:
    """Return the checkpoints of a study, from its store and from elsewhere, by size. A note in the
    store that the study did not sign is none of its promises; a given one is a problem."""

    def doubt(place: str, reason: str) -> None:
        findings.unchecked.append(f"{place}: {reason}")

    study = findings.entries[0].signer
    read = {one.checkpoint for one in stored_checkpoints(findings.store, study, doubt)}
    for place, data in given.items():
        try:
            checkpoint = read_checkpoint(data, place).checkpoint
            if (named := checkpoint.study) != study:
                raise BrokenPromise(
                    f"{place}: the study's key is {named[:16]}… there, and the ledger's first "
                    f"record is signed by {study[:16]}…: the ledger was replaced, or is another's"
                )
            read.add(checkpoint)
        except BrokenPromise as error:
            findings.add(place, str(error))
    return sorted(read, key=lambda one: (one.size, one.text))


def _roots_of(leaves: Sequence[bytes], sizes: set[int]) -> dict[int, bytes]:
    """Return the root over the first so many leaves, for each size that there is."""
    tree, roots = MerkleTree(), dict[int, bytes]()
    for size, leaf in enumerate((*leaves, b"")):
        if size in sizes:
            roots[size] = tree.root()
        tree.add_hash(leaf)
    return roots


def _split_views(signed: Iterable[Checkpoint]) -> Iterator[tuple[str, str]]:
    """Report different checkpoints of the same size: the study signed both."""
    for one, other in pairwise(signed):
        if one.size == other.size:
            roots = " and ".join(f"root {each.root.hex()[:16]}…" for each in (one, other))
            yield (
                f"{CHECKPOINTS}{one.size:08d}/",
                f"a split view: the study signed two checkpoints of {one.size} records: {roots}",
            )


def _contradiction(
    findings: Findings, checkpoint: Checkpoint, leaves: Sequence[bytes], roots: Mapping[int, bytes]
) -> tuple[str, str] | None:
    """Report how a ledger differs from a checkpoint; None if it extends it."""
    size = checkpoint.size
    promised = f"the checkpoint of {size} records, which the study's key signed"
    if roots.get(size) == checkpoint.root:
        head = findings.entries[size - 1].digest if size else checkpoint.head
        if head == checkpoint.head:
            return None
        return f"{CHECKPOINTS}{size:08d}/", f"its head {checkpoint.head} is not of its root: {head}"
    known = stored_leaves(findings.store, checkpoint) or ()
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
