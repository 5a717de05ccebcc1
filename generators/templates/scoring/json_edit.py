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

Paths are those of ``generators.templates.functions.json_path``, from ``$`` on; ``[*]`` and filters
also lead to the values of an object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generators.errors import TemplateError
from generators.templates.functions.base import Match
from generators.templates.functions.json_path import JsonStep, compile_path
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

TARGETED_EDIT = "json_targeted_edit"  # the public scoring type, which is translated to ours
JSON_EDIT = "readfile_jsonedit"

Steps = tuple[JsonStep, ...]
Target = tuple[Steps, Any, Any]  # where it is, what holds it, its key or index there


def read_path(path: Any, where: str) -> Steps:
    """The steps of a path. Raises TemplateError naming ``where`` and what cannot be read."""
    if not isinstance(path, str) or not path.startswith("$") or path in ("$", "$."):
        raise TemplateError(f"{where}: {path!r} is no path: such as $.a[0].b or $.a[*].b")
    try:
        return compile_path(path).steps
    except TemplateError as error:
        raise TemplateError(f"{where}: {path!r} cannot be read: {error}") from None


def write_path(steps: Steps) -> str:
    """The path of one place."""
    return "$" + "".join(map(str, steps))


def find_targets(document: Any, steps: Steps, absent: bool = False) -> Iterator[Target]:
    """The places that a path leads to, one at a time; with ``absent`` also names that an object
    lacks. The place that was given last may be changed meanwhile."""
    reached: Iterator[tuple[Steps, Any]] = iter([((), document)])
    for step in steps[:-1]:
        reached = _inside(reached, step)
    for where, holder in reached:
        for key in _keys(holder, steps[-1], absent):
            yield (*where, at_key(key)), holder, key


def at_key(key: str | int) -> JsonStep:
    """The step to a key or an index."""
    return JsonStep("index", index=key) if isinstance(key, int) else JsonStep("key", key)


def _inside(reached: Iterator[tuple[Steps, Any]], step: JsonStep) -> Iterator[tuple[Steps, Any]]:
    return (
        ((*where, at_key(key)), holder[key])
        for where, holder in reached
        for key in _keys(holder, step, absent=False)
    )


def _keys(holder: Any, step: JsonStep, absent: bool) -> Iterable[Any]:
    if step.kind == "key":
        return [step.name] if isinstance(holder, dict) and (absent or step.name in holder) else []
    if step.kind == "index":
        inside = isinstance(holder, list) and -len(holder) <= step.index < len(holder)
        return [step.index % len(holder)] if inside else []
    if not isinstance(holder, dict | list):
        return []
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    return keys if step.test is None else [key for key in keys if step.test(holder[key])]


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
            last = edit.steps[-1].name
            yield Match("added", edit.path, there, len(reached), last, known=tuple(map(str, names)))
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


# --- the public scoring type


def translate_edit(original_file: str, verification: Any) -> dict[str, Any]:
    """The key of ``readfile_jsonedit`` that verifies the same.

    Raises TemplateError, which starts with the key within ``edit_verification`` that is wrong.
    """
    about = _mapping(verification, "", ("target_changes", "preservation_spec", "description"))
    changes = about.get("target_changes")
    if not isinstance(changes, list) or not changes:
        raise TemplateError("target_changes: a list of at least one change is wanted")
    spec = _mapping(
        about.get("preservation_spec") or {}, "preservation_spec", ("exclude_paths", "description")
    )
    free = spec.get("exclude_paths") or []
    if not isinstance(free, list):
        raise TemplateError("preservation_spec.exclude_paths: a list of paths is wanted")
    edits = [_edit_of_targeted(index, change) for index, change in enumerate(changes)]
    return {"original_file": original_file, "edits": edits, "free": free, "targeted": True}


def _edit_of_targeted(index: int, change: Any) -> dict[str, Any]:
    where = f"target_changes[{index}]"
    fields = _mapping(change, where, ("selector", "expected_value", "description"))
    for key in ("selector", "expected_value"):
        if key not in fields:
            raise TemplateError(f"{where}: the key {key!r} is missing")
    return {"path": fields["selector"], "value": fields["expected_value"]}


def _mapping(value: Any, where: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    at = f"{where}: " if where else ""
    if not isinstance(value, Mapping):
        raise TemplateError(f"{at}a mapping is wanted, with {', '.join(known[:-1])}")
    for key in value:
        if key not in known:
            raise TemplateError(f"{at}unknown key {key!r}; known: {', '.join(known)}")
    return value
