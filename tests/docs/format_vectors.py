"""The test vectors of docs/formats.md. ``python -m tests.docs.format_vectors`` writes them anew."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest import mock

from registry.canonical import digest_bytes
from registry.checkpoints.checkpoint import sign_checkpoint
from registry.draws.allocation import allocate, allocation_seed, commit_secret
from registry.draws.beacon import QUICKNET, beacon_value
from registry.draws.reveal import reveal_bytes
from registry.ledger.begun import BegunList, begun_folder, find_heads
from registry.ledger.chain import Ledger
from registry.ledger.draw_records import Announcement, Beacon, SealedSet
from registry.ledger.records import Leak
from registry.result_row import Arm
from registry.sealing import (
    CellKey,
    DrawnInstance,
    commitments_of,
    commitments_root,
    recipient_of,
    run_name,
)
from registry.signing import Signer, derive_key, sign_object
from registry.stores import MemoryStore

PAGE = Path(__file__).resolve().parents[2] / "docs/formats.md"
BLOCK = re.compile(r"(?<=```json\n)\{\n.*?\n\}\n(?=```)", re.DOTALL)
# A key that everybody knows: of no study.
IDENTITY = "AGE-SECRET-KEY-1QQQSYQCYQ5RQWZQFPG9SCRGWPUGPZYSNZS23V9CCRYDPK8QARC0SWRYDWG"
ROUND_1000 = (
    "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125"
    "e342b73a8dd2bacbe47e4b6b63ed5e39"
)
SECRET = "5e" * 32
DATA = b'{"score":1}'


def _seed(number: int) -> DrawnInstance:
    return DrawnInstance(
        f"sha256:{number:02x}" + "ab" * 31,
        "count_circles",
        "1",
        "easy",
        f"{number:02x}" * 32,
        f"{number + 16:02x}" * 32,
        Arm.PUBLIC,
    )


def _checkpoint(ledger: Ledger, signer: Signer) -> dict[str, Any]:
    """Return a vector of a checkpoint."""
    signed = sign_checkpoint(ledger.entries(), signer)
    return {
        "records": [f"ledger/{number:08d}.json" for number in range(2)],
        "root": signed.checkpoint.root.hex(),
        "key ID": signed.checkpoint.key_id.hex(),
        "note": signed.note.decode(),
    }


def _begun() -> dict[str, Any]:
    """Return a vector of a worker's list, with an attempt that failed and another."""
    store, run = MemoryStore(), "age143sqwla2keqzck2uc5z2cmaz0h0dfxwy5f5zaafdj7cy8j44pyasm8ym8e"
    made = BegunList(store, begun_folder(run), "000001-1", lambda: "2026-11-24T12:00:00Z")
    for number in (1, 2):
        made.begin("ab" * 32, number)
        made.end("ab" * 32, number, b"sealed %d" % number)
    (head,) = find_heads(store, made.folder)
    pages = {key: store.get(key).decode() for key in store.list()}
    return {"run_recipient": run, "pages": pages, "head": asdict(head)}


def vectors() -> dict[str, Any]:
    """Return the vectors by name, each with what goes in and what comes out."""
    name = "results/ab/" + "ab" * 32 + ".cell"
    cell = CellKey.of(IDENTITY, run_name(recipient_of(IDENTITY)), "ab" * 32)
    with mock.patch("os.urandom", lambda size: b"\x0c" * size):
        written = cell.seal(name, DATA)
    seeds = [_seed(number) for number in range(1, 7)]
    commitments = commitments_of(seeds)
    root = commitments_root(commitments)
    announced = Announcement(
        study="study",
        strata=("count_circles/easy",),
        seeds_per_arm=2,
        reserve=(1,),
        root=root,
        ciphertext="sha256:" + "0" * 64,
        recipients=(),
        entropy="operating system",
        beacon=None,
        commitment=commit_secret("study", SECRET),
    )
    seed = allocation_seed(announced, SECRET)
    places = allocate(announced.strata, 2, seed, (1,))
    sealed = SealedSet(
        announced.strata, 2, 6, commitments, root, "", "", (), "", seed, (1,), None, SECRET
    )
    drawn = zip(seeds, places, strict=True)
    entries = [replace(each, arm=place.arm, tranche=place.tranche) for each, place in drawn]
    signer, store = Signer.of(IDENTITY), MemoryStore()
    ledger = Ledger(store, lambda: signer)
    entry = ledger.append(announced, "2026-11-24T12:00:00Z")
    leak = ledger.append(Leak(1, "2026-11-25", "a log was public"), "2026-11-25T12:00:00Z")
    reveal = reveal_bytes("study", sealed, entries, (1,))
    beacon = replace(announced, beacon=Beacon(QUICKNET.hash, 1000), commitment="")
    return {
        "commitment": {
            "instance": seeds[0].instance,
            "seed": seeds[0].seed,
            "nonce": seeds[0].nonce,
            "commitment": commitments[0],
        },
        "root": {"commitments": list(commitments), "root": root},
        "allocation by a secret": {
            "study": "study",
            "root": root,
            "secret": SECRET,
            "commitment": announced.commitment,
            "allocation_seed": seed,
            "strata": list(announced.strata),
            "seeds_per_arm": 2,
            "reserve": [1],
            "places": [[place.arm.value, place.tranche] for place in places],
        },
        "allocation by a beacon": {
            "study": "study",
            "root": root,
            "chain": QUICKNET.hash,
            "round": 1000,
            "signature": ROUND_1000,
            "value": beacon_value(ROUND_1000).hex(),
            "allocation_seed": allocation_seed(beacon, ROUND_1000),
        },
        "key derivation": {
            "identity": IDENTITY,
            "signing secret": derive_key(IDENTITY, "dosimeter/signing/1").hex(),
            "signing public": signer.public,
        },
        "ledger record": {
            "bytes": store.get("ledger/00000000.json").decode(),
            "digest": entry.digest,
        },
        "leak": {"bytes": store.get("ledger/00000001.json").decode(), "digest": leak.digest},
        "checkpoint": _checkpoint(ledger, signer),
        "list of begun attempts": _begun(),
        "object": {
            "name": "grades/ab/" + "ab" * 32 + ".age",
            "data": '{"score":1}',
            "plain": sign_object(signer, "grades/ab/" + "ab" * 32 + ".age", DATA).decode(),
        },
        "object of a cell": {
            "run_recipient": recipient_of(IDENTITY),
            "run's identity": IDENTITY,
            "name": name,
            "data": DATA.decode(),
            "key": cell.secret.hex(),
            "object": written.hex(),
        },
        "reveal": {"bytes": reveal.decode(), "content": digest_bytes(reveal)},
    }


def write_page() -> None:
    """Put the vectors into the page."""
    text = json.dumps(vectors(), indent=2) + "\n"
    PAGE.write_text(BLOCK.sub(lambda _: text, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write_page()
