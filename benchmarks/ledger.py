"""Seconds to verify a ledger of 10,000 records, with its signatures and checkpoints.

``python -m benchmarks.ledger [RECORDS]`` prints one line of JSON. The ledger is in a folder, has
two witnesses, and checkpoints at a half and at the end that both have signed.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

from registry.canonical import canonical_bytes, digest_bytes
from registry.checkpoints import (
    WitnessState,
    check_checkpoints,
    cosign,
    leaf_hashes,
    put_checkpoint,
    sign_checkpoint,
)
from registry.ledger import Announcement, Release, inspect_chain, record_body, record_key
from registry.ledger.chain import GENESIS
from registry.signing import Signer
from registry.stores.folder import FolderStore

SIGNER = Signer(bytes(range(32)))
WITNESSES = tuple(WitnessState(f"example.org/{n}", f"{n:02x}" * 32) for n in (10, 11))


def write_record(store: FolderStore, number: int, previous: str) -> str:
    """Store a signed record, and return its digest: a ledger's own append reads all before it."""
    kind, record = "release", Release("public", "ab" * 32, number, previous, "folder", "")
    body = record_body(record)
    if number == 0:
        keys = tuple(str(witness.key) for witness in WITNESSES)
        kind = "announcement"
        body = record_body(
            Announcement(
                "study", (), 1, (), "", "", (), "", None, "", witnesses=keys, witness_threshold=2
            )
        )
    entry = {
        "sequence": number,
        "previous": previous,
        "kind": kind,
        "body": body,
        "time": "2026-11-01T12:00:00Z",
        "signer": SIGNER.public,
    }
    signature = SIGNER.sign("dosimeter/ledger/1", canonical_bytes(entry))
    data = canonical_bytes(entry | {"signature": signature})
    store.put(record_key(number), data)
    return digest_bytes(data)


def watch(store: FolderStore, states: list[WitnessState]) -> list[WitnessState]:
    """Let the study and its witnesses sign the ledger, and return what they know then."""
    entries, _ = inspect_chain(store)
    put_checkpoint(store, sign_checkpoint(entries, SIGNER), leaf_hashes(entries))
    known = []
    for state in states:
        made = cosign(state, store, 1_800_000_000, SIGNER.public)
        put_checkpoint(store, made.signed, made.leaves)
        known.append(made.state)
    return known


def main() -> None:
    """Print the seconds of the chain, and of the checkpoints after it."""
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        store, states, digest = FolderStore(folder, durable=False), list(WITNESSES), str(GENESIS)
        for number in range(records):
            if number == records // 2:
                states = watch(store, states)
            digest = write_record(store, number, digest)
        watch(store, states)
        began, cpu = time.perf_counter(), time.process_time()
        entries, broken = inspect_chain(store)
        chained = time.perf_counter()
        findings = check_checkpoints(store, entries)
        ended, cpu = time.perf_counter(), time.process_time() - cpu
    line = {
        "records": len(entries),
        "problems": len(broken) + len(findings.problems),
        "chain_seconds": round(chained - began, 2),
        "checkpoints_seconds": round(ended - chained, 2),
        "seconds": round(ended - began, 2),
        "cpu_seconds": round(cpu, 2),
        **findings.counts,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
