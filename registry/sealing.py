"""Sealing: age encryption to a study's recipients, the keys of cells, and commitments.

What a run writes of an episode, below ``attempts/``, ``responses/`` and ``results/``, is sealed by
the key of its cell: a line ``dosimeter-cell/1 <run>`` with the run's name, then a nonce of 12 bytes
and ChaCha20-Poly1305 (RFC 8439) of the data, with the object's name in the store as additional
data. The key follows from the run's age identity and the episode (``CellKey.of``). So whoever has
it has been given that cell, and nobody else can have written the object.

A commitment to a private seed is ``HMAC-SHA256(r, m)`` with a nonce r of 32 random bytes, where
m joins four parts, each after its length as 4 bytes, big-endian: the tag
``dosimeter/commitment``, the version ``1``, the instance id and the seed: 32 bytes, and the item
if it is of one. Without r it reveals nothing of the seed; with both anyone can check it.
"""

from __future__ import annotations

import hmac
import io
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

import bech32
import pyrage
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from pyrage import x25519

from registry.canonical import canonical_bytes, digest_bytes, join_parts, parse_canonical
from registry.errors import BrokenPromise, ForeignObject, RegistryError
from registry.files import write_whole
from registry.ledger.inventory import RUN_FOLDERS
from registry.ledger.merkle import merkle_root
from registry.ledger.records import RunManifest, read_record
from registry.result_row import Arm
from registry.signing import Signer, check_object, derive, sign_object

_TAG = b"dosimeter/commitment"
_VERSION = b"1"
_HEX32 = re.compile("[0-9a-f]{64}")
_FORMAT = "dosimeter/sealed-set/1"
_PREFIX = "age-secret-key-"
_CELL = re.compile(rb"dosimeter-cell/1 ([0-9a-f]{64})\n")


@dataclass(frozen=True, slots=True)
class DrawnSeed:
    """One seed of a draw, with what opens its commitment. Its repr shows no secret."""

    instance: str = field(repr=False)
    family: str
    version: str
    difficulty: str
    seed: str = field(repr=False)  # 64 hexadecimal digits, and those of the item if it has one
    nonce: str = field(repr=False)  # 64 hexadecimal digits

    @property
    def stratum(self) -> str:
        """Family and difficulty, as ``family/difficulty``."""
        return f"{self.family}/{self.difficulty}"

    @property
    def has_item(self) -> bool:
        """True if the seed is of a given item, which a draw after a replaced one takes again."""
        return len(self.seed) > 64


@dataclass(frozen=True, slots=True)
class DrawnInstance(DrawnSeed):
    """A seed of a draw with its place."""

    arm: Arm = field(repr=False)
    tranche: int = 0  # the panel; reserve tranches count from 1


def new_identity() -> tuple[str, str]:
    """A new age key pair: the identity, which is secret, and the recipient, which is not."""
    identity = x25519.Identity.generate()
    return str(identity), str(identity.to_public())


def recipient_of(identity: str) -> str:
    """The public key of an identity. Raises RegistryError."""
    return str(_identity(identity, "identity").to_public())


def unit_key(identity: str, name: str) -> str:
    """The key of the digest of a unit's files, which may be revealed without the identity: 64
    hexadecimal digits."""
    return derive(b"dosimeter/unit-key", identity, name).hex()


def unit_digest(key: str, files: Iterable[Sequence[str]]) -> str:
    """HMAC-SHA256 of a unit's files, each the name, text and text of values, in hexadecimal; "" if
    the key is not 64 such digits."""
    if not _HEX32.fullmatch(key):
        return ""
    parts = (part.encode("utf-8", "replace") for file in files for part in file)
    return hmac.digest(bytes.fromhex(key), join_parts(b"dosimeter/unit/1", *parts), "sha256").hex()


def identity_of(secret: bytes) -> str:
    """The identity of an age key's 32 bytes."""
    words = bech32.convertbits(secret, 8, 5) or ()
    return bech32.bech32_encode(_PREFIX, words).upper()


def secret_of(identity: str) -> bytes:
    """Return the 32 bytes of an identity. Raises RegistryError."""
    recipient_of(identity)
    _, words = bech32.bech32_decode(identity.lower())
    return bytes(bech32.convertbits(words or (), 5, 8, False) or ())


def encrypt(data: bytes, recipients: Sequence[str]) -> bytes:
    """An age file that each of the recipients can open. Raises RegistryError."""
    if not recipients:
        raise RegistryError("nothing can be sealed to nobody: name at least one age recipient")
    ciphertext: bytes = pyrage.encrypt(data, [_recipient(text) for text in recipients])
    return ciphertext


