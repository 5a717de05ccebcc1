"""Shares of a key: any two of three give it, and each mistake has an error that shows no word."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
import shamir_mnemonic

from registry.errors import RegistryError
from registry.sealing import (
    identity_of,
    new_identity,
    read_identities,
    recipient_of,
    secret_of,
    write_key,
)
from registry.shares import KeyShare, combine_shares, parse_share, read_share, split_identity

IDENTITY, RECIPIENT = new_identity()
SHARES = split_identity(IDENTITY, 3, 2)
AGAIN = split_identity(IDENTITY, 3, 2)
OTHERS = split_identity(new_identity()[0], 3, 2)


@pytest.mark.parametrize(("shares", "threshold"), [(2, 2), (3, 2), (5, 3), (16, 16)])
def test_any_shares_of_enough_give_the_identity(shares: int, threshold: int) -> None:
    made = split_identity(IDENTITY, shares, threshold)
    assert [share.number for share in made] == list(range(1, shares + 1))
    for some in list(combinations(made, threshold))[:12]:
        assert combine_shares(some[::-1]) == IDENTITY
    assert combine_shares(made) == IDENTITY


def test_shares_are_those_of_slip_39() -> None:
    """The library's own reader gives the 32 bytes of the age key."""
    secret = shamir_mnemonic.combine_mnemonics([share.words for share in SHARES[1:]])
    assert secret == secret_of(IDENTITY)
    assert identity_of(secret) == IDENTITY


def test_a_share_shows_no_word_and_fewer_reveal_nothing() -> None:
    assert not set(SHARES[0].words.split()) & set(repr(SHARES).replace("'", " ").split())
    assert len({share.words for share in (*SHARES, *AGAIN)}) == 6


@pytest.mark.parametrize(("shares", "threshold"), [(3, 1), (2, 3), (17, 2), (1, 1)])
def test_numbers_that_slip_39_does_not_have_are_refused(shares: int, threshold: int) -> None:
    with pytest.raises(
        RegistryError, match=f"^{threshold} of {shares} shares: a split has 2 to 16"
    ):
        split_identity(IDENTITY, shares, threshold)


def written(folder: Path, share: KeyShare, change: Callable[[list[str]], object]) -> Path:
    words = share.words.split()
    change(words)
    path = folder / f"share-{share.number}.txt"
    write_key(path, share.text(3).replace(share.words, " ".join(words)))
    return path


def swap(words: list[str]) -> None:
    place = next(n for n in range(8, 20) if words[n] != words[n + 1])
    words[place], words[place + 1] = words[place + 1], words[place]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda w: w.__setitem__(6, "dosimeter"), "word 7 is not in the list of SLIP-39"),
        (
            lambda w: w.__setitem__(6, "academic" if w[6] != "academic" else "acid"),
            "a word is wrong",
        ),
        (swap, "a word is wrong or out of place"),
        (lambda w: w.pop(), "32 words found; a share has 33"),
        (lambda w: w.clear(), "0 words found"),
    ],
)
def test_a_damaged_share_is_named_with_the_place_and_without_its_words(
    tmp_path: Path, change: Callable[[list[str]], object], problem: str
) -> None:
    words = SHARES[0].words.split()
    path = written(tmp_path, SHARES[0], change)
    with pytest.raises(RegistryError, match=f"^{path}: {problem}") as caught:
        read_share(path)
    quoted = " ".join(words[:4])
    assert quoted not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (SHARES[:1], "2 shares are needed, and 1 given"),
        ((SHARES[0], SHARES[0]), "the same share twice"),
        ((SHARES[0], OTHERS[1]), "shares of two keys, age1.* and age1"),
        ((SHARES[0], AGAIN[1]), "shares of two splits"),
    ],
)
def test_shares_that_give_no_key_are_refused_with_one_reason(
    given: tuple[KeyShare, ...], problem: str
) -> None:
    with pytest.raises(RegistryError, match=problem) as caught:
        combine_shares(given)
    assert not [share for share in given if share.words[:20] in str(caught.value)]


def test_a_forged_share_of_the_same_split_is_noticed() -> None:
    """The digest inside the secret tells, also if it is one more than needed."""
    true = shamir_mnemonic.Share.from_mnemonic(SHARES[2].words)
    values = vars(true) | {"value": bytes(32)}
    forged = parse_share(shamir_mnemonic.Share(**values).mnemonic(), "share 3")
    for given in ((SHARES[0], forged), (SHARES[0], SHARES[1], forged)):
        with pytest.raises(RegistryError, match="do not give a key together"):
            combine_shares(given)


def test_a_share_file_is_private_and_says_whose_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, SHARES[1], lambda words: None)
    assert path.stat().st_mode & 0o777 == 0o600
    share = read_share(path)
    assert (share.recipient, share.number, share.threshold) == (RECIPIENT, 2, 2)
    assert "# share 2 of 3" in path.read_text()
    path.chmod(0o640)
    with pytest.raises(RegistryError, match="others can read this key: chmod 600"):
        read_share(path)


def test_a_key_is_read_from_a_pipe_as_often_as_it_is_asked_for() -> None:
    code = (
        "from pathlib import Path; from registry.sealing import read_identities, recipient_of\n"
        "print(*{recipient_of(*read_identities(Path('/dev/stdin'))) for _ in range(3)})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=f"{IDENTITY}\n", capture_output=True, text=True
    )
    assert done.stdout.split() == [RECIPIENT], done.stderr
    source, sink = os.pipe()
    os.write(sink, f"{IDENTITY}\n".encode())
    os.close(sink)
    assert read_identities(Path(f"/dev/fd/{source}")) == (IDENTITY,)
    assert recipient_of(IDENTITY) == RECIPIENT
    os.close(source)
