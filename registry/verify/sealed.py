"""Verification of what is sealed: the draws with their commitments, allocation and what was
revealed of them; the keys of runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from registry.canonical import digest_bytes
from registry.draws.allocation import check_draws, sealed_key
from registry.draws.reveal import check_reveals
from registry.errors import BrokenPromise, MissingKey, RegistryError, StoreError
from registry.ledger.draw_records import SealedSet
from registry.ledger.records import RunManifest
from registry.sealing import commitments_of, commitments_root, decrypt, open_seeds, recipient_of
from registry.signing import Signer
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
    reveals = check_reveals(findings.store, findings.records)
    for entry, problem in chain(check_draws(findings.records), reveals):
        findings.add(entry.place, f"{entry.kind}: {problem}")


def _check_ciphertext(findings: Findings, record: SealedSet) -> None:
    """The sealed object is the one promised, and its seeds are those committed to."""
    ciphertext = findings.store.get(record.uri)
    digest = digest_bytes(ciphertext)
    if digest != record.ciphertext:
        raise BrokenPromise(f"was altered: digest {record.ciphertext} expected, {digest} found")
    if findings.identities is None:
        return
    entries = open_seeds(ciphertext, findings.identities, record.uri).seeds
    findings.counts["sealed entries opened"] += len(entries)
    made = commitments_of(entries)
    if len(made) != len(record.commitments):
        raise BrokenPromise(f"{len(record.commitments)} entries expected, {len(made)} found")
    for index, (is_now, was) in enumerate(zip(made, record.commitments, strict=True)):
        if is_now != was:
            raise BrokenPromise(f"entry {index} is not what was committed to")
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


# -- runs


def check_runs(findings: Findings) -> None:
    """Check, with the study's key, that each run's sealed key is the one that its manifest names.
    Raises StoreError."""
    if findings.identities is None:
        return
    for manifest in {each.run_key: each for each in findings.manifests.values()}.values():
        try:
            _check_identity(findings, manifest)
        except RegistryError as error:
            if isinstance(error, StoreError) and not isinstance(error, MissingKey):
                raise
            findings.add(manifest.run_key, str(error))


def _check_identity(findings: Findings, manifest: RunManifest) -> None:
    sealed = findings.store.get(manifest.run_key)
    plain = decrypt(sealed, findings.keys.identities, manifest.run_key)
    identity = plain.decode("ascii", "replace")
    found = recipient_of(identity), Signer.of(identity).public
    if found != (manifest.run_recipient, manifest.run_signer):
        raise BrokenPromise(f"{manifest.run_key}: not the key of the run that the manifest names")
    findings.counts["keys of runs opened"] += 1
