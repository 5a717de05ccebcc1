"""Canonical JSON (RFC 8785) of the values that instances are made of."""

from __future__ import annotations

import json
from typing import Any

import rfc8785

_SAFE = 2**53  # whole numbers below it are kept by every JSON reader
_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False
).encode


def canonical_json(value: Any) -> bytes:
    """The canonical bytes: the standard encoder's, in a tenth of the time, for values that both
    write alike. Raises ValueError for what JSON cannot carry."""
    try:
        return _encode(_settled(value)).encode()
    except (ValueError, TypeError, RecursionError):
        return rfc8785.dumps(value)  # which decides, and says what is wrong


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
