"""Signatures by Ed25519 (RFC 8032) of the ledger's records, and of the objects that a study counts.

What is signed joins its parts, each after its length as 8 bytes, big-endian; the first part is the
purpose. Keys and signatures are written as hexadecimal digits, a public key as 64, a signature as
128. An object is signed inside its ciphertext: its plain bytes begin with a line

    dosimeter-object/1 <public key> <signature>

and the signature is over the purpose ``dosimeter/object/1``, the object's name in the store, and
the SHA-256 of all bytes after that line. A key counts if the reader trusts it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from registry.errors import ForeignObject

_SIGNING = "dosimeter/signing/1"  # purpose of the key that is derived from an identity
_OBJECT = "dosimeter/object/1"
_LINE = re.compile(rb"dosimeter-object/1 ([0-9a-f]{64}) ([0-9a-f]{128})\n")


def derive_key(identity: str, purpose: str) -> bytes:
    """The 32 bytes for this purpose that only an identity's owner can compute, and from which that
    cannot be computed: HKDF with SHA-256 (RFC 5869)."""
    return derive(b"dosimeter/derived-key", identity, purpose)


def derive(salt: bytes, identity: str, info: str) -> bytes:
    """Return 32 bytes by HKDF with SHA-256 (RFC 5869)."""
    extracted = hmac.digest(salt, identity.encode(), "sha256")
    return hmac.digest(extracted, info.encode() + b"\x01", "sha256")


@dataclass(frozen=True)
class Signer:
    """A private key. Its repr shows the public one only."""

    secret: bytes = field(repr=False)  # 32 bytes

    @classmethod
    def of(cls, identity: str) -> Signer:
        """Return the key that follows from an age identity, and that only its owner can compute."""
        return cls(derive_key(identity, _SIGNING))

    @cached_property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)

    @cached_property
    def public(self) -> str:
        """The public key, 64 hexadecimal digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, purpose: str, *parts: bytes) -> str:
        """Return the signature over a purpose and its parts, 128 hexadecimal digits."""
        return self._key.sign(_join(purpose, parts)).hex()

    def sign_text(self, text: bytes) -> bytes:
        """Return the 64 bytes of the signature over a text, as other programs check it. No text can
        be taken for what ``sign`` signs: that begins with a zero byte."""
        return self._key.sign(text)


def is_signed(public: str, signature: str, purpose: str, *parts: bytes) -> bool:
    """Report if a signature, of 128 hexadecimal digits, over these parts is by this key."""
    try:
        key, given = bytes.fromhex(public), bytes.fromhex(signature)
    except ValueError:
        return False
    return is_signed_text(key, given, _join(purpose, parts))


def is_signed_text(public: bytes, signature: bytes, text: bytes) -> bool:
    """Report if a signature, of 64 bytes, over a text is by this key, of 32."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def _join(purpose: str, parts: Iterable[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in (purpose.encode(), *parts))


def sign_object(signer: Signer, name: str, data: bytes) -> bytes:
    """Return the plain bytes of an object: a line with its signature, and the data."""
    signature = signer.sign(_OBJECT, name.encode(), hashlib.sha256(data).digest())
    return f"dosimeter-object/1 {signer.public} {signature}\n".encode() + data


def check_object(trusted: Collection[str], name: str, plain: bytes) -> bytes:
    """Return the data of an object's plain bytes. Raises ForeignObject unless it was signed under
    this name by a key that counts."""
    line, newline, data = plain.partition(b"\n")
    if (found := _LINE.fullmatch(line + newline)) is None:
        raise ForeignObject(f"{name}: not signed")
    public, signature = (part.decode() for part in found.groups())
    if public not in trusted:
        raise ForeignObject(f"{name}: signed by {public[:16]}…, which is none of the study's")
    digest = hashlib.sha256(data).digest()
    if not is_signed(public, signature, _OBJECT, name.encode(), digest):
        raise ForeignObject(f"{name}: its signature is not of what it holds under this name")
    return data
