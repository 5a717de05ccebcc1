#!/usr/bin/env python3
"""Patterns that can read some text in more and more ways, and so take more than linear time.

A pattern becomes an automaton of its positions. It is ambiguous if one text leads from a repeated
position to itself, from there to another, and from that to itself: each repetition of the text then
adds to the ways, or doubles them. A search, which may begin anywhere, has one more repeat before
the pattern. What has matched already can no longer fail.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Set
from functools import reduce
from itertools import product
from operator import or_
from pathlib import Path
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from registry.provenance import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
_CHARACTERS = [*map(chr, range(128)), "\xa0", "é", "\u2028", "漢"]
_ALL = (1 << len(_CHARACTERS)) - 1
_WRITTEN_OUT = 8  # repetitions; more of them count as any number
_SEARCHES = {"search", "sub", "subn", "split", "findall", "finditer"}
_METHODS = _SEARCHES | {"match", "fullmatch"}

# What one part of a pattern adds: the characters that may not follow where it is left out (None: it
# cannot be), its first positions, and its last ones with the characters that may not follow them.
Part = tuple[int | None, set[int], dict[int, int]]


def is_ambiguous(pattern: str | bytes, flags: int = 0, methods: Set[str] = _METHODS) -> bool:
    """Report whether a pattern takes more than linear time on some text, used with one of these
    methods."""
    parsed = _parser.parse(pattern, flags)
    automaton = _Automaton()
    _, first, last = automaton.build(parsed, parsed.state.flags)
    if methods & _SEARCHES:
        begin = automaton.add(_ALL)[2]
        automaton.join(begin, {*begin, *first})
    looks_on = len(parsed) and parsed[-1][0] in (_constants.ASSERT, _constants.ASSERT_NOT)
    return automaton.is_ambiguous(set() if looks_on or "fullmatch" in methods else {*last})


class _Automaton:
    """The positions of a pattern. Sets of characters are whole numbers, a bit for each."""

    def __init__(self) -> None:
        self.reads: list[int] = []  # the characters of each position
        self.next: list[dict[int, int]] = []  # positions that follow, by which characters
        self.doubled = False  # two ways from one position to the next

    def add(self, characters: int) -> Part:
        self.reads.append(characters)
        self.next.append({})
        position = len(self.reads) - 1
        return None, {position}, {position: 0}

    def join(self, ends: Mapping[int, int], begins: Set[int]) -> None:
        for end, begin in product(ends, begins):
            characters = self.reads[begin] & ~ends[end]
            before = self.next[end].get(begin, 0)
            self.doubled |= bool(characters & before)
            self.next[end][begin] = characters | before

    def build(self, items: Any, flags: int) -> Part:
        skip: int | None = 0
        first, last = set[int](), dict[int, int]()
        for item in items:
            skips, begins, ends = self.part(str(item[0]), item[1], flags, item)
            self.join(last, begins)
            first |= begins if skip is not None else set()
            kept = {} if skips is None else {end: never | skips for end, never in last.items()}
            last = kept | ends
            skip = None if skip is None or skips is None else skip | skips
        return skip, first, last

    def part(self, name: str, value: Any, flags: int, item: Any) -> Part:
        if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            return self.add(_characters(item, flags))
        if name == "BRANCH":
            parts = [self.build(branch, flags) for branch in value[1]]
            skips, firsts, lasts = zip(*parts, strict=True)
            empty = [skip for skip in skips if skip is not None]
            self.doubled |= len(empty) > 1
            return min(empty, default=None), set().union(*firsts), reduce(or_, lasts)
        if name == "SUBPATTERN":
            return self.build(value[3], (flags | value[1]) & ~value[2])
        if name == "ATOMIC_GROUP":
            return self.build(value, flags)
        if name.endswith("_REPEAT"):
            return self.repeat(*value, flags, possessive=name.startswith("P"))
        if name.startswith("ASSERT"):
            inside = _Automaton()
            self.doubled |= inside.is_ambiguous({*inside.build(value[1], flags)[2]})
            return (0, set(), {}) if value[0] > 0 else self.add(0)
        return self.add(0)  # a place or a group again: what stands there is not known

    def repeat(self, least: int, most: int, body: Any, flags: int, *, possessive: bool) -> Part:
        skip, first, last = self.build(body, flags)
        again = reduce(or_, (self.reads[place] for place in first)) if possessive else 0
        skip = skip if least else again
        if most > _WRITTEN_OUT:  # as MAXREPEAT is
            self.join(last, first)
            return skip, first, {end: never | again for end, never in last.items()}
        before = last
        for number in range(2, most + 1):
            _, begins, ends = self.build(body, flags)
            self.join(before, begins)
            last, before = (last | ends if number > least else ends), ends
        return skip, first, last

    def is_ambiguous(self, matched: set[int]) -> bool:
        places = range(len(self.reads))
        steps = [list(after.items()) for after in self.next]
        reached = [self._reached(place) for place in places]
        repeated = [place for place in places if place in reached[place]]
        return self.doubled or any(
            self._lead_on(one, other, steps, reached, matched)
            for one, other in product(repeated, repeated)
            if one != other and other in reached[one]
        )

    def _lead_on(
        self, one: int, other: int, steps: Any, reached: list[set[int]], matched: set[int]
    ) -> bool:
        """True if one text leads from one place to itself, to the other, and there to itself."""
        states = [(one, one, other)]
        seen = set(states)
        for state in states:
            for moves in product(*(steps[place] for place in state)):
                (first, a), (second, b), (third, c) = moves
                after = first, second, third
                if after in seen or not a & b & c or {second, third} & matched:
                    continue
                if one in reached[first] and other in reached[second] & reached[third]:
                    seen.add(after)
                    states.append(after)
        return (one, other, other) in seen

    def _reached(self, place: int) -> set[int]:
        seen, todo = set[int](), [place]
        while todo:
            fresh = {*self.next[todo.pop()]} - seen
            seen |= fresh
            todo += fresh
        return seen


_known: dict[tuple[str, int], int] = {}


def _characters(item: Any, flags: int) -> int:
    """The characters that one item reads."""
    key = repr(item), flags
    if key not in _known:
        alone = _parser.SubPattern(_parser.State(), [item])
        reads = _compiler.compile(alone, flags & ~re.DEBUG).fullmatch
        _known[key] = sum(1 << bit for bit, sign in enumerate(_CHARACTERS) if reads(sign))
    return _known[key]


def patterns_in(tree: ast.Module) -> Iterator[tuple[int, str | bytes, int, Set[str]]]:
    """Yield the literal patterns of a module: line, text, flags, and the methods that it is used
    with; of one that other modules use, fullmatch, the strictest without a search."""
    texts: dict[str, Any] = {}
    names: dict[ast.expr, str] = {}
    calls: list[tuple[ast.Call, str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[node.value] = node.targets[0].id
            arguments = node.value.args if isinstance(node.value, ast.Call) else ()
            texts[node.targets[0].id] = _text(arguments[0] if arguments else node.value, texts)
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=method)):
                calls.append((node, owner, method))
    for call, module, method in calls:
        text = _text(call.args[0], texts) if call.args else None
        if module == "re" and method in _METHODS | {"compile"} and text is not None:
            named = [getattr(re, n.attr, 0) for n in ast.walk(call) if isinstance(n, ast.Attribute)]
            flags = reduce(or_, (flag for flag in named if isinstance(flag, re.RegexFlag)), 0)
            uses = {use for _, name, use in calls if name == names.get(call)} & _METHODS
            yield call.lineno, text, int(flags), {method} & _METHODS or uses or {"fullmatch"}


def _text(node: ast.expr, texts: dict[str, Any]) -> Any:
    """A text as far as the module has it; x for what is filled in elsewhere."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str | bytes) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value, texts) or "x" for value in node.values)
    if isinstance(node, ast.FormattedValue | ast.Attribute):
        return _text(node.value, texts)
    return texts.get(node.id) if isinstance(node, ast.Name) else None


def faults(root: Path) -> Iterator[str]:
    """Yield the place of each ambiguous pattern in the packages."""
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "re." in source:
            for line, pattern, flags, methods in patterns_in(ast.parse(source)):
                if is_ambiguous(pattern, flags, methods):
                    yield f"{path.relative_to(root)}:{line}: {pattern!r} can take very long"


if __name__ == "__main__":
    sys.exit("\n".join(faults(ROOT)) or 0)
