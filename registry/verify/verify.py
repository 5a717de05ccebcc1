"""Verification of a store: its ledger, its draw and its objects.

Without a key: the ledger's chain, signatures and dates, the form of its records and what they say
of each other, the draw's announcement, allocation and commitments' root, what was revealed of it,
the digest of the sealed set, and of every object of a closed wave against its inventory and the
roots in the ledger. With the study's key also: that the ledger is signed by it, that the sealed set
opens to what was committed to, that each run's key is the one that its manifest names, and that
every object can be opened and was signed, under its name, by a key that counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from registry.canonical import digest_bytes
from registry.checkpoints.timestamp import Authorities
from registry.draws.allocation import check_draws, sealed_key
from registry.draws.reveal import check_reveals
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import inspect_chain, signers_of
from registry.ledger.draw_records import SealedSet, sizes_of
from registry.ledger.records import RunManifest
from registry.sealing import commitments_of, commitments_root, open_run, open_seeds, recipient_of
from registry.signing import Signer
from registry.stores.base import Store
from registry.verify.checkpoints import check_checkpoints
from registry.verify.findings import Derived, Findings, Progress, Verification
from registry.verify.objects import check_derived, check_objects
from registry.verify.promises import selection_promises
from registry.verify.records import check_records


def check_sealed_sets(findings: Findings) -> None:
    """Check the records of draws, and the sealed objects that they name. Raises StoreError."""
    sets = findings.of("sealed-set")
    findings.counts["sealed sets"] = len(sets)
    for entry, record in sets:
        for problem in _broken_promises(record):
            findings.add(entry.place, problem)
        findings.check(record.uri, partial(_check_ciphertext, findings, record))
    reveals = check_reveals(findings.store, findings.records)
    for entry, problem in chain(check_draws(findings.records), reveals):
        findings.add(entry.place, f"{entry.kind}: {problem}")


def _check_ciphertext(findings: Findings, record: SealedSet) -> None:
    """The sealed object is the one promised, and its seeds are those committed to."""
    ciphertext = findings.store.get(record.uri)
    if (digest := digest_bytes(ciphertext)) != record.ciphertext:
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
    if (root := commitments_root(record.commitments)) != record.root:
        yield f"root {record.root} expected over the commitments, {root} found"
    sizes = sizes_of(record.seeds_per_arm, record.strata)
    drawn = 2 * (sum(sizes) + sum(record.reserve) * len(record.strata))
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
        findings.check(manifest.run_key, partial(_check_identity, findings, manifest))


def _check_identity(findings: Findings, manifest: RunManifest) -> None:
    open_run(findings.store.get(manifest.run_key), manifest, findings.keys.identities)
    findings.counts["keys of runs opened"] += 1


def verify_study(
    store: Store,
    identities: Sequence[str] | None = None,
    expected_head: str | None = None,
    progress: Progress | None = None,
    derive: Derived = lambda closed: (),
    checkpoints: Mapping[str, bytes] | None = None,
    authorities: Authorities | None = None,
) -> Verification:
    """Check all that the store holds, reading each object once, one in memory at a time.

    ``identities`` are the study's; ``expected_head`` is a head of the ledger that was noted
    elsewhere. ``derive`` makes stored objects of a closed wave again from its results, which are
    read once more, and yields the key of each, and how it differs; "" if not. ``checkpoints`` are
    notes that were kept elsewhere, by place; ``authorities`` are those who stamp times, by default
    the ones that this system trusts.

    Errors are listed and do not stop the rest. Raises StoreError if the store itself cannot be
    read, RegistryError for a malformed identity.
    """
    entries, broken = inspect_chain(store, expected_head)
    findings = Findings(store, identities, entries)
    for place, problem in broken:
        findings.add(place, problem)
    findings.counts["ledger records"] = len(entries)
    findings.read_records()
    _note_unchecked(findings, expected_head)
    _check_identities(findings)
    known, noted = authorities or Authorities.known(), expected_head is not None
    check_checkpoints(findings, checkpoints or {}, known, noted)
    check_records(findings)
    check_sealed_sets(findings)
    check_runs(findings)
    check_objects(findings, progress)
    check_derived(findings, derive)
    promises = selection_promises(findings, findings.stamps)
    return replace(findings.result(), promises=promises)


def _note_unchecked(findings: Findings, expected_head: str | None) -> None:
    if expected_head is None:
        findings.unchecked.append(
            "whether records were dropped from the ledger's end, or all were written anew: no head"
            " noted elsewhere was given"
        )
    if findings.identities is None:
        findings.unchecked.append(
            "what is sealed (commitments, ciphertexts, the signatures in them) and"
            " whose key signed the ledger: no key was given; compare the signer with one that you"
            " know from elsewhere"
        )
    records = findings.of("preregistration") or findings.of("sealed-set")
    for unproved in dict.fromkeys(record.unproved for _, record in records if record.unproved):
        findings.unchecked.append(
            f"whether {', '.join(unproved.tasks)} can be solved and not be guessed: --unproved was"
            f" given, since {unproved.reason}"
        )
    for _, record in findings.of("wave-closed"):
        if not record.objects_root:
            findings.unchecked.append(f"objects of wave {record.wave}: closed without an inventory")
        for ran in record.elsewhere:
            findings.unchecked.append(f"what was run in wave {record.wave}: {ran.words}")


def _check_identities(findings: Findings) -> None:
    """Report one error for a wrong key, instead of one for each object; and a ledger that the key
    given has not signed."""
    if findings.identities is None or not findings.entries:
        return
    given = {recipient_of(identity) for identity in findings.identities}
    for _, record in findings.of("sealed-set"):
        if given.isdisjoint(record.recipients):
            raise RegistryError(
                f"{record.uri}: sealed to {', '.join(record.recipients)}; the key given is of"
                f" {', '.join(sorted(given)) or 'nobody'}: use the study's key file"
            )
    first = findings.entries[0]
    try:
        signers = signers_of((first,))
    except BrokenPromise:
        return
    own = [Signer.of(identity).public for identity in findings.identities]
    if own and not set(own) & set(signers):
        findings.add(
            first.place,
            f"signed by {first.signer[:16]}…, and the key given signs as {own[0][:16]}…: the ledger"
            " was replaced, or is another study's",
        )
