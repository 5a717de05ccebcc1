"""Announced first: which draws a ledger may have, and what names any other."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from registry.draws.allocation import allocation_seed, check_draws, commit_secret, pending_draw
from registry.draws.seeds import (
    FixedEntropy,
    SystemEntropy,
    allot_draw,
    announce_draw,
    draw,
    record_draw,
)
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import Ledger
from registry.ledger.draw_records import Announcement, Beacon, DrawTerms, SealedSet
from registry.ledger.records import Plan, Preregistration, Provenance
from registry.sealing import SealedSeeds, new_identity
from registry.stores import MemoryStore
from tests.ledgers import seal_draw, signed_ledger
from tests.registry.draws.beacons import CHAIN, sign_round, use_chain

IDENTITY, RECIPIENT = new_identity()
PLAN = Plan(
    "basic-v1", ("f/easy",), 3, 1, 2, 0.025, ("score",), 999, 1000, 0.05, "holm", "words", ()
)
PROVENANCE = Provenance("c" * 40, False, "missing", "none", "3.11.2", ())
STRATA = [("f", "1", "easy")]
BEACON = Beacon(CHAIN.hash, 1_000_001)  # public 3,000,000 s after the chain's begin
BEFORE, AFTER = "2023-12-19T15:33:19Z", "2023-12-19T15:33:20Z"


@pytest.fixture(autouse=True)
def _chain(monkeypatch: pytest.MonkeyPatch) -> None:
    use_chain(monkeypatch)


def identify(*stratum_and_seed: Any) -> str:
    return "sha256:" + stratum_and_seed[3].hex()


def problems(ledger: Ledger) -> list[str]:
    return [text for _, text in check_draws([(e, e.record) for e in ledger.entries()])]


def _parts(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def test_the_allocation_follows_from_study_root_and_value_by_the_letter() -> None:
    store = MemoryStore()
    ledger = signed_ledger(store)
    drawn = draw(STRATA, 3, SystemEntropy(), identify)
    sealed = seal_draw(store, ledger, drawn, [RECIPIENT], BEFORE)
    announced = ledger.entries()[0].record
    secret = bytes.fromhex(drawn.secret)
    committed = hmac.new(secret, _parts(b"dosimeter/allocation-secret/1", b"study"), "sha256")
    assert announced.commitment == committed.hexdigest()
    parts = (b"dosimeter/allocation-seed/1", b"study", bytes.fromhex(sealed.root), secret)
    assert sealed.allocation_seed == hashlib.sha256(_parts(*parts)).hexdigest()
    assert problems(ledger) == []
    # bound to the study and to the seeds
    assert commit_secret("other", drawn.secret) != announced.commitment
    other = replace(announced, root="00" * 32)
    assert allocation_seed(other, drawn.secret) != sealed.allocation_seed


def announce_by_beacon(time: str = BEFORE) -> tuple[Ledger, SealedSeeds, Announcement]:
    store = MemoryStore()
    ledger = signed_ledger(store)
    drawn = draw(STRATA, 3, SystemEntropy(), identify)
    announced = announce_draw(
        store, ledger, drawn, DrawTerms("study", (RECIPIENT,), BEACON), lambda: time
    )
    return ledger, SealedSeeds(drawn.seeds, ""), announced


def test_a_beacon_allots_what_was_announced_before_its_round() -> None:
    ledger, sealed, announced = announce_by_beacon()
    assert announced.commitment == ""
    assert pending_draw(ledger.entries()) == announced
    record = record_draw(ledger, allot_draw(announced, sealed, sign_round(BEACON.round)), AFTER)
    assert pending_draw(ledger.entries()) is None
    assert problems(ledger) == []
    again = record_draw(ledger, allot_draw(announced, sealed, sign_round(BEACON.round)), AFTER)
    assert again == record
    assert len(ledger.entries()) == 2
    value = hashlib.sha256(bytes.fromhex(record.value)).digest()
    parts = (b"dosimeter/allocation-seed/1", b"study", bytes.fromhex(record.root), value)
    assert record.allocation_seed == hashlib.sha256(_parts(*parts)).hexdigest()


def test_a_round_that_is_public_already_cannot_be_announced() -> None:
    store = MemoryStore()
    drawn = draw(STRATA, 3, SystemEntropy(), identify)
    with pytest.raises(RegistryError, match="has been public since 2023-12-19 15:33:20 UTC"):
        announce_draw(
            store,
            signed_ledger(store),
            drawn,
            DrawTerms("study", (RECIPIENT,), BEACON),
            lambda: AFTER,
        )
    assert signed_ledger(store).entries() == ()


def test_another_value_or_other_seeds_are_not_allotted() -> None:
    ledger, sealed, announced = announce_by_beacon()
    with pytest.raises(RegistryError, match="not signed by drand for round 1000001"):
        record_draw(ledger, allot_draw(announced, sealed, sign_round(5)), AFTER)
    with pytest.raises(RegistryError, match="not signed by drand"):
        record_draw(ledger, allot_draw(announced, sealed, "11" * 32), AFTER)
    other = SealedSeeds(draw(STRATA, 3, SystemEntropy(), identify).seeds, "")
    with pytest.raises(BrokenPromise, match="not those that were announced"):
        record_draw(ledger, allot_draw(announced, other, sign_round(BEACON.round)), AFTER)
    assert len(ledger.entries()) == 1


def test_of_two_that_draw_at_once_one_is_announced() -> None:
    """Each looks before the other writes: the second goes on with what the first announced."""
    store = MemoryStore()
    ledger = signed_ledger(store)
    one, two = (draw(STRATA, 3, SystemEntropy(), identify) for _ in range(2))
    first, second = (
        announce_draw(store, ledger, each, DrawTerms("study", (RECIPIENT,)), lambda: BEFORE)
        for each in (one, two)
    )
    assert first == second
    assert len(ledger.entries()) == 1


Records = Sequence[Any]  # a second draw by a call; the rest are recorded BEFORE, or as dated
Dishonest = Callable[[SealedSet, Announcement], Records]
REGISTERED = Preregistration("study", PLAN, "", PROVENANCE)


def second(ledger: Ledger, reason: str, **changes: Any) -> Announcement:
    """Announce and allot a second draw."""
    drawn = draw(STRATA, 3, FixedEntropy(b"\x02" * 32), identify)
    store = MemoryStore()
    announced = announce_draw(
        store,
        signed_ledger(store),
        drawn,
        DrawTerms("study", (RECIPIENT,), again=reason),
        lambda: AFTER,
    )
    announced = replace(announced, **changes)
    ledger.append(announced, AFTER)
    if not changes:
        sealed = SealedSeeds(drawn.seeds, drawn.secret)
        record_draw(ledger, allot_draw(announced, sealed, drawn.secret), AFTER)
    return announced


def again(reason: str, **changes: Any) -> Callable[[Ledger], object]:
    return lambda ledger: second(ledger, reason, **changes)


def plan_of(sealed: SealedSet) -> Preregistration:
    return replace(REGISTERED, sealed_root=sealed.root)


def by_beacon(announced: Announcement, beacon: Beacon = BEACON) -> Announcement:
    return replace(announced, beacon=beacon, commitment="")


CASES: dict[str, tuple[Dishonest, str]] = {
    "unannounced": (
        lambda sealed, announced: [sealed],
        "an unannounced draw: no announcement stands before it",
    ),
    "second draw, unannounced": (
        lambda sealed, announced: [announced, sealed, replace(sealed, root="11" * 32)],
        "a second draw without a record that announces it, and its reason",
    ),
    "second draw, no reason": (
        lambda sealed, announced: [announced, sealed, again("")],
        "a second draw was announced without a reason",
    ),
    "second draw, after the registration": (
        lambda sealed, announced: [announced, sealed, plan_of(sealed), again("a mistake")],
        "a draw was announced after the plan was registered",
    ),
    "other seed": (
        lambda sealed, announced: [announced, replace(sealed, allocation_seed="11" * 32)],
        "follows from the announced value, not the recorded one",
    ),
    "other secret": (
        lambda sealed, announced: [announced, replace(sealed, value="11" * 32)],
        "its value is not the secret that the announcement committed to",
    ),
    "other seeds": (
        lambda sealed, announced: [announced, replace(sealed, root="11" * 32)],
        " announced, 1111",
    ),
    "other tranches": (
        lambda sealed, announced: [announced, replace(sealed, seeds_per_arm=2, reserve=(1,))],
        "seeds_per_arm 3 announced, 2 found",
    ),
    "round over": (
        lambda sealed, announced: [(by_beacon(announced), AFTER)],
        "announced at 2023-12-19T15:33:20Z, when drand round 1000001 was public already",
    ),
    "unknown chain": (
        lambda sealed, announced: [by_beacon(announced, Beacon("ab" * 32, 7))],
        "not of quicknet",
    ),
    "value of another round": (
        lambda sealed, announced: [
            by_beacon(announced),
            (replace(sealed, value=sign_round(5)), AFTER),
        ],
        "its value is not signed by drand for round 1000001",
    ),
    "before the round": (
        lambda sealed, announced: [
            by_beacon(announced),
            replace(sealed, value=sign_round(BEACON.round)),
        ],
        "allotted at 2023-12-19T15:33:19Z, before drand round 1000001 was public",
    ),
    "neither": (
        lambda sealed, announced: [replace(announced, commitment="")],
        "announced with either a beacon or the commitment to a secret",
    ),
    "another study": (
        lambda sealed, announced: [announced, sealed, again("a mistake", study="other")],
        "announced for the study 'other', and the first for 'study'",
    ),
    "registered in between": (
        lambda sealed, announced: [announced, plan_of(sealed)],
        "registered while an announced draw had no allocation yet",
    ),
    "registered for the first": (
        lambda sealed, announced: [announced, sealed, again("a mistake"), (plan_of(sealed), AFTER)],
        "registered for another draw than the newest",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_dishonest_draw_is_named(name: str) -> None:
    forge, named = CASES[name]
    store = MemoryStore()
    drawn = draw(STRATA, 3, FixedEntropy(bytes(32)), identify)
    sealed = seal_draw(store, signed_ledger(store), drawn, [RECIPIENT], BEFORE)
    announced = signed_ledger(store).entries()[0].record
    ledger = signed_ledger(MemoryStore())
    for record in forge(sealed, announced):
        if callable(record):
            record(ledger)
        else:
            ledger.append(*(record if isinstance(record, tuple) else (record, BEFORE)))
    assert any(named in text for text in problems(ledger)), problems(ledger)


def test_a_second_draw_with_its_reason_holds() -> None:
    store = MemoryStore()
    ledger = signed_ledger(store)
    drawn = draw(STRATA, 3, FixedEntropy(bytes(32)), identify)
    seal_draw(store, ledger, drawn, [RECIPIENT], BEFORE)
    announced = second(ledger, "a task was replaced")
    ledger.append(replace(REGISTERED, sealed_root=announced.root), AFTER)
    assert problems(ledger) == []
