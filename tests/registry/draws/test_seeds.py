"""The draw: random, without repeats, balanced by design, sealed once."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.canonical import digest_bytes
from registry.draws.allocation import allocate, place_seeds
from registry.draws.seeds import Draw, FixedEntropy, SystemEntropy, draw
from registry.errors import RegistryError
from registry.result_row import Arm
from registry.sealing import commitments_of, new_identity, open_seeds
from registry.stores.base import MemoryStore, Store
from tests.ledgers import seal_draw, signed_ledger

STRATA = (("circles", "1", "easy"), ("circles", "1", "hard"), ("average", "2", "easy"))
NAMES = ("circles/easy", "circles/hard", "average/easy")
IDENTITY, RECIPIENT = new_identity()
TO = [RECIPIENT]
NOW = "2026-11-01T12:00:00Z"
FIXED = FixedEntropy(bytes(32))


def identify(family: str, version: str, difficulty: str, seed: bytes) -> str:
    text = f"{family}@{version}/{difficulty}".encode()
    return "sha256:" + hashlib.sha256(text + seed).hexdigest()


def test_each_stratum_gets_as_many_seeds_of_each_arm() -> None:
    store, drawn = MemoryStore(), draw(STRATA, 5, SystemEntropy(), identify)
    placed = place_seeds(drawn.seeds, seal_draw(store, signed_ledger(store), drawn, TO, NOW))
    counted = Counter((entry.stratum, entry.arm) for entry in placed)
    assert counted == {(name, arm): 5 for name in NAMES for arm in Arm}
    assert drawn.strata == NAMES
    assert tuple(dict.fromkeys(entry.stratum for entry in placed)) == NAMES


def test_no_instance_seed_or_nonce_comes_twice() -> None:
    entries = draw(STRATA, 20, SystemEntropy(), identify).seeds
    for secret in ("instance", "seed", "nonce"):
        assert len({getattr(entry, secret) for entry in entries}) == len(entries)
    for entry in entries:
        seed = bytes.fromhex(entry.seed)
        assert entry.instance == identify(entry.family, entry.version, entry.difficulty, seed)


def test_what_is_excluded_is_not_drawn() -> None:
    first = draw(STRATA, 4, FIXED, identify).seeds
    for secret in ("instance", "seed"):
        excluded = {getattr(entry, secret) for entry in first[::3]}
        again = draw(STRATA, 4, FIXED, identify, excluded=excluded).seeds
        assert len(again) == len(first)
        assert not excluded & {getattr(entry, secret) for entry in again}
        assert {entry.seed for entry in first} - {entry.seed for entry in again} == {
            entry.seed for entry in first[::3]
        }


def test_fixed_entropy_draws_the_same_again_and_the_systems_does_not() -> None:
    assert draw(STRATA, 4, FIXED, identify) == draw(STRATA, 4, FIXED, identify)
    assert draw(STRATA, 4, FIXED, identify).entropy == "fixed"
    other = draw(STRATA, 4, FixedEntropy(b"\x01" * 32), identify)
    one, two = (draw(STRATA, 4, SystemEntropy(), identify) for _ in range(2))
    seeds = [
        {entry.seed for entry in each.seeds}
        for each in (one, two, other, draw(STRATA, 4, FIXED, identify))
    ]
    assert sum(map(len, seeds)) == len(set.union(*seeds)), "no two draws share a seed"
    assert len({one.secret, two.secret, other.secret}) == 3
    assert one.entropy == "operating system"


def test_a_larger_draw_of_fixed_entropy_gives_no_instance_another_seed() -> None:
    small = {entry.seed for entry in draw(STRATA, 2, FIXED, identify).seeds}
    assert small < {entry.seed for entry in draw(STRATA, 4, FIXED, identify).seeds}


def test_an_instance_that_comes_twice_is_drawn_anew() -> None:
    """An identify of only 12 outcomes: the draw still finds 10 different instances."""
    drawn = draw(STRATA[:1], 5, FIXED, lambda *args: f"instance-{args[3][0] % 12}")
    assert len({entry.instance for entry in drawn.seeds}) == 10
    with pytest.raises(RegistryError, match="circles/easy: 100 draws gave no new instance"):
        draw(STRATA[:1], 5, FIXED, lambda *args: "always the same")


@settings(max_examples=40, deadline=None)
@given(seed=st.binary(min_size=32, max_size=32), size=st.integers(1, 30))
def test_the_allocation_is_balanced_and_anyones_to_recompute(seed: bytes, size: int) -> None:
    places = allocate(NAMES, size, seed.hex())
    assert {place.tranche for place in places} == {0}
    arms = tuple(place.arm for place in places)
    for number, name in enumerate(NAMES):
        part = arms[2 * size * number : 2 * size * (number + 1)]
        assert part.count(Arm.PUBLIC) == part.count(Arm.PRIVATE) == size
        assert part == _by_the_letter(name, size, seed)


def _ranks(stratum: str, size: int, seed: bytes) -> list[bytes]:
    def rank(index: int) -> bytes:
        hasher = hashlib.sha256()
        for part in (b"dosimeter/allocation/1", seed, stratum.encode(), str(index).encode()):
            hasher.update(len(part).to_bytes(4, "big") + part)
        return hasher.digest()

    return [rank(index) for index in range(size)]


def _by_the_letter(stratum: str, size: int, seed: bytes) -> tuple[Arm, ...]:
    """As the module's head says it, written a second time."""

    ranks = _ranks(stratum, 2 * size, seed)
    median = sorted(ranks)[size]
    return tuple(Arm.PUBLIC if each < median else Arm.PRIVATE for each in ranks)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.binary(min_size=32, max_size=32),
    size=st.integers(1, 12),
    reserve=st.lists(st.integers(1, 6), max_size=3),
)
def test_reserve_tranches_are_balanced_too_and_follow_from_the_same_order(
    seed: bytes, size: int, reserve: list[int]
) -> None:
    places = allocate(NAMES, size, seed.hex(), reserve)
    whole = 2 * (size + sum(reserve))
    for number, name in enumerate(NAMES):
        part = places[whole * number : whole * (number + 1)]
        counted = Counter(part)
        assert counted == {
            (arm, tranche): count for tranche, count in enumerate([size, *reserve]) for arm in Arm
        }
        ranks = _ranks(name, whole, seed)
        order = sorted(range(whole), key=lambda index: ranks[index])
        in_order = [part[index] for index in order]
        assert in_order == sorted(in_order, key=lambda p: (p.tranche, p.arm is Arm.PRIVATE))


