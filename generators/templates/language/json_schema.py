"""The JSON Schema (draft 2020-12) of template files and values files, for editors.

It has the keys that the parser knows; what must fit together is left to ``check``.
"""

from __future__ import annotations

from collections.abc import Mapping

from generators.templates.language import keys
from generators.templates.language.data_types import DATA_TYPES
from generators.templates.language.keys import DOCUMENT, NULL, Schema, closed, either, named, ref
from generators.templates.scoring.score import scoring_types

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def template_schema() -> Schema:
    """Return the schema of a template file; its ``$defs`` have that of a values file."""
    return {
        "$schema": DIALECT,
        "title": "Template file of dosimeter",
        "description": "Questions with answer keys. `dosimeter template check` checks it further.",
        **closed(keys.FILE_KEYS, ["tests"]),
        "$defs": {
            "question": _question(),
            "sandbox": {
                "if": {"required": ["components"]},
                "then": closed(keys.SANDBOX_KEYS, ["components"]),
                "else": ref("component"),
            },
            "component": _component(),
            "data_type": {
                **either({"enum": sorted(DATA_TYPES)}, keys.TEXT),
                "description": "A built-in data type, or one that `values` gives.",
            },
            "size": either(keys.whole(0, keys.MAX_ROWS), keys.FILLED),
            "clutter": either(
                {"type": ["boolean", "integer", "null"]}, keys.FILLED, closed(keys.CLUTTER_KEYS)
            ),
            "document": _document(),
            "values": closed(keys.SECTIONS),
            "values_file": closed(keys.VALUES_FILE_KEYS, ["format"]),
        },
    }


def _by(key: str, cases: Mapping[str, Schema]) -> list[Schema]:
    """What else holds for each value of a key."""
    return [
        {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": schema}
        for value, schema in cases.items()
    ]


def _question() -> Schema:
    known = {"enum": sorted({*keys.NEEDS, *scoring_types()})}
    required = ("question_id", "samples", "template", "scoring_type")
    question = closed({**keys.TEST_KEYS, "scoring_type": known}, required)
    needs = {name: {"required": list(needed)} for name, needed in keys.NEEDS.items()}
    return {**question, "allOf": _by("scoring_type", needs)}


def _component() -> Schema:
    contents = {
        kind: {
            "properties": {
                "content": either(NULL, closed({**content_keys, "clutter": keys.CLUTTER}))
            }
        }
        for kind, content_keys in keys.CONTENT_KEYS.items()
    }
    component = closed(keys.COMPONENT_KEYS, ("type", "target_file"))
    return {**component, "allOf": _by("type", contents)}


def _document() -> Schema:
    """A place in the schema of a JSON, YAML or XML file."""
    kinds = {
        kind: closed({**known, **(keys.ENUM_KEYS if kind in keys.ENUMERATED else {})})
        for kind, known in keys.DOCUMENT_KEYS.items()
    }
    typed = {"properties": {"type": {"type": "string"}}, "required": ["type"]}
    place = {"if": typed, "then": {"allOf": _by("type", kinds)}, "else": named(DOCUMENT)}
    return {"if": {"type": "object"}, "then": place}
