"""Verification of a store: its ledger, its draw and its objects.

Without a key: the ledger's chain, signatures and dates, the form of its records and what they say
of each other, the draw's announcement, allocation and commitments' root, what was revealed of it,
the digest of the sealed set, and of every object of a closed wave against its inventory and the
roots in the ledger. With the study's key also: that the ledger is signed by it, that the sealed set
opens to what was committed to, that each run's key is the one that its manifest names, and that
every object can be opened and was signed, under its name, by a key that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from registry.checkpoints.check import check_checkpoints
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import inspect_chain, signers_of
from registry.sealing import recipient_of
from registry.signing import Signer
from registry.stores.base import Store
from registry.verify.findings import Derived, Findings, Progress, Verification
from registry.verify.objects import check_derived, check_objects
from registry.verify.records import check_records
from registry.verify.sealed import check_runs, check_sealed_sets

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


def verify_study(
    store: Store,
    identities: Sequence[str] | None = None,
    expected_head: str | None = None,
    progress: Progress | None = None,
    derive: Derived = lambda closed: (),
    checkpoints: Mapping[str, bytes] | None = None,
    authorities: Sequence[Certificate] = (),
) -> Verification:
    """Check all that the store holds, reading each object once, one in memory at a time.

    ``identities`` are the study's; ``expected_head`` is a head of the ledger that was noted
    elsewhere. ``derive`` makes stored objects of a closed wave again from its results, which are
    read once more, and yields the key of each, and how it differs; "" if not. ``checkpoints`` are
    notes that were kept elsewhere, by place; ``authorities`` root certificates of those who stamp
    times.

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
    watched = check_checkpoints(
        store, entries, checkpoints, authorities, noted=expected_head is not None
    )
    for place, problem in watched.problems:
        findings.add(place, problem)
    findings.counts.update(watched.counts)
    findings.unchecked += watched.unchecked
    check_records(findings)
    check_sealed_sets(findings)
    check_runs(findings)
    check_objects(findings, progress)
    check_derived(findings, derive)
    return findings.result()


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
