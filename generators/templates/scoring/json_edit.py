"""Edits of a JSON file, verified: they were made, and everything else was preserved.

The key of the scoring type ``readfile_jsonedit`` is JSON::

    {"original": {"services": [{"level": "INFO", "port": 1}], "saved": "never"},
     "edits": [{"path": "$.services[*].level", "value": "DEBUG"},
               {"path": "$.services[?(@.port == 1)].port", "remove": true},
               {"path": "$.log", "append": "edited"}],
     "free": ["$.saved"]}

The edits are made in order; each must lead somewhere. A value is set where it stands, or added
to an object; ``free`` places may hold anything or be absent. ``original_file`` may stand for
``original``: a file of the sandbox as it was made (``complete_edit`` puts it in), or, where it is
left, one that is read when the answer is scored.

With ``"targeted": true`` (``translate_edit`` makes it of public templates) an edit that leads
nowhere is none, null may be removed instead, and a number in quotes is a number if the original has
one there. A free path frees no place that an edit sets.

A path is ``$`` and steps: ``.name``, ``['name']``, ``[0]``, ``[*]``, ``.*``, and a filter
``[?(@.name == 'x')]``. A filter compares a field by ``== != < > <= >=`` with a JSON value or a
quoted text, or names a field that must be there; ``&&``, ``||``, ``!`` and parentheses join such
tests, and a field may end in ``.length`` or ``.indexOf('x')`` as in JavaScript.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generators.errors import TemplateError
from generators.templates.functions import Match
from generators.templates.scoring.comparison import (
    NotJson,
    differences,
    json_values,
    read_json,
    same_json,
    same_value_leniently,
)
from generators.templates.scoring.response import file_text, kept
from generators.templates.scoring.scorer import AnswerScore, Key, Workspace

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
        """Return the filter's test of an item; None for a filter that cannot be read."""
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
        return lambda item: any(way(item) for way in ways)

    def _both(self) -> Test:
        conditions = [self._one()]
        while _JOINS.get(self._sign()) == "&&":
            self._at += 1
            conditions.append(self._one())
        return lambda item: all(one(item) for one in conditions)

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
    """Return a reader of a field of an item, which returns its value or ``_MISSING``."""
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


_KEYS = ("original", "original_file", "edits", "free", "targeted")
_ACTS = ("value", "append", "remove")


@dataclass(frozen=True, slots=True)
class _Edit:
    path: str
    steps: Steps
    act: str
    value: str  # JSON: one edit may set it in many places, each its own


@dataclass(frozen=True, slots=True)
class _Task:
    original: str  # JSON: parsed afresh for each use, since edits change it
    edits: tuple[_Edit, ...]
    free: tuple[Steps, ...]
    targeted: bool = False


def complete_edit(expected: str, files: Mapping[str, bytes]) -> str:
    """The key with the original file's JSON in it, its edits tried.

    Raises TemplateError for a key of another form, a file that was not made or is no JSON, and an
    edit that leads nowhere.
    """
    spec = _parse(expected)
    if "original_file" in spec:
        path = str(spec.pop("original_file"))
        if path not in files:
            raise TemplateError(f"original_file: {path!r} is none of the files that were made")
        spec["original"] = _json_of(files[path].decode(errors="replace"), path)
    _edited(_task(spec, None))
    return json.dumps(spec, ensure_ascii=False)


def match_edits(expected: str) -> Iterator[Match]:
    """What the path of each edit meets in the original of a completed key, and whether the
    original is right as it stands."""
    task = _task(_parse(expected), None)
    original = _json_of(task.original, "the original")
    for edit in task.edits:
        reached = list(find_targets(original, edit.steps, absent=edit.act == "value"))
        yield Match("path", edit.path, len(reached), 1)
        if edit.act == "value":
            there = sum(isinstance(holder, list) or key in holder for _, holder, key in reached)
            names = {name: None for _, holder, _ in reached for name in holder if not there}
            last = str(edit.steps[-1][1])
            yield Match("added", edit.path, there, len(reached), last, tuple(map(str, names)))
    yield Match("untouched", "", same_json(original, _edited(task)[0]), 1)


def score_edit(key: Key, response: str, workspace: Workspace) -> AnswerScore:
    """Right where the file holds the original with every edit made and nothing else changed.

    The details list the edits that were not made (``edits_missing``) and what else changed
    (``other_changes``).
    """
    text = file_text(key, workspace)
    if isinstance(text, AnswerScore):
        return text
    details: dict[str, Any] = {"expected_file": key.file, "actual_content": kept(text)}
    try:
        task = _task(_parse(key.expected), workspace)
        expected, places = _edited(task)
    except TemplateError as error:
        return AnswerScore(False, f"the key: {error}", details)
    try:
        actual = read_json(text.strip())
    except NotJson as error:
        return AnswerScore(False, f"{key.file} is no JSON: {error}", details)
    edited = tuple(places.values())
    expected, actual = (_compared(task, document, edited) for document in (expected, actual))
    if same_json(expected, actual):
        return AnswerScore(True, details={**details, "edits_missing": [], "other_changes": []})
    missing = [place for place, steps in places.items() if not _same_at(steps, expected, actual)]
    other_changes = differences(_masked(expected, edited), _masked(actual, edited))
    reasons = [f"not made: {', '.join(missing[:10])}"] * bool(missing)
    reasons += [f"changed too: {', '.join(other_changes[:10])}"] * bool(other_changes)
    return AnswerScore(
        False,
        f"{key.file}: {'; '.join(reasons)}",
        {**details, "edits_missing": missing, "other_changes": other_changes},
    )


