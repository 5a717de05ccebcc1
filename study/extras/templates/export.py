"""``dosimeter template export``: a template in the form that PICARD runs, or all of it that PICARD
has no form for."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from generators.errors import TemplateError
from generators.templates.language.diagnostics import Problem, foremost
from generators.templates.language.parse import MAX_BYTES
from generators.templates.language.template import Component, Question, TemplateFile, strings_of
from generators.templates.scoring.scorer import SCORING_TYPES
from generators.yaml_lines import Place, YamlLimits, dump_yaml, parse_yaml
from study.extras.templates.checkout_values import POOL
from study.extras.templates.export_content import ContentWriter
from study.extras.templates.export_texts import ONLY, QuestionTexts, Refuse
from study.extras.templates.prepare import load_family
from study.files import new_folder

_TEXTS = ("expected_response", "expected_content")
_PATHS = ("files_to_check", "expected_structure")
_NUMBERS = re.compile(r"\{\{\s*number([0-9]{1,6})")
_LIMITS = YamlLimits("a template", MAX_BYTES, aliases=True)
_USUAL_CLUTTER = 5


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported template: its file, its questions by id, and the count of words in its pool."""

    file: Path
    questions: tuple[str, ...]
    words: int


def export_template(file: str, out: Path, questions: Sequence[str] | None = None) -> Exported:
    """Write ``config/NAME.yml`` below a new folder, and ``config/entity_pool.txt`` if the template
    has a pool ``default`` of its own. Raises TemplateError, with a line for each thing that PICARD
    has no form for, and StudyError; nothing is left half-written."""
    template = load_family(file, questions).file
    chosen = template.chosen(questions)
    problems: list[Problem] = []
    words = _pool(template, problems)
    tests = [_question(template, question, problems) for question in chosen]
    if problems:
        path = template.path or file
        found = foremost(dict.fromkeys(problems))
        raise TemplateError("\n".join(problem.text(path) for problem in found))
    written = dump_yaml({"tests": tests})
    place = Path("config", f"{template.name}.yml")
    with new_folder(out) as draft:
        (draft / place).parent.mkdir()
        (draft / place).write_text(written, encoding="utf-8")
        if words:
            (draft / POOL).write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return Exported(out / place, tuple(question.id for question in chosen), len(words))


def _pool(template: TemplateFile, problems: list[Problem]) -> list[str]:
    """The words of the pool ``default``; all other values are reported."""
    within: Place
    if template.values_name:
        path = str(Path(template.path).with_name(template.values_name))
        document = parse_yaml(template.values_text.encode(), path, _LIMITS)
        values, within, other = document.value, (), path
    else:
        document = parse_yaml(template.text.encode(), template.path, _LIMITS)
        values, within, other = document.value.get("values") or {}, ("values",), ""
    words: list[str] = []

    def refuse(place: Place, what: str) -> None:
        place = (*within, *place)
        problems.append(Problem(document.line(place), place, what, other))

    for section in ("types", "pools"):
        for name, entry in (values.get(section) or {}).items():
            if (section, name) != ("pools", "default"):
                refuse(
                    (section, name), "PICARD has no values of a template's own but pools.default"
                )
            elif isinstance(entry, Mapping) and "weights" in entry:
                refuse((section, name, "weights"), "PICARD has no weights; repeat words instead")
            else:
                words = list(entry["values"] if isinstance(entry, Mapping) else entry)
    for index, _ in enumerate(values.get("together") or ()):
        refuse(("together", index), "PICARD has no values that go together")
    return words


def _question(
    template: TemplateFile, question: Question, problems: list[Problem]
) -> dict[str, Any]:
    """A question in PICARD's form."""

    def refuse(place: Place, what: str) -> None:
        problems.append(Problem(template.line(place), place, what))

    top = question.place
    test: dict[str, Any] = {
        "question_id": int(question.id) if _is_number(question.id) else question.id,
        "samples": question.samples,
    }
    texts = QuestionTexts.of(question, refuse)
    test["template"] = texts.text((*top, "template"), question.template)
    test["scoring_type"] = question.scoring_type
    if question.scoring_type not in SCORING_TYPES:
        refuse((*top, "scoring_type"), f"PICARD writes no key for {question.scoring_type}")
        question = replace(question, expected_content=None)  # of an edit: its key, as JSON
    if question.file_to_read is not None:
        test["file_to_read"] = texts.path((*top, "file_to_read"), question.file_to_read)
    for key in _TEXTS:
        if (written := getattr(question, key)) is not None:
            test[key] = texts.text((*top, key), written, answer=True)
            if not written:
                refuse((*top, key), "PICARD writes no key that is empty")
    for key in _PATHS:
        if paths := getattr(question, key):
            test[key] = [texts.path((*top, key, index), path) for index, path in enumerate(paths)]
    if question.components:
        test["sandbox_setup"] = {"components": _components(question, texts, refuse)}
    return test


def _is_number(id: str) -> bool:
    return id.isdecimal() and str(int(id)) == id


def _components(question: Question, texts: QuestionTexts, refuse: Refuse) -> list[dict[str, Any]]:
    used = {int(number) for text in _all_texts(question) for number in _NUMBERS.findall(text)}
    writer = ContentWriter(refuse, itertools.count(max(used, default=0) + 1))
    return [_component(component, writer, texts, refuse) for component in question.components]


def _all_texts(question: Question) -> list[str]:
    texts = (question.template, *(getattr(question, key) for key in (*_TEXTS, *_PATHS)))
    parts = [(component.target_file, component.content) for component in question.components]
    return [*strings_of([*texts, question.file_to_read, parts])]


def _component(
    component: Component, writer: ContentWriter, texts: QuestionTexts, refuse: Refuse
) -> dict[str, Any]:
    place = component.place
    written: dict[str, Any] = {
        "type": component.type,
        "name": component.name or ONLY,
        "target_file": texts.path((*place, "target_file"), component.target_file),
    }
    content = writer.written(component)
    written["content"] = texts.content((*place, "content"), content)
    if (clutter := _clutter(component, refuse)) is not None:
        written["config"] = {"clutter": clutter}
    if component.depends_on:
        written["depends_on"] = list(component.depends_on)
    return written


def _clutter(component: Component, refuse: Refuse) -> dict[str, Any] | None:
    """How many distractors; PICARD takes a mapping with a number."""
    asked = component.config.get("clutter")
    given: dict[str, Any] = dict(asked) if isinstance(asked, Mapping) else {}
    count = given.get("count", _USUAL_CLUTTER) if given or asked is True or asked == {} else asked
    if isinstance(count, str) and not count.strip().isdecimal():
        refuse((*component.place, "config"), "PICARD takes a number of clutter, no placeholder")
        return None
    return {**given, "count": int(count)} if count and int(count) else None
