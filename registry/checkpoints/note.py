"""Signed notes, by c2sp.org/signed-note and c2sp.org/tlog-cosignature: a text that ends with a
newline, an empty line, and lines of signatures

    — <name of the key> base64(<key ID, 4 bytes> ‖ <signature>)

A key ID is the beginning of SHA-256(name ‖ 0x0A ‖ type ‖ public key). Signatures of the type 0x01
are Ed25519 over the text. A cosignature, 0x04, is the time in seconds since 1970 as 8 bytes,
big-endian, and an Ed25519 signature over ``cosignature/v1``, a line with that time, and the text.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from registry.errors import BrokenPromise, RegistryError
from registry.signing import Signer, is_signed_text

SIGNATURE, COSIGNATURE = 0x01, 0x04  # types
_NAME = re.compile(r"[^\s+\x00-\x1f]+")
_LINE = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})\n")
_LONGEST = 1 << 20  # bytes of a note


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A public key with the name that it signs notes under."""

    name: str
    kind: int  # SIGNATURE or COSIGNATURE
    public: bytes  # 32

    @property
    def id(self) -> bytes:
        """The key ID, 4 bytes."""
        encoded = b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(self.name.encode() + encoded).digest()[:4]

    def __str__(self) -> str:
        """The key as others are given it: name, key ID and key (signed-note, "Verifier keys")."""
        return f"{self.name}+{self.id.hex()}+{_encode(bytes([self.kind]) + self.public)}"


def read_key(text: str) -> NoteKey:
    """Return the key that such a text names. Raises RegistryError."""
    name, _, rest = text.partition("+")
    ident, _, encoded = rest.partition("+")
    try:
        key = NoteKey(check_name(name), (data := _decode(encoded))[0], data[1:])
    except (ValueError, IndexError):
        raise RegistryError(f"{text!r} is not a key: write NAME+KEY-ID+BASE64") from None
    if key.kind not in (SIGNATURE, COSIGNATURE) or len(key.public) != 32 or key.id.hex() != ident:
        raise RegistryError(f"{text!r} is not an Ed25519 key: copy all of it, as it was printed")
    return key


def check_name(name: str) -> str:
    """Return the name, if a key can have it. Raises RegistryError."""
    if not _NAME.fullmatch(name) or len(name) > 200:
        raise RegistryError(
            f"{name!r} is not a key's name: write one such as example.org/anna, without space or +"
        )
    return name


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """A signature line: the name, and the key ID with the signature."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """A text, which ends with a newline, and its signatures. A note may hold any: only a check
    with a known key says that it is signed."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def __bytes__(self) -> bytes:
        """The note as a file."""
        lines = (f"— {signature.name} {_encode(signature.data)}\n" for signature in self.signatures)
        return f"{self.text}\n{''.join(lines)}".encode()


def read_note(data: bytes, place: str) -> Note:
    """Return the note that a file holds. Raises BrokenPromise."""
    try:
        whole = data[: _LONGEST + 1].decode()
    except UnicodeDecodeError:
        raise BrokenPromise(f"{place}: not a signed note: not UTF-8") from None
    body, empty, lines = whole.rpartition("\n\n")
    found = [_LINE.fullmatch(line) for line in lines.splitlines(keepends=True)]
    if len(data) > _LONGEST or not empty or not found or re.search(r"[\x00-\x09\x0b-\x1f]", whole):
        raise BrokenPromise(f"{place}: not a signed note: it has a text, an empty line, signatures")
    signatures = []
    for match in found:
        signed = _decode(match[2]) if match else b""
        if match is None or len(signed) < 5:
            raise BrokenPromise(f"{place}: not a signed note: a line of its signatures is none")
        signatures.append(NoteSignature(match[1], signed))
    return Note(f"{body}\n", tuple(signatures))


def sign_note(text: str, key: NoteKey, signer: Signer) -> NoteSignature:
    """Return the signature over a text by the private half of a key of the type 0x01."""
    return NoteSignature(key.name, key.id + signer.sign_text(text.encode()))


def cosign_note(text: str, key: NoteKey, signer: Signer, seconds: int) -> NoteSignature:
    """Return the cosignature over a text at a time, in seconds since 1970."""
    time, signature = seconds.to_bytes(8, "big"), signer.sign_text(_cosigned(text, seconds))
    return NoteSignature(key.name, key.id + time + signature)


def signatures_by(note: Note, key: NoteKey) -> list[tuple[int, NoteSignature]]:
    """Return the valid signatures of a note by a key, each after its time in seconds since 1970,
    the earliest first; 0 for the type 0x01, which has none."""
    found = []
    for signature in note.signatures:
        if signature.name != key.name or signature.data[:4] != key.id:
            continue
        rest, seconds, text = signature.data[4:], 0, note.text.encode()
        if key.kind == COSIGNATURE:
            seconds, rest = int.from_bytes(rest[:8], "big"), rest[8:]
            text = _cosigned(note.text, seconds)
        if is_signed_text(key.public, rest, text):
            found.append((seconds, signature))
    return sorted(found, key=lambda pair: pair[0])


def merge_signatures(notes: Iterable[Note]) -> tuple[NoteSignature, ...]:
    """Return the signatures of notes with the same text, each once."""
    return tuple(dict.fromkeys(signature for note in notes for signature in note.signatures))


def _cosigned(text: str, seconds: int) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
