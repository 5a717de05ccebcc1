"""Text in its many spellings: JSON in one order, escapes undone, and the bytes that are written in
base64, base32 and hexadecimal."""

from __future__ import annotations

import binascii
import codecs
import contextlib
import html
import json
import quopri
import re
import string
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Between texts that are read as one; no pattern that is looked for contains it.
SEPARATOR = "\x1f"
SHORTEST_RUN = 16  # bytes that are worth decoding
_LINE = 60  # characters of base64 in a line, at least
_LONG = 40  # the same of base32
_LONE = 1 << 9  # the same of what may be an archive
_HEAD = SHORTEST_RUN  # characters of base64, which hold the first bytes of a format
_LONGER_THAN_DIGESTS = 130  # hexadecimal figures
_LINES = 1 << 18  # bytes of JSON lines that are read at a time
_LONGEST_TOKEN = 64  # of JSON, other than a string
_DEEPEST = 8  # JSON in strings of JSON
_TOO_DEEP = "JSON that is nested too deep, or has too large a number"
_ROUNDS = 3  # of spellings, one inside the other
_STEP = 1 << 20

_WORD = np.uint64(0x0101010101010101)


def _flags(alphabet: bytes) -> bytes:
    return bytes(each in alphabet for each in range(256))


_TEXT = _flags(b"\0\t\n\r" + bytes(range(32, 127)))
_BASE64 = _flags((string.ascii_letters + string.digits + "+/-_").encode())
_NOT_HEXADECIMAL = _flags(bytes(set(range(256)) - set(string.hexdigits.encode())))
_CONTINUATION = bytes(range(0x80, 0xC0))

_STANDARD_ALPHABET = bytes.maketrans(b"-_", b"+/")
_LINE_BREAK_IN_BASE64 = re.compile(rb"\n(?<=[A-Za-z0-9+/_-]{60}\n)(?=[A-Za-z0-9+/_-])")
_BASE32 = (string.ascii_uppercase + "234567").encode()
_BASE32_DIGITS = bytes.maketrans(_BASE32, b"0123456789abcdefghijklmnopqrstuv")
_LIST_OF_BYTES = re.compile(rb"\[\s*((?:\d{1,3}\s*,\s*){15,}\d{1,3})\s*\]")
_CODE_POINTS = re.compile(rb"(?:\\u[0-9a-fA-F]{4})+")
_BYTE = re.compile(rb"\\(?:u00|x)([0-9a-fA-F]{2})")
_ENTITY = re.compile(rb"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});?")
_PERCENT = re.compile(rb"%[0-9a-fA-F]{2}")
_QUOTED = re.compile(rb"=(?:3D|\r?\n)")
_TAG = re.compile(rb"<[^<>\x1f]{0,400}>")
_DOCUMENT = re.compile(rb'\s*[{\["]')
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+')


class Unreadable(Exception):  # noqa: N818 - says what the content is
    """Content that claims a format it cannot be opened as. The message quotes none of it."""


def readable(data: bytes) -> bytes:
    """The text in bytes: all of it if it is text, else what is printable."""
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return data.decode("utf-32", "replace").encode()
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").encode()
    if b"\0" not in data and _is_utf8(data):
        return data
    printable = SEPARATOR.encode().join(_cut(data, *_runs(data, _TEXT)))
    return printable.translate(None, b"\0")  # of UTF-16 and UTF-32 without their mark


def _is_utf8(data: bytes) -> bool:
    """Report if bytes are UTF-8, of which the first and the last character may be cut."""
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data[:3].lstrip(_CONTINUATION))
        for at in range(3, len(data), _STEP):
            decoder.decode(data[at : at + _STEP])
    except UnicodeDecodeError:
        return False
    return True


