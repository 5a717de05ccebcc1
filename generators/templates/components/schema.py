"""The schema language by which ``create_json``, ``create_yaml`` and ``create_xml`` draw values.

A mapping without ``type`` is an object of its keys; text names a data type; numbers, truth values,
null and lists stand for themselves; a mapping whose ``type`` is text is one of the kinds below or a
data type. Values of a place are drawn all at once, however many arrays it lies in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from generators.errors import nearest
from generators.stream import Stream
from generators.templates.components import text_files as lorem
from generators.templates.components.regex_sampler import Piece, compile_pattern, log10_sum
from generators.templates.language.data_types import (
    LATIN,
    DataType,
    hundredths,
    indices,
    integers,
    partners,
)
from generators.templates.language.diagnostics import (
    gathered,
    mapping,
    number,
    refuse,
    sequence,
    shown,
    span,
    whole,
    writable,
)
from generators.templates.language.keys import DOCUMENT_KEYS, ENUM_KEYS, ENUMERATED
from generators.templates.language.values import BUILT_IN, ValueSet
from generators.yaml_lines import fault_of_form

MOST_EXTRAS = 3  # additional properties, named extra_0, extra_1, …


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value, as a node of a schema. Every node has log10 of the number of its values, how
    many characters one of them takes at most when it is written, indentation apart, and how many
    single values are in it."""

    log10: float
    size: int
    values: int
    draw: Callable[[Stream, int], list[Any]]
    write: Callable[[Any], str] | None = None  # how XML shows it, where not as ``text`` does
    kind: DataType | None = None


@dataclass(frozen=True, slots=True)
class Object:
    keys: tuple[str, ...]
    nodes: tuple[Node, ...]
    extra: Node | None  # up to three more of it
    together: tuple[tuple[int, int], ...] = ()  # nodes that go with an earlier one

    @property
    def log10(self) -> float:
        """log10 of the number of distinct values."""
        after = {later for later, _ in self.together}
        total = sum(node.log10 for place, node in enumerate(self.nodes) if place not in after)
        if self.extra is None:
            return total
        return total + log10_sum(count * self.extra.log10 for count in range(MOST_EXTRAS + 1))

    @property
    def values(self) -> int:
        """Largest number of values in an object, itself included."""
        extra = 0 if self.extra is None else MOST_EXTRAS * self.extra.values
        return 1 + extra + sum(node.values for node in self.nodes)

    @property
    def size(self) -> int:
        """Largest size of an object in bytes."""
        keys = sum(2 * len(key.encode()) + 12 for key in self.keys)
        extra = 0 if self.extra is None else MOST_EXTRAS * (self.extra.size + 30)
        return 12 + keys + extra + sum(node.size for node in self.nodes)

    def draw(self, stream: Stream, count: int) -> list[Any]:
        """So many objects, drawn."""
        columns = self._columns(stream, count)
        if not columns:
            made: list[Any] = [{} for _ in range(count)]
        else:
            made = [dict(zip(self.keys, row, strict=True)) for row in zip(*columns, strict=True)]
        if self.extra is not None:
            parts = _split(self.extra, stream, count, 0, MOST_EXTRAS)
            for record, part in zip(made, parts, strict=True):
                record.update((f"extra_{index}", value) for index, value in enumerate(part))
        return made

    def _columns(self, stream: Stream, count: int) -> list[list[Any]]:
        """``count`` values of each node. Nodes that go together are made from the same uniforms."""
        if not self.together:
            return [node.draw(stream, count) for node in self.nodes]
        first = dict(self.together)
        units: dict[int, Any] = {}
        columns = []
        for place, node in enumerate(self.nodes):
            if not isinstance(node, Leaf) or node.kind is None or node.kind.group is None:
                columns.append(node.draw(stream, count))
                continue
            shared = units.get(first.get(place, place))
            units[place] = stream.uniforms(count) if shared is None else shared
            columns.append(node.kind.make(units[place]))
        return columns


