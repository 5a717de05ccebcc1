"""Sealing: only who holds a key reads, tampering shows, commitments bind and hide."""

from __future__ import annotations

import hashlib
import hmac
import os
import traceback
from pathlib import Path

import bech32
import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.errors import BrokenPromise, ForeignObject, RegistryError
from registry.sealing import (
    CellKey,
    DrawnSeed,
    Keys,
    SealedSeeds,
    commit,
    commitments_of,
    decrypt,
    encrypt,
    identity_of,
    new_identity,
    open_seeds,
    read_identities,
    recipient_of,
    run_name,
    seal_seeds,
    write_identity,
)
from registry.signing import derive_key
from tests.cases import cases

IDENTITY, RECIPIENT = new_identity()
OTHER, OTHER_RECIPIENT = new_identity()
SEED, NONCE = bytes(range(32)), bytes(range(32, 64))
ENTRIES = (
    DrawnSeed("sha256:aa", "count", "1", "easy", SEED.hex(), NONCE.hex()),
    DrawnSeed("sha256:bb", "count", "1", "easy", NONCE.hex(), SEED.hex()),
)


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=5000))
def test_each_recipient_can_open_and_nobody_else(data: bytes) -> None:
    sealed = encrypt(data, [RECIPIENT, OTHER_RECIPIENT])
    assert decrypt(sealed, [IDENTITY], "x") == data
    assert decrypt(sealed, [OTHER], "x") == data
    with pytest.raises(RegistryError, match="x: not sealed to the key given"):
        decrypt(sealed, [new_identity()[0]], "x")


NAME = f"results/aa/{'aa' * 32}.cell"
CELL = CellKey.of(IDENTITY, run_name(RECIPIENT), "aa" * 32)
CELL_READER = Keys(runs={CELL.run: IDENTITY}.get)


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=5000))
def test_a_cells_object_is_opened_with_its_key_and_with_its_runs(data: bytes) -> None:
    sealed = Keys(cell=CELL).seal(NAME, data)
    assert Keys(cell=CELL).open(NAME, sealed) == CELL_READER.open(NAME, sealed) == data
    assert sealed != CELL.seal(NAME, data), "a nonce of its own"


@pytest.mark.parametrize(("identity", "episode"), [(IDENTITY, "bb" * 32), (OTHER, "aa" * 32)])
def test_a_cells_object_by_another_key_is_foreign(identity: str, episode: str) -> None:
    other = NAME.replace(".cell", "-0001.cell")
    sealed = CellKey.of(identity, CELL.run, episode).seal(NAME, b"x")
    for keys in (CELL_READER, Keys(cell=CELL)):
        for name, data in ((NAME, sealed), (other, CELL.seal(NAME, b"x"))):
            with pytest.raises(ForeignObject, match="not by the key of its cell"):
                keys.open(name, data)
    with pytest.raises(ForeignObject, match="which is none of the study's"):
        Keys().open(NAME, sealed)


def test_no_flipped_bit_and_no_cut_of_a_cells_object_goes_unnoticed() -> None:
    sealed = CELL.seal(NAME, b"secret")
    for place in range(len(sealed)):
        altered = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        for each in (altered, sealed[:place]):
            with pytest.raises(ForeignObject):
                CELL_READER.open(NAME, each)


def test_derived_keys_are_hkdf_and_bech32() -> None:
    """RFC 5869 in another's words, and age's own reading of the key."""
    derived = HKDF(SHA256(), 32, b"dosimeter/cell-key", b"aa" * 32).derive(IDENTITY.encode())
    assert CELL.secret == derived
    assert derived.hex() not in repr(Keys(cell=CELL))
    for secret in (bytes(32), b"\xff" * 32, *(os.urandom(32) for _ in range(50))):
        words = bech32.convertbits(secret, 8, 5)
        assert identity_of(secret) == bech32.bech32_encode("age-secret-key-", words).upper()
    plain = HKDF(SHA256(), 32, b"dosimeter/derived-key", b"names").derive(IDENTITY.encode())
    assert derive_key(IDENTITY, "names") == plain


def test_a_wrong_key_is_told_from_tampering() -> None:
    sealed = encrypt(b"secret", [RECIPIENT])
    with pytest.raises(RegistryError, match=f"results/1.age: .*{OTHER_RECIPIENT}.*key file") as got:
        decrypt(sealed, [OTHER], "results/1.age")
    assert not isinstance(got.value, BrokenPromise)
    assert OTHER not in str(got.value)


@pytest.mark.parametrize("keep", [0, 10, 100, -1, -17])
def test_a_cut_ciphertext_is_a_broken_promise(keep: int) -> None:
    sealed = encrypt(b"secret" * 100, [RECIPIENT])
    with pytest.raises(BrokenPromise, match=r"sealed/x\.age: altered or cut"):
        decrypt(sealed[:keep], [IDENTITY], "sealed/x.age")