def decrypt(data: bytes, identities: Sequence[str], place: str) -> bytes:
    """The plain bytes. ``place`` names the object in errors: RegistryError if none of the
    identities opens it, ForeignObject if it was altered or cut."""
    plain = io.BytesIO()  # read in parts: whole, the plain bytes would be copied twice
    keys = [_identity(text, "identity") for text in identities]
    try:
        pyrage.decrypt_io(io.BytesIO(data), plain, keys)
    except (pyrage.DecryptError, OSError) as error:
        if "No matching keys" in str(error):
            given = ", ".join(str(key.to_public()) for key in keys) or "no key"
            raise RegistryError(
                f"{place}: not sealed to the key given ({given}): use the key file that the study "
                "was drawn with, whose public key is among the recipients of its sealed-set record"
            ) from None
        raise ForeignObject(f"{place}: altered or cut: it is not the age file it was") from None
    return plain.getvalue()


def run_name(recipient: str) -> str:
    """Return the name of a run in the store, by its public key: 64 hexadecimal digits."""
    return digest_bytes(recipient.encode()).removeprefix("sha256:")


def open_run(sealed: bytes, manifest: RunManifest, identities: Sequence[str]) -> str:
    """Return the identity of a run. Raises as ``decrypt``, and BrokenPromise if it is not the one
    that the manifest names."""
    identity = decrypt(sealed, identities, manifest.run_key).decode("ascii", "replace")
    if recipient_of(identity) != manifest.run_recipient:
        raise BrokenPromise(f"{manifest.run_key}: not the key of the run that the manifest names")
    return identity


@dataclass(frozen=True, slots=True)
class CellKey:
    """The key of what a run writes of one episode. Its repr does not show it."""

    run: str  # its name
    secret: bytes = field(repr=False)  # 32 bytes

    @classmethod
    def of(cls, identity: str, run: str, episode: str) -> CellKey:
        """Return the key of an episode, named by its 64 digits, by the identity of its run: HKDF
        with SHA-256 (RFC 5869)."""
        return cls(run, derive(b"dosimeter/cell-key", identity, episode))

    def seal(self, name: str, data: bytes) -> bytes:
        """Return an object of this name."""
        nonce = os.urandom(12)
        sealed = ChaCha20Poly1305(self.secret).encrypt(nonce, data, name.encode())
        return b"".join((f"dosimeter-cell/1 {self.run}\n".encode(), nonce, sealed))

    def open(self, name: str, sealed: bytes) -> bytes:
        """Return what was sealed under a name. Raises ForeignObject."""
        body = sealed.partition(b"\n")[2]
        try:
            return ChaCha20Poly1305(self.secret).decrypt(body[:12], body[12:], name.encode())
        except (InvalidTag, ValueError):
            raise ForeignObject(f"{name}: altered, or not by the key of its cell") from None


@dataclass(frozen=True, slots=True)
class Keys:
    """Who may read an object, and who counts as its author. Its repr shows no secret."""

    recipients: tuple[str, ...] = ()
    identities: tuple[str, ...] = field(default=(), repr=False)
    signer: Signer | None = None
    trusted: Collection[str] = ()  # public signing keys
    # Return the identity of a run by its name, if the run counts.
    runs: Callable[[str], str | None] | None = field(default=None, repr=False)
    cell: CellKey | None = None  # the one key of a worker, for one cell

    def seal(self, name: str, data: bytes) -> bytes:
        """Return an object of this name: of a run's folders sealed by the cell's key, of any other
        signed and encrypted to the recipients. Raises RegistryError."""
        if self.cell is not None and name.startswith(RUN_FOLDERS):
            return self.cell.seal(name, data)
        if self.signer is None or name.startswith(RUN_FOLDERS):
            raise RegistryError(f"{name}: nothing is stored without the key of its author")
        return encrypt(sign_object(self.signer, name, data), self.recipients)

    def open(self, name: str, sealed: bytes) -> bytes:
        """Return what was sealed under a name. Raises as ``decrypt``, and ForeignObject unless its
        author counts: one with the key of its cell, else with a signing key that is trusted."""
        if name.startswith(RUN_FOLDERS):
            return self._cell_of(name, sealed).open(name, sealed)
        return check_object(self.trusted, name, decrypt(sealed, self.identities, name))

    def _cell_of(self, name: str, sealed: bytes) -> CellKey:
        """Return the key of a cell's object. Raises ForeignObject, RegistryError."""
        if (found := _CELL.match(sealed)) is None:
            raise ForeignObject(f"{name}: not sealed by the key of a cell")
        run = found[1].decode()
        if self.cell is not None and self.cell.run == run:
            return self.cell
        if not (identity := self.runs and self.runs(run)):
            raise ForeignObject(f"{name}: of the run {run[:16]}…, which is none of the study's")
        return CellKey.of(identity, run, name.rpartition("/")[2][:64])


