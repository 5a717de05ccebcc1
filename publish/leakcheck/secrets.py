"""Patterns that a leak check looks for: all that follows from a private seed, in every spelling.

A needle that another seed also yields identifies neither. So whatever occurs in the
corpus (the public arm's own instances, and control instances of throw-away seeds) is not a
needle: a prompt that all share, a small table that two seeds agree on, a PNG's first bytes.
Seeds, nonces, instance ids and titles are never excused so.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ahocorasick

from generators.task import Asset, TaskInstance, TruthTable
from publish.errors import PublishError
from publish.leakcheck.unpack import (
    SEPARATOR,
    Chunk,
    Unreadable,
    canonical_text,
    pieces,
    pixel_digest,
)
from registry.canonical import canonical_bytes

SHORTEST = 13  # bytes of a pattern (12 digits and a point); a shorter one is met by chance
TELLING_DIGITS = 12  # numbers with fewer digits in all are met by chance
SLICE = 48  # bytes of a file's content that betray it
WINDOW = 8  # bytes of a pattern that the automaton knows
_CANDIDATES = 9  # windows of a pattern, of which the rarest is looked for
UNEXCUSED = frozenset({"seed", "nonce", "instance id", "title"})

_DROPPED = b" \t\r\n\v\f\0\\"  # spacing, escapes, and the zeros of UTF-16


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
    leaf: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """One spelling. ``raw`` is looked for in bytes as they are, ``packed`` in bytes without
    spacing and escapes, ``folded`` in those in lower case."""

    view: str
    data: bytes


class Matcher:
    """Finds which of very many patterns occur in a text, in one pass. Each has at least WINDOW
    bytes; raises ValueError for a shorter one.

    An Aho-Corasick automaton finds one window of each pattern, and what stands around the window is
    compared byte by byte: an automaton of whole patterns would take 35 bytes of memory for each of
    their bytes.
    """

    __slots__ = ("_automaton",)

    def __init__(self, patterns: Iterable[bytes]) -> None:
        wanted = sorted(set(patterns))
        if wanted and min(map(len, wanted)) < WINDOW:
            raise ValueError(f"a pattern has fewer than {WINDOW} bytes")
        # The rarest window of each: a common beginning must not send every occurrence of it to
        # the slow comparison.
        usage = Counter(pattern[at : at + WINDOW] for pattern in wanted for at in _offsets(pattern))
        known: dict[bytes, list[tuple[int, bytes]]] = {}
        for pattern in wanted:
            offset = min(_offsets(pattern), key=lambda at: (usage[pattern[at : at + WINDOW]], at))
            known.setdefault(pattern[offset : offset + WINDOW], []).append((offset, pattern))
        self._automaton = ahocorasick.Automaton()
        for window, places in known.items():
            self._automaton.add_word(window.decode("latin-1"), places)
        self._automaton.make_automaton()

    def find(self, text: bytes) -> set[bytes]:
        """The patterns that occur anywhere in the text."""
        if not len(self._automaton):
            return set()
        return {
            pattern
            for end, places in self._automaton.iter(text.decode("latin-1"))
            for offset, pattern in places
            if (start := end + 1 - WINDOW - offset) >= 0 and text.startswith(pattern, start)
        }


def _offsets(pattern: bytes) -> set[int]:
    last = len(pattern) - WINDOW
    return {last * step // (_CANDIDATES - 1) for step in range(_CANDIDATES)}


class Needles:
    """Everything to look for, ready to be looked for in any number of pieces."""

    def __init__(self, owners: Mapping[Pattern, Trace], pixels: Mapping[str, Trace]) -> None:
        self._owners = owners
        self._pixels = pixels
        self._matchers = {
            view: Matcher(pattern.data for pattern in owners if pattern.view == view)
            for view in ("raw", "packed", "folded")
        }

    def __len__(self) -> int:
        return len(self._owners) + len(self._pixels)

    def find(self, piece: Chunk) -> set[Trace]:
        """Return the traces of private instances that a piece contains."""
        traces = {self._owners[pattern] for pattern in self.patterns_in(piece.data)}
        if piece.pixels in self._pixels:
            traces.add(self._pixels[piece.pixels])
        return traces

    def patterns_in(self, data: bytes) -> set[Pattern]:
        """The patterns that occur in bytes, in any view."""
        packed = data.translate(None, _DROPPED)
        views = {"raw": data, "packed": packed, "folded": packed.lower()}
        return {
            Pattern(view, hit)
            for view, text in views.items()
            for hit in self._matchers[view].find(text)
        }


def needles_of(
    secrets: Iterable[Secret], corpus: Iterable[tuple[TaskInstance, Mapping[str, Any]]]
) -> Needles:
    """The needles of the private entries, less what the corpus yields too. Raises PublishError
    where a seed, nonce, instance id or title of a private entry is in the corpus."""
    groups: list[tuple[Trace, tuple[Pattern, ...]]] = []
    pixels: dict[str, Trace] = {}
    for secret in secrets:
        groups += [(Trace(kind, secret.leaf), patterns) for kind, patterns in _groups(secret)]
        pixels |= dict.fromkeys(_pixel_digests(secret.instance), Trace("image", secret.leaf))
    everything = Needles({pattern: trace for trace, group in groups for pattern in group}, pixels)
    shared, shared_pixels = _shared(everything, corpus)
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


def _shared(
    needles: Needles, corpus: Iterable[tuple[TaskInstance, Mapping[str, Any]]]
) -> tuple[set[Pattern], set[str]]:
    shared: set[Pattern] = set()
    pixels: set[str] = set()
    for instance, key in corpus:
        shared |= needles.patterns_in(SEPARATOR.encode().join(_corpus_texts(instance, key)))
        pixels |= _pixel_digests(instance)
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
    for asset in instance.brief.assets:
        yield b"".join((asset.path.encode(), b"\n", asset.digest.encode()))
        if asset.media_type.startswith("image/"):
            yield asset.data
        else:
            yield from (piece.data for piece in pieces(asset.data))
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


# -- the patterns of one secret --------------------------------------------------------------


def _groups(secret: Secret) -> Iterator[tuple[str, tuple[Pattern, ...]]]:
    """Kinds, each with the spellings of one thing: excused together, or not at all."""
    for kind, value in _digests(secret):
        yield kind, tuple(_spellings(value))
    for asset in secret.instance.brief.assets:
        yield from (("input file", group) for group in _content(asset))
    for kind, text in _texts(secret):
        if len(text) >= SHORTEST:
            yield kind, (Pattern("folded", text),)


def _digests(secret: Secret) -> Iterator[tuple[str, bytes]]:
    instance = secret.instance
    yield "seed", secret.seed
    yield "nonce", secret.nonce
    yield "instance id", _from_digest(instance.id)
    yield "brief digest", _from_digest(instance.brief.digest)
    for asset in instance.brief.assets:
        yield "file digest", _from_digest(asset.digest)
    for _, digest in instance.truth.digests:
        if (value := _from_digest(digest)) != b"":
            yield "file digest", value


def _from_digest(text: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("sha256:"))
    except ValueError:
        return b""


def _spellings(value: bytes) -> Iterator[Pattern]:
    """A value of 32 bytes, or a slice of a file: raw, base64, hexadecimal, decimal."""
    if len(value) < SHORTEST:
        return
    yield Pattern("raw", value)
    for shift in range(3):
        yield from (Pattern("packed", data) for data in _base64_within(value, shift))
    yield Pattern("folded", value.hex().encode())
    if len(value) == 32:
        yield Pattern("folded", str(int.from_bytes(value, "big")).encode())
        yield Pattern("folded", str(int.from_bytes(value, "little")).encode())


def _base64_within(value: bytes, shift: int) -> tuple[bytes, bytes]:
    """The characters that base64 of any text has where the value starts ``shift`` bytes after
    a multiple of three: in the standard and in the URL alphabet."""
    coded = base64.b64encode(b"\0" * shift + value)
    inner = coded[-(-shift * 8 // 6) : (shift + len(value)) * 8 // 6]
    return inner, inner.translate(bytes.maketrans(b"+/", b"-_"))


def _content(asset: Asset) -> Iterator[tuple[Pattern, ...]]:
    """A file's content, known by slices from all over it."""
    for part in _slices(asset.data):
        yield tuple(_spellings(part))
    try:
        text = asset.data.decode()
    except UnicodeDecodeError:
        return
    for form in (_folded(text.encode()), _folded(_escaped(text))):
        yield from ((Pattern("folded", part),) for part in _slices(form) if len(part) >= SHORTEST)


def _slices(data: bytes) -> set[bytes]:
    last = max(0, len(data) - SLICE)
    return {data[at : at + SLICE] for at in (last * step // 8 for step in range(9))}


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
    yield from (("answer key", _folded(text)) for text in _json_spellings(dict(secret.key)))
    for value in _parts(dict(secret.key)):
        yield from (("answer key", text) for text in map(_folded, _json_spellings(value)))


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
    for joiner in (",", ";", "|", ""):
        yield "".join(joiner.join(row) for row in rows).encode()


def _cell(value: str | int | float | bool) -> str:
    """As a text format has it: the numbers of JSON, and a whole number without its ``.0``."""
    if isinstance(value, str):
        return value
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value)


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


# -- spellings ---------------------------------------------------------------------------------


def _folded(text: bytes) -> bytes:
    return text.translate(None, _DROPPED).lower()


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
    for asset in instance.brief.assets:
        if asset.media_type.startswith("image/"):
            try:
                digests.add(pixel_digest(asset.data))
            except Unreadable:
                continue  # a vector image, say: its bytes are looked for as of any file
    return digests
