"""The JSON Schema (draft 2020-12) of study.yaml, for editors."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from analysis.plan.presets import EXCLUSIONS, MULTIPLICITY, OUTCOME_WORDS, SENSITIVITY
from generators.yaml_lines import YamlLimits, parse_yaml
from study.protocol.reference import Reference, SectionReference, plain, sections
from study.protocol.sections import ProtocolFile, WaveSection

SCHEMA_NAME = "study.schema.json"  # beside study.yaml, which names it in its first line
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFINITIONS = "#/$defs/"
# A task family at a difficulty, or a template file: what checks.spell_out_tasks reads.
_TASK_TEXT = r"/|\.ya?ml$"
_EXAMPLE = YamlLimits("an example", 1_000)


def study_schema(reference: Reference | None = None) -> dict[str, Any]:
    """Return the schema. It accepts what the classes of the sections and the short forms accept;
    names and keys that must fit together are left to ``dosimeter lint``."""
    reference = reference or Reference()
    schema = ProtocolFile.model_json_schema(ref_template=f"{_DEFINITIONS}{{model}}")
    definitions = schema.pop("$defs")
    definitions["WaveSection"] = WaveSection.model_json_schema()
    described: set[type[BaseModel]] = set()
    for section in sections():
        if section.model not in described:  # a judge's section is that of a model
            described.add(section.model)
            target = definitions[section.model.__name__] if section.path else schema
            _describe(target, section, reference)
    _close_names(schema)
    _add_short_forms(schema, definitions)
    _list_names(definitions["PlanSection"]["properties"])
    _clean({"root": schema, "definitions": definitions})
    return {
        "$schema": DIALECT,
        "title": "study.yaml of dosimeter",
        "description": "The definition of a study. `dosimeter lint` checks it further.",
        **schema,
        "$defs": definitions,
    }


def _describe(target: dict[str, Any], section: SectionReference, reference: Reference) -> None:
    """Add the words and the example of each key to the schema of a section."""
    target.pop("description", None)
    if section.path and (introduction := reference.introduction(section.path)):
        target["description"] = plain(introduction)
    for key in reference.keys(section):
        example = parse_yaml(key.example.encode(), key.name, _EXAMPLE).value
        words = {"description": plain(key.meaning), "examples": [example]}
        target["properties"][key.name].update(words)


def _close_names(schema: dict[str, Any]) -> None:
    """Refuse models and judges with a name that the pattern of names does not match."""
    for key in ("models", "judges"):
        schema["properties"][key]["additionalProperties"] = False


def _add_short_forms(schema: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Add what the parser spells out before the classes see it: a task as a text, a wave as a
    mapping; and the keys of which a task needs one or the other."""
    tasks, waves = schema["properties"]["tasks"], schema["properties"]["waves"]
    tasks["items"] = {"anyOf": [{"type": "string", "pattern": _TASK_TEXT}, tasks["items"]]}
    waves["items"] = {
        "anyOf": [waves["items"] | {"minItems": 1}, {"$ref": f"{_DEFINITIONS}WaveSection"}]
    }
    forms = (("family", "difficulty"), ("template",))
    others = (("template", "questions"), ("family", "version", "difficulty"))
    definitions["TaskSection"]["oneOf"] = [
        {"required": [*keys], "properties": {other: {"const": None} for other in excluded}}
        for keys, excluded in zip(forms, others, strict=True)
    ]


def _list_names(plan: dict[str, Any]) -> None:
    """List the names that keys of the plan may hold, which the analysis knows."""
    plan["multiplicity"]["anyOf"][0]["enum"] = [*MULTIPLICITY]
    lists = {"outcomes": OUTCOME_WORDS, "sensitivity": SENSITIVITY, "exclusions": EXCLUSIONS}
    for key, names in lists.items():
        plan[key]["anyOf"][0]["items"]["enum"] = [*names]


def _clean(node: Any) -> None:
    """Remove what says nothing to an editor: titles made from names, defaults that are null or a
    whole section, and OpenAPI's ``discriminator``."""
    if isinstance(node, list):
        for item in node:
            _clean(item)
        return
    if not isinstance(node, dict):
        return
    node.pop("discriminator", None)
    for name, value in node.items():
        if name in ("properties", "$defs", "definitions", "patternProperties"):
            for inner in value.values():
                _clean(inner)
        elif name not in ("examples", "default", "enum", "const"):
            _clean(value)
    if isinstance(node.get("title"), str):
        del node["title"]
    if "default" in node and (node["default"] is None or isinstance(node["default"], dict)):
        del node["default"]
