"""Canonical bytes and digests: what is hashed is what is kept (RFC 8785)."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NewType

import rfc8785

from registry.errors import BrokenPromise, RegistryError

Digest = NewType("Digest", str)  # "sha256:" and 64 hexadecimal digits


def canonical_bytes(value: Any) -> bytes:
    """The one JSON text of a value. Raises RegistryError for what JSON cannot carry."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise RegistryError(f"not expressible as canonical JSON: {error}") from error


def digest_bytes(data: bytes) -> Digest:
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def digest_value(value: Any) -> Digest:
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
