"""Paths to the places of a JSON document that an edit changes.

A path is ``$`` and steps: ``.name``, ``['name']``, ``[0]``, ``[*]``, ``.*``, and a filter
``[?(@.name == 'x')]``. A filter compares a field by ``== != < > <= >=`` with a JSON value or a
quoted text, or names a field that must be there; ``&&``, ``||``, ``!`` and parentheses join such
tests, and a field may end in ``.length`` or ``.indexOf('x')`` as in JavaScript.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from generators.errors import TemplateError
from generators.templates.scoring.json_answer import NotJson, read_json

Steps = tuple[tuple[str, Any], ...]
Target = tuple[Steps, Any, Any]  # where it is, what holds it, its key or index there
Test = Callable[[Any], bool]

_MOST_NESTED = 20  # parentheses of a filter
_MISSING = object()
_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]'"\s]+)
      | \[(?P<index>-?[0-9]{1,9})\]
      | \[(?P<all>\*)\]
      | \['(?P<single>[^']*)'\] | \["(?P<double>[^"]*)"\]
      | \[\?(?P<filter>(?:[^\[\]'"]|'[^']*'|"[^"]*")+)\]""",
    re.VERBOSE,
)
_TOKEN = re.compile(
    r"""\s*(?:(?P<sign>&&|\|\||==|!=|<=|>=|<|>|!|\(|\))
      | (?P<text>'[^']*'|"[^"]*")
      | (?P<field>@?[^\s=!<>()&|'"]+?\.indexOf\(\s*(?P<part>'[^']*'|"[^"]*")\s*\))
      | (?P<word>[^\s=!<>()&|'"]+))""",
    re.VERBOSE,
)
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_JOINS = {"&&": "&&", "and": "&&", "||": "||", "or": "||"}


def read_path(path: Any, where: str) -> Steps:
    """The steps of a path. Raises TemplateError naming ``where`` and what cannot be read."""
    if not isinstance(path, str) or not path.startswith("$") or len(path) < 2:
        raise TemplateError(f"{where}: {path!r} is no path: such as $.a[0].b or $.a[*].b")
    steps, place = [], 1
    while place < len(path):
        match = _STEP.match(path, place)
        step = None if match is None else _step(match)
        if match is None or step is None:
            raise TemplateError(f"{where}: {path!r} cannot be read from {path[place:]!r} on")
        steps.append(step)
        place = match.end()
    return tuple(steps)


def write_path(steps: Steps) -> str:
    """The path of one place."""
    return "$" + "".join(f"[{key}]" if kind == "index" else f".{key}" for kind, key in steps)


def find_targets(document: Any, steps: Steps, absent: bool = False) -> Iterator[Target]:
    """The places that a path leads to, one at a time; with ``absent`` also names that an object
    lacks. The place that was given last may be changed meanwhile."""
    reached: Iterator[tuple[Steps, Any]] = iter([((), document)])
    for step in steps[:-1]:
        reached = _inside(reached, step)
    for where, holder in reached:
        for key in _keys(holder, steps[-1], absent):
            yield (*where, at_key(key)), holder, key


def at_key(key: str | int) -> tuple[str, Any]:
    """The step to a key or an index."""
    return ("index" if isinstance(key, int) else "name", key)


def _inside(
    reached: Iterator[tuple[Steps, Any]], step: tuple[str, Any]
) -> Iterator[tuple[Steps, Any]]:
    return (
        ((*where, at_key(key)), holder[key])
        for where, holder in reached
        for key in _keys(holder, step, absent=False)
    )


def _keys(holder: Any, step: tuple[str, Any], absent: bool) -> Iterable[Any]:
    kind, value = step
    if kind == "name":
        return [value] if isinstance(holder, dict) and (absent or value in holder) else []
    if kind == "index":
        inside = isinstance(holder, list) and -len(holder) <= value < len(holder)
        return [value % len(holder)] if inside else []
    if not isinstance(holder, dict | list):
        return []
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    return keys if kind == "all" else [key for key in keys if value(holder[key])]