def test_no_flipped_bit_goes_unnoticed() -> None:
    sealed = encrypt(b"secret", [RECIPIENT])
    for place in range(0, len(sealed), 7):
        altered = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        with pytest.raises(RegistryError):
            decrypt(altered, [IDENTITY], "x")


def test_nothing_is_sealed_to_nobody_or_to_a_malformed_recipient() -> None:
    with pytest.raises(RegistryError, match="at least one age recipient"):
        encrypt(b"", [])
    with pytest.raises(RegistryError, match="'age1nonsense' is not an age recipient"):
        encrypt(b"", ["age1nonsense"])


def test_a_secret_key_in_the_wrong_place_is_not_shown() -> None:
    mistyped = IDENTITY[:-1]
    with pytest.raises(RegistryError, match="not an age secret key") as caught:
        decrypt(encrypt(b"", [RECIPIENT]), [mistyped], "x")
    assert mistyped not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(RegistryError, match="not an age recipient") as caught:
        encrypt(b"", [IDENTITY])
    assert IDENTITY not in "".join(traceback.format_exception(caught.value))


def test_a_key_file_is_private_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "study.txt"
    recipient = write_identity(path)
    assert path.stat().st_mode & 0o777 == 0o600
    (identity,) = read_identities(path)
    assert recipient_of(identity) == recipient
    assert recipient in path.read_text()
    with pytest.raises(RegistryError, match="exists; a key is never overwritten"):
        write_identity(path)
    assert read_identities(path) == (identity,)
    assert os.listdir(tmp_path) == ["study.txt"]


@pytest.mark.parametrize(
    ("text", "mode", "match"),
    [
        (f"# mine\n\n{IDENTITY}X\n", 0o600, r"study.txt, line 3: not an age secret key"),
        ("# only a comment\n", 0o600, r"study.txt: holds no AGE-SECRET-KEY"),
        (f"{IDENTITY}\n", 0o644, r"study.txt: others can read this key: chmod 600"),
        (None, 0, r"study.txt: No such file.*give the study's key file"),
    ],
    ids=["no key", "no key at all", "readable", "absent"],
)
def test_a_bad_key_file_is_named(tmp_path: Path, text: str | None, mode: int, match: str) -> None:
    path = tmp_path / "study.txt"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(RegistryError, match=match) as caught:
        read_identities(path)
    assert IDENTITY[20:40] not in "".join(traceback.format_exception(caught.value))


def test_a_commitment_is_the_documented_hmac() -> None:
    parts = [b"dosimeter/commitment", b"1", b"sha256:aa", SEED]
    message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    expected = hmac.new(NONCE, message, hashlib.sha256).hexdigest()
    assert commit(NONCE, "sha256:aa", SEED) == expected


def test_a_commitment_hides_a_guessable_seed() -> None:
    """The same small seed under two nonces shares nothing that could be looked up."""
    small = (7).to_bytes(32, "big")
    assert len({commit(os.urandom(32), "sha256:aa", small) for _ in range(50)}) == 50


@given(
    nonce=st.binary(min_size=32, max_size=32),
    other=st.binary(min_size=32, max_size=32),
    names=st.lists(st.text(max_size=5), min_size=2, max_size=2, unique=True),
)
def test_a_commitment_binds_each_part(nonce: bytes, other: bytes, names: list[str]) -> None:
    made = commit(nonce, names[0], SEED)
    assert made != commit(nonce, names[1], SEED)
    if other != SEED:
        assert made != commit(nonce, names[0], other)
    if other != nonce:
        assert made != commit(other, names[0], SEED)


def test_a_commitment_takes_32_bytes_each() -> None:
    with pytest.raises(RegistryError, match="32 bytes each"):
        commit(b"short", "sha256:aa", SEED)


def test_entries_come_back_as_they_were_sealed() -> None:
    for secret in ("", "5e" * 32):
        seeds = SealedSeeds(ENTRIES, secret)
        sealed = seal_seeds(seeds, [RECIPIENT])
        assert open_seeds(sealed, [IDENTITY], "sealed/x.age") == seeds
        assert "5e5e" not in repr(seeds)
        assert not any(entry.seed.encode() in sealed for entry in ENTRIES)


def test_no_entry_shows_its_secrets() -> None:
    shown = repr(ENTRIES[0])
    assert ENTRIES[0].seed not in shown
    assert ENTRIES[0].nonce not in shown
    assert "public" not in shown.lower()
    assert commitments_of(ENTRIES) == (
        commit(NONCE, "sha256:aa", SEED),
        commit(SEED, "sha256:bb", NONCE),
    )


@pytest.mark.parametrize("plain", cases(__file__, "other_forms"))
def test_sealed_content_of_another_form_is_refused_without_showing_it(plain: str) -> None:
    with pytest.raises(BrokenPromise, match=r"sealed/x\.age") as caught:
        open_seeds(encrypt(plain.encode(), [RECIPIENT]), [IDENTITY], "sealed/x.age")
    assert "5ec4e7" not in "".join(traceback.format_exception(caught.value))
