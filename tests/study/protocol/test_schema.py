"""`dosimeter lint --schema`: a JSON Schema that accepts and refuses what the program does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from generators.templates.library import library_text
from study.errors import StudyError
from study.main import main
from study.protocol.protocol import read_protocol
from study.protocol.schema import DIALECT, sections, study_schema
from study.steps.init.folder import init_study
from tests.cases import cases

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = study_schema()
GOOD = cases(__file__, "good")


def parsed(text: str, folder: Path) -> bool:
    """Whether the program accepts a study file."""
    (folder / "mine.yml").write_text(library_text("past"))
    (folder / "study.yaml").write_text(text)
    try:
        read_protocol(folder)
    except StudyError:
        return False
    return True


def valid(text: str) -> bool:
    """Whether the schema accepts it. Dates are text to editors."""
    value = json.loads(json.dumps(yaml.safe_load(text), default=str))
    validator = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
    return bool(validator.is_valid(value))


def test_it_is_a_schema_of_the_stated_dialect() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == DIALECT
    result = CliRunner().invoke(main, ["lint", "--schema"])
    assert result.exit_code == 0
    assert json.loads(result.output) == SCHEMA


def test_every_form_of_a_key_is_accepted(tmp_path: Path) -> None:
    assert parsed(GOOD, tmp_path)
    assert valid(GOOD)


def test_studies_of_the_repository_are_accepted(tmp_path: Path) -> None:
    assert valid((ROOT / "study/steps/demo/demo.yaml").read_text())
    assert valid(init_study(tmp_path / "mine").read_text())


@pytest.mark.parametrize(("old", "new"), cases(__file__, "mistakes are refused by both"))
def test_mistakes_are_refused_by_both(tmp_path: Path, old: str, new: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new)
    assert not valid(text)
    assert not parsed(text, tmp_path)


def objects(node: Any) -> list[dict[str, Any]]:
    """The schemas of sections inside a schema."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    own = (
        [node]
        if isinstance(node, dict) and "additionalProperties" in node and "properties" in node
        else []
    )
    return own + [found for value in inner for found in objects(value)]


def test_no_section_takes_an_unknown_key_and_each_key_is_explained() -> None:
    found = objects(SCHEMA)
    assert len(found) == len({section.model for section in sections()})
    for section in found:
        assert section["additionalProperties"] is False
        for key, schema in section["properties"].items():
            assert schema["description"], key
            assert schema["examples"], key