@dataclass(frozen=True, slots=True)
class Array:
    items: Node
    least: int
    most: int
    element: str  # the name of an item in XML

    @property
    def log10(self) -> float:
        """log10 of the number of distinct values."""
        if self.least == self.most or self.most > 10_000:  # what is shorter hardly shows
            return self.most * self.items.log10
        return log10_sum(count * self.items.log10 for count in range(self.least, self.most + 1))

    @property
    def values(self) -> int:
        """Largest number of values in an array, itself included."""
        return 1 + self.most * self.items.values

    @property
    def size(self) -> int:
        """Largest size of an array in bytes."""
        return 12 + self.most * (self.items.size + 2 * len(self.element) + 12)

    def draw(self, stream: Stream, count: int) -> list[Any]:
        """So many arrays, drawn."""
        return _split(self.items, stream, count, self.least, self.most)


Node = Leaf | Object | Array


def _split(node: Node, stream: Stream, count: int, least: int, most: int) -> list[Any]:
    """``count`` lists of ``least`` to ``most`` values of a node."""
    if least == most:
        lengths = [least] * count
    else:
        drawn = indices(stream.uniforms(count), most - least + 1)
        lengths = [least + extra for extra in drawn]
    ends = list(accumulate(lengths, initial=0))
    values = node.draw(stream, ends[-1])
    return [values[start:end] for start, end in pairwise(ends)]


def leaf(kind: DataType) -> Leaf:
    """A single value of a data type."""
    return Leaf(kind.log10_values, kind.longest * 2 + 2, 1, kind.draw, kind.write, kind=kind)


