"""Canonical bytes and digests: the hashed bytes are the stored bytes (RFC 8785)."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NewType

import rfc8785

from registry.errors import BrokenPromise, RegistryError

Digest = NewType("Digest", str)  # "sha256:" and 64 hexadecimal digits

_SAFE = 2**53  # integers below it are kept by every JSON reader (RFC 8785, 3.2.2.3)


# As RFC 8785 asks: keys in order, no spaces, nothing escaped that need not be.
_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False
).encode


def canonical_bytes(value: Any) -> bytes:
    """The one JSON text of a value: the standard encoder's, in a tenth of the time, for values that
    both write alike. Raises RegistryError for what JSON cannot carry."""
    try:
        return _encode(_settled(value)).encode()
    except (ValueError, TypeError, RecursionError):
        pass  # the reference implementation decides, and says what is wrong
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise RegistryError(f"not expressible as canonical JSON: {error}") from error


def _settled(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is dict and (not value or "".join(value).isascii()):  # code points order as UTF-16 does
        return {n: each if type(each) is str else _settled(each) for n, each in value.items()}
    if kind is list or kind is tuple:
        return [_settled(each) for each in value]
    if (kind is int or kind is float) and (value == 0 or 1e-4 <= abs(value) < _SAFE):
        # Of a fraction both write the shortest digits that read back.
        return int(value) if value == int(value) else value
    raise ValueError


def digest_bytes(data: bytes) -> Digest:
    """``sha256:`` and the digest of the bytes, in hex."""
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def digest_value(value: Any) -> Digest:
    """The digest of a value's canonical bytes."""
    return digest_bytes(canonical_bytes(value))


def parse_canonical(data: bytes, place: str) -> Any:
    """The value of canonical bytes; raises BrokenPromise where they are not canonical."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise BrokenPromise(f"{place}: not JSON ({error})") from error
    if canonical_bytes(value) != data:
        raise BrokenPromise(f"{place}: not in canonical form (RFC 8785); it was edited")
    return value


def join_parts(*parts: bytes) -> bytes:
    """Return the parts, each after its length as 4 bytes, big-endian."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
