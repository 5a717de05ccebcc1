"""The values that a template file is parsed into, and those that a sample is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from generators.errors import TemplateError, nearest
from generators.templates.language.values import BUILT_IN, ValueSet
from generators.yaml_lines import Place, key_of, line_of

_MOST_SHOWN = 12  # questions in an error


@dataclass(frozen=True, slots=True)
class Component:
    """One thing that the sandbox holds before the agent starts.

    Both forms of ``sandbox_setup`` become this: ``rows`` and ``count`` stand in ``content``,
    ``clutter`` in ``config``, whichever level they were written at. Values are plain data as
    written, placeholders unresolved.
    """

    type: str  # create_files, create_csv, …
    name: str  # "" for the single form
    target_file: str
    content: Mapping[str, Any]
    config: Mapping[str, Any]
    depends_on: tuple[str, ...]
    place: Place
    values: ValueSet = field(default=BUILT_IN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Question:
    """One test of a template file, checked for form; placeholders unresolved."""

    id: str
    samples: int
    template: str
    scoring_type: str
    components: tuple[Component, ...]  # in an order that keeps every depends_on
    place: Place
    expected_response: str | None = None
    file_to_read: str | None = None
    expected_content: str | None = None
    files_to_check: tuple[str, ...] = ()
    expected_structure: tuple[str, ...] = ()
    values: ValueSet = field(default=BUILT_IN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TemplateFile:
    """A template file, whole."""

    name: str  # of the file, without its ending
    digest: str  # "sha256:…" of its bytes, and of those of the values file that it names
    text: str = field(repr=False)
    questions: tuple[Question, ...]
    lines: Mapping[Place, int] = field(repr=False)
    values_name: str = ""  # of the values file beside it
    values_text: str = field(default="", repr=False)
    path: str = field(default="", compare=False)  # as errors call it
    faulty: tuple[Question, ...] = ()  # as far as they could be read; not among the questions
    faults: Mapping[Place, str] = field(default_factory=dict)  # by the place of such a question

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest one above it that is there."""
        return line_of(self.lines, place)

    def show_place(self, place: Place) -> str:
        """``file:line: key`` of a place."""
        return f"{self.path or self.name}:{self.line(place)}: {key_of(place)}"

    def strata_of(self, id: str) -> tuple[str, ...]:
        """The ids of the questions that ``for_each`` makes of this one; else the id itself."""
        strata = [
            question.id
            for question in (*self.questions, *self.faulty)
            if (*question.place, "for_each") in self.lines and question.id.startswith(f"{id}-")
        ]
        known = any(question.id == id for question in (*self.questions, *self.faulty))
        return (id,) if known or not strata else tuple(strata)

    def question(self, id: str) -> Question:
        """The question of this id. Raises TemplateError with the nearest that is there, or with
        what is wrong with the question."""
        for question in self.questions:
            if question.id == id:
                return question
        for question in self.faulty:
            if question.id == id:
                raise TemplateError(self.faults[question.place])
        known = [question.id for question in (*self.questions, *self.faulty)]
        raise TemplateError(f"{self.name}: no question {id!r}; {nearest(id, known)}")

    def chosen(self, ids: Iterable[str] | None) -> tuple[Question, ...]:
        """The questions of these ids, each once, those that ``for_each`` makes of them included;
        all of the file if there are none. Raises TemplateError for one that is not there or not
        right."""
        if ids is not None:
            strata = dict.fromkeys(id for named in ids for id in self.strata_of(named))
            return tuple(map(self.question, strata))
        if self.faults:
            wrong = "\n".join(self.faults.values())
            raise TemplateError(wrong + others_of([question.id for question in self.questions]))
        return self.questions


def texts_within(value: Any, place: Place = ()) -> Iterator[tuple[Place, str, bool]]:
    """Find every text in plain data, with its place; the last is true for the key of a mapping."""
    if isinstance(value, str):
        yield place, value, False
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield (*place, key), str(key), True
            yield from texts_within(inner, (*place, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from texts_within(inner, (*place, index))


def strings_of(value: Any) -> list[str]:
    """The texts in plain data, keys among them."""
    return [text for _, text, _ in texts_within(value)]


def others_of(right: Sequence[str]) -> str:
    """The end of an error in some questions of a file, if others are ``right``."""
    shown = ", ".join(right[:_MOST_SHOWN]) + (", …" if len(right) > _MOST_SHOWN else "")
    return f"; mend it, or choose among the other questions: {shown}" if right else ""


@dataclass(frozen=True, slots=True)
class MadeFile:
    """A file of a sandbox tree, at a path below its root."""

    path: str
    data: bytes
