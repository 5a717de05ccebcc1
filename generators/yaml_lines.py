"""YAML of the 1.2 core schema that remembers its lines: safe, bounded, without repeated keys.

One pass over the parser's events builds the values, so that whatever is too deep, too many or
too often repeated is refused where it is met, before anything is built from it: the worst files of
1 MB that were tried took 1.1 s, so that it needs no process of its own. ``12:30``, ``yes``,
``1_000`` and ``2026-01-31`` are texts.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from generators.errors import GeneratorError

_MAX_VALUES = 100_000  # aliases written out
_MAX_ANCHORS = 1_000
_MAX_DIRECTIVES = 16  # the C parser compares each with all before it
_LONGEST_NUMBER = 400  # characters; a longer one is text

_YAML = "tag:yaml.org,2002:"
CORE = re.compile(  # the core schema: what a plain scalar without a tag is, if not a text
    r"(?:(?P<null>|~|null|Null|NULL)|(?P<bool>true|True|TRUE|false|False|FALSE)"
    r"|(?P<int>[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)))\Z"
)
_COLLECTIONS: dict[type[yaml.Event], str] = {
    yaml.SequenceStartEvent: f"{_YAML}seq",
    yaml.MappingStartEvent: f"{_YAML}map",
}

Place = tuple[str | int, ...]  # keys and indices from the top of the file


class YamlError(GeneratorError):
    """A file that cannot be read as YAML: names file, line and what is wrong."""


class YamlLimitError(YamlError):
    """A file of more than is read: too large, too deep, a second document."""


class _Int(int):
    written: str


class _Float(float):
    written: str


def fault_of_form(value: object) -> str | None:
    """Return why a value may not become a text: a number that its file writes otherwise than
    Python. None for all else."""
    changes = isinstance(value, _Int | _Float)
    return f"would become {value}: put it in quotes, or write {value}" if changes else None


def _number(text: str, kind: str) -> int | float:
    """Return a number; one of another form than Python's remembers how it was written."""
    kept: _Int | _Float
    if kind == "int":
        kept = _Int(text, 0 if text[1:2] in ("o", "x") else 10)
    else:
        kept = _Float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    kept.written = text
    return kept if repr(kept) != text else int(kept) if kind == "int" else float(kept)


@dataclass(frozen=True, slots=True)
class YamlLimits:
    """Limits on the content of one kind of file."""

    kind: str  # as errors call it: "a protocol"
    bytes: int
    values: int = _MAX_VALUES
    aliases: bool = False  # whether anchors, aliases and `<<` are understood
    depth: int = 32


@dataclass(frozen=True, slots=True)
class Fault:
    """Problem at a line of a file, the rest of which could be read."""

    line: int
    what: str


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A parsed file: its value, the line of every key and item, and what is wrong with it."""

    path: str
    value: Any
    lines: dict[Place, int]
    faults: tuple[Fault, ...] = ()

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest one above it that is there."""
        return line_of(self.lines, place)

    def place(self, place: Place) -> str:
        """``file:line: key`` of a place, with the line of the nearest one that is there."""
        key = key_of(place)
        line = self.line(place)
        return f"{self.path}:{line}: {key}" if key else f"{self.path}:{line}"


def line_of(lines: Mapping[Place, int], place: Place) -> int:
    """The line of a place, or of the nearest one above it that is there."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def key_of(place: Place) -> str:
    """A place as people write it: ``tests[0].template``."""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).lstrip(".")


def parse_yaml(data: bytes, path: str, limits: YamlLimits) -> YamlDocument:
    """The document in some bytes; ``path`` is what errors call the file.

    Repeated keys, keys that are no text, and values that cannot be made are gathered in its
    ``faults``. Raises YamlError for what stops the reading: a syntax error, and whatever is
    beyond the limits.
    """
    if len(data) > limits.bytes:
        raise YamlLimitError(f"{path}: {len(data)} bytes; {limits.kind} has at most {limits.bytes}")
    if data.count(b"\n%") > _MAX_DIRECTIVES:
        raise YamlLimitError(f"{path}: more than {_MAX_DIRECTIVES} lines start with %")
    reader: _Reader | None = None
    try:
        reader = _Reader(path, limits, data.decode("utf-8-sig"))
        value = reader.read()
    except UnicodeDecodeError as error:
        raise YamlError(f"{path}:{fault_of_utf8(data, error)}") from error
    except yaml.YAMLError as error:
        raise _syntax_error(path, data, error) from error
    return YamlDocument(path, value, reader.lines, tuple(reader.faults))


class _Dumper(yaml.SafeDumper):
    """Quotes the texts that YAML 1.1, as PICARD reads it, or 1.2 takes for something else."""


_Dumper.add_implicit_resolver(f"{_YAML}float", CORE, None)
_Dumper.add_multi_representer(int, yaml.SafeDumper.represent_int)
_Dumper.add_multi_representer(float, yaml.SafeDumper.represent_float)


def dump_yaml(content: Any, flow: bool | None = False) -> str:
    """Return the text of a YAML file; a plain list takes one line if ``flow`` is None."""
    layout: Any = {"sort_keys": False, "allow_unicode": True, "width": 100}
    return str(yaml.dump(content, Dumper=_Dumper, default_flow_style=flow, **layout))


def fault_of_utf8(data: bytes, error: UnicodeDecodeError) -> str:
    """``line: not UTF-8 text`` with the column and the byte that the error is about."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "1: is UTF-16; write it as UTF-8"
    before = data[: error.start]
    line, start = before.count(b"\n") + 1, before.rfind(b"\n") + 1
    column = len(before[start:].decode("utf-8", "replace")) + 1
    return f"{line}: not UTF-8 text: byte 0x{data[error.start]:02x} in column {column}"


