"""Facts of questions from template files and precheck files, for the tables of a report."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from analysis.picard import QuestionFacts
from generators.errors import TemplateError
from generators.templates.language import (
    Call,
    Constant,
    Question,
    TemplateFile,
    Text,
    calls_of,
    parse_text,
)
from study.errors import StudyError

_KINDS: Mapping[str, tuple[str, str]] = {
    "stringmatch": ("direct", "string"),
    "jsonmatch": ("direct", "json"),
    "readfile_stringmatch": ("file", "string"),
    "readfile_jsonmatch": ("file", "json"),
    "files_exist": ("file", "paths"),
    "directory_structure": ("file", "paths"),
}
_BEFORE = (
    "expected_response_before_template_functions",
    "expected_content_before_template_functions",
)
Task = str | None  # what a question asks for whatever its format; None where it computes nothing


def facts_of_template(
    file: TemplateFile, only: Collection[str] | None = None, prefix: str = ""
) -> tuple[QuestionFacts, ...]:
    """Return the facts of a template's questions, or of those that ``only`` names.

    Questions form a group, one task in several formats, if their sandboxes are made alike and their
    keys call the same functions with the same arguments, whatever text surrounds the calls; a
    question that calls none is in no group. ``prefix`` goes before each question and group.
    """
    chosen = [question for question in file.questions if only is None or question.id in only]
    return _with_groups(
        [(q.id, q.scoring_type, bool(q.file_to_read)) for q in chosen],
        [_task_of_question(question) for question in chosen],
        prefix,
    )


def facts_of_precheck(records: Iterable[Mapping[str, Any]]) -> tuple[QuestionFacts, ...]:
    """Return the facts of the questions of a ``precheck.jsonl``, by the first sample of each.

    Groups are as in ``facts_of_template`` if the file keeps the keys as they were before their
    functions; it has the values of variables in them, so that questions whose functions are
    given such values are recognised by the template only.
    """
    first: dict[str, Mapping[str, Any]] = {}
    for record in records:
        first.setdefault(str(record["question_id"]), record)
    return _with_groups(
        [
            (name, str(record["scoring_type"]), bool(record.get("file_to_read")))
            for name, record in first.items()
        ],
        [_task_of_record(record) for record in first.values()],
    )


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
        for each in part:
            if merged.setdefault(each.question, each) != each:
                other = merged[each.question]
                raise StudyError(
                    f"question {each.question}: {_describe(other)} in one run folder, "
                    f"{_describe(each)} in another; compare run folders of one template"
                )
    return merged


def _describe(facts: QuestionFacts) -> str:
    return f"{facts.scoring_type}, {f'with {facts.group}' if facts.group else 'in no group'},"


def _with_groups(
    named: Sequence[tuple[str, str, bool]], tasks: Sequence[Task], prefix: str = ""
) -> tuple[QuestionFacts, ...]:
    kinds = [_kind(scoring_type, reads) for _, scoring_type, reads in named]
    groups = [_members(task, tasks) for task in tasks]
    names = [name for name, _, _ in named]
    return tuple(
        QuestionFacts(
            f"{prefix}{name}",
            scoring_type,
            *kind,
            group=prefix + "+".join(names[i] for i in members)
            if len({kinds[i] for i in members}) > 1
            else "",
        )
        for (name, scoring_type, _), kind, members in zip(named, kinds, groups, strict=True)
    )


def _members(task: Task, tasks: Sequence[Task]) -> list[int]:
    return [] if task is None else [i for i, other in enumerate(tasks) if other == task]


def _kind(scoring_type: str, reads: bool) -> tuple[str, str]:
    """Return output and format; of other programs' scoring types, from their questions."""
    if scoring_type in _KINDS:
        return _KINDS[scoring_type]
    return "file" if reads else "direct", "json" if "json" in scoring_type else "string"


def _task_of_question(question: Question) -> Task:
    sandbox = [
        {
            "type": each.type,
            "name": each.name,
            "target_file": each.target_file,
            "content": each.content,
            "config": each.config,
        }
        for each in question.components
    ]
    return _task(sandbox, question.expected_response or question.expected_content or "")


def _task_of_record(record: Mapping[str, Any]) -> Task:
    before = next((str(record[name]) for name in _BEFORE if record.get(name)), "")
    return _task(record.get("sandbox_components") or record.get("sandbox_setup") or [], before)


def _task(sandbox: Any, key: str) -> Task:
    try:
        calls = sorted(_show_call(call) for call in calls_of(parse_text(key)))
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
