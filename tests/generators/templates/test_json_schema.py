"""The JSON Schema of template files: takes what the parser takes, and knows its keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from generators.templates.components.text_files import KINDS
from generators.templates.language.json_schema import template_schema
from generators.templates.language.keys import TEXT_KINDS
from generators.templates.language.parse import parse_template
from generators.templates.library import NAMES, library_text
from tests.cases import cases

ROOT = Path(__file__).parents[3]
SCHEMA = template_schema()
VALUES = SCHEMA | {"$ref": "#/$defs/values_file"}
for key in ("type", "properties", "required", "additionalProperties"):
    del VALUES[key]
QUESTION = cases(__file__, "question")
CONTENTS = cases(__file__, "contents")


def faults(document: Any, schema: dict[str, Any] = SCHEMA) -> list[str]:
    validator = Draft202012Validator(schema)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


def examples() -> list[Any]:
    """The templates of the library, of the documentation, and of each kind of component."""
    texts = [library_text(name) for name in NAMES]
    for page in sorted((ROOT / "docs").glob("*.md")):
        blocks = re.findall(r"```yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
        texts += [block for block in blocks if re.search("^tests:", block, re.MULTILINE)]
    for kind, content in CONTENTS.items():
        texts.append(QUESTION % ("txt", kind, "txt", content))
    return [yaml.safe_load(text) for text in texts]


def test_it_has_all_kinds_of_text() -> None:
    assert set(TEXT_KINDS) == {*KINDS, "custom"}


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    Draft202012Validator.check_schema(VALUES)


@pytest.mark.parametrize("document", examples())
def test_templates_are_valid(document: Any) -> None:
    assert faults(document) == []
    parse_template(yaml.safe_dump(document, allow_unicode=True), "example.yml")


@pytest.mark.parametrize(("old", "new"), cases(__file__, "mistakes of form are not"))
def test_mistakes_of_form_are_not(old: str, new: str) -> None:
    text = QUESTION % ("csv", "create_csv", "csv", CONTENTS["create_csv"])
    assert old in text
    assert faults(yaml.safe_load(text)) == []
    assert faults(yaml.safe_load(text.replace(old, new))) != []


@pytest.mark.parametrize("schema", cases(__file__, "mistakes"))
def test_mistakes_in_the_schema_of_a_document_are_not(schema: str) -> None:
    text = QUESTION % ("json", "create_json", "json", f"{{schema: {schema}}}")
    assert faults(yaml.safe_load(text)) != []


def test_values_files_have_a_schema_of_their_own() -> None:
    good = "format: 1\npools: {default: [quokka, numbat]}\ntypes: {status: {empty: 0.1}}"
    assert faults(yaml.safe_load(good), VALUES) == []
    for bad in ("pools: {default: [a]}", "format: 2", "format: 1\npool: {}"):
        assert faults(yaml.safe_load(bad), VALUES) != []
