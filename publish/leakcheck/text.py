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
from typing import IO, Any

# Between texts that are read as one; no pattern that is looked for contains it.
SEPARATOR = "\x1f"
_LINE = 60  # characters of base64 in a line, at least
_LONE = 1 << 9  # the same of what may be an archive
_HEAD = 16  # characters of base64, which hold the first bytes of a format
_LONGEST_TOKEN = 64  # of JSON, other than a string
_DEEPEST = 8  # JSON in strings of JSON
_TOO_DEEP = "JSON that is nested too deep, or has too large a number"
_ROUNDS = 3  # of spellings, one inside the other
_STEP = 1 << 20

_STANDARD_ALPHABET = bytes.maketrans(b"-_", b"+/")
_LINE_BREAK_IN_BASE64 = re.compile(rb"\n(?<=[A-Za-z0-9+/_-]{60}\n)(?=[A-Za-z0-9+/_-])")
_PRINTABLE = re.compile(rb"[\0\t\n\r -~]{16,}")
_RUN = re.compile(rb"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}")
_HEXADECIMAL = re.compile(rb"[0-9A-Fa-f]+")
_LONG_HEXADECIMAL = re.compile(rb"[0-9A-Fa-f]{130,}")  # longer than digests
_BASE32, _LOWER_BASE32 = re.compile(rb"[A-Z2-7]{40,}"), re.compile(rb"[a-z2-7]{40,}")
_BASE32_DIGITS = bytes.maketrans(
    (string.ascii_uppercase + "234567").encode(), b"0123456789abcdefghijklmnopqrstuv"
)
_LIST_OF_BYTES = re.compile(rb"\[\s*((?:\d{1,3}\s*,\s*){15,}\d{1,3})\s*\]")
_CODE_POINTS = re.compile(rb"(?:\\u[0-9a-fA-F]{4})+")
_BYTE = re.compile(rb"\\(?:u00|x)([0-9a-fA-F]{2})")
_ENTITY = re.compile(rb"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});?")
_PERCENT = re.compile(rb"%[0-9a-fA-F]{2}")
_QUOTED = re.compile(rb"=(?:3D|\r?\n)")
_TAG = re.compile(rb"<[^<>\x1f]{0,400}>")
_LINES = re.compile(rb"(?:^[{\[].*(?:\n|\Z))+", re.MULTILINE)  # that may be JSON
_DOCUMENT = re.compile(rb'\s*[{\["]')


class Unreadable(Exception):  # noqa: N818 - says what the content is
    """Content that claims a format it cannot be opened as. The message quotes none of it."""


def is_text(file: IO[bytes]) -> bool:
    """Report if a file is text in UTF-8, without a zero byte. Raises OSError."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    file.seek(0)
    try:
        while data := file.read(_STEP):
            if b"\0" in data:
                return False
            decoder.decode(data)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def printable(data: bytes) -> bytes:
    """The runs of printable characters in bytes, without the zeros of UTF-16 and UTF-32."""
    return SEPARATOR.encode().join(_PRINTABLE.findall(data)).translate(None, b"\0")


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
    with contextlib.suppress(ValueError):
        if _DOCUMENT.match(text):
            yield _load(text)
            return
    for lines in _LINES.findall(text) if b"\n" in text else ():
        try:
            yield _load(b"[%b]" % lines.rstrip().replace(b"\n", b","))
        except ValueError:
            for line in lines.split(b"\n"):
                if line.startswith((b"{", b"[")) and line.rstrip().endswith((b"}", b"]")):
                    with contextlib.suppress(ValueError):
                        yield _load(line)


def _load(text: bytes) -> Any:
    """Raises ValueError for what is no JSON, and Unreadable for JSON that is nested too deep or has
    too large a number."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except (RecursionError, ValueError):
        raise Unreadable(_TOO_DEEP) from None


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
        except (ValueError, RecursionError):  # nested too deep, or too large a number
            return True
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
    runs = _RUN.findall(text)
    if any(len(run) >= _LINE for run in runs):
        runs = _RUN.findall(_LINE_BREAK_IN_BASE64.sub(b"", text.replace(b"\r\n", b"\n")))
    coded = [run.translate(_STANDARD_ALPHABET) for run in runs if not _HEXADECIMAL.fullmatch(run)]
    for run in coded:
        if len(run) >= _LONE or announced.match(binascii.a2b_base64(run[:_HEAD])):
            yield _of_base64([run])[: len(run) * 6 // 8]
    for phase in range(4 if coded else 0):
        yield SEPARATOR.encode() + _of_base64([run[phase:] for run in coded])
    every = b"\n".join(runs)
    for pattern, unit, decode in (
        (_BASE32, 8, _of_base32),
        (_LOWER_BASE32, 8, _of_base32),
        (_LONG_HEXADECIMAL, 2, _of_hexadecimal),
    ):
        found = pattern.findall(every)
        yield from filter(announced.match, map(decode, found))
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
