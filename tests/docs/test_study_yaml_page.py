"""The reference of study.yaml is what the code says, and the program accepts its examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from generators.templates.library import library_text
from scripts import study_yaml_page
from study.errors import StudyError
from study.protocol.plan_section import STANDARD_ONLY
from study.protocol.protocol import read_protocol
from study.protocol.schema import WORDS, Reference, sections, study_schema
from tests.cases import cases

BASE: dict[str, Any] = cases(__file__, "base")
# What a key needs beside it.
COMPANIONS: dict[str, dict[str, Any]] = cases(__file__, "companions")
STANDARD = {"preset": "standard-v1", "second_grader": "haiku"}
CONTROLS = {"pre_exposure": ["old-1", "old-2"]}
# Keys that the classes have and the program refuses with a reason.
REFUSED = set(cases(__file__, "refused"))


def study_with(path: str, key: str, examples: dict[str, Any], required: set[str]) -> dict[str, Any]:
    """A study that has a key with its example, beside those that its section requires."""
    exact = f"{path}.{key}".lstrip(".")
    needed = {name: examples[name] for name in required}
    section = needed | COMPANIONS.get(exact, {}) | {key: examples[key]}
    match path.split("."):
        case [""] if isinstance(examples[key], dict) and key in BASE:
            return BASE | {key: BASE[key] | examples[key]}
        case [""]:
            return BASE | {key: examples[key]}
        case ["tasks"]:
            return BASE | {"tasks": [section]}
        case ["waves"]:
            return BASE | {"waves": [["old-1", "old-2"], section]}
        case ["models", _] if key == "structured" and exact not in REFUSED:
            return BASE | {"judges": {**BASE["judges"], "tried": section}}
        case ["models" | "judges" as kind, _]:
            return BASE | {kind: {**BASE[kind], "tried": section}}
        case ["plan"] if key in (*STANDARD_ONLY, "preset"):
            return BASE | {"plan": STANDARD | {"controls": CONTROLS} | section}
        case ["plan"]:
            return BASE | {"plan": section}
        case ["plan", "judges"]:
            return BASE | {"plan": {"judges": {"haiku": section}}}
        case ["plan", "controls"]:
            return BASE | {"plan": STANDARD | {"controls": CONTROLS | section}}
        case ["plan", inner]:
            return BASE | {"plan": STANDARD | {"controls": CONTROLS, inner: section}}
    return BASE | {path: section}


# The keys of other judges are those of models.
OWN = [s for s in sections() if s.path == "judges.scripted" or not s.path.startswith("judges.")]


@pytest.mark.parametrize("section", OWN, ids=lambda section: section.path or "top")
def test_the_program_accepts_every_example(section: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text(library_text("past"))
    keys = {key.name: key for key in Reference().keys(section)}
    examples = {name: yaml.safe_load(key.example) for name, key in keys.items()}
    required = {name for name, key in keys.items() if key.field.is_required() and section.path}
    validator = jsonschema.Draft202012Validator(study_schema())
    for name in keys:
        study = study_with(section.path, name, examples, required)
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
        if f"{section.path}.{name}" in REFUSED:
            with pytest.raises(StudyError):
                read_protocol(tmp_path)
            continue
        read_protocol(tmp_path)
        assert [error.message for error in validator.iter_errors(dates_as_text(study))] == [], name


def dates_as_text(value: Any) -> Any:
    """A value of YAML as editors see it."""
    if isinstance(value, dict):
        return {key: dates_as_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [dates_as_text(inner) for inner in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def test_the_page_is_up_to_date() -> None:
    page = study_yaml_page.render_page()
    assert study_yaml_page.PAGE.read_text() == page, "run `make reference`"


def test_words_on_no_key_are_refused(tmp_path: Path) -> None:
    text = WORDS.read_text() + '\n"tasks.colour" = "red"\n'
    (tmp_path / "long.toml").write_text(text)
    with pytest.raises(LookupError, match=r"on no key: examples: tasks\.colour"):
        study_yaml_page.render_page(Reference(tmp_path / "long.toml"))
