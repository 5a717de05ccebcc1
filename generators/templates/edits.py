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

A path is ``$`` and steps: ``.name``, ``['name']``, ``[0]``, ``[*]``, ``.*``, and
``[?(@.name == 'x')]`` with one of == != < > <= >= and a JSON value or a quoted text.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generators.errors import TemplateError
from generators.templates.answers import file_text, kept
from generators.templates.jsonanswer import NotJson, differences, read_json, same_json
from generators.templates.lenient import json_values, same_value_leniently
from generators.templates.model import Key, Verdict, Workspace

_KEYS = ("original", "original_file", "edits", "free")
_ACTS = ("value", "append", "remove")
_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]'"\s]+)
      | \[(?P<index>-?[0-9]{1,9})\]
      | \[(?P<all>\*)\]
      | \['(?P<single>[^']*)'\] | \["(?P<double>[^"]*)"\]
      | \[\?\s*\(?\s*(?:@\.)?(?P<field>[^\s=!<>()@\[\]'"]+)\s*
        (?P<operator>==|!=|<=|>=|<|>)\s*(?P<literal>'[^']*'|"[^"]*"|[^\s()\]'"]+)\s*\)?\s*\]""",
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

_Steps = tuple[tuple[str, Any], ...]
_Target = tuple[_Steps, Any, Any]  # where it is, what holds it, its key or index there


@dataclass(frozen=True, slots=True)
class _Edit:
    path: str
    steps: _Steps
    act: str
    value: str  # JSON: one edit may set it in many places, each its own


@dataclass(frozen=True, slots=True)
class _Task:
    original: str  # JSON: parsed afresh for each use, since edits change it
    edits: tuple[_Edit, ...]
    free: tuple[_Steps, ...]


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


def score_edit(key: Key, response: str, workspace: Workspace) -> Verdict:
    """Right where the file holds the original with every edit made and nothing else changed.

    The details list the edits that were not made (``edits_missing``) and what else changed
    (``other_changes``).
    """
    text = file_text(key, workspace)
    if isinstance(text, Verdict):
        return text
    details: dict[str, Any] = {"expected_file": key.file, "actual_content": kept(text)}
    try:
        task = _task(_parse(key.expected), workspace)
        expected, places = _edited(task)
    except TemplateError as error:
        return Verdict(False, f"the key: {error}", details)
    try:
        actual = _masked(read_json(text.strip()), task.free)
    except NotJson as error:
        return Verdict(False, f"{key.file} is no JSON: {error}", details)
    expected = _masked(expected, task.free)
    if same_json(expected, actual):
        return Verdict(True, details={**details, "edits_missing": [], "other_changes": []})
    missing = [place for place, steps in places.items() if not _same_at(steps, expected, actual)]
    held = tuple(places.values())
    others = differences(_masked(expected, held), _masked(actual, held))
    reasons = [f"not made: {', '.join(missing[:10])}"] * bool(missing)
    reasons += [f"changed too: {', '.join(others[:10])}"] * bool(others)
    return Verdict(
        False,
        f"{key.file}: {'; '.join(reasons)}",
        {**details, "edits_missing": missing, "other_changes": others},
    )


def edit_leniently(key: Key, response: str, workspace: Workspace) -> bool:
    """The same with fences, prose and the spelling of values forgiven."""
    text = file_text(key, workspace)
    if isinstance(text, Verdict):
        return False
    try:
        task = _task(_parse(key.expected), workspace)
        expected = _masked(_edited(task)[0], task.free)
    except TemplateError:
        return False
    return any(
        same_value_leniently(expected, _masked(value, task.free))
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
    edits = tuple(_edit(index, each) for index, each in enumerate(spec["edits"]))
    free = tuple(_steps(path, f"free[{i}]") for i, path in enumerate(spec.get("free", [])))
    return _Task(original, edits, free)


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
    return _Edit(given["path"], _steps(given["path"], where), acts[0], json.dumps(given[acts[0]]))


def _steps(path: Any, where: str) -> _Steps:
    """The steps of a path. Raises TemplateError naming what cannot be read."""
    if not isinstance(path, str) or not path.startswith("$") or len(path) < 2:
        raise TemplateError(f"{where}: {path!r} is no path: such as $.a[0].b or $.a[*].b")
    steps, place = [], 1
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None:
            raise TemplateError(f"{where}: {path!r} cannot be read from {path[place:]!r} on")
        steps.append(_step(found))
        place = found.end()
    return tuple(steps)


def _step(found: re.Match[str]) -> tuple[str, Any]:
    if found["index"] is not None:
        return "index", int(found["index"])
    if found["all"] is not None or found["name"] == "*":
        return "all", None
    if found["field"] is not None:
        return "where", (found["field"].split("."), found["operator"], _literal(found["literal"]))
    return "name", next(
        found[kind] for kind in ("name", "single", "double") if found[kind] is not None
    )


def _literal(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    try:
        return read_json(text)
    except NotJson:
        return text


def _json_of(text: str, what: str) -> Any:
    try:
        return read_json(text.strip())
    except NotJson as error:
        raise TemplateError(f"{what} is no JSON: {error}") from None


# --- documents


def _edited(task: _Task) -> tuple[Any, dict[str, _Steps]]:
    """The document after the edits, and the places that they set or removed."""
    document = _json_of(task.original, "the original")
    places: dict[str, _Steps] = {}
    for edit in task.edits:
        targets = _targets(document, edit.steps, absent=edit.act == "value")
        if not targets:
            raise TemplateError(f"the edit of {edit.path!r} leads nowhere in the original")
        for where, holder, key in reversed(targets):
            _make(edit, holder, key)
            if edit.act == "value" or (edit.act == "remove" and isinstance(holder, dict)):
                places[_path(where)] = where
    return document, dict(reversed(places.items()))


def _make(edit: _Edit, holder: Any, key: Any) -> None:
    if edit.act == "value":
        holder[key] = json.loads(edit.value)
    elif edit.act == "remove":
        del holder[key]
    elif isinstance(holder[key], list):
        holder[key].append(json.loads(edit.value))
    else:
        raise TemplateError(f"the edit of {edit.path!r}: there is no list to append to")


def _targets(document: Any, steps: _Steps, absent: bool = False) -> list[_Target]:
    """The places that a path leads to; with ``absent`` also names that an object lacks."""
    held: list[tuple[_Steps, Any]] = [((), document)]
    for step in steps[:-1]:
        held = [
            ((*where, _at(key)), holder[key])
            for where, holder in held
            for key in _keys(holder, step, absent=False)
        ]
    return [
        ((*where, _at(key)), holder, key)
        for where, holder in held
        for key in _keys(holder, steps[-1], absent)
    ]


def _holders(document: Any, steps: _Steps) -> Iterator[Any]:
    """What the path but for its last step leads to: any amount of it, one at a time."""
    held = iter([document])
    for step in steps[:-1]:
        held = _inside(held, step)
    return held


def _inside(held: Iterator[Any], step: tuple[str, Any]) -> Iterator[Any]:
    return (holder[key] for holder in held for key in _keys(holder, step, absent=False))


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
    return keys if kind == "all" else [key for key in keys if _holds(holder[key], *value)]


def _holds(value: Any, names: list[str], sign: str, literal: Any) -> bool:
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    try:
        return bool(_OPERATORS[sign](value, literal))
    except TypeError:
        return False


def _at(key: str | int) -> tuple[str, Any]:
    return ("index" if isinstance(key, int) else "name", key)


def _path(steps: _Steps) -> str:
    parts = [f"[{key}]" if kind == "index" else f".{key}" for kind, key in steps]
    return "$" + "".join(parts)


def _masked(document: Any, places: tuple[_Steps, ...]) -> Any:
    """The document with such places removed from objects and blanked in lists; changes it."""
    for steps in places:
        for holder in _holders(document, steps):
            for key in list(_keys(holder, steps[-1], absent=False)):
                if isinstance(holder, dict):
                    del holder[key]
                else:
                    holder[key] = None
    return document


def _same_at(steps: _Steps, expected: Any, actual: Any) -> bool:
    wanted, given = (
        [holder[key] for holder in _holders(each, steps) for key in _keys(holder, steps[-1], False)]
        for each in (expected, actual)
    )
    return same_json(wanted, given)
