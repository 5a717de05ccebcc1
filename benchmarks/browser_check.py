"""Wall time of the check of a ledger of 1,000 records, with a draw of 3,072 seeds, in Chromium (the
best of three) and by `dosimeter verify` without a key. One JSON line."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from registry.canonical import digest_bytes
from registry.draws.seeds import SystemEntropy, allot_draw, announce_draw, draw
from registry.ledger.chain import Ledger
from registry.ledger.draw_records import DrawTerms
from registry.ledger.records import Leak
from registry.sealing import SealedSeeds, new_identity
from registry.signing import Signer
from registry.stores.folder import FolderStore
from registry.verify.verify import verify_study
from tests.study.extras.site.checker import open_checker

TIME = "2026-01-01T00:00:00Z"


def make_store(folder: Path, records: int) -> FolderStore:
    """Write a ledger of a number of records."""
    store = FolderStore(folder, durable=False)
    ledger = Ledger(store, lambda: Signer(bytes(32))).held()
    strata = [(f"family-{n}", "1", "easy") for n in range(12)]
    drawn = draw(strata, 128, SystemEntropy(), lambda *parts: digest_bytes(parts[3]))
    terms = DrawTerms("study", (new_identity()[1],))
    announced = announce_draw(store, ledger, drawn, terms, lambda: TIME)
    sealed = SealedSeeds(drawn.seeds, drawn.secret)
    ledger.append(allot_draw(announced, sealed, drawn.secret), TIME)
    for number in range(records - 2):
        ledger.append(Leak(0, "2026-01-01", f"a log of provider {number} was public"), TIME)
    return store


def time_of(check: Callable[[], bool]) -> float:
    """Return the seconds that a check takes, which must find no problem."""
    begun = perf_counter()
    assert check()
    return perf_counter() - begun


def main(records: int = 1000) -> None:
    """Check the ledger in both ways, and print the times."""
    with tempfile.TemporaryDirectory() as folder:
        store = make_store(Path(folder, "store"), records)
        with open_checker(Path(folder, "site")) as checker:
            browser = min(time_of(lambda: not checker.check(store.path).problems) for _ in range(3))
        verify = time_of(lambda: verify_study(store).holds)
    line = {"records": records, "browser_s": round(browser, 2), "verify_s": round(verify, 2)}
    print(json.dumps(line))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