def read_identities(path: Path) -> tuple[str, ...]:
    """The identities of a key file: one a line, ``#`` begins a comment. Raises RegistryError
    with file and line, and never with what the line holds."""
    try:
        text = read_private(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not an age key file"
        raise RegistryError(
            f"{path}: {reason}: give the study's key file, by `keys:` in study.yaml "
            "or in DOSIMETER_KEY_FILE"
        ) from None
    return parse_identities(text, str(path))


def parse_identities(text: str, place: str) -> tuple[str, ...]:
    """The identities in the text of a key file, which errors call ``place``. Raises
    RegistryError."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    keys = [(number, line) for number, line in lines if line and not line.startswith("#")]
    for number, line in keys:
        _identity(line, f"{place}, line {number}")
    if not keys:
        raise RegistryError(f"{place}: holds no AGE-SECRET-KEY-1… line")
    return tuple(line for _, line in keys)


def read_private(path: Path) -> str:
    """The text of a file that others cannot read, or of a pipe or terminal such as ``/dev/stdin``,
    which is read once. Raises RegistryError, OSError, UnicodeDecodeError."""
    mode = path.stat().st_mode
    if mode & 0o077 and not stat.S_ISCHR(mode):
        raise RegistryError(f"{path}: others can read this key: chmod 600 {path}")
    return path.read_text("ascii") if stat.S_ISREG(mode) else _read_stream(path)


@cache
def _read_stream(path: Path) -> str:
    return path.read_text("ascii")


def write_identity(path: Path, identity: str = "") -> str:
    """Write a key file (a new key if none is given); returns the recipient. Raises as
    ``write_key``."""
    identity = identity or new_identity()[0]
    recipient = recipient_of(identity)
    write_key(path, f"# public key: {recipient}\n{identity}\n")
    return recipient


def write_key(path: Path, text: str) -> None:
    """Write a file that holds a key or a share of one, mode 0600, whole or not at all. Raises
    RegistryError if the file exists: a key is never overwritten."""
    try:
        write_whole(path, text, mode=0o600, new=True)
    except FileExistsError:
        raise RegistryError(f"{path}: exists; a key is never overwritten") from None
    except OSError as error:
        raise RegistryError(f"{path}: cannot write the key: {error.strerror}") from error


def commit(nonce: bytes, instance: str, seed: bytes) -> str:
    """The commitment to a seed, 64 hexadecimal digits (see the module's head)."""
    if len(nonce) != 32 or (len(seed) != 32 and seed[32:33] != b"{"):
        raise RegistryError("a commitment takes nonce and seed of 32 bytes each, or an item behind")
    message = join_parts(_TAG, _VERSION, instance.encode(), seed)
    return hmac.digest(nonce, message, "sha256").hex()


def commitments_of(seeds: Iterable[DrawnSeed]) -> tuple[str, ...]:
    """The commitment of each seed, in order."""
    return tuple(
        commit(bytes.fromhex(each.nonce), each.instance, bytes.fromhex(each.seed)) for each in seeds
    )


def commitments_root(commitments: Iterable[str]) -> str:
    """The Merkle root over commitments (a leaf is a commitment's 32 bytes), in hex."""
    return merkle_root(bytes.fromhex(commitment) for commitment in commitments).hex()


@dataclass(frozen=True, slots=True)
class SealedSeeds:
    """What is sealed of a draw, before any of its seeds has an arm."""

    seeds: tuple[DrawnSeed, ...] = field(repr=False)  # in the order drawn
    secret: str = field(repr=False)  # 64 hexadecimal digits; "" if a beacon allots the seeds
    format: str = _FORMAT


def seal_seeds(sealed: SealedSeeds, recipients: Sequence[str]) -> bytes:
    """The seeds of a draw as one age file. Raises RegistryError."""
    # Not by asdict: it copies each text of a hundred thousand seeds.
    seeds = [{name: getattr(each, name) for name in DrawnSeed.__slots__} for each in sealed.seeds]
    body = {"seeds": seeds, "secret": sealed.secret, "format": sealed.format}
    return encrypt(canonical_bytes(body), recipients)


def open_seeds(ciphertext: bytes, identities: Sequence[str], place: str) -> SealedSeeds:
    """Return what ``seal_seeds`` sealed. Raises as ``decrypt`` does, and BrokenPromise for content
    of another form."""
    value = parse_canonical(decrypt(ciphertext, identities, place), place)
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise BrokenPromise(f"{place}: not a sealed set of the form {_FORMAT}")
    sealed = read_record(SealedSeeds, value, place)
    secrets = [text for each in sealed.seeds for text in (each.seed[:64], each.nonce)]
    items = "".join(each.seed[64:] for each in sealed.seeds)
    fixed = all(map(_HEX32.fullmatch, (*secrets, sealed.secret or "0" * 64)))
    if not fixed or items.strip("0123456789abcdef"):
        raise BrokenPromise(f"{place}: a seed or nonce in it is not 64 hexadecimal digits")
    return sealed


def _identity(text: str, place: str) -> x25519.Identity:
    try:
        return x25519.Identity.from_str(text)
    except pyrage.IdentityError:
        raise RegistryError(f"{place}: not an age secret key (AGE-SECRET-KEY-1…)") from None


@lru_cache(maxsize=16)
def _recipient(text: str) -> x25519.Recipient:
    try:
        return x25519.Recipient.from_str(text)
    except pyrage.RecipientError:
        shown = repr(text[:80]) if text.startswith("age1") else "what was given"
        raise RegistryError(f"{shown} is not an age recipient (age1…)") from None
