"""Patterns that a leak check looks for: all that follows from a private seed, in every spelling.

A needle that another seed also yields identifies neither. So whatever occurs in the
corpus (the public arm's own instances, and control instances of throw-away seeds) is not a
needle: a prompt that all share, a small table that two seeds agree on, a PNG's first bytes.
Seeds, nonces, instance ids and titles are never excused so.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import json
import re
import string
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, permutations
from types import MappingProxyType
from typing import Any

from generators.task import Asset, TaskInstance, TruthTable
from publish.errors import PublishError
from publish.leakcheck.matcher import Matcher
from publish.leakcheck.text import SEPARATOR, Unreadable, canonical_text
from publish.leakcheck.unpack import Chunk, pieces, pixel_digest
from registry.canonical import canonical_bytes
from registry.errors import RegistryError
from registry.sealing import recipient_of, secret_of
from registry.signing import Signer

SHORTEST = 13  # bytes of a pattern (12 digits and a point); a shorter one is met by chance
TELLING_DIGITS = 12  # numbers with fewer digits in all are met by chance
SLICE = 48  # bytes of a text's content that betray it
PART = 24  # the same of other files, which are as good as random but for repeated patterns
SENTENCE = 32  # characters of a drawn text that identify it; names and words are shorter
PIECE = 16  # bytes of an identifier that betray it, so that one that is broken in two is found
_LINES = 64  # of a text file, each of which betrays it if it has digits enough
UNEXCUSED = frozenset({"seed", "nonce", "instance id", "title"})

_DROPPED = b" \t\r\n\v\f\0\\"  # spacing, escapes, and the zeros of UTF-16
_LOWER = bytes(range(256)).lower()
_ALNUM = string.digits + string.ascii_lowercase
_PUNCTUATION = bytes(set(range(256)) - set((string.digits + string.ascii_letters).encode()))
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_Z85 = bytes.maketrans(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
)
_AGE_KEY = re.compile(rb"age-secret-key-1[02-9ac-hj-np-z]{58}")


@dataclass(frozen=True, slots=True)
class Secret:
    """One private entry with its instance and answer key, of which nothing may be found."""

    leaf: int  # of its commitment: the only name that a message may use
    seed: bytes
    nonce: bytes
    instance: TaskInstance
    key: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Trace:
    """The kind of a secret that was found, and its owner, without the secret."""

    kind: str
    leaf: int | None  # None for a key, which belongs to no instance


@dataclass(frozen=True, slots=True)
class Pattern:
    """One spelling. ``raw`` is looked for in bytes as they are, ``folded`` in lower case without
    spacing and escapes, and ``bare`` in letters and digits alone, in lower case and without ``0x``
    and ``x``."""

    view: str
    data: bytes


VIEWS: Mapping[str, Callable[[bytes], bytes]] = {
    "raw": lambda data: data,
    "folded": lambda data: data.translate(_LOWER, _DROPPED),
    "bare": lambda data: (
        data.translate(_LOWER, _PUNCTUATION).replace(b"0x", b"").replace(b"x", b"")
    ),
}


_AGE_PREFIX = Pattern("folded", b"age-secret-key-1")


class Needles:
    """Everything to look for, ready to be looked for in any number of pieces."""

    def __init__(self, owners: Mapping[Pattern, Trace], pixels: Mapping[str, Trace]) -> None:
        self._owners = owners
        self._pixels = pixels
        self._matchers = {
            view: Matcher(each.data for each in {*owners, _AGE_PREFIX} if each.view == view)
            for view in VIEWS
        }

    def __len__(self) -> int:
        return len(self._owners) + len(self._pixels)

    def find(self, piece: Chunk) -> set[Trace]:
        """Return the traces of private instances that a piece contains, and of any age key."""
        patterns = self.patterns_in(piece.data, ("folded",) if piece.again else VIEWS)
        traces = {self._owners[pattern] for pattern in patterns - {_AGE_PREFIX}}
        if piece.pixels in self._pixels:
            traces.add(self._pixels[piece.pixels])
        return traces | _age_keys(piece.data) if _AGE_PREFIX in patterns else traces

    def patterns_in(self, data: bytes, views: Iterable[str] = VIEWS) -> set[Pattern]:
        """The patterns that occur in bytes, in any of the views."""
        return {
            Pattern(view, hit)
            for view in views
            for hit in self._matchers[view].find(VIEWS[view](data))
        }


def _age_keys(data: bytes) -> set[Trace]:
    """Any age secret key, checked by its checksum, which an example of the form lacks."""
    for found in _AGE_KEY.findall(_folded(data)):
        with contextlib.suppress(RegistryError):
            recipient_of(found.decode().upper())
            return {Trace("age secret key", None)}
    return set()


@dataclass(frozen=True, slots=True)
class Excuse:
    """All that an instance yields that is not secret: it identifies no other one."""

    text: bytes
    pixels: frozenset[str]

    @classmethod
    def of(cls, instance: TaskInstance, key: Mapping[str, Any], item: bytes = b"") -> Excuse:
        """Return what an instance with its answer key yields, and the item behind its seed."""
        given = (item, _escaped(item.decode("utf-8", "replace")))
        text = SEPARATOR.encode().join((*_corpus_texts(instance, key), *given))
        return cls(text, frozenset(_pixel_digests(instance)))


def needles_of(
    secrets: Iterable[Secret],
    corpus: Iterable[Excuse],
    identities: Mapping[str, str] = MappingProxyType({}),
) -> Needles:
    """The needles of the private entries, and of age identities by their kind, less what the
    corpus yields too. Raises PublishError where a seed, nonce, instance id or title of a private
    entry is in the corpus."""
    groups = [(Trace(kind, None), tuple(_key_patterns(key))) for kind, key in identities.items()]
    pixels: dict[str, Trace] = {}
    for secret in secrets:
        groups += [(Trace(kind, secret.leaf), patterns) for kind, patterns in _groups(secret)]
        pixels |= dict.fromkeys(_pixel_digests(secret.instance), Trace("image", secret.leaf))
    everything = Needles({pattern: trace for trace, group in groups for pattern in group}, pixels)
    shared, shared_pixels = _shared(everything, corpus)
    if not (shared or shared_pixels):
        return everything
    _refuse_unexcused(trace for trace, group in groups if not shared.isdisjoint(group))
    return Needles(
        {
            pattern: trace
            for trace, group in groups
            if shared.isdisjoint(group)
            for pattern in group
        },
        {shape: trace for shape, trace in pixels.items() if shape not in shared_pixels},
    )


def _shared(needles: Needles, corpus: Iterable[Excuse]) -> tuple[set[Pattern], set[str]]:
    shared: set[Pattern] = set()
    pixels: set[str] = set()
    for excuse in corpus:
        shared |= needles.patterns_in(excuse.text)
        pixels |= excuse.pixels
    return shared, pixels


def _refuse_unexcused(traces: Iterable[Trace]) -> None:
    for trace in traces:
        if trace.kind in UNEXCUSED:
            raise PublishError(
                f"the {trace.kind} of private commitment {trace.leaf} is in the public arm too: "
                "the arms are not disjoint; draw again"
            )


def _corpus_texts(instance: TaskInstance, key: Mapping[str, Any]) -> Iterator[bytes]:
    """All that an instance yields, in the spellings in which needles are made."""
    for asset in instance.files:
        yield b"".join((asset.path.encode(), b"\n", asset.digest.encode()))
        if asset.media_type.startswith("image/"):
            yield asset.data
        else:
            opened = pieces(io.BytesIO(asset.data))
            yield from (piece.data for piece in opened if isinstance(piece, Chunk))
            yield _escaped(asset.data.decode("utf-8", "replace"))
    texts = [instance.id, instance.brief.prompt, instance.brief.answer_schema]
    texts += [part.text for part in instance.rubric.parts]
    for text in texts:
        yield text.encode()
        yield _escaped(text)
    yield json.dumps(instance.rubric.as_json()).encode()
    for value in (instance.truth.as_json(), dict(key)):
        yield from _json_spellings(value)
    for _, table in instance.truth.tables:
        yield from _table_forms(table)
    yield from (pattern.data for pattern in _drawn_pairs(instance))


# -- the patterns of one secret --------------------------------------------------------------


def _groups(secret: Secret) -> Iterator[tuple[str, tuple[Pattern, ...]]]:
    """Kinds, each with the spellings of one thing: excused together, or not at all."""
    for kind, value in _digests(secret):
        yield kind, tuple(_identifier_spellings(value))
    for asset in secret.instance.files:
        yield from (("input file", group) for group in _content(asset))
    for kind, text in _texts(secret):
        if len(text) >= SHORTEST:
            yield kind, (Pattern("folded", text),)
    if len((title := _in_bare(secret.instance.title.encode())).data) >= SHORTEST:
        yield "title", (title,)
    for pattern in _drawn_pairs(secret.instance):
        if len(pattern.data) >= SHORTEST:
            yield "drawn row", (pattern,)
    for _, table in secret.instance.truth.tables:
        yield from (("truth table", group) for group in _binary_columns(table))


def _key_patterns(identity: str) -> Iterator[Pattern]:
    """An age identity, its 32 bytes, and those of the signing key that follows from it."""
    coded = identity.lower().rpartition("1")[2]
    yield from (_in_bare(coded[at : at + 24].encode()) for at in range(0, 58 - 23, 8))
    yield from _identifier_spellings(secret_of(identity))
    yield from _identifier_spellings(Signer.of(identity).secret)


def _binary_columns(table: TruthTable) -> Iterator[tuple[Pattern, ...]]:
    """Columns of doubles as NumPy and HDF5 store them, by slices."""
    for name in table.columns:
        column = table.column(name)
        if len(column) > 1 and all(isinstance(cell, float) for cell in column):
            for order in "<>":
                data = struct.pack(f"{order}{len(column)}d", *column)
                for part in _slices(data, PART):
                    if _is_varied(part):
                        yield (Pattern("raw", part),)


def _digests(secret: Secret) -> Iterator[tuple[str, bytes]]:
    instance = secret.instance
    yield "seed", secret.seed
    yield "nonce", secret.nonce
    yield "instance id", _from_digest(instance.id)
    yield "brief digest", _from_digest(instance.brief.digest)
    for asset in instance.files:
        yield "file digest", _from_digest(asset.digest)
    for _, digest in instance.truth.digests:
        if (value := _from_digest(digest)) != b"":
            yield "file digest", value


def _from_digest(text: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("sha256:"))
    except ValueError:
        return b""


def _identifier_spellings(value: bytes) -> Iterator[Pattern]:
    """A value of 32 bytes: by its pieces in the spellings of a file's content, and whole in base32,
    base85, as a number, and byte by byte."""
    if len(value) != 32:
        return
    for at in range(0, 32 - PIECE + 1, 4):
        yield from _spellings(value[at : at + PIECE])
    for shift in range(5):
        coded = base64.b32encode(b"\0" * shift + value)
        yield _in_bare(coded[-(-shift * 8 // 5) : (shift + 32) * 8 // 5])
    yield _in_bare(base64.b32hexencode(value)[: 32 * 8 // 5])
    for shift in range(4):
        for encode in (base64.b85encode, base64.a85encode):
            # Only groups of four bytes that lie inside of the value are known.
            inner = encode(value[-shift % 4 :][: 32 - 4 * bool(shift)])
            yield _in_folded(inner)
    yield _in_folded(base64.b85encode(value).translate(_Z85))
    yield _in_folded(binascii.b2a_uu(value)[1:])
    for order in ("big", "little"):
        number = int.from_bytes(value, "big" if order == "big" else "little")
        yield from (_in_bare(f"{number:{base}}".encode()) for base in "dbo")
        yield _in_folded(_in_base(number, _BASE58))
        yield _in_folded(_in_base(number, _BASE62))
        yield _in_bare(_in_base(number, _ALNUM))
    yield _in_bare(value[::-1].hex().encode())
    for octal in (f"{byte:o}" for byte in value), (f"{byte:03o}" for byte in value):
        yield _in_bare("".join(octal).encode())
    for words in ("<4Q", ">4Q", "<8I", ">8I"):
        numbers = struct.unpack(words, value)
        yield _in_bare("".join(map(str, numbers)).encode())
        yield _in_bare("".join(f"{number:0{64 // len(numbers)}x}" for number in numbers).encode())
    yield _in_bare("".join(map(str, value)).encode())
    yield _in_bare(repr(value)[2:-1].encode())
    yield _in_folded(repr(value)[2:-1].encode())


def _in_base(number: int, digits: str) -> bytes:
    written = ""
    while number:
        number, digit = divmod(number, len(digits))
        written = digits[digit] + written
    return written.encode()


def _spellings(value: bytes) -> Iterator[Pattern]:
    """A piece of an identifier, or a slice of a file: raw, base64, hexadecimal."""
    if len(value) < SHORTEST:
        return
    yield Pattern("raw", value)
    for shift in range(3):
        yield from (_in_folded(data) for data in _base64_within(value, shift))
    yield _in_bare(value.hex().encode())


def _base64_within(value: bytes, shift: int) -> tuple[bytes, bytes]:
    """The characters that base64 of any text has where the value starts ``shift`` bytes after
    a multiple of three: in the standard and in the URL alphabet."""
    coded = base64.b64encode(b"\0" * shift + value)
    inner = coded[-(-shift * 8 // 6) : (shift + len(value)) * 8 // 6]
    return inner, inner.translate(bytes.maketrans(b"+/", b"-_"))


def _content(asset: Asset) -> Iterator[tuple[Pattern, ...]]:
    """A file's content, known by slices from all over it."""
    try:
        text = asset.data.decode()
    except UnicodeDecodeError:
        for part in _slices(asset.data, PART):
            if _is_varied(part):
                yield tuple(_spellings(part))
        return
    for part in _slices(asset.data):
        yield tuple(_spellings(part))
    lines = [line for line in map(_folded, asset.data.splitlines()) if _is_telling(line)]
    for line in lines[:: max(1, -(-len(lines) // _LINES))]:
        if len(line) >= SHORTEST:
            yield (Pattern("folded", line),)
    for form in (_folded(text.encode()), _folded(_escaped(text))):
        yield from ((Pattern("folded", part),) for part in _slices(form) if len(part) >= SHORTEST)


def _slices(data: bytes, size: int = SLICE) -> set[bytes]:
    last = max(0, len(data) - size)
    return {data[at : at + size] for at in (last * step // 8 for step in range(9))}


def _texts(secret: Secret) -> Iterator[tuple[str, bytes]]:
    instance = secret.instance
    yield "title", _folded(instance.title.encode())
    for line in [instance.brief.prompt, *instance.brief.prompt.splitlines()]:
        yield "prompt", _folded(line.encode())
        yield "prompt", _folded(_escaped(line))
    for part in instance.rubric.parts:
        yield "rubric", _folded(part.text.encode())
        yield "rubric", _folded(_escaped(part.text))
    for name, table in instance.truth.tables:
        yield from (("truth table", text) for text in _table_texts(name, table))
        for cell in chain.from_iterable(table.rows):
            if isinstance(cell, str) and len(cell) >= SENTENCE:
                yield "drawn text", _folded(cell.encode())
                yield "drawn text", _folded(_escaped(cell))
    yield from (("answer key", _folded(text)) for text in _json_spellings(dict(secret.key)))
    for value in _parts(dict(secret.key)):
        yield from (("answer key", text) for text in map(_folded, _json_spellings(value)))


def drawn_rows(instance: TaskInstance) -> list[list[str]]:
    """The values that a template's sample has drawn, those of one number together."""
    tables = [table.rows for name, table in instance.truth.tables if name == "variables"]
    rows: dict[str, list[str]] = {}
    for name, value in chain.from_iterable(tables):
        rows.setdefault(str(name).partition(":")[0], []).append(str(value))
    return list(rows.values())


def _drawn_pairs(instance: TaskInstance) -> Iterator[Pattern]:
    """Two values of a row, one after the other, whatever stands between them."""
    for first, second in chain.from_iterable(permutations(row, 2) for row in drawn_rows(instance)):
        yield _in_bare((first + second).encode())


def _table_texts(name: str, table: TruthTable) -> Iterator[bytes]:
    """The table whole; and where they hold digits enough, its columns, rows and cells."""
    for value in (table.as_json(), table.records(), {name: table.as_json()}):
        yield from map(_folded, _json_spellings(value))
    for form in _table_forms(table):
        if _is_telling(form):
            yield _folded(form)


def _table_forms(table: TruthTable) -> Iterator[bytes]:
    """Columns, rows, all rows, and cells, joined as JSON and the usual text formats do."""
    rows = [[_cell(value) for value in row] for row in table.rows]
    columns = [list(column) for column in zip(*rows, strict=True)]
    for cells in columns + rows:
        yield from (joiner.join(cells).encode() for joiner in (",", ";", "|", ""))
    for values in [table.column(name) for name in table.columns] + list(table.rows):
        yield json.dumps(values)[1:-1].encode()
    yield from {cell.encode() for row in rows for cell in row}
    yield from (_mantissa(cell) for row in table.rows for cell in row if isinstance(cell, float))
    for joiner in (",", ";", "|", ""):
        yield "".join(joiner.join(row) for row in rows).encode()


def _cell(value: str | int | float | bool) -> str:
    """As a text format has it: the numbers of JSON, and a whole number without its ``.0``."""
    if isinstance(value, str):
        return value
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value)


def _mantissa(value: float) -> bytes:
    """All digits of a number as scientific notation has them, without the exponent."""
    return f"{Decimal(repr(value)):e}".partition("e")[0].encode()


def _is_telling(text: bytes) -> bool:
    """Report if a text has enough digits to identify its source."""
    return sum(48 <= byte < 58 for byte in text) >= TELLING_DIGITS


def _parts(value: Any) -> Iterator[Any]:
    """Lists and objects inside a value with enough digits to identify their source."""
    items = list(value.values()) if isinstance(value, dict) else value
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict | list) and _is_telling(json.dumps(item).encode()):
            yield item
            yield from _parts(item)


def _is_varied(part: bytes) -> bool:
    """Report if a slice of bytes is more than one short pattern over and over. A compressed even
    surface is not, nor are doubles that are nearly all zeros: two files have these by chance."""
    windows = {part[at : at + 3] for at in range(len(part) - 2)}
    return 2 * len(windows) >= len(part)


# -- spellings ---------------------------------------------------------------------------------


def _folded(text: bytes) -> bytes:
    return VIEWS["folded"](text)


def _in_folded(text: bytes) -> Pattern:
    return Pattern("folded", _folded(text))


def _in_bare(text: bytes) -> Pattern:
    """Without a zero at the end, which an x after it would take away in a text."""
    return Pattern("bare", VIEWS["bare"](text).removesuffix(b"0"))


def _escaped(text: str) -> bytes:
    """As it stands inside a JSON string; the escapes' backslashes go when it is folded."""
    return json.dumps(text)[1:-1].encode()


def _json_spellings(value: Any) -> set[bytes]:
    """Canonical, and as Python writes it, in the order given and sorted."""
    return {
        canonical_bytes(value),
        canonical_text(value).encode(),
        json.dumps(value).encode(),
        json.dumps(value, ensure_ascii=False).encode(),
    }


def _pixel_digests(instance: TaskInstance) -> set[str]:
    digests: set[str] = set()
    for asset in instance.files:
        if asset.media_type.startswith("image/"):
            try:
                digests.add(pixel_digest(asset.data))
            except Unreadable:
                continue  # another type of image: its bytes are looked for as of any file
    return digests
