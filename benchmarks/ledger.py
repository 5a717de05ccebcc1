"""Seconds to verify a ledger of 10,000 records, with its signatures and checkpoints.

``python -m benchmarks.ledger [RECORDS]`` prints one line of JSON. The ledger is in a folder, and
has checkpoints at a half and at the end.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

from registry.canonical import canonical_bytes, digest_bytes
from registry.checkpoints import (
    check_checkpoints,
    leaf_hashes,
    put_checkpoint,
    sign_checkpoint,
)
from registry.ledger import Announcement, Release, inspect_chain, record_body, record_key
from registry.ledger.chain import GENESIS
from registry.signing import Signer
from registry.stores.folder import FolderStore

SIGNER = Signer(bytes(range(32)))


def write_record(store: FolderStore, number: int, previous: str) -> str:
    """Store a signed record, and return its digest: a ledger's own append reads all before it."""
    kind, record = "release", Release("public", "ab" * 32, number, previous, "folder", "")
    body = record_body(record)
    if number == 0:
        kind = "announcement"
        body = record_body(Announcement("study", (), 1, (), "", "", (), "", None, ""))
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


def sign(store: FolderStore) -> None:
    """Store a checkpoint of the ledger as it is."""
    entries, _ = inspect_chain(store)
    put_checkpoint(store, sign_checkpoint(entries, SIGNER), leaf_hashes(entries))


def main() -> None:
    """Print the seconds of the chain, and of the checkpoints after it."""
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        store, digest = FolderStore(folder, durable=False), str(GENESIS)
        for number in range(records):
            if number == records // 2:
                sign(store)
            digest = write_record(store, number, digest)
        sign(store)
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