def edit_leniently(key: Key, response: str, workspace: Workspace) -> bool:
    """The same with fences, prose and the spelling of values forgiven."""
    text = file_text(key, workspace)
    if isinstance(text, AnswerScore):
        return False
    try:
        task = _task(_parse(key.expected), workspace)
        expected, places = _edited(task)
    except TemplateError:
        return False
    edited = tuple(places.values())
    expected = _compared(task, expected, edited)
    return any(
        same_value_leniently(expected, _compared(task, value, edited))
        for value in json_values(text, type(expected))
    )


# --- the key


def _parse(expected: str) -> dict[str, Any]:
    spec = _json_of(expected, "the expected content")
    if not isinstance(spec, dict):
        raise TemplateError("must be an object with original, edits and free")
    unknown = [key for key in spec if key not in _KEYS]
    if unknown:
        raise TemplateError(f"unknown key {unknown[0]!r}; known: {', '.join(_KEYS)}")
    if ("original" in spec) == ("original_file" in spec):
        raise TemplateError("needs one of original and original_file")
    if not isinstance(spec.get("edits"), list) or not spec["edits"]:
        raise TemplateError("edits: must be a list of at least one edit")
    if not isinstance(spec.get("free", []), list):
        raise TemplateError("free: must be a list of paths")
    return spec


def _task(spec: Mapping[str, Any], workspace: Workspace | None) -> _Task:
    original = json.dumps(spec["original"]) if "original" in spec else _read(spec, workspace)
    edits = tuple(_edit(index, edit) for index, edit in enumerate(spec["edits"]))
    free = tuple(read_path(path, f"free[{i}]") for i, path in enumerate(spec.get("free", [])))
    return _Task(original, edits, free, spec.get("targeted") is True)


def _read(spec: Mapping[str, Any], workspace: Workspace | None) -> str:
    path = str(spec["original_file"])
    data = None if workspace is None else workspace.read(path)
    if data is None:
        raise TemplateError(f"original_file: {path!r} cannot be read")
    return data.decode(errors="replace")


def _edit(index: int, given: Any) -> _Edit:
    where = f"edits[{index}]"
    acts = [act for act in _ACTS if isinstance(given, dict) and act in given]
    if len(acts) != 1 or set(given) != {"path", acts[0]}:
        raise TemplateError(f"{where}: must be an object of path and one of {', '.join(_ACTS)}")
    return _Edit(
        given["path"], read_path(given["path"], where), acts[0], json.dumps(given[acts[0]])
    )


def _json_of(text: str, what: str) -> Any:
    try:
        return read_json(text.strip())
    except NotJson as error:
        raise TemplateError(f"{what} is no JSON: {error}") from None


# --- documents


def _edited(task: _Task) -> tuple[Any, dict[str, Steps]]:
    """The document after the edits, and the places that they set or removed."""
    document = _json_of(task.original, "the original")
    places: dict[str, Steps] = {}
    for edit in task.edits:
        targets = list(find_targets(document, edit.steps, absent=edit.act == "value"))
        if not targets and not task.targeted:
            raise TemplateError(f"the edit of {edit.path!r} leads nowhere in the original")
        for where, holder, key in reversed(targets):
            _make(edit, holder, key, task.targeted)
            if edit.act == "value" or (edit.act == "remove" and isinstance(holder, dict)):
                places[write_path(where)] = where
    return document, dict(reversed(places.items()))


def _make(edit: _Edit, holder: Any, key: Any, targeted: bool) -> None:
    if edit.act == "value":
        value = json.loads(edit.value)
        before = holder.get(key) if isinstance(holder, dict) else holder[key]
        holder[key] = _as_number(value) if targeted and _is_number(before) else value
    elif edit.act == "remove":
        del holder[key]
    elif isinstance(holder[key], list):
        holder[key].append(json.loads(edit.value))
    else:
        raise TemplateError(f"the edit of {edit.path!r}: there is no list to append to")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_number(value: Any) -> Any:
    """The number that a text is; the value itself if it is none."""
    try:
        number = read_json(value.strip()) if isinstance(value, str) else value
    except NotJson:
        return value
    return number if _is_number(number) else value


def _compared(task: _Task, document: Any, places: tuple[Steps, ...]) -> Any:
    """The document without what is free; changes it."""
    if task.targeted:  # null may as well be absent
        for steps in places:
            for _, holder, key in find_targets(document, steps):
                if isinstance(holder, dict) and holder[key] is None:
                    del holder[key]
    return _masked(document, task.free, places)


def _masked(document: Any, places: Iterable[Steps], but: tuple[Steps, ...] = ()) -> Any:
    """The document with such places removed from objects and blanked in lists, ``but`` what is
    at some; changes it."""
    kept = frozenset(but)
    towards = frozenset(steps[:end] for steps in but for end in range(1, len(steps) + 1))
    for steps in places:
        for where, holder, key in find_targets(document, steps):
            _mask(where, holder, key, kept, towards)
    return document


def _mask(
    where: Steps, holder: Any, key: Any, kept: frozenset[Steps], towards: frozenset[Steps]
) -> None:
    if where in kept:
        return
    inner = holder[key]
    if where in towards and isinstance(inner, dict | list):
        for part in list(inner) if isinstance(inner, dict) else range(len(inner)):
            _mask((*where, at_key(part)), inner, part, kept, towards)
    elif isinstance(holder, dict):
        del holder[key]
    else:
        holder[key] = None


def _same_at(steps: Steps, expected: Any, actual: Any) -> bool:
    wanted, given = (
        [holder[key] for _, holder, key in find_targets(document, steps)]
        for document in (expected, actual)
    )
    return same_json(wanted, given)
