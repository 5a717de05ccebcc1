"""Verification of the draw: commitments, sealed set, allocation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import attrgetter

from registry.canonical import digest_bytes
from registry.draw import allocate, sealed_key
from registry.errors import BrokenPromise, MissingKey, RegistryError, StoreError
from registry.ledger import SealedSet
from registry.sealing import commitments_of, commitments_root, open_entries
from registry.verify.findings import Findings


def check_sealed_sets(findings: Findings) -> None:
    """Check the records of draws, and the sealed objects that they name. Raises StoreError."""
    sets = findings.of("sealed-set")
    findings.counts["sealed sets"] = len(sets)
    for entry, record in sets:
        for problem in _broken_promises(record):
            findings.add(entry.place, problem)
        try:
            _check_ciphertext(findings, record)
        except RegistryError as error:
            if isinstance(error, StoreError) and not isinstance(error, MissingKey):
                raise
            findings.add(record.uri, str(error))
    if len(sets) > 1:
        findings.add(sets[1][0].place, "a second sealed-set: there is one to a study")


def _check_ciphertext(findings: Findings, record: SealedSet) -> None:
    """The sealed object is the one promised; its entries are those committed to, in the arms
    that the allocation gives."""
    ciphertext = findings.store.get(record.uri)
    digest = digest_bytes(ciphertext)
    if digest != record.ciphertext:
        raise BrokenPromise(f"was altered: digest {record.ciphertext} expected, {digest} found")
    if findings.identities is None:
        return
    entries = open_entries(ciphertext, findings.identities, record.uri)
    findings.counts["sealed entries opened"] += len(entries)
    made = commitments_of(entries)
    if len(made) != len(record.commitments):
        raise BrokenPromise(f"{len(record.commitments)} entries expected, {len(made)} found")
    for index, (is_now, was) in enumerate(zip(made, record.commitments, strict=True)):
        if is_now != was:
            raise BrokenPromise(f"entry {index} is not what was committed to")
    places = allocate(record.strata, record.seeds_per_arm, record.allocation_seed, record.reserve)
    for name in ("arm", "tranche"):
        if [*map(attrgetter(name), entries)] != [*map(attrgetter(name), places)]:
            problem = "do not follow from the allocation seed of its record"
            raise BrokenPromise(f"its {name}s {problem}")
    strata = tuple(dict.fromkeys(entry.stratum for entry in entries))
    if strata != record.strata:
        raise BrokenPromise(f"strata {record.strata} expected, {strata} found")


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
