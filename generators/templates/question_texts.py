"""The texts of a question with their places, and what is wrong with the placeholders and components
in them before any sample is made."""

from __future__ import annotations

from collections.abc import Iterator

from generators.errors import TemplateError
from generators.seed import Seed
from generators.templates.functions.base import OpenFile
from generators.templates.language.placeholders import (
    Call,
    Constant,
    Scope,
    outermost,
    parse_text,
    parts_of,
    variables_of,
)
from generators.templates.language.template import Component, Question, texts_within
from generators.templates.language.values import ValueSet
from generators.templates.language.variables import draw_values
from generators.templates.prepare import fit_component, plan_component
from generators.yaml_lines import Place

_MOST_COMPLAINTS = 1000  # about one text


def texts_of(question: Question) -> Iterator[tuple[Place, str, bool]]:
    """Every text of a question with its place, and whether ``{{lorem:…}}`` may stand in it."""
    top = question.place
    for key in ("template", "expected_response", "file_to_read", "expected_content"):
        text = getattr(question, key)
        if text is not None:
            yield (*top, key), text, False
    for key in ("files_to_check", "expected_structure"):
        for index, text in enumerate(getattr(question, key)):
            yield (*top, key, index), text, False
    for component in question.components:
        yield (*component.place, "target_file"), component.target_file, False
        yield from _texts_of_component(component)


def _texts_of_component(component: Component) -> Iterator[tuple[Place, str, bool]]:
    for key in ("content", "config"):
        for place, text, is_key in texts_within(getattr(component, key), (*component.place, key)):
            if not is_key or "{{" in text:
                yield place, text, True


def complaints(text: str, lorem: bool, structured: bool, values: ValueSet) -> list[str]:
    """All that is wrong with the placeholders of one text."""
    try:
        parts = parse_text(text, lorem, values)
    except TemplateError as error:
        return _each_complaint(text, lorem, values) or [str(error)]
    if structured or Constant("expected_structure") not in parts_of(parts):
        return []
    return ["{{expected_structure}} has no value: the key 'expected_structure' is missing"]


def _each_complaint(text: str, lorem: bool, values: ValueSet) -> list[str]:
    """The complaints about each placeholder by itself, where one alone stops the parsing."""
    wrong: dict[str, None] = {}
    for placeholder in dict.fromkeys(text[start:end] for start, end in outermost(text)):
        try:
            parse_text(placeholder, lorem, values)
        except TemplateError as error:
            wrong[str(error)] = None
        if len(wrong) >= _MOST_COMPLAINTS:
            break
    return list(wrong)


def compile_once(component: Component) -> None:
    """Compile the component with its variables drawn, unless functions stand in it, or a text that
    cannot be parsed: these are reported as such."""
    try:
        written = _texts_of_component(component)
        texts = [parse_text(text, True, component.values) for _, text, _ in written]
    except TemplateError:
        return
    if any(isinstance(part, Call) for text in texts for part in text):
        return
    plan, _ = plan_component(component)
    variables = [variable for text in texts for variable in variables_of(text)]
    values = draw_values(variables, Seed(bytes(32)).child("template check").rng())
    given = {**values, "artifacts": "artifacts", "qs_id": "q_s", "expected_structure": ""}
    if plan.maker is None:
        fit_component(plan, Scope(given, _no_file))


def _no_file(path: str) -> OpenFile:
    raise TemplateError(f"{path} is not made yet")
