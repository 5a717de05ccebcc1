"""Time to draw, seal, announce and allot seeds beyond the generation of their instances, and to
reveal them.

    python -m benchmarks.draws [--seeds 10000]

Prints seconds by step. Generation is left out: an instance's name is a digest of its seed. The
ledger and the sealed seeds lie in a folder.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from registry.draws import (
    SystemEntropy,
    allot_draw,
    announce_draw,
    check_draws,
    draw,
    place_seeds,
    record_draw,
    reveal_bytes,
    sealed_key,
    write_reveal,
)
from registry.ledger import Ledger
from registry.sealing import new_identity, open_seeds
from registry.signing import Signer
from registry.stores import open_store

NOW = "2026-11-24T12:00:00Z"
STRATA = [("family", "1", level) for level in ("easy", "medium", "hard", "expert")]


def identify(family: str, version: str, difficulty: str, seed: bytes) -> str:
    """Return the name of a seed's instance, which is not made."""
    text = f"{family}@{version}/{difficulty}".encode()
    return "sha256:" + hashlib.sha256(text + seed).hexdigest()


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Print the seconds of a step."""
    begun = time.perf_counter()
    yield
    print(f"{time.perf_counter() - begun:8.2f} s  {step}")


def main() -> None:
    """Run all steps once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    each = parser.parse_args().seeds // (2 * len(STRATA))
    identity, recipient = new_identity()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        ledger = Ledger(store, lambda: Signer.of(identity))
        with timed(f"draw {2 * each * len(STRATA)} seeds"):
            drawn = draw(STRATA, each, SystemEntropy(), identify)
        with timed("seal and announce"):
            announced = announce_draw(store, ledger, drawn, "study", [recipient], lambda: NOW)
        with timed("open and allot"):
            key = sealed_key(announced.ciphertext)
            sealed = open_seeds(store.get(key), [identity], key)
            record = record_draw(ledger, allot_draw(announced, sealed, sealed.secret), NOW)
        with timed("check the ledger's draws"):
            assert not [*check_draws([(e, e.record) for e in ledger.entries()])]
        with timed("reveal"):
            entries = place_seeds(sealed.seeds, record)
            write_reveal(store, ledger, reveal_bytes("study", record, entries, (0,)), "", NOW)


if __name__ == "__main__":
    main()
