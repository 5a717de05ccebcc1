"""The JSON Schema (draft 2020-12) of study.yaml, for editors; and its reference: the sections and
keys, with a sentence and an example of each."""

from __future__ import annotations

import re
import tomllib
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from analysis.plan.presets import EXCLUSIONS, MULTIPLICITY, OUTCOME_WORDS, SENSITIVITY
from generators.yaml_lines import YamlLimits, parse_yaml
from study.protocol.sections import ProtocolFile

WORDS = Path(__file__).with_name("reference.toml")
KEY_TABLES = ("keys", "examples")


@dataclass(frozen=True, slots=True)
class SectionReference:
    """A mapping of study.yaml: its dotted path, as in ``plan.controls``, and its class."""

    path: str
    model: type[BaseModel]


@dataclass(frozen=True, slots=True)
class KeyReference:
    """A key of a section."""

    name: str
    field: FieldInfo
    meaning: str
    example: str  # as it stands in the file


@dataclass(frozen=True)
class Reference:
    """The words of a file such as ``reference.toml``."""

    path: Path = WORDS

    @cached_property
    def texts(self) -> Mapping[str, Any]:
        """The file's tables: head, sections, keys and examples."""
        return tomllib.loads(self.path.read_text("utf-8"))

    def introduction(self, section: str) -> str:
        """Return the words on a section; "" if there are none."""
        return str(self.texts["sections"].get(section, "")).strip()

    def keys(self, section: SectionReference) -> Iterator[KeyReference]:
        """Yield the keys of a section. Raises LookupError for one without words or example."""
        for key, field in section.model.model_fields.items():
            words, example = (self.find(table, section.path, key) for table in KEY_TABLES)
            yield KeyReference(
                key, field, self.texts["keys"][words], self.texts["examples"][example]
            )

    def find(self, table: str, path: str, key: str) -> str:
        """Return the name of a key's words in a table, such as models.*.model for that key of every
        provider."""
        exact = f"{path}.{key}".lstrip(".")
        kind, _, provider = path.partition(".")
        names = [exact]
        if provider and kind in ("models", "judges"):
            names += [f"models.{provider}.{key}", f"models.*.{key}"]
        for name in names:
            if name in self.texts[table]:
                return name
        raise LookupError(f"{self.path.name} has no {table} entry for {exact!r}")


def plain(text: str) -> str:
    """Return a sentence of Markdown without its links and the references in brackets."""
    text = re.sub(r" \(\[[^\[\]]+\]\([^()]+\)\)", "", text)
    return re.sub(r"\[([^\[\]]+)\]\([^()]+\)", r"\1", text)


def alternatives(annotation: Any) -> tuple[list[Any], list[Any]]:
    """Return the alternatives of a type without None, and the metadata of ``Annotated`` ones."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        types_inside, more = alternatives(inner)
        return types_inside, [*more, *metadata]
    if get_origin(annotation) in (Union, types.UnionType):
        parts, metadata = [], []
        for part in get_args(annotation):
            if part is not type(None):
                inner_types, more = alternatives(part)
                parts += inner_types
                metadata += more
        return parts, metadata
    return [annotation], []


def sections() -> Iterator[SectionReference]:
    """Yield every section of the file, each before those inside it. A model's are named by
    provider."""
    queue = [SectionReference("", ProtocolFile)]
    while queue:
        section = queue.pop(0)
        yield section
        inner = []
        for key, field in section.model.model_fields.items():
            path = f"{section.path}.{key}".lstrip(".")
            for model in _section_classes(field.annotation):
                provider = model.model_fields.get("provider")
                suffix = f".{get_args(provider.annotation)[0]}" if provider is not None else ""
                inner.append(SectionReference(path + suffix, model))
        queue = [*inner, *queue]


def _section_classes(annotation: Any) -> list[type[BaseModel]]:
    """The section classes inside a type, in order."""
    classes: list[type[BaseModel]] = []
    for part in alternatives(annotation)[0]:
        if isinstance(part, type) and issubclass(part, BaseModel):
            classes.append(part)
        else:
            classes += [section for inner in get_args(part) for section in _section_classes(inner)]
    return classes


SCHEMA_NAME = "study.schema.json"  # beside study.yaml, which names it in its first line
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFINITIONS = "#/$defs/"
# A task family at a difficulty, or a template file: what checks.spell_out_tasks reads.
_TASK_TEXT = r"/|\.ya?ml$"
_EXAMPLE = YamlLimits("an example", 1_000)


def study_schema() -> dict[str, Any]:
    """Return the schema. It accepts what the classes of the sections and the short forms accept;
    names and keys that must fit together are left to ``dosimeter lint``."""
    reference = Reference()
    schema = ProtocolFile.model_json_schema(ref_template=f"{_DEFINITIONS}{{model}}")
    definitions = schema.pop("$defs")
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
    models = {"items": {"type": "string"}, "minItems": 1, "type": "array"}
    waves["items"] = {"anyOf": [models, waves["items"]]}
    forms = {
        ("family", "difficulty"): ("family", "version", "difficulty"),
        ("template",): ("template", "questions"),
        ("items", "prompt", "answer", "published"): ("items",),
        ("harbor", "published"): ("harbor",),
    }
    definitions["TaskSection"]["oneOf"] = [
        {
            "required": [*needed],
            "properties": {
                name: {"const": None} for names in forms.values() if names != own for name in names
            },
        }
        for needed, own in forms.items()
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
