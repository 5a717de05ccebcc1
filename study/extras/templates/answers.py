"""Answers to templated questions, from a study's results and from run folders, with the facts of
the questions from template files and precheck files; and ``dosimeter template report``: run folders
broken down, as CSV files and in a few lines."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.templates.breakdown import AnswerRow, Answers, QuestionFacts
from analysis.templates.breakdown_tables import TableSet, make_tables, write_tables
from generators.dressings.dressing import is_dressing
from generators.errors import TemplateError
from generators.templates.family import template_family
from generators.templates.language.placeholders import Call, Constant, Text, parse_text
from generators.templates.language.template import Question, TemplateFile
from generators.templates.language.values import BUILT_IN, ValueSet
from registry.canonical import digest_value
from registry.result_row import GRADER, ResultRow, Status
from study.errors import StudyError
from study.extras.templates.run_folder import PRECHECK, ModelRun, Result, named_folders, score_runs
from study.protocol.protocol import Protocol
from study.protocol.yaml import read_template

_NO_FUNCTIONS = (
    f"{PRECHECK} does not say how its keys were computed, so that questions of one task in several "
    "formats are not known: give the template with --template"
)
LENIENT = "lenient"  # the grader of the second row of a result (harness.episodes.result)


def facts_of_study(protocol: Protocol) -> dict[str, QuestionFacts]:
    """Return the facts of a study's templated strata by stratum; empty if it has none."""
    strata = [task.stratum for task in protocol.tasks]
    by_stratum: dict[str, QuestionFacts] = {}
    for source in (each for each in protocol.templates if not is_dressing(each.text)):
        family = template_family(*source)
        prefix = f"{family.name}/"
        only = {name.removeprefix(prefix) for name in strata if name.startswith(prefix)}
        facts = facts_of_template(family.file, only, prefix)
        by_stratum |= {fact.question: fact for fact in facts}
    return by_stratum


def answers_of_rows(rows: Iterable[ResultRow], facts: dict[str, QuestionFacts]) -> Answers:
    """Return the answers in a study's rows, without those of other graders and of strata without
    facts.

    The row of grader ``lenient`` is joined to the strict one of the same episode. A missing
    episode has no verdict; a model's own failure is wrong, and not answered.
    """
    strict: dict[tuple[Any, ...], ResultRow] = {}
    lenient: dict[tuple[Any, ...], ResultRow] = {}
    for row in rows:
        if row.stratum in facts:
            key = row.wave, row.model, row.instance, row.replicate
            if row.grader == GRADER:
                strict[key] = row
            elif row.grader == LENIENT:
                lenient[key] = row
    return Answers(tuple(_answer(row, lenient.get(key)) for key, row in strict.items()), facts)