def _syntax_error(path: str, data: bytes, error: yaml.YAMLError) -> YamlError:
    text = data.decode("utf-8-sig")
    if (control := yaml.reader.Reader.NON_PRINTABLE.search(text)) is not None:
        line = text.count("\n", 0, control.start()) + 1
        what = f"U+{ord(control[0]):04X} is a control character; leave it out"
        return YamlError(f"{path}:{line}: not valid YAML: {what}")
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if mark and "cannot start" in what and text[mark.index : mark.index + 1] == "\t":
        what = "a tab stands here; indent by blanks"
    context, start = getattr(error, "context", None) or "", getattr(error, "context_mark", None)
    if context and start and mark and _is_left_open(text, context, start, mark):
        mark, what = start, f"{context}, {what}"
    line = mark.line + 1 if mark is not None else 1
    if (start := _quote_ending_on(text, line)) is not None:
        what, line = f"the text in quotes that begins here ends on line {line} only", start
    return YamlError(f"{path}:{line}: not valid YAML: {' '.join(str(what).split())}")


def _is_left_open(text: str, context: str, start: yaml.Mark, stop: yaml.Mark) -> bool:
    """Return True if what was read had no end, so that the line of its start is the faulty one."""
    if context.endswith(("simple key", "quoted scalar")):
        return True
    if not context.endswith(("flow mapping", "flow sequence")):
        return False
    lines = text.splitlines()
    if not start.line < stop.line < len(lines):
        return stop.line > start.line
    first, last = (len(x) - len(x.lstrip(" ")) for x in (lines[start.line], lines[stop.line]))
    return last <= first