def test_a_draw_with_reserve_has_tranches() -> None:
    store, drawn = MemoryStore(), draw(STRATA, 3, FIXED, identify, reserve=(2, 1))
    assert len(drawn.seeds) == len(STRATA) * 2 * (3 + 2 + 1)
    record = seal_draw(store, signed_ledger(store), drawn, TO, NOW)
    assert record.reserve == (2, 1)
    placed = place_seeds(drawn.seeds, record)
    counted = Counter((entry.stratum, entry.arm, entry.tranche) for entry in placed)
    assert set(counted.values()) == {3, 2, 1}
    with pytest.raises(RegistryError, match="36 seeds expected in the draw, 35 found"):
        place_seeds(drawn.seeds[1:], record)


def test_a_reserve_tranche_of_nothing_is_refused() -> None:
    with pytest.raises(RegistryError, match="at least 1, not 0"):
        draw(STRATA, 2, FIXED, identify, reserve=(1, 0))


def test_every_allocation_is_as_likely_as_another() -> None:
    """Two seeds an arm have six allocations; over 3,000 allocation seeds, chi-squared with
    five degrees of freedom lies below its 99.99 % point."""
    counted = Counter(
        allocate(("s",), 2, hashlib.sha256(b"%d" % number).hexdigest()) for number in range(3000)
    )
    assert len(counted) == 6
    assert sum((count - 500) ** 2 / 500 for count in counted.values()) < 25.7


@pytest.mark.parametrize(
    ("strata", "size", "match"),
    [((), 1, "one stratum or more"), (STRATA, 0, "at least 1"), (STRATA[:1] * 2, 1, "named once")],
)
def test_a_draw_of_nothing_or_of_one_stratum_twice_is_refused(
    strata: tuple[tuple[str, str, str], ...], size: int, match: str
) -> None:
    with pytest.raises(RegistryError, match=match):
        draw(strata, size, FIXED, identify)


def test_a_draw_shows_no_seed() -> None:
    drawn = draw(STRATA, 2, FIXED, identify)
    assert not any(entry.seed in repr(drawn) for entry in drawn.seeds)
    assert "00" * 16 not in repr(FIXED)


def _sealed(store: Store, drawn: Draw) -> object:
    return seal_draw(store, signed_ledger(store), drawn, TO, NOW)


def test_a_sealed_draw_can_be_opened_and_is_promised_in_public() -> None:
    store, drawn = MemoryStore(), draw(STRATA, 3, SystemEntropy(), identify)
    record = seal_draw(store, signed_ledger(store), drawn, TO, NOW)
    sealed = store.get(record.uri)
    assert record.uri == f"sealed/{record.ciphertext.removeprefix('sha256:')}.age"
    assert record.ciphertext == digest_bytes(sealed)
    opened = open_seeds(sealed, [IDENTITY], record.uri)
    assert (opened.seeds, opened.secret) == (drawn.seeds, drawn.secret)
    assert record.commitments == commitments_of(drawn.seeds)
    last = signed_ledger(store).last("sealed-set")
    assert last is not None
    assert last.record == record


def test_nothing_in_the_store_tells_a_seed() -> None:
    store, drawn = MemoryStore(), draw(STRATA, 3, SystemEntropy(), identify)
    _sealed(store, drawn)
    everything = b"".join(store.get(key) for key in store.list())
    for entry in drawn.seeds:
        for secret in (entry.seed, entry.nonce, entry.instance):
            assert secret.encode() not in everything
            assert secret.removeprefix("sha256:").encode() not in everything
        assert bytes.fromhex(entry.seed) not in everything
