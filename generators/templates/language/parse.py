"""Template files: read whole, every error of form at once.

``check`` judges placeholders, functions and data types; this module only the keys, kinds and
names of the file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from generators.errors import TemplateError, nearest
from generators.templates.language.diagnostics import (
    Problem,
    fault_of_name,
    foremost,
    place_in,
    shown,
)
from generators.templates.language.keys import (
    ANSWER_KEYS,
    ANSWER_LISTS,
    COMPONENT_KEYS,
    FILE_KEYS,
    ID,
    MAX_SAMPLES,
    NEEDS,
    TARGETED_KEYS,
    TEST_KEYS,
)
from generators.templates.language.placeholders import outermost
from generators.templates.language.strata import StrataForm
from generators.templates.language.template import Component, Question, TemplateFile
from generators.templates.language.values import UNREAD, ValueSet, ValuesForm, fault_of_path
from generators.templates.scoring.json_edit import JSON_EDIT, TARGETED_EDIT, translate_edit
from generators.templates.scoring.score import scoring_types
from generators.yaml_lines import (
    Place,
    YamlDocument,
    YamlError,
    YamlLimits,
    fault_of_form,
    parse_yaml,
)

MAX_BYTES = 4_000_000
_LIMITS = YamlLimits("a template file", MAX_BYTES, aliases=True)
_VALUES_LIMITS = YamlLimits("a values file", MAX_BYTES)


@dataclass(frozen=True, slots=True)
class ParsedTemplate:
    """A template file as far as it could be read, and all that is wrong with its form."""

    file: TemplateFile
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    whole: bool = True  # False if a line of it, or of its values, could not be read


def parse_template(text: str | bytes, path: str, values: str = "") -> TemplateFile:
    """The template file of some text; ``path`` is what errors call it, ``values`` the text of the
    values file that it names. Questions that are not right are among its ``faulty`` ones.

    Raises TemplateError with all errors of form, one a line, if they are not of single questions,
    or no question is right: ``file:line: key: what is wrong; what would be right``.
    """
    reading = read_template(text, path, values)
    faults: dict[Place, str] = {}
    for problem in reading.errors:
        written = problem.text(path)
        place = problem.place[:2]
        faults[place] = f"{faults[place]}\n{written}" if place in faults else written
    questions = reading.file.questions
    right = tuple(question for question in questions if question.place not in faults)
    wrong = tuple(question for question in questions if question.place in faults)
    in_questions = all(place[:1] == ("tests",) and len(place) == 2 for place in faults)
    if faults and not (right and in_questions):
        raise TemplateError("\n".join(faults.values()))
    return replace(reading.file, questions=right, faulty=wrong, faults=faults)


def read_template(text: str | bytes, path: str, values: str = "") -> ParsedTemplate:
    """The questions as far as they could be read, and everything that is wrong with their form.

    Where something is wrong, what is missing is "?" or empty: enough to look at the rest of it.
    Raises nothing.
    """
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    name = PurePath(path).name
    name = name.removesuffix(".yml").removesuffix(".yaml")
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    try:
        document = parse_yaml(data, path, _LIMITS)
    except YamlError as error:
        empty = TemplateFile(name, digest, "", (), {}, path=path)
        return ParsedTemplate(empty, (problem_of(str(error), path),), (), whole=False)
    form = _Form(document, given=values)
    questions = form.questions()
    form.keys()
    errors = with_faults(form.found(), document)
    values = values if form.values_name else ""
    if form.values_name:
        both = data + b"\0" + values.encode("utf-8", "replace")
        digest = f"sha256:{hashlib.sha256(both).hexdigest()}"
    file = TemplateFile(
        name,
        digest,
        data.decode("utf-8-sig"),
        questions,
        document.lines,
        values_name=form.values_name,
        values_text=values,
        path=path,
    )
    whole = not document.faults and not form.values.unread
    return ParsedTemplate(file, foremost(dict.fromkeys(errors)), tuple(form.warnings), whole)


def with_faults(errors: Iterable[Problem], document: YamlDocument) -> list[Problem]:
    """The errors, and the faults of their document as YAML; in the line of such a fault, no other
    error: it may be about what could not be read."""
    faults = [Problem(fault.line, (), fault.what) for fault in document.faults]
    lines = {fault.line for fault in faults}
    return [*faults, *(error for error in errors if error.line not in lines or error.file)]


def problem_of(message: str, path: str) -> Problem:
    """The problem of an error's text, which starts with the file and most often its line: that of
    this path, or another one."""
    match = re.match(r":([0-9]+): ", message[len(path) :])
    if message.startswith(path) and match is not None:
        return Problem(int(match[1]), (), message[len(path) + match.end() :])
    other = re.match(r"([^\n]+?\.ya?ml):([0-9]+): ", message)
    if other is not None:
        return Problem(int(other[2]), (), message[other.end() :], other[1])
    return Problem(0, (), message.removeprefix(f"{path}: "))


@dataclass(slots=True)
class _Form(StrataForm):
    """The reading of a whole file."""

    ids: dict[str, int] = field(default_factory=dict)
    given: str = ""  # the text of its values file
    values_name: str = ""

    # -- the file -------------------------------------------------------------------------------

    def questions(self) -> tuple[Question, ...]:
        value = self.document.value
        if not isinstance(value, dict):
            self.error(
                (), f"a template file is a mapping with a list under `tests:`, not {shown(value)}"
            )
            return ()
        self.known_keys((), value, FILE_KEYS)
        if "values" in value:
            self.values = self.value_set(value)
        tests = value.get("tests")
        if "tests" not in value:
            self.lacks((), "tests", ": a list of questions")
        elif not isinstance(tests, list) or not tests:
            self.error(("tests",), f"a list of at least one question is wanted, not {shown(tests)}")
        if not isinstance(tests, list):
            return ()
        made = [
            question
            for index, test in enumerate(tests)
            for question in self.questions_of(("tests", index), test)
        ]
        return tuple(question for question in made if question is not None)

    def questions_of(self, place: Place, test: Any) -> Iterator[Question | None]:
        """The question, or its strata. An error is reported of the first stratum that has it."""
        before = len(self.errors)
        reported: set[Place] = set()
        for stratum in self.strata(place, test):
            yield self.question(place, stratum)
            fresh = [error for error in self.errors[before:] if error.place not in reported]
            self.errors[before:] = fresh
            before += len(fresh)
            reported.update(error.place for error in fresh)

    def keys(self) -> None:
        """Check the characters of every key, those apart that are errors already."""
        erring = {error.place for error in self.errors}
        for place in self.document.lines:
            key = place[-1] if place else ""
            if isinstance(key, str) and (fault := fault_of_name(key)) and place not in erring:
                self.error(place, fault)

    # -- values ---------------------------------------------------------------------------------

    def value_set(self, content: Mapping[str, Any]) -> ValueSet:
        """The values that the file gives, or names a file of."""
        given = content["values"]
        used = json.dumps({**content, "values": ""}, default=str)
        if not isinstance(given, str):
            form = ValuesForm(self.document, used=used)
            values = form.read(("values",), given)
            self.errors += form.errors
            return values
        fault = fault_of_path(given)
        if fault is None and not self.given:
            fault = "is no file that could be read; write `values: FILE` on a line of its own"
        if fault is not None:
            self.error(("values",), f"{shown(given)} {fault}")
            return UNREAD
        self.values_name = given
        path = str(PurePath(self.document.path).parent / given)
        return self.values_of_file(path, used)

    def values_of_file(self, path: str, used: str) -> ValueSet:
        """The values of the file that ``values:`` names."""
        try:
            document = parse_yaml(self.given.encode("utf-8", "replace"), path, _VALUES_LIMITS)
        except YamlError as error:
            self.errors.append(replace(problem_of(str(error), path), file=path))
            return UNREAD
        form = ValuesForm(document, used=used, shared=True)
        values = form.read_file()
        errors = with_faults(form.errors, document)
        self.errors += [replace(problem, file=path) for problem in errors]
        self.warnings += [replace(problem, file=path) for problem in form.warnings]
        return UNREAD if errors else values

    # -- a question -----------------------------------------------------------------------------

    def question(self, place: Place, test: Any) -> Question | None:
        if not isinstance(test, dict) or not test:
            self.error(place, f"a question is a mapping, not {shown(test)}")
            return None
        id = self.id(place, test)
        samples = self.samples(place, test)
        template = self.text(place, test, "template")
        scoring_type = self.scoring_type(place, test)
        answers = self.answers(place, test, scoring_type)
        if scoring_type == TARGETED_EDIT:
            scoring_type, answers = JSON_EDIT, self.targeted(place, test)
        self.question_keys(place, test)
        components: tuple[Component, ...] = ()
        if "sandbox_setup" in test:
            components = self.sandbox((*place, "sandbox_setup"), test["sandbox_setup"])
        self.targets(place, test, components, "sandbox_setup" in test)
        return Question(
            id=id or "?",
            samples=samples,
            template=template or "",
            scoring_type=scoring_type or "?",
            components=components,
            place=place,
            values=self.values,
            **answers,
        )

    def question_keys(self, place: Place, test: Mapping[str, Any]) -> None:
        """Report keys that are unknown, those of a sandbox as what stands at a wrong level."""
        outside = [key for key in test if key in COMPONENT_KEYS and key not in TEST_KEYS]
        for key in outside if "sandbox_setup" in test else ():
            self.error((*place, key), "stands beside `sandbox_setup`; indent it to stand in it")
            self.misspelt.add((*place, "sandbox_setup", key))
        inside = {key for key in test if key not in outside or "sandbox_setup" not in test}
        self.known_keys(place, {key: test[key] for key in test if key in inside}, TEST_KEYS)

    def id(self, place: Place, test: Mapping[str, Any]) -> str | None:
        place = (*place, "question_id")
        if "question_id" not in test:
            self.lacks(place[:-1], "question_id", ": a number or a short name")
            return None
        value = test["question_id"]
        if isinstance(value, bool) or not isinstance(value, int | str):
            self.error(place, f"a number or a short name is wanted, not {shown(value)}")
            return None
        if (fault := fault_of_form(value)) is not None:
            self.error(place, f"{shown(value)} {fault}")
        id = str(value)
        if not ID.fullmatch(id):
            self.error(
                place,
                f"{shown(id)} is no id: up to 64 letters, digits, and . _ - are wanted, "
                "since it becomes part of file names",
            )
            return None
        if id in self.ids:
            self.error(place, f"{id} was given on line {self.ids[id]} already; ids are unique")
        self.ids.setdefault(id, self.document.line(place))
        return id

    def samples(self, place: Place, test: Mapping[str, Any]) -> int:
        if "samples" not in test:
            self.lacks(place, "samples", ": how many instances are drawn")
            return 1
        value = test["samples"]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not 1 <= value <= MAX_SAMPLES:
            self.error(
                (*place, "samples"),
                f"a whole number from 1 to {MAX_SAMPLES} is wanted, not {shown(value)}",
            )
            return 1
        return int(value)

    def scoring_type(self, place: Place, test: Mapping[str, Any]) -> str | None:
        value = self.text(place, test, "scoring_type")
        if value is None or value in NEEDS:
            return value
        known = tuple(dict.fromkeys((*NEEDS, *scoring_types())))
        if value not in known:
            self.error(
                (*place, "scoring_type"),
                f"unknown scoring type {shown(value)}; {nearest(value, known)}",
            )
            return None
        return value

    def answers(
        self, place: Place, test: Mapping[str, Any], scoring_type: str | None
    ) -> dict[str, Any]:
        """The keys that say what is right, those only that the scoring type reads."""
        needed = NEEDS.get(scoring_type or "")
        for key in needed or ():
            if key not in test:
                self.lacks(place, key, f", which {scoring_type} needs")
        by_question: dict[str, Any] = {}
        for key in ANSWER_KEYS:
            if key not in test:
                continue
            value = self.answer(place, test, key, scoring_type)
            if needed is not None and key not in needed:
                self.warn((*place, key), f"{scoring_type} does not read it")
            elif value is not None:
                by_question[key] = value
        return by_question

    def targeted(self, place: Place, test: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of our type for edits, translated from the public one."""
        if any(key not in test for key in TARGETED_KEYS):
            return {}
        files = [self.text(place, test, key) for key in ("original_file", "modified_file")]
        for key, value in zip(("original_file", "modified_file"), files, strict=True):
            if value is not None:
                self.path((*place, key), value, folder=False)
        within = (*place, "edit_verification")
        try:
            spec = translate_edit(test["original_file"], test["edit_verification"])
        except TemplateError as error:
            inner, what = place_in(str(error), "target_changes", "preservation_spec")
            self.error((*within, *inner), what)
            return {}
        if None in files:
            return {}
        return {"file_to_read": test["modified_file"], "expected_content": write_edit(spec)}

    def answer(
        self, place: Place, test: Mapping[str, Any], key: str, scoring_type: str | None
    ) -> str | tuple[str, ...] | None:
        if key in ANSWER_LISTS:
            return self.paths((*place, key), test[key])
        empty = key == "expected_content" and scoring_type == "readfile_stringmatch"
        value = self.text(place, test, key, empty)
        if value is not None and key == "file_to_read":
            self.path((*place, key), value, folder=False)
        return value


def write_edit(spec: Mapping[str, Any]) -> str:
    """The key as JSON, the placeholders in it as they were written."""
    text = json.dumps(spec, ensure_ascii=False, default=str)
    written, done = "", 0
    for start, end in outermost(text):
        written += text[done:start] + json.loads(f'"{text[start:end]}"')
        done = end
    return written + text[done:]
