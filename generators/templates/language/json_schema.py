"""The JSON Schema (draft 2020-12) of template files and values files, for editors.

It has the keys that the parser knows; what must fit together is left to ``check``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from generators.templates.language.components_section import (
    CLUTTER_KEYS,
    COMPONENT_KEYS,
    MAX_ROWS,
)
from generators.templates.language.content_keys import (
    COLUMN_KEYS,
    CONTENT_KEYS,
    DOCUMENT_KEYS,
    ENUM,
    ENUMERATED,
    TABLE_KEYS,
    TEXT_KINDS,
)
from generators.templates.language.data_types import DATA_TYPES
from generators.templates.language.parse import (
    ANSWER_LISTS,
    FILE_KEYS,
    ID,
    MAX_SAMPLES,
    NEEDS,
    TEST_KEYS,
)
from generators.templates.language.strata import MOST_STRATA, NAME
from generators.templates.language.values import (
    FORMAT,
    GROUP_KEYS,
    LISTED_KEYS,
    POOL_KEYS,
    RANGE_KEYS,
    SECTIONS,
    VALUES_FILE_KEYS,
)
from generators.templates.scoring.score import scoring_types
from generators.templates.scoring.scorer import SCORING_TYPES

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

_TEXT: Schema = {"type": "string", "minLength": 1}
_PATHS: Schema = {"type": "array", "items": _TEXT, "minItems": 1}
_FILLED: Schema = {"type": "string", "pattern": r"\{\{|^\s*[0-9]+\s*$"}
_NUMBER: Schema = {"type": "number"}
_NUMBERS: Schema = {"type": "array", "items": _NUMBER}


def template_schema() -> Schema:
    """Return the schema of a template file; its ``$defs`` have that of a values file."""
    return {
        "$schema": DIALECT,
        "title": "Template file of dosimeter",
        "description": "Questions with answer keys. `dosimeter template check` checks it further.",
        **_object(
            FILE_KEYS,
            {
                "tests": {"type": "array", "minItems": 1, "items": _ref("question")},
                "values": {"anyOf": [_ref("values"), {"type": "string", "pattern": r"\.ya?ml$"}]},
            },
            ["tests"],
        ),
        "$defs": {
            "question": _question(),
            "sandbox": _sandbox(),
            "component": _component(),
            "data_type": {
                "anyOf": [{"enum": sorted(DATA_TYPES)}, _TEXT],
                "description": "A built-in data type, or one that `values` gives.",
            },
            "size": {"anyOf": [_whole(0, MAX_ROWS), _FILLED]},
            "clutter": {
                "anyOf": [
                    {"type": ["boolean", "integer", "null"]},
                    _FILLED,
                    _object(CLUTTER_KEYS, {"count": _ref("size"), "pattern": _TEXT}),
                ]
            },
            "document": _document(),
            "values": _values(SECTIONS),
            "values_file": _values(VALUES_FILE_KEYS, ("format",)),
        },
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _object(
    keys: Iterable[str], known: Mapping[str, Schema], required: Iterable[str] = ()
) -> Schema:
    """A mapping with these keys and no others, of which ``known`` has the values."""
    properties = {key: known.get(key, {}) for key in keys}
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _whole(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def _question() -> Schema:
    keys = {key for needs in NEEDS.values() for key in needs}
    answers = {key: _PATHS if key in ANSWER_LISTS else {"type": "string"} for key in keys}
    stratum = {"type": "array", "minItems": 1, "maxItems": MOST_STRATA, "uniqueItems": True}
    names = {"pattern": f"^{NAME.pattern}$"}
    question = _object(
        TEST_KEYS,
        {
            **answers,
            "question_id": {
                "anyOf": [
                    {"type": "integer", "minimum": 0},
                    {"type": "string", "pattern": f"^{ID.pattern}$"},
                ]
            },
            "samples": _whole(1, MAX_SAMPLES),
            "template": _TEXT,
            "scoring_type": {"enum": sorted({*SCORING_TYPES, *NEEDS, *scoring_types()})},
            "edit_verification": {"type": "object"},
            "sandbox_setup": _ref("sandbox"),
            "for_each": {
                "type": "object",
                "minProperties": 1,
                "propertyNames": names,
                "additionalProperties": {**stratum, "items": {"type": ["string", "number"]}},
            },
        },
        ("question_id", "samples", "template", "scoring_type"),
    )
    question["allOf"] = [
        {
            "if": {"properties": {"scoring_type": {"const": name}}, "required": ["scoring_type"]},
            "then": {"required": list(needs)},
        }
        for name, needs in NEEDS.items()
    ]
    return question


def _sandbox() -> Schema:
    several = {"type": "array", "minItems": 1, "items": _ref("component")}
    components = _object(("components", "description"), {"components": several}, ("components",))
    return {"if": {"required": ["components"]}, "then": components, "else": _ref("component")}


def _component() -> Schema:
    listed = {"type": "array", "items": {"type": "string"}}
    beside = {
        key: _ref("size")
        for keys in CONTENT_KEYS.values()
        for key in keys
        if key in ("rows", "count")
    }
    component = _object(
        COMPONENT_KEYS,
        {
            **beside,
            "type": {"enum": sorted(CONTENT_KEYS)},
            "name": _TEXT,
            "target_file": _TEXT,
            "config": {
                "anyOf": [
                    {"type": "null"},
                    _object(("clutter", *CLUTTER_KEYS), {"clutter": _ref("clutter")}),
                ]
            },
            "clutter": _ref("clutter"),
            "depends_on": {"anyOf": [{"type": ["string", "null"]}, listed]},
        },
        ("type", "target_file"),
    )
    component["allOf"] = [
        {
            "if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
            "then": {"properties": {"content": _content(kind, keys)}},
        }
        for kind, keys in CONTENT_KEYS.items()
    ]
    return component


def _content(kind: str, keys: Iterable[str]) -> Schema:
    types = {"type": "array", "items": _ref("data_type")}
    columns = {"type": "array", "items": _object(COLUMN_KEYS, {"data_type": _ref("data_type")})}
    table = _object(TABLE_KEYS, {"columns": columns, "rows": _ref("size")})
    span = {
        "anyOf": [
            _whole(0, MAX_ROWS),
            _FILLED,
            {"type": "array", "items": {"anyOf": [{"type": "integer"}, _FILLED]}},
        ]
    }
    known: dict[str, Schema] = {
        "headers": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "header_types": {"anyOf": [{"type": "null"}, types]},
        "columns": columns,
        "tables": {"type": "array", "items": table},
        "schema": _ref("document"),
        **dict.fromkeys(("rows", "count"), _ref("size")),
        **dict.fromkeys(("depth", "breadth", "files"), span),
    }
    if kind == "create_files":
        known["type"] = {"enum": list(TEXT_KINDS)}
        known["content"] = {"type": "string"}
    content = _object((*keys, "clutter"), {**known, "clutter": _ref("clutter")})
    return {"anyOf": [{"type": "null"}, content]}


def _document() -> Schema:
    """A place in the schema of a JSON, YAML or XML file."""
    places = {"type": "object", "additionalProperties": _ref("document")}
    known: dict[str, Schema] = {
        "items": _ref("document"),
        "properties": {"anyOf": [{"type": "null"}, places]},
        "additional_properties": {"anyOf": [{"type": "boolean"}, _ref("document")]},
        ENUM: {"type": "array", "minItems": 1},
    }
    typed: Schema = {"allOf": []}
    for kind, keys in DOCUMENT_KEYS.items():
        keys = (*keys, ENUM) if kind in ENUMERATED else keys
        of_kind = {"properties": {"type": {"const": kind}}}
        typed["allOf"].append({"if": of_kind, "then": _object(keys, known)})
    named = {"properties": {"type": {"type": "string"}}, "required": ["type"]}
    place = {"if": named, "then": typed, "else": places}
    return {"if": {"type": "object"}, "then": place}


def _values(keys: Iterable[str], required: Iterable[str] = ()) -> Schema:
    values = {"type": "array", "minItems": 1, "items": {"type": ["string", "number"]}}
    words = {"type": "array", "minItems": 1, "items": {"type": "string"}}
    share = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
    weights = {"type": "array", "items": {"type": "number", "minimum": 0}}
    listed: dict[str, Schema] = {
        "values": values,
        "weights": weights,
        "empty": share,
        "range": _NUMBERS,
    }
    listed["decimals"] = {"type": "integer", "minimum": 0}
    given = _object(dict.fromkeys((*LISTED_KEYS, *RANGE_KEYS)), listed)
    pool = _object(POOL_KEYS, {"values": words, "weights": weights})
    rows = {"type": "array", "minItems": 1, "items": values}
    group = _object(
        GROUP_KEYS,
        {"types": {**words, "minItems": 2}, "rows": rows, "weights": weights},
        ("types", "rows"),
    )
    return _object(
        keys,
        {
            "format": {"const": FORMAT},
            "types": {"type": "object", "additionalProperties": {"anyOf": [values, given]}},
            "pools": {"type": "object", "additionalProperties": {"anyOf": [words, pool]}},
            "together": {"type": "array", "items": group},
        },
        required,
    )