def _runs(
    data: bytes, alphabet: bytes, shortest: int = SHORTEST_RUN
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Beginnings and ends of the long runs of bytes of an alphabet, given as 256 flags. A run of 15
    bytes has a whole word of eight; only around these is looked closer."""
    flags = np.frombuffer(data.translate(alphabet) + b"\0", np.uint8)
    words = np.flatnonzero(flags[: len(flags) // 8 * 8].view(np.uint64) == _WORD)
    first = np.flatnonzero(np.diff(words, prepend=-2) != 1)
    last = np.append(first, len(words))[1:] - 1
    starts, ends = words[first] * 8, words[last] * 8 + 8
    for _ in range(7):
        starts -= flags[starts - 1]
        ends += flags[ends]
    long = ends - starts >= shortest
    return starts[long], ends[long]


def _cut(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[bytes]:
    return [data[at:end] for at, end in zip(starts.tolist(), ends.tolist(), strict=True)]


# -- JSON --------------------------------------------------------------------------------------


def canonical_text(value: Any) -> str:
    """JSON with sorted keys and no spaces: one spelling whatever order it was written in."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def canonical_json(text: bytes, depth: int = 0) -> Iterator[bytes | Unreadable]:
    """Yield the JSON documents of a text in canonical spelling: those that are all of it, lines of
    it, or strings in such a document."""
    for part in text.split(SEPARATOR.encode()):
        try:
            for value in _json_values(part):
                if depth > _DEEPEST:
                    raise Unreadable(f"JSON wrapped more than {_DEEPEST} deep")
                canonical = canonical_text(value).encode()
                yield canonical
                if b"\\" in canonical:  # as each object in a string has
                    inner = SEPARATOR.join(_strings(value))
                    yield from canonical_json(inner.encode("utf-8", "surrogatepass"), depth + 1)
        except RecursionError:
            yield Unreadable(_TOO_DEEP)
        except Unreadable as reason:
            yield reason


def _json_values(text: bytes) -> Iterator[Any]:
    """Raises Unreadable as ``_load`` does."""
    if _DOCUMENT.match(text):
        try:
            yield _load(text)
            return
        except ValueError:
            pass
    if text.startswith((b"{", b"[")) or b"\n{" in text or b"\n[" in text:
        yield from _json_lines(text)


def _json_lines(text: bytes) -> Iterator[Any]:
    at = 0
    while at < len(text):
        end = text.find(b"\n", at + _LINES) + 1 or len(text)
        lines = text[at:end].rstrip()
        try:
            yield _load(b"[%b]" % lines.replace(b"\n", b","))
        except ValueError:
            for line in lines.split(b"\n"):
                if line.startswith((b"{", b"[")) and line.rstrip().endswith((b"}", b"]")):
                    with contextlib.suppress(ValueError):
                        yield _load(line)
        at = end


def _load(text: bytes) -> Any:
    """Raises ValueError for what is no JSON, and Unreadable for JSON that is nested too deep or has
    too large a number. A run of brackets or figures, as in pixels and in noise that is inflated,
    is none: what is opened must be closed."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except (RecursionError, ValueError):
        if _is_closed(text):
            raise Unreadable(_TOO_DEEP) from None
        raise ValueError("no JSON: a bracket is not closed") from None


def _is_closed(text: bytes) -> bool:
    bare = _STRING.sub(b"", text)
    return all(bare.count(opens) == bare.count(closes) for opens, closes in (b"[]", b"{}"))


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings inside a value."""
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            stack += each.values()
        elif isinstance(each, list):
            stack += each


def is_cut_document(line: bytes) -> bool:
    """Report if a line is the beginning of a JSON document that goes on behind it."""
    if _DOCUMENT.match(line):
        try:
            json.loads(line)
        except json.JSONDecodeError as error:
            at_end = error.pos > len(error.doc) - _LONGEST_TOKEN and error.msg != "Extra data"
            return at_end or error.msg.startswith("Unterminated")
        except UnicodeDecodeError:
            return False
        except (ValueError, RecursionError):  # nested too deep, or too large a number
            return not _is_closed(line)
    return False


# -- spellings ---------------------------------------------------------------------------------


def spellings(text: bytes) -> Iterator[bytes]:
    """Yield the text; then without its escapes, entities, percent signs, quoted-printable and tags,
    each for itself, and one after the other until nothing changes."""
    yield text
    first = text
    for number in range(_ROUNDS):
        before = text
        for recognises, plain in _SPELLINGS:
            if recognises(text) and (undone := plain(text)) != text:
                if number == 0 and text is not first:
                    yield plain(first)
                text = undone
                yield text
        if text is before:
            return


def _unescaped(text: bytes) -> bytes:
    """Without the escapes of JSON and of strings of programs, however often they were applied."""
    while b"\\\\" in text:
        text = text.replace(b"\\\\", b"\\")
    text = _BYTE.sub(lambda found: bytes.fromhex(found[1].decode()), text)
    text = _CODE_POINTS.sub(_of_code_points, text)
    for escape, plain in (b'\\"', b'"'), (b"\\/", b"/"), (b"\\n", b"\n"), (b"\\r", b"\r"):
        text = text.replace(escape, plain)
    return text.replace(b"\\t", b"\t")


def _of_code_points(found: re.Match[bytes]) -> bytes:
    units = bytes.fromhex(found[0].replace(b"\\u", b"").decode())
    return units.decode("utf-16-be", "replace").encode()


def _of_entity(found: re.Match[bytes]) -> bytes:
    return html.unescape(found[0].decode()).encode("utf-8", "replace")


_SPELLINGS: tuple[tuple[Callable[[bytes], Any], Callable[[bytes], bytes]], ...] = (
    (lambda text: b"\\" in text, _unescaped),
    (_ENTITY.search, lambda text: _ENTITY.sub(_of_entity, text)),
    (_PERCENT.search, urllib.parse.unquote_to_bytes),
    (_QUOTED.search, quopri.decodestring),
    (_TAG.search, lambda text: _TAG.sub(b"", text)),
)


# -- bytes in text -----------------------------------------------------------------------------


def coded_bytes(text: bytes, announced: re.Pattern[bytes]) -> Iterator[bytes]:
    """Decode lists of numbers, base64, base32 and long hexadecimal, wherever in a run it begins.
    Runs are joined; long ones, and those that announce a format by their first bytes, come on their
    own too."""
    for listed in _LIST_OF_BYTES.findall(text):
        numbers = [int(number) for number in listed.split(b",")]
        if max(numbers) < 256:
            yield bytes(numbers)
    starts, ends = _runs(text, _BASE64)
    if (ends - starts >= _LINE).any():
        text = _LINE_BREAK_IN_BASE64.sub(b"", text.replace(b"\r\n", b"\n"))
        starts, ends = _runs(text, _BASE64)
    if not len(starts):
        return
    flags = np.frombuffer(text.translate(_NOT_HEXADECIMAL) + b"\0", np.uint8)
    other = np.maximum.reduceat(flags, np.column_stack((starts, ends)).ravel())[::2] == 1
    runs = _cut(text.translate(_STANDARD_ALPHABET), starts[other], ends[other])
    heads = binascii.a2b_base64(b"".join([run[:_HEAD] for run in runs]))
    for number, run in enumerate(runs):
        if len(run) >= _LONE or announced.match(heads, number * _HEAD * 6 // 8):
            yield _of_base64([run])[: len(run) * 6 // 8]
    for phase in range(4 if runs else 0):
        yield SEPARATOR.encode() + _of_base64([run[phase:] for run in runs])
    for alphabet, shortest, unit, decode in (
        (_BASE32, _LONG, 8, _of_base32),
        (_BASE32.lower(), _LONG, 8, _of_base32),
        (string.hexdigits.encode(), _LONGER_THAN_DIGESTS, 2, _of_hexadecimal),
    ):
        found = _cut(text, *_runs(text, _flags(alphabet), shortest))
        for phase in range(unit if found else 0):
            yield b"".join(SEPARATOR.encode() + decode(each[phase:]) for each in found)


def _of_base64(runs: list[bytes]) -> bytes:
    """Decode runs, with SEPARATOR between them."""
    return binascii.a2b_base64(b"Hx8f".join([run + b"AAA"[: -len(run) % 4] for run in runs]))


def _of_base32(run: bytes) -> bytes:
    bits = 5 * len(run)
    return (int(run.upper().translate(_BASE32_DIGITS), 32) >> bits % 8).to_bytes(bits // 8, "big")


def _of_hexadecimal(run: bytes) -> bytes:
    return bytes.fromhex(run[: len(run) // 2 * 2].decode())