DEFAULT_SCHEMA = {"message": "lorem_words", "timestamp": "date", "id": "id"}
DEFAULT_COUNT, DEFAULT_ITEMS, DEFAULT_ELEMENT = 5, "lorem_words", "item"
DEEPEST = 40
LONGEST_KEY = 200
_XML_NAME = re.compile("[A-Za-z_][A-Za-z0-9_.-]*")
_XML_TEXT = re.compile("[\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
SAFE_WHOLE = 1 << 53  # a uniform distinguishes no more values


@dataclass(frozen=True, slots=True)
class Rules:
    """What a schema may hold: the data types, and for XML its own names and nothing but text."""

    xml: bool
    values: ValueSet

    def leaf(self, name: str) -> Leaf:
        """A single value of a data type."""
        kind = self.values.types[name]
        return leaf(kind.as_text if self.xml else kind)


XML_RULES = Rules(True, BUILT_IN)


class Given(str):
    """Text that a placeholder stood for: in a schema it is itself, not the name of a data type."""

    __slots__ = ()


def compile_schema(path: str, written: Any, rules: Rules, depth: int = 0) -> Node:
    """The node that a schema describes. Raises TemplateError with a line for each complaint."""
    if depth > DEEPEST:
        refuse(path, f"more than {DEEPEST} levels deep")
    if isinstance(written, Given):
        return _literal(str(written))
    if isinstance(written, str):
        return _typed_text(path, written, rules)
    if isinstance(written, Mapping):
        if isinstance(written.get("type"), str):
            return _typed(path, written, rules, depth)
        return _object(path, written, None, rules, depth)
    return _literal(_plain(path, written, rules, depth))


def _typed_text(path: str, name: str, rules: Rules) -> Node:
    if name in rules.values.types:
        return rules.leaf(name)
    refuse(
        path,
        f"unknown data type {name!r}; for a text that stays as it is write "
        f"{{type: literal, value: …}}; {nearest(name, rules.values.types)}",
    )


def _typed(path: str, written: Mapping[str, Any], rules: Rules, depth: int) -> Node:
    kind = str(written["type"])
    if "enum" in written and kind in ENUMERATED:
        return _enum(path, mapping(path, written, ENUM_KEYS))
    if kind in DOCUMENT_KEYS:
        known = (key for key in DOCUMENT_KEYS[kind] if rules.xml or key != "element_name")
        mapping(path, written, known)
    if kind == "array":
        return _array(path, written, rules, depth)
    if kind == "object":
        properties = written.get("properties")
        extra = written.get("additional_properties")
        inner = {} if properties is None else properties
        return _object(f"{path}.properties", inner, extra, rules, depth)
    if kind == "literal":
        return _literal(_plain(f"{path}.value", written.get("value"), rules, depth))
    if kind == "null":
        return _literal(None)
    if kind in ("number", "integer"):
        return _number(path, written, kind)
    if kind == "string":
        return _string(path, written, rules)
    if kind not in rules.values.types:
        types = (*DOCUMENT_KEYS, *rules.values.types)
        refuse(f"{path}.type", f"unknown type {kind!r}; {nearest(kind, types)}")
    if len(written) > 1:
        other = next(key for key in written if key != "type")
        refuse(
            f"{path}.{other}",
            f"no key of the data type {kind!r}; for an object with a property called type write "
            "{type: object, properties: {type: …}}",
        )
    return rules.leaf(kind)


def _literal(value: Any) -> Leaf:
    value_count = _count(value)
    return Leaf(
        0.0,
        len(repr(value).encode()) * 6 + 20 * value_count,
        value_count,
        lambda _, count: [value] * count,
    )


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _plain(path: str, value: Any, rules: Rules, depth: int) -> Any:
    """A literal, copied, of nothing but what JSON knows."""
    if depth > DEEPEST:
        refuse(path, f"more than {DEEPEST} levels deep")
    if isinstance(value, list | tuple):
        return [
            _plain(f"{path}[{index}]", item, rules, depth + 1) for index, item in enumerate(value)
        ]
    if isinstance(value, Mapping):
        return {
            _key(path, key, rules): _plain(f"{path}.{key}", item, rules, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, str):
        return _text(path, str(value), rules.xml)
    if rules.xml and (fault := fault_of_form(value)) is not None:
        refuse(path, f"{shown(value)} {fault}")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() <= 64:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    refuse(path, f"{shown(value)} is no plain value; put it in quotes")


def _text(path: str, value: str, xml: bool) -> str:
    if xml and not is_xml_text(value):
        refuse(path, "a character that XML cannot hold")
    return writable(path, value)


def is_xml_text(text: str) -> bool:
    """True if XML 1.0 allows every character of the text."""
    return _XML_TEXT.fullmatch(text) is not None


def element_name(path: str, value: Any) -> str:
    """The name of an XML element: ASCII letters, digits, ``_ - .``, no colon. Raises TemplateError
    for one that XML would not take."""
    if not isinstance(value, str) or not _XML_NAME.fullmatch(value):
        refuse(
            path, f"{shown(value)} is no name of an element: a letter, then letters, digits, _-."
        )
    return value


def _key(path: str, key: Any, rules: Rules) -> str:
    if not isinstance(key, str):
        refuse(path, f"the key {shown(key)} is not text; put it in quotes")
    if len(key) > LONGEST_KEY:
        refuse(path, f"a key of {len(key)} characters; at most {LONGEST_KEY} are allowed")
    return element_name(f"{path}.{key}", key) if rules.xml else _text(path, str(key), False)


def _object(path: str, written: Any, extra: Any, rules: Rules, depth: int) -> Object:
    mapping(path, written)

    def read(key: Any, value: Any) -> tuple[str, Node]:
        name = _key(path, key, rules)
        return name, compile_schema(f"{path}.{key}", value, rules, depth + 1)

    def more() -> Node | None:
        if extra is None or extra is False:
            return None
        beside = f"{path.removesuffix('.properties')}.additional_properties"
        return compile_schema(beside, DEFAULT_ITEMS if extra is True else extra, rules, depth + 1)

    *pairs, beyond = gathered((*(partial(read, *item) for item in written.items()), more))
    nodes = tuple(node for _, node in pairs)
    kinds = [node.kind if isinstance(node, Leaf) else None for node in nodes]
    return Object(tuple(key for key, _ in pairs), nodes, beyond, partners(kinds))


def _array(path: str, written: Mapping[str, Any], rules: Rules, depth: int) -> Array:
    name, inner = written.get("element_name", DEFAULT_ELEMENT), written.get("items", DEFAULT_ITEMS)
    (least, most), element, items = gathered(
        (
            partial(span, f"{path}.count", written.get("count", DEFAULT_COUNT)),
            partial(element_name, f"{path}.element_name", name),
            partial(compile_schema, f"{path}.items", inner, rules, depth + 1),
        )
    )
    return Array(items, least, most, element)


def _enum(path: str, written: Mapping[str, Any]) -> Leaf:
    listed = sequence(f"{path}.enum", written["enum"])
    values = [
        _plain(f"{path}.enum[{index}]", item, XML_RULES, 0) for index, item in enumerate(listed)
    ]
    if not values:
        refuse(f"{path}.enum", "no value to choose from")

    def draw(stream: Stream, count: int) -> list[Any]:
        return [values[index] for index in indices(stream.uniforms(count), len(values))]

    size = max(len(repr(value).encode()) * 6 for value in values)
    return Leaf(math.log10(len(values)), size, max(map(_count, values)), draw)


def _number(path: str, written: Mapping[str, Any], kind: str) -> Leaf:
    """A whole number, or one of two decimals."""
    places, least = (0, 1.0) if kind == "integer" else (2, 0.0)
    low, high = bounds(path, written, least, 1000.0)
    first = math.ceil(round(low * 10**places, 6) if places else low)
    last = math.floor(round(high * 10**places, 6) if places else high)
    what = "number of two decimals" if places else "whole number"
    ends = f"{low:.{places}f} to {high:.{places}f}"
    if last < first:
        refuse(path, f"no {what} from {ends}")
    if max(last - first, abs(first), abs(last)) >= SAFE_WHOLE:
        refuse(path, f"{ends} is too wide for a {what}: stay within 2**53 steps")
    return leaf(hundredths(kind, first, last) if places else integers(kind, first, last))


def bounds(path: str, written: Mapping[str, Any], low: float, high: float) -> tuple[float, float]:
    """Return the ends of a range; a missing end is the usual one or a thousand away."""
    asked_low, asked_high = written.get("minimum"), written.get("maximum")
    if asked_low is not None:
        low = number(f"{path}.minimum", asked_low)
        high = max(high, low + 1000)
    if asked_high is not None:
        high = number(f"{path}.maximum", asked_high)
        low = low if asked_low is not None else min(low, high - 1000)
    if high < low:
        refuse(f"{path}.maximum", f"{high:g} is below the minimum, {low:g}")
    return low, high


def _string(path: str, written: Mapping[str, Any], rules: Rules) -> Leaf:
    pattern = written.get("pattern")
    bounded = written.get("min_length") is not None or written.get("max_length") is not None
    low = whole(f"{path}.min_length", written.get("min_length") or 0)
    usual = max(50, low)
    asked = written.get("max_length")
    high = whole(f"{path}.max_length", usual if asked is None else asked)
    if high < low:
        refuse(f"{path}.max_length", f"{high} is below min_length, {low}")
    if pattern is None:
        return _filler(max(low, min(1, high)), high)
    if not isinstance(pattern, str):
        refuse(f"{path}.pattern", f"a regular expression is wanted, not {shown(pattern)}")
    if pattern in rules.values.types:
        return rules.leaf(pattern)
    piece = compile_pattern(f"{path}.pattern", pattern)
    if bounded and (piece.least < low or (asked is not None and piece.most > high)):
        refuse(
            f"{path}.pattern",
            f"{pattern!r} makes {piece.least} to {piece.most} characters, which min_length and "
            "max_length do not allow",
        )
    return _patterned(piece)


def _filler(low: int, high: int) -> Leaf:
    """Latin words cut to a length from ``low`` to ``high``."""
    most_words = high // 3 + 1  # the shortest word has two letters

    def draw(stream: Stream, count: int) -> list[Any]:
        lengths = indices(stream.uniforms(count), high - low + 1)
        words = lorem.words(stream, count * most_words)
        return [
            _cut(words[index * most_words :][:most_words], low + length)
            for index, length in enumerate(lengths)
        ]

    # Counted by whole words, the longest; the shortest texts hardly show.
    whole_words = [
        length // (lorem.LONGEST_WORD + 1) for length in range(max(low, high - 500), high + 1)
    ]
    log10 = log10_sum(count * math.log10(len(LATIN)) for count in whole_words)
    return Leaf(log10, high + 2, most_words, draw)


def _cut(words: list[str], length: int) -> str:
    cut = " ".join(words)[:length]
    return cut[:-1] + "a" if cut.endswith(" ") else cut


def _patterned(piece: Piece) -> Leaf:
    def draw(stream: Stream, count: int) -> list[Any]:
        units = iter(stream.uniforms(count * max(piece.draws, 1)).tolist())
        return [piece.draw(lambda: next(units)) for _ in range(count)]

    return Leaf(piece.log10, piece.most * 6 + 2, max(piece.draws, 1), draw)
