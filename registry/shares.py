"""Shares of an age identity by SLIP-39 (SatoshiLabs Improvement Proposal 39). Any ``threshold``
shares of a split give the identity; fewer reveal nothing of it.

A share file has comments, lines that begin with ``#``, and 33 words, of which the last three are a
checksum. The comments are for people: only the words are combined. No error quotes a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from registry.errors import RegistryError
from registry.sealing import identity_of, read_private, recipient_of, secret_of

MOST_SHARES = 16  # of SLIP-39
_WORDS = 33  # of a share of 32 bytes
_PUBLIC = "# public key of the study:"


@dataclass(frozen=True, slots=True)
class KeyShare:
    """A share. Its repr shows no secret."""

    words: str = field(repr=False)
    place: str = ""  # its file, in messages
    recipient: str = ""  # the study's public key, by the file's comment
    number: int = 0  # from 1
    threshold: int = 0
    split: int = 0  # a number that shares have in common if they were made together

    def text(self, shares: int) -> str:
        """The share's file, if it is one of this many."""
        return (
            f"{_PUBLIC} {self.recipient}\n"
            f"# share {self.number} of {shares}; any {self.threshold} of them give the study's key:"
            " dosimeter keys combine\n"
            f"{self.words}\n"
        )


def split_identity(identity: str, shares: int, threshold: int) -> tuple[KeyShare, ...]:
    """Split an identity. Raises RegistryError for numbers that SLIP-39 does not have."""
    import shamir_mnemonic

    if not 2 <= threshold <= shares <= MOST_SHARES:
        raise RegistryError(
            f"{threshold} of {shares} shares: a split has 2 to {MOST_SHARES} shares, and from 2 to "
            "all of them give the key"
        )
    secret, recipient = secret_of(identity), recipient_of(identity)
    (group,) = shamir_mnemonic.generate_mnemonics(1, [(threshold, shares)], secret)
    made = tuple(parse_share(words, f"share {n}", recipient) for n, words in enumerate(group, 1))
    if combine_shares(made) != identity:
        raise RegistryError("the shares do not give the key again: nothing was written")
    return made


def read_share(path: Path) -> KeyShare:
    """Read a share file. Raises RegistryError."""
    try:
        text = read_private(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a share of a key"
        raise RegistryError(f"{path}: {reason}: give a file that `keys split` wrote") from None
    return parse_share_file(text, str(path))


def parse_share_file(text: str, place: str) -> KeyShare:
    """Return the share in the text of a share file, which errors call ``place``. Raises
    RegistryError."""
    lines = text.splitlines()
    heads = [line.removeprefix(_PUBLIC).strip() for line in lines if line.startswith(_PUBLIC)]
    words = " ".join(line for line in lines if not line.startswith("#"))
    return parse_share(words, place, heads[0] if heads else "")


def parse_share(words: str, place: str, recipient: str = "") -> KeyShare:
    """Return the share of these words. Raises RegistryError, which names ``place`` and the number
    of a word."""
    from shamir_mnemonic import MnemonicError, Share
    from shamir_mnemonic.wordlist import WORD_INDEX_MAP

    each = words.lower().split()
    for number, word in enumerate(each, 1):
        if word not in WORD_INDEX_MAP:
            raise RegistryError(f"{place}: word {number} is not in the list of SLIP-39: correct it")
    if len(each) != _WORDS:
        raise RegistryError(f"{place}: {len(each)} words found; a share has {_WORDS}")
    try:
        share = Share.from_mnemonic(" ".join(each))
    except MnemonicError:  # whose text quotes words
        share = None
    if share is None or share.group_count != 1:
        raise RegistryError(f"{place}: a word is wrong or out of place: the checksum does not hold")
    number, split = share.index + 1, share.identifier
    return KeyShare(" ".join(each), place, recipient, number, share.member_threshold, split)


def combine_shares(shares: Sequence[KeyShare]) -> str:
    """Return the identity that shares give, all of which are tried. Raises RegistryError for too
    few shares, one that is there twice, and shares that do not belong together."""
    first = shares[0]
    seen: dict[int, KeyShare] = {}
    for share in shares:
        if share.recipient and first.recipient and share.recipient != first.recipient:
            keys = f"{first.recipient} and {share.recipient}"
            raise RegistryError(f"{first.place} and {share.place}: shares of two keys, {keys}")
        if (share.split, share.threshold) != (first.split, first.threshold):
            raise RegistryError(
                f"{first.place} and {share.place}: shares of two splits: give shares that were made"
                " together"
            )
        if share.number in seen:
            raise RegistryError(
                f"{seen[share.number].place} and {share.place}: the same share twice"
            )
        seen[share.number] = share
    need = first.threshold
    if len(shares) < need:
        raise RegistryError(f"{need} shares are needed, and {len(shares)} given: give {need}")
    sets = [shares[:need], *((*shares[: need - 1], more) for more in shares[need:])]
    identities = {_combine(each) for each in sets}
    if len(identities) > 1:
        raise RegistryError(_FOREIGN)
    return identities.pop()


_FOREIGN = "these shares do not give a key together: one of them is of another split"


def _combine(shares: Sequence[KeyShare]) -> str:
    from shamir_mnemonic import MnemonicError, combine_mnemonics

    try:
        secret = combine_mnemonics([share.words for share in shares])
    except MnemonicError:  # whose text quotes words
        secret = b""
    if len(secret) != 32:
        raise RegistryError(_FOREIGN)
    return identity_of(secret)
