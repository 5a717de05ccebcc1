"""Facts of questions from template files and precheck files, for the tables of a report."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.templates.breakdown import QuestionFacts
from generators.errors import TemplateError
from generators.templates.language.placeholders import Call, Constant, Text, calls_of, parse_text
from generators.templates.language.template import Question, TemplateFile
from generators.templates.language.values import BUILT_IN, ValueSet
from study.errors import StudyError

_PATHS = ("files_exist", "directory_structure")
_BEFORE = (
    "expected_response_before_template_functions",
    "expected_content_before_template_functions",
)
_COMPONENT = ("type", "name", "target_file", "content", "config")
Task = str | None  # the task of a question in any format; None if it computes nothing


def facts_of_template(
    file: TemplateFile, only: Collection[str] | None = None, prefix: str = ""
) -> tuple[QuestionFacts, ...]:
    """Return the facts of a template's questions, or of those that ``only`` names.

    Questions form a group, one task in several formats, if their sandboxes are made alike and their
    keys call the same functions with the same arguments, whatever text surrounds the calls; a
    question that calls none is in no group. ``prefix`` goes before each question and group.
    """
    asked = [
        _Asked(q.id, q.scoring_type, bool(q.file_to_read), _task_of_question(q))
        for q in file.questions
        if only is None or q.id in only
    ]
    return _with_groups(asked, prefix)


def facts_of_precheck(records: Iterable[Mapping[str, Any]]) -> tuple[QuestionFacts, ...]:
    """Return the facts of the questions of a ``precheck.jsonl``, by the first sample of each.

    Groups are as in ``facts_of_template`` if the file keeps the keys as they were before their
    functions; it has the values of variables in them, so that questions with functions of
    such values are recognised by the template only.
    """
    first: dict[str, Mapping[str, Any]] = {}
    for record in records:
        first.setdefault(str(record["question_id"]), record)
    asked = [
        _Asked(name, str(r["scoring_type"]), bool(r.get("file_to_read")), _task_of_record(r))
        for name, r in first.items()
    ]
    return _with_groups(asked)


def keeps_functions(record: Mapping[str, Any]) -> bool:
    """Report whether a line of a precheck has its key as it was before its functions, if it has
    any."""
    sandbox = record.get("sandbox_components") or record.get("sandbox_setup")
    text = record.get("expected_response") or record.get("expected_content")
    return not (sandbox and text) or any(name in record for name in _BEFORE)


def merge_facts(parts: Iterable[Iterable[QuestionFacts]]) -> dict[str, QuestionFacts]:
    """Return the facts by question. Raises StudyError if two sources differ on one."""
    merged: dict[str, QuestionFacts] = {}
    for part in parts:
        for facts in part:
            if merged.setdefault(facts.question, facts) != facts:
                other = merged[facts.question]
                raise StudyError(
                    f"question {facts.question}: {_describe(other)} in one run folder, "
                    f"{_describe(facts)} in another; compare run folders of one template"
                )
    return merged


def _describe(facts: QuestionFacts) -> str:
    return f"{facts.scoring_type}, {f'with {facts.group}' if facts.group else 'in no group'},"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question as a template or a precheck has it."""

    name: str
    scoring_type: str
    reads: bool  # a file of the sandbox
    task: Task

    @property
    def kind(self) -> tuple[str, str]:
        """Output and format; of other programs' scoring types, by their names."""
        if self.scoring_type in _PATHS:
            return "file", "paths"
        form = "json" if "json" in self.scoring_type else "string"
        return "file" if self.reads else "direct", form


def _with_groups(asked: Sequence[_Asked], prefix: str = "") -> tuple[QuestionFacts, ...]:
    by_task: dict[str, list[_Asked]] = defaultdict(list)
    for question in asked:
        if question.task:
            by_task[question.task].append(question)
    groups = {
        task: prefix + "+".join(question.name for question in members)
        for task, members in by_task.items()
        if len({question.kind for question in members}) > 1
    }
    return tuple(
        QuestionFacts(f"{prefix}{q.name}", q.scoring_type, *q.kind, groups.get(q.task or "", ""))
        for q in asked
    )


def _task_of_question(question: Question) -> Task:
    sandbox = [
        {name: getattr(component, name) for name in _COMPONENT} for component in question.components
    ]
    key = question.expected_response or question.expected_content or ""
    return _task(sandbox, key, question.values)


def _task_of_record(record: Mapping[str, Any]) -> Task:
    before = next((str(record[name]) for name in _BEFORE if record.get(name)), "")
    return _task(record.get("sandbox_components") or record.get("sandbox_setup") or [], before)


def _task(sandbox: Any, key: str, values: ValueSet = BUILT_IN) -> Task:
    try:
        calls = sorted(_show_call(call) for call in calls_of(parse_text(key, False, values)))
    except TemplateError:  # a function of another program's
        return None
    if not calls:
        return None
    return json.dumps({"sandbox": _plain(sandbox), "calls": calls}, sort_keys=True)


def _show_call(call: Call) -> str:
    """Return a call with its arguments, white space folded: folded lines of SQL are the same
    SQL."""
    arguments = [*call.arguments, *([call.file] if call.file else [])]
    return "\x1f".join([call.function.name, *map(_show, arguments)])


def _show(text: Text) -> str:
    shown = []
    for part in text:
        if isinstance(part, str):
            shown.append(part)
        elif isinstance(part, Call):
            shown.append(f"\x1e{_show_call(part)}\x1e")
        else:
            name = part.name if isinstance(part, Constant) else part.key
            shown.append(f"{{{{{name}}}}}")
    return " ".join("".join(shown).split())


def _plain(value: Any) -> Any:
    """Return data of a YAML file as JSON values; values without a JSON form, such as dates, as
    text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | bool | int | float) else repr(value)