@dataclass(frozen=True, slots=True)
class RunReport:
    """The tables of some run folders, the files that they were written to, and warnings."""

    tables: TableSet
    files: tuple[Path, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the tables with the paths of their files and the warnings."""
        return {
            **self.tables.as_json(),
            "files": [str(path) for path in self.files],
            "warnings": list(self.warnings),
        }


def report_runs(
    folders: Sequence[str], out: Path, *, templates: Sequence[str] = (), remaps: Sequence[str] = ()
) -> RunReport:
    """Score run folders, break them down, and write the tables as CSV into ``out``.

    The same folders give the same bytes. Raises StudyError, AnalysisError, TemplateError before
    anything is written.
    """
    answers, warnings = answers_of_runs(folders, datetime.now(UTC), templates, remaps)
    names = ("model", "question", "replicate", "strict", "lenient", "rounds", "answered")
    values = [[getattr(row, name) for name in names] for row in answers.rows]
    tables = make_tables(answers, digest_value(values), of_study=False)
    try:
        files = write_tables(out, tables)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StudyError(f"{out}: {reason}; give a folder that you may write") from None
    return RunReport(tables, tuple(files), tuple(warnings))


def answers_of_runs(
    folders: Sequence[str], at: datetime, templates: Sequence[str] = (), remaps: Sequence[str] = ()
) -> tuple[Answers, list[str]]:
    """Return the scored answers in run folders, and warnings about the folders.

    Each folder is ``DIR``, with the model's name, or ``MODEL=DIR``; one model may have
    several. A response that is not there is wrong. ``templates`` are files, or names of the
    library, by which questions count as one task; without any, the prechecks are used.
    Raises StudyError, TemplateError.
    """
    named = named_folders(folders)
    _check_names(folders, [name for name, _ in named])
    rows: list[AnswerRow] = []
    warnings: list[str] = []
    records: list[list[dict[str, Any]]] = []
    for run in score_runs(named, at, remaps):
        warnings += run.warnings
        records.append(_records(run.folder / PRECHECK))
        rows += [_scored(run, result) for result in run.scores.results]
    if not templates and not all(keeps_functions(record) for part in records for record in part):
        warnings.append(_NO_FUNCTIONS)
    by_template = _facts_by_template(
        templates, {str(r["question_id"]): r for part in records for r in part}
    )
    facts = ([by_template.get(f.question, f) for f in facts_of_precheck(part)] for part in records)
    return Answers(tuple(rows), merge_facts(facts)), warnings


def _answer(row: ResultRow, lenient: ResultRow | None) -> AnswerRow:
    missing, failed = (row.status is Status.MISSING, row.status is Status.MODEL_FAILURE)
    return AnswerRow(
        model=row.model,
        question=row.stratum,
        instance=row.instance,
        strict=False if failed else _verdict(row.score),
        lenient=False if failed else None if lenient is None else _verdict(lenient.score),
        rounds=None if missing else row.turns,
        answered=not failed,
        replicate=row.replicate,
        wave=row.wave,
        arm=str(row.arm),
    )


def _verdict(score: float | None) -> bool | None:
    return None if score is None else score >= 1


def _scored(run: ModelRun, result: Result) -> AnswerRow:
    sample = result.sample
    return AnswerRow(
        model=run.model,
        question=str(sample.id[0]),
        instance=(sample.qs_id, sample.key),  # the same sample in several folders is one
        strict=None if result.undetermined else result.strict.correct,
        lenient=None if result.undetermined else result.lenient.correct,
        rounds=run.rounds.get(sample.qs_id),
        answered=result.undetermined or result.scores is not None,
        replicate=run.replicate,
    )


def _check_names(folders: Sequence[str], names: Sequence[str]) -> None:
    """Raise StudyError for folders of one name that are not both named MODEL=DIR."""
    seen: dict[str, str] = {}
    for text, name in zip(folders, names, strict=True):
        other = seen.setdefault(name, text)
        if other != text and not (text.startswith(f"{name}=") and other.startswith(f"{name}=")):
            raise StudyError(
                f"{other} and {text}: both would be the model {name!r}; give MODEL=DIR for each, "
                "the same MODEL for two runs of one"
            )


def _records(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a precheck, which was checked when it was scored."""
    with open(path, "rb") as file:
        return [json.loads(line) for line in file if not line.isspace()]


def _facts_by_template(
    templates: Sequence[str], asked: Mapping[str, Mapping[str, Any]]
) -> dict[str, QuestionFacts]:
    """Return the facts that templates have of the questions asked, each with a line of a precheck.
    Raises StudyError if a template has none of them, or another question of the same id."""
    by_question: dict[str, QuestionFacts] = {}
    for template in templates:
        file = template_family(*read_template(Path(), template)).file
        facts = facts_of_template(file, asked.keys())
        if not facts:
            raise StudyError(f"{template}: has none of the questions {', '.join(asked)}")
        for fact in facts:
            text = asked[fact.question].get("template")
            if (
                isinstance(text, str)
                and text.split() != file.question(fact.question).template.split()
            ):
                raise StudyError(
                    f"{template}: its question {fact.question} reads otherwise than that in "
                    f"{PRECHECK}; give the template that the run was made from"
                )
            by_question[fact.question] = fact
    return by_question


# --- facts of questions ---

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
        parts = parse_text(key, False, values)
        calls = sorted(_show_call(part) for part in parts if isinstance(part, Call))
    except TemplateError:  # a function of another program's
        return None
    if not calls:
        return None
    return json.dumps({"sandbox": _plain(sandbox), "calls": calls}, sort_keys=True)


def _show_call(call: Call) -> str:
    """Return a call with its arguments, white space folded: folded lines of SQL are the same
    SQL."""
    return "\x1f".join([call.function.name, *map(_show, call.texts)])


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
