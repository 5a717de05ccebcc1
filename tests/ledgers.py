"""A ledger that a test may append to, and keys by which it stores and reads objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from registry.draws.seeds import Draw, allot_draw, announce_draw, record_draw
from registry.ledger.chain import Ledger
from registry.ledger.draw_records import Announcement, DrawTerms, Parties, SealedSet
from registry.sealing import (
    CellKey,
    DrawnInstance,
    Keys,
    SealedSeeds,
    commitments_of,
    commitments_root,
    decrypt,
    recipient_of,
    run_name,
)
from registry.signing import Signer
from registry.stores.base import Store
from study.workspace.study import Study

SIGNER = Signer(bytes(range(32)))


def signed_ledger(store: Store) -> Ledger:
    """Return a store's ledger, whose records a key of the tests signs."""
    return Ledger(store, lambda: SIGNER)


_NOBODY = Parties()


def announcement(parties: Parties = _NOBODY, study: str = "study") -> Announcement:
    """Return the announcement of a draw of nothing, to begin a ledger with."""
    given: dict[str, Any] = dict.fromkeys(("root", "ciphertext", "entropy"), "") | asdict(parties)
    given |= {"strata": (), "recipients": (), "reserve": (), "seeds_per_arm": 1}
    return Announcement(study=study, beacon=None, commitment="00" * 32, **given)


def keys_of(identity: str, run: str = "") -> Keys:
    """Return the keys of an identity, with those of the cells of a ``run``, else with that of a
    cell."""
    signer, own = Signer.of(identity), run_name(recipient_of(run or identity))
    cell = None if run else CellKey.of(identity, own, "00" * 32)
    runs = {own: run}.get if run else {}.get
    return Keys((recipient_of(identity),), (identity,), signer, {signer.public}, runs, cell)


def keys_of_cell(study: Study, key: str, other: str = "") -> Keys:
    """Return the keys to write an object of a cell of a study again, or one with another name."""
    run = study.store.get(key)[17:81].decode()  # of the line that begins it
    named = (each.record for each in study.ledger.find("run-manifest"))
    manifest = next(each for each in named if run_name(each.run_recipient) == run)
    return Keys(
        cell=CellKey.of(study.run_identity(manifest), run, (other or key).rpartition("/")[2][:64])
    )


def plain_object(study: Study, key: str) -> bytes:
    """Return an object of a study's store, decrypted if it is sealed."""
    data = study.store.get(key)
    if key.endswith(".cell"):
        return study.keys().open(key, data)
    return decrypt(data, study.identities(), key) if key.endswith(".age") else data


def sealed_set(entries: Sequence[DrawnInstance], strata: Sequence[str], each: int) -> SealedSet:
    """Return the record of a draw of these entries, whose seeds are nowhere."""
    made, zeros = commitments_of(entries), "0" * 64
    return SealedSet(
        strata=tuple(strata),
        seeds_per_arm=each,
        count=len(entries),
        commitments=made,
        root=commitments_root(made),
        ciphertext=f"sha256:{zeros}",
        uri="sealed/0.age",
        recipients=(),
        entropy="fixed",
        allocation_seed=zeros,
    )


def seal_draw(
    store: Store, ledger: Ledger, drawn: Draw, recipients: Sequence[str], time: str
) -> SealedSet:
    """Seal, announce and allot a draw, by a secret of its own."""
    announced = announce_draw(
        store, ledger, drawn, DrawTerms("study", tuple(recipients)), lambda: time
    )
    sealed = SealedSeeds(drawn.seeds, drawn.secret)
    return record_draw(ledger, allot_draw(announced, sealed, drawn.secret), time)
