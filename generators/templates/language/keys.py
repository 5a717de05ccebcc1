"""The keys of template files and values files, each with the JSON Schema of its value.

They are declared here and nowhere else: the parser takes these keys and no others, and
``json_schema`` puts the schemas together for editors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Schema = dict[str, Any]
Keys = Mapping[str, Schema]

MAX_SAMPLES = 100_000  # of one question
MAX_ROWS = 1_000_000
MOST_STRATA = 100  # of one question
FORMAT = 1  # of values files
ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
STRATUM = re.compile(r"[a-z][a-z_]{0,29}")  # a name in ``for_each``
SIZES = ("rows", "count")


def ref(name: str) -> Schema:
    """The schema of this name in ``$defs``."""
    return {"$ref": f"#/$defs/{name}"}


def either(*schemas: Schema) -> Schema:
    """A value that fits one of the schemas."""
    return {"anyOf": list(schemas)}


def listed(items: Schema, least: int = 0) -> Schema:
    """A list of such items."""
    return {"type": "array", "items": items, **({"minItems": least} if least else {})}


def named(values: Schema) -> Schema:
    """A mapping from any names to such values."""
    return {"type": "object", "additionalProperties": values}


def whole(least: int, most: int) -> Schema:
    """A whole number in these bounds."""
    return {"type": "integer", "minimum": least, "maximum": most}


def closed(keys: Keys, required: Iterable[str] = ()) -> Schema:
    """A mapping with these keys and no others."""
    return {
        "type": "object",
        "properties": dict(keys),
        "required": list(required),
        "additionalProperties": False,
    }


ANY: Schema = {}
NULL: Schema = {"type": "null"}
STRING: Schema = {"type": "string"}
TEXT: Schema = {"type": "string", "minLength": 1}
NUMBER: Schema = {"type": "number"}
TEXT_OR_NUMBER: Schema = {"type": ["string", "number"]}
FILLED: Schema = {"type": "string", "pattern": r"\{\{|^\s*[0-9]+\s*$"}  # by a placeholder
SPAN = either(whole(0, MAX_ROWS), FILLED, listed(either({"type": "integer"}, FILLED)))
SIZE, CLUTTER, DATA_TYPE, DOCUMENT = map(ref, ("size", "clutter", "data_type", "document"))

# --- template files

NOTES: Keys = dict.fromkeys(("title", "description", "notes", "tags", "metadata"), ANY)  # unread
FILE_KEYS: Keys = {
    "tests": listed(ref("question"), 1),
    "values": either(ref("values"), {"type": "string", "pattern": r"\.ya?ml$"}),
    **dict.fromkeys(("name", "version"), ANY),
    **NOTES,
}
ANSWER_LISTS = ("files_to_check", "expected_structure")
ANSWER_KEYS: Keys = {
    **dict.fromkeys(("expected_response", "expected_content", "file_to_read"), STRING),
    **dict.fromkeys(ANSWER_LISTS, listed(TEXT, 1)),
}
TARGETED_KEYS: Keys = {
    **dict.fromkeys(("original_file", "modified_file"), STRING),
    "edit_verification": {"type": "object"},
}
TEST_KEYS: Keys = {
    "question_id": either(
        {"type": "integer", "minimum": 0}, {"type": "string", "pattern": f"^{ID.pattern}$"}
    ),
    "samples": whole(1, MAX_SAMPLES),
    "template": TEXT,
    "scoring_type": STRING,
    **ANSWER_KEYS,
    **TARGETED_KEYS,
    "sandbox_setup": ref("sandbox"),
    "for_each": {
        **named({**listed(TEXT_OR_NUMBER, 1), "maxItems": MOST_STRATA, "uniqueItems": True}),
        "minProperties": 1,
        "propertyNames": {"pattern": f"^{STRATUM.pattern}$"},
    },
    **NOTES,
}
_READ = ("file_to_read", "expected_content")
# Scoring type → the keys that it cannot do without.
NEEDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("stringmatch", "jsonmatch"), ("expected_response",)),
    **dict.fromkeys(("readfile_stringmatch", "readfile_jsonmatch", "readfile_jsonedit"), _READ),
    "json_targeted_edit": tuple(TARGETED_KEYS),
    "files_exist": ("files_to_check",),
    "directory_structure": ("expected_structure",),
}

# --- components

TEXT_KINDS = ("lorem_lines", "lorem_sentences", "lorem_paragraphs", "lorem_words", "custom")
COLUMN_KEYS: Keys = {**dict.fromkeys(("name", "type", "foreign_key"), ANY), "data_type": DATA_TYPE}
COLUMNS = listed(closed(COLUMN_KEYS))
TABLE_KEYS: Keys = {"name": ANY, "columns": COLUMNS, "rows": SIZE}
# Component type → the keys of its content.
CONTENT_KEYS: Mapping[str, Keys] = {
    "create_files": {"type": {"enum": list(TEXT_KINDS)}, "count": SIZE, "content": STRING},
    "create_csv": {
        "headers": listed(STRING, 1),
        "header_types": either(NULL, listed(DATA_TYPE)),
        "rows": SIZE,
    },
    "create_sqlite": {
        "table_name": ANY,
        "columns": COLUMNS,
        "rows": SIZE,
        "tables": listed(closed(TABLE_KEYS)),
    },
    "create_json": {"schema": DOCUMENT},
    "create_yaml": {"schema": DOCUMENT},
    "create_xml": {"schema": DOCUMENT, "root_element": ANY, "namespace": ANY},
    "create_tree": dict.fromkeys(("depth", "breadth", "files"), SPAN),
}
CLUTTER_KEYS: Keys = {"count": SIZE, "pattern": TEXT}
COMPONENT_KEYS: Keys = {
    "type": {"enum": sorted(CONTENT_KEYS)},
    "name": TEXT,
    "target_file": TEXT,
    "content": ANY,
    "config": either(NULL, closed({"clutter": CLUTTER, **CLUTTER_KEYS})),
    "depends_on": either({"type": ["string", "null"]}, listed(STRING)),
    "clutter": CLUTTER,
    **dict.fromkeys(SIZES, SIZE),
    "description": ANY,
}
SANDBOX_KEYS: Keys = {"components": listed(ref("component"), 1), "description": ANY}
_PLACES = named(DOCUMENT)
_BOUNDED: Keys = dict.fromkeys(("type", "minimum", "maximum"), ANY)
# Kind of a place in the schema of a JSON, YAML or XML file → the keys that it may have.
DOCUMENT_KEYS: Mapping[str, Keys] = {
    "array": {"type": ANY, "count": ANY, "items": DOCUMENT, "element_name": ANY},  # last: XML only
    "object": {
        "type": ANY,
        "properties": either(NULL, _PLACES),
        "additional_properties": either({"type": "boolean"}, DOCUMENT),
    },
    "string": dict.fromkeys(("type", "min_length", "max_length", "pattern"), ANY),
    "number": _BOUNDED,
    "integer": _BOUNDED,
    "boolean": {"type": ANY},
    "null": {"type": ANY},
    "literal": {"type": ANY, "value": ANY},
}
ENUM_KEYS: Keys = {"type": ANY, "enum": {"type": "array", "minItems": 1}}
ENUMERATED = ("string", "number", "integer")  # the kinds that may have these instead

# --- values

_VALUES, _WORDS = listed(TEXT_OR_NUMBER, 1), listed(STRING, 1)
_WEIGHTS = listed({"type": "number", "minimum": 0})
_EMPTY: Schema = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
LISTED_KEYS: Keys = {"values": _VALUES, "weights": _WEIGHTS, "empty": _EMPTY}
RANGE_KEYS: Keys = {
    "range": listed(NUMBER),
    "decimals": {"type": "integer", "minimum": 0},
    "empty": _EMPTY,
}
POOL_KEYS: Keys = {"values": _WORDS, "weights": _WEIGHTS}
GROUP_KEYS: Keys = {"types": listed(STRING, 2), "rows": listed(_VALUES, 1), "weights": _WEIGHTS}
SECTIONS: Keys = {
    "types": named(either(_VALUES, closed({**LISTED_KEYS, **RANGE_KEYS}))),
    "pools": named(either(_WORDS, closed(POOL_KEYS))),
    "together": listed(closed(GROUP_KEYS, ("types", "rows"))),
}
VALUES_FILE_KEYS: Keys = {"format": {"const": FORMAT}, "description": ANY, **SECTIONS}
