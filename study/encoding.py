"""Output on terminals and pipes that do not take every character: plain equivalents instead of
errors."""

from __future__ import annotations

import codecs
import io
import json
import sys
import unicodedata
from collections.abc import Mapping
from typing import Any

# Characters of our own texts that ASCII or Latin-1 lack.
PLAIN: Mapping[str, str] = {
    "–": "-",
    "—": "-",
    "−": "-",
    "…": "...",
    "×": "x",
    "±": "+/-",
    "·": "*",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "≈": "~",
    "→": "->",
    "←": "<-",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "„": '"',
    "«": '"',
    "»": '"',
    "°": " deg",
    "µ": "u",
    "μ": "u",
    "α": "alpha",
    "β": "beta",
    "χ": "chi",
    "σ": "sigma",
    "κ": "kappa",
    "√": "sqrt",
    "∞": "inf",
    "ß": "ss",
    "€": "EUR",
    "•": "*",
    "✓": "yes",
    "✗": "no",
    "─": "-",
    "━": "-",
    "│": "|",
    "┆": ":",
}
_HANDLER, _ASCII = "dosimeter-plain", "dosimeter_ascii"


def replace_in_streams() -> None:
    """Make stdout and stderr replace characters that they cannot encode, in whatever encoding the
    environment asks for. To be called once, before anything is written."""
    codecs.register_error(_HANDLER, _replace)
    codecs.register(_find_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Click writes UTF-8 where a stream is called ASCII, so it has another name here.
            ascii_only = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding=_ASCII if ascii_only else None, errors=_HANDLER)


def plain_json(value: Any) -> str:
    """Return a value as indented JSON, with escapes if stdout cannot encode all of it, so that
    nothing is replaced in data."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return json.dumps(value, indent=2)
    return text


def plain_text(text: str) -> str:
    """Return a text as stdout will show it: with plain equivalents of what it cannot encode, so
    that a table has the right widths."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        return text.encode(encoding, _HANDLER).decode(encoding)
    except LookupError:  # streams that `replace_in_streams` has not seen
        return text


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Return the plain equivalents of the characters that were refused, as an error handler of
    codecs does."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    refused = error.object[error.start : error.end]
    return "".join(map(_equivalent, refused)), error.end


def _equivalent(character: str) -> str:
    if character in PLAIN:
        return PLAIN[character]
    base = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return base or "?"


def _find_ascii(name: str) -> codecs.CodecInfo | None:
    if name != _ASCII:
        return None
    codec = codecs.lookup("ascii")
    return codecs.CodecInfo(
        codec.encode,
        codec.decode,
        codec.streamreader,
        codec.streamwriter,
        codec.incrementalencoder,
        codec.incrementaldecoder,
        name=_ASCII,
    )
