"""Verification of the keys of runs, and of the attempts that their workers listed as stored."""

from __future__ import annotations

from registry.errors import BrokenPromise, MissingKey, RegistryError, StoreError
from registry.ledger import ReceiptFolder, RunManifest, WaveClosed, read_inventory, read_receipts
from registry.sealing import decrypt, recipient_of
from registry.signing import Signer
from registry.verify.findings import Findings

_ATTEMPTS = "attempts/"


def check_runs(findings: Findings) -> None:
    """Check, with the study's key, that each run's sealed key is the one that its manifest names,
    and that each attempt of a closed wave is the one that a worker stored, of those that workers
    have listed (registry/ledger/receipts.py). Raises StoreError."""
    if findings.identities is None:
        return
    closed = {record.manifest: record for _, record in findings.of("wave-closed")}
    closed_runs = {
        manifest.run_key: closed[digest]
        for digest, manifest in findings.manifests.items()
        if digest in closed
    }
    for manifest in {each.run_key: each for each in findings.manifests.values()}.values():
        try:
            identity = _open_identity(findings, manifest)
            if identity and (record := closed_runs.get(manifest.run_key)) is not None:
                _check_receipts(findings, manifest, identity, record)
        except RegistryError as error:
            if isinstance(error, StoreError) and not isinstance(error, MissingKey):
                raise
            findings.add(manifest.run_key, str(error))


def _open_identity(findings: Findings, manifest: RunManifest) -> str:
    sealed = findings.store.get(manifest.run_key)
    plain = decrypt(sealed, findings.keys.identities, manifest.run_key)
    identity = plain.decode("ascii", "replace")
    found = recipient_of(identity), Signer.of(identity).public
    if found != (manifest.run_recipient, manifest.run_signer):
        raise BrokenPromise(f"{manifest.run_key}: not the key of the run that the manifest names")
    findings.counts["keys of runs opened"] += 1
    return identity


def _check_receipts(
    findings: Findings, manifest: RunManifest, identity: str, closed: WaveClosed
) -> None:
    """Name each attempt that a worker has stored and that the closed wave has not, or has in other
    bytes: it was removed, and perhaps made again, before the wave was closed."""
    if not closed.objects_root:
        return
    folder = ReceiptFolder.of(manifest.run_key, identity)
    with read_receipts(findings.store, folder, lambda done, of: None) as receipts:
        promised = read_inventory(findings.store, closed.objects_root)
        for key in receipts.changed(_ATTEMPTS, promised):
            findings.add(
                key,
                f"a worker stored another object under this name, which was removed before wave"
                f" {closed.wave} was closed",
            )