def _quote_ending_on(text: str, line: int) -> int | None:
    """Return the line on which a text in quotes begins that ends on this later one, so that its
    closing quote is likely the opening one of another text; None if there is no such text."""
    start = None
    try:
        for token in yaml.scan(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if token.start_mark.line >= line:
                break
            quoted = isinstance(token, yaml.ScalarToken) and token.style in ("'", '"')
            if quoted and token.start_mark.line + 1 < line == token.end_mark.line + 1:
                start = token.start_mark.line + 1
    except yaml.YAMLError:
        pass  # what stands before it was read
    return start


def _short(text: object) -> str:
    return repr(str(text)[:80])


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


@dataclass(slots=True)
class _Anchored:
    """Value of an anchor. Open until its end is read: it cannot contain itself."""

    value: Any = None
    size: int = 0
    open: bool = True


@dataclass(slots=True)
class _Reader:
    path: str
    limits: YamlLimits
    text: str = field(repr=False)
    lines: dict[Place, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    anchors: dict[str, _Anchored] = field(default_factory=dict)
    size: int = 0
    events: Iterator[yaml.Event] = field(init=False)

    def __post_init__(self) -> None:
        fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, where it was built in
        self.events = yaml.parse(self.text, Loader=fast)

    def read(self) -> Any:
        """The value of the only document; None if there is none."""
        next(self.events)  # the start of the stream
        start = next(self.events)
        if isinstance(start, yaml.StreamEndEvent):
            return None
        value = self.value(next(self.events), ())
        next(self.events)  # the end of the document
        after = next(self.events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise self.refusal(after, "a second document starts here; a file holds one")
        return value

    def value(self, event: yaml.Event, place: Place) -> Any:
        self.lines.setdefault(place, _line(event))
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event)
        self.count(event, 1)
        anchor = getattr(event, "anchor", None)
        if anchor is None:
            return self.plain(event, place)
        if len(self.anchors) >= _MAX_ANCHORS:
            raise self.refusal(event, f"more than {_MAX_ANCHORS} anchors")
        anchored = self.anchors[anchor] = _Anchored()
        before = self.size
        anchored.value = self.plain(event, place)
        anchored.size, anchored.open = self.size - before + 1, False
        return anchored.value

    def plain(self, event: yaml.Event, place: Place) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event)
        if len(place) >= self.limits.depth:
            raise self.refusal(event, f"nested deeper than {self.limits.depth} levels")
        tag, kind = getattr(event, "tag", None), type(event)
        if tag not in (None, "!", _COLLECTIONS[kind]):
            self.fault(event, f"a list or a mapping has the tag {_short(tag)}; leave the tag out")
        return self.sequence(place) if kind is yaml.SequenceStartEvent else self.mapping(place)

    def count(self, event: yaml.Event, values: int) -> None:
        self.size += values
        if self.size > self.limits.values:
            raise self.refusal(
                event, f"{self.limits.kind} has at most {self.limits.values} values, aliases too"
            )

    def alias(self, event: yaml.AliasEvent) -> Any:
        if not self.limits.aliases:
            raise self.refusal(
                event, f"aliases (*{event.anchor}) are not allowed; write the value out"
            )
        anchored = self.anchors.get(str(event.anchor))
        if anchored is None:
            raise self.refusal(event, f"*{event.anchor} stands for nothing above")
        if anchored.open:
            raise self.refusal(event, f"*{event.anchor} stands inside what it stands for")
        self.count(event, anchored.size)
        return anchored.value

    def scalar(self, event: yaml.ScalarEvent) -> Any:
        text, tag = event.value, (event.tag or "").removeprefix(_YAML)
        plain = event.tag is None and event.implicit[0]
        if tag in ("str", "!") or not (tag or plain):
            return text
        found = CORE.match(text) if len(text) <= _LONGEST_NUMBER else None
        kind = found.lastgroup if found else None
        if plain and kind is None:
            return text
        if not plain and tag not in (kind, "float" if kind == "int" else kind):
            self.fault(event, f"{_short(text)} is no {tag[:80]}; leave the tag out")
            return None
        if kind in ("int", "float"):
            number = _number(text, kind)
            return float(number) if tag == "float" else number
        return text.lower() == "true" if kind == "bool" else None

    def fault(self, event: yaml.Event, what: str) -> None:
        self.faults.append(Fault(_line(event), what))

    def sequence(self, place: Place) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.value(event, (*place, len(items))))
        return items

    def mapping(self, place: Place) -> dict[Hashable, Any]:
        mapping: dict[Hashable, Any] = {}
        merged: list[tuple[int, Any]] = []
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            line = _line(event)
            if self.merges(event):
                self.count(event, 1)
                merged.append((line, self.value(next(self.events), (*place, "<<"))))
                continue
            key = self.key(event, place)
            if key is None:
                self.value(next(self.events), (*place, "?"))
                continue
            if key in mapping:
                first = self.lines[(*place, key)]
                self.faults.append(Fault(line, f"{key!r} was given on line {first} already"))
                self.value(next(self.events), (*place, key))
                continue
            self.lines[(*place, key)] = line
            mapping[key] = self.value(next(self.events), (*place, key))
        for line, value in merged:
            self.merge(mapping, value, place, line)
        return mapping

    def key(self, event: yaml.Event, place: Place) -> str | None:
        """A key's text; None, and a fault, for one that is a list, a mapping or an alias."""
        if isinstance(event, yaml.ScalarEvent):
            if event.anchor is not None:
                self.anchors[event.anchor] = _Anchored(event.value, 1, open=False)
            return str(event.value)
        self.faults.append(Fault(_line(event), "a key must be plain text"))
        self.value(event, (*place, "?"))
        return None

    def merges(self, event: yaml.Event) -> bool:
        return (
            self.limits.aliases
            and isinstance(event, yaml.ScalarEvent)
            and event.value == "<<"
            and event.implicit[0]
        )

    def merge(self, mapping: dict[Hashable, Any], value: Any, place: Place, line: int) -> None:
        """Take over what a ``<<`` gives and the mapping does not have itself."""
        for given in value if isinstance(value, list) else [value]:
            if not isinstance(given, dict):
                self.faults.append(Fault(line, "<< takes over a mapping, or a list of them"))
                return
            for key, item in given.items():
                if key not in mapping:
                    mapping[key] = item
                    self.lines.setdefault((*place, str(key)), line)

    def refusal(self, event: yaml.Event, what: str) -> YamlError:
        return YamlLimitError(f"{self.path}:{_line(event)}: {what}")
