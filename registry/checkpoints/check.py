"""Checks of a ledger against its checkpoints: a rollback, a split view and a rewritten record are
named by anyone, with no key.

What a store holds can be removed from it. A checkpoint that was kept elsewhere (by a witness, in a
release, in a report) shows that; it is given as a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from registry.checkpoints.checkpoint import (
    CHECKPOINTS,
    Checkpoint,
    SignedCheckpoint,
    Witnesses,
    leaf_hashes,
    merge_checkpoints,
    read_checkpoint,
    stored_checkpoints,
    stored_leaves,
    stored_tokens,
    witnesses_of,
)
from registry.checkpoints.note import Note, merge_signatures, read_note
from registry.checkpoints.timestamp import check_token, stamped_at
from registry.errors import BrokenPromise
from registry.ledger import LEDGER, Entry, MerkleTree, record_key
from registry.stores import Store

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


@dataclass(slots=True)
class CheckpointFindings:
    """The checkpoints that hold, by size; what is wrong, by place; what could not be checked; and
    counts of what was."""

    checkpoints: tuple[SignedCheckpoint, ...] = ()
    problems: list[tuple[str, str]] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def check_checkpoints(
    store: Store,
    entries: Sequence[Entry],
    given: Mapping[str, bytes] | None = None,
    authorities: Sequence[Certificate] = (),
    noted: bool = False,
) -> CheckpointFindings:
    """Check the records that can be read of a ledger against the checkpoints in its store, and
    those ``given`` from elsewhere, by place. ``authorities`` are root certificates of authorities
    that stamp times; ``noted`` is whether the head is checked against one that was noted elsewhere,
    so that a study without witnesses is watched as well. Raises StoreError."""
    findings = CheckpointFindings()
    if not entries:
        for key in store.list(CHECKPOINTS):
            findings.problems.append((LEDGER, f"rolled back: no records, and there is {key}"))
            break
        for place in given or ():
            findings.problems.append((place, "a checkpoint, and the ledger has no records"))
        return findings
    try:
        witnesses = witnesses_of(entries[:1])
    except BrokenPromise as error:
        findings.problems.append((entries[0].place, str(error)))
        witnesses = Witnesses((), 0)
    signed = _read_all(store, entries[0].signer, witnesses, given or {}, findings)
    leaves = _leaves_of(entries)
    roots = _roots_of(leaves, {one.checkpoint.size for one in signed})
    findings.problems += _split_views(signed)
    holding: list[SignedCheckpoint] = []
    for one in signed:
        # One that the same witnesses signed: the study alone could have signed another ledger's.
        names = {name for name, _ in one.witnesses}
        same = [each for each in holding if names.issubset(dict(each.witnesses))]
        since = same[-1].checkpoint.size if same else 0
        problem = _contradiction(store, one, entries, leaves, roots, since)
        if problem is None:
            holding.append(one)
        else:
            findings.problems.append(problem)
    findings.checkpoints = tuple(holding)
    if signed:
        findings.counts["checkpoints"] = len(signed)
    if witnesses.keys:
        _count_witnesses(findings, witnesses, len(entries))
    elif not noted:
        findings.unchecked.append(
            "whether the study's own key rewrote the ledger: the study names no witnesses"
        )
    _check_tokens(store, findings, authorities)
    return findings


def covered(checkpoints: Iterable[SignedCheckpoint], threshold: int) -> SignedCheckpoint | None:
    """Return the newest checkpoint that enough witnesses signed; None if there is none."""
    enough = [one for one in checkpoints if len(one.witnesses) >= max(threshold, 1)]
    return enough[-1] if enough else None


def find_rewritten(old: Sequence[bytes], new: Sequence[bytes]) -> int | None:
    """Return the place of the first of some leaf hashes that a ledger has no more as it was: None
    if it has them all, and its length if it has been cut."""
    for number, leaf in enumerate(old):
        if number >= len(new) or new[number] != leaf:
            return number
    return None


def _read_all(
    store: Store,
    study: str,
    witnesses: Witnesses,
    given: Mapping[str, bytes],
    findings: CheckpointFindings,
) -> tuple[SignedCheckpoint, ...]:
    """Return the checkpoints of a study, from its store and from elsewhere, by size. A note in the
    store that the study did not sign is none of its promises; a given one is a problem."""

    def doubt(place: str, reason: str) -> None:
        findings.unchecked.append(f"{place}: {reason}")

    notes: dict[str, list[Note]] = {}
    for one in stored_checkpoints(store, study, witnesses, doubt):
        notes[one.note.text] = [one.note]
    for place, data in given.items():
        try:
            note = read_note(data, place)
            named = read_checkpoint(note, witnesses, place).checkpoint.study
            if named != study:
                raise BrokenPromise(
                    f"{place}: the study's key is {named[:16]}… there, and the ledger's first "
                    f"record is signed by {study[:16]}…: the ledger was replaced, or is another's"
                )
        except BrokenPromise as error:
            findings.problems.append((place, str(error).removeprefix(f"{place}: ")))
            continue
        notes.setdefault(note.text, []).append(note)
    merged = (Note(text, merge_signatures(same)) for text, same in notes.items())
    return merge_checkpoints(merged, witnesses)


def _leaves_of(entries: Sequence[Entry]) -> list[bytes]:
    """Return the leaf hashes of the records up to the first that is missing."""
    whole = [entry for number, entry in enumerate(entries) if entry.sequence == number]
    return leaf_hashes(whole)


def _roots_of(leaves: Sequence[bytes], sizes: set[int]) -> dict[int, bytes]:
    """Return the root over the first so many leaves, for each size that there is."""
    tree, roots = MerkleTree(), dict[int, bytes]()
    for size, leaf in enumerate((*leaves, b"")):
        if size in sizes:
            roots[size] = tree.root()
        tree.add_hash(leaf)
    return roots


def _split_views(signed: Sequence[SignedCheckpoint]) -> Iterator[tuple[str, str]]:
    """Report checkpoints of the same size that differ: the study signed both."""
    for size, group in groupby(signed, key=lambda one: one.checkpoint.size):
        views = list(group)
        if len({one.note.text for one in views}) > 1:
            shown = "; ".join(f"{_named(one.checkpoint)} by {one.signers}" for one in views)
            place = f"{CHECKPOINTS}{size:08d}/"
            yield (
                place,
                f"a split view: the study signed two checkpoints of {size} records: {shown}",
            )


def _contradiction(
    store: Store,
    one: SignedCheckpoint,
    entries: Sequence[Entry],
    leaves: Sequence[bytes],
    roots: Mapping[int, bytes],
    since: int,
) -> tuple[str, str] | None:
    """Report how a ledger differs from a checkpoint; ``since`` is the size of a smaller one that
    it agrees with."""
    checkpoint, size = one.checkpoint, one.checkpoint.size
    promised = f"the checkpoint of {size} records, which {one.signers} signed"
    if roots.get(size) == checkpoint.root:
        head = entries[size - 1].digest if size else checkpoint.head
        if head == checkpoint.head:
            return None
        return f"{CHECKPOINTS}{size:08d}/", f"its head {checkpoint.head} is not of its root: {head}"
    known = stored_leaves(store, checkpoint)
    place = None if known is None else find_rewritten(known, leaves)
    if place is not None and place < len(leaves):
        return record_key(place), f"was rewritten: it is not the record in {promised}"
    if len(leaves) < size:
        gone = f"{spell_records(len(leaves), size)} in {promised}"
        return LEDGER, f"rolled back to {len(leaves)} records: {gone}"
    return (
        f"{record_key(since)} to {record_key(size - 1)[len(LEDGER) :]}",
        f"one of these was rewritten: they are not those in {promised}",
    )


def spell_records(start: int, end: int) -> str:
    """Name the records from one number up to before another, with the verb of what they were."""
    return f"record {start} was" if end == start + 1 else f"records {start} to {end - 1} were"


def _named(checkpoint: Checkpoint) -> str:
    return f"root {checkpoint.root.hex()[:16]}…"


def _count_witnesses(findings: CheckpointFindings, witnesses: Witnesses, size: int) -> None:
    """Say how many witnesses signed, of how many needed, and what no checkpoint covers."""
    needed, unchecked = witnesses.threshold, findings.unchecked
    newest = findings.checkpoints[-1] if findings.checkpoints else None
    signed = len(newest.witnesses) if newest else 0
    findings.counts["witnesses that signed the newest checkpoint"] = signed
    findings.counts["witnesses needed"] = needed
    enough = covered(findings.checkpoints, needed)
    watched = enough.checkpoint.size if enough else 0
    findings.counts["records under witnessed checkpoints"] = watched
    if watched < size:
        missing = [key.name for key in witnesses.keys]
        if newest is not None and newest.checkpoint.size == size:
            missing = [name for name in missing if name not in dict(newest.witnesses)]
            which = f"{signed} of {needed} needed witnesses signed the checkpoint of {size} records"
        else:
            which = f"no checkpoint of them has the {needed} needed witnesses"
        unchecked.append(
            f"whether {spell_records(watched, size)} rewritten: {which} (not yet"
            f" {', '.join(missing)})"
        )


def _check_tokens(
    store: Store, findings: CheckpointFindings, authorities: Sequence[Certificate]
) -> None:
    """Check the time-stamps beside the checkpoints that hold. A response that does not fit is not
    the study's: anyone may have put it there."""
    for one in findings.checkpoints:
        for key, response in stored_tokens(store, one.checkpoint.size):
            try:
                time = stamped_at(response, one.own, key)
                if not authorities:
                    claim = f"{key}: a time-stamp of {time}"
                    findings.unchecked.append(f"{claim}: no authority's certificate was given")
                    continue
                check_token(response, one.own, list(authorities), key)
                findings.counts["time-stamps"] += 1
            except BrokenPromise as error:
                findings.unchecked.append(str(error))
