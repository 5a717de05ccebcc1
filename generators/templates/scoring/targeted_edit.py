"""The public scoring type ``json_targeted_edit``, translated to our ``readfile_jsonedit``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from generators.errors import TemplateError

TARGETED_EDIT = "json_targeted_edit"
JSON_EDIT = "readfile_jsonedit"


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