def _step(match: re.Match[str]) -> tuple[str, Any] | None:
    if match["index"] is not None:
        return "index", int(match["index"])
    if match["all"] is not None or match["name"] == "*":
        return "all", None
    if match["filter"] is not None:
        test = _Filter(match["filter"]).test()
        return None if test is None else ("where", test)
    return "name", next(
        match[kind] for kind in ("name", "single", "double") if match[kind] is not None
    )


class _UnreadableError(Exception):
    """A filter that is none."""


class _Filter:
    """The parts of a filter, read from left to right."""

    def __init__(self, text: str) -> None:
        self._parts: list[re.Match[str]] = []
        self._at = self._nested = 0
        place, end = 0, len(text.rstrip())
        while place < end:
            match = _TOKEN.match(text, place)
            if match is None:
                self._parts = []
                return
            self._parts.append(match)
            place = match.end()

    def test(self) -> Test | None:
        """What the filter asks of an item; None for one that cannot be read."""
        try:
            test = self._either()
        except _UnreadableError:
            return None
        return test if self._at == len(self._parts) else None

    def _sign(self) -> str:
        if self._at == len(self._parts):
            return ""
        part = self._parts[self._at]
        return part["sign"] or (part["word"] or "" if part["word"] in _JOINS else "")

    def _either(self) -> Test:
        ways = [self._both()]
        while _JOINS.get(self._sign()) == "||":
            self._at += 1
            ways.append(self._both())
        return ways[0] if len(ways) == 1 else lambda item: any(way(item) for way in ways)

    def _both(self) -> Test:
        conditions = [self._one()]
        while _JOINS.get(self._sign()) == "&&":
            self._at += 1
            conditions.append(self._one())
        return (
            conditions[0]
            if len(conditions) == 1
            else lambda item: all(one(item) for one in conditions)
        )

    def _one(self) -> Test:
        sign = self._sign()
        if sign not in ("!", "("):
            return self._comparison()
        self._at += 1
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise _UnreadableError
        if sign == "!":
            inner = self._one()
        else:
            inner = self._either()
            if self._sign() != ")":
                raise _UnreadableError
            self._at += 1
        self._nested -= 1
        return inner if sign == "(" else lambda item: not inner(item)

    def _comparison(self) -> Test:
        value = _field(self._next())
        if self._sign() not in _OPERATORS:
            return lambda item: value(item) is not _MISSING
        compare = _OPERATORS[self._sign()]
        self._at += 1
        literal = _literal(self._next())

        def test(item: Any) -> bool:
            item_value = value(item)
            try:
                return item_value is not _MISSING and bool(compare(item_value, literal))
            except TypeError:
                return False

        return test

    def _next(self) -> re.Match[str]:
        if self._at == len(self._parts) or self._parts[self._at]["sign"]:
            raise _UnreadableError
        self._at += 1
        return self._parts[self._at - 1]


def _field(part: re.Match[str]) -> Callable[[Any], Any]:
    """What reads a field of an item: a value, or ``_MISSING``."""
    text = part["word"] or (part["field"] or "").rpartition(".indexOf(")[0]
    names = [name for name in text.removeprefix("@").split(".") if name]
    if not text or (not names and text != "@"):
        raise _UnreadableError
    sought = part["part"][1:-1] if part["part"] else None

    def read(item: Any) -> Any:
        for at, name in enumerate(names):
            if isinstance(item, dict) and name in item:
                item = item[name]
            elif name == "length" and at == len(names) - 1 and isinstance(item, str | list):
                item = len(item)
            else:
                return _MISSING
        if sought is None:
            return item
        if isinstance(item, str):
            return item.find(sought)
        return item.index(sought) if isinstance(item, list) and sought in item else -1

    return read


def _literal(part: re.Match[str]) -> Any:
    if part["text"]:
        return part["text"][1:-1]
    if not part["word"]:
        raise _UnreadableError
    try:
        return read_json(part["word"])
    except NotJson:
        return part["word"]
