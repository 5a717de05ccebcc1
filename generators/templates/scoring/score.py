"""Scores an answer: strictly as run folders that people have were scored, and leniently beside.

The strict verdicts of the six types are those of the public implementation, verdict for verdict;
the reasons are in our words. The lenient ones forgive what
``generators.templates.scoring.comparison`` lists; a strictly right answer is leniently right too.
Answers are untrusted: nothing here raises, and nothing takes long.

    key = Key("stringmatch", expected="amber")
    score(key, "Amber.", workspace).correct                      # False
    score_both(key, "Amber.", workspace).failure                 # Failure.FORMATTING
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from generators.errors import TemplateError, nearest
from generators.grading.answer import Answer
from generators.templates.scoring.comparison import (
    NotJson,
    differences,
    read_json,
    same_json,
    same_json_leniently,
    same_text_leniently,
)
from generators.templates.scoring.json_edit import edit_leniently, score_edit
from generators.templates.scoring.response import (
    clean_telling,
    cleaned_response,
    file_text,
    kept,
    quoted,
)
from generators.templates.scoring.scorer import (
    AnswerScore,
    Key,
    Scorer,
    Workspace,
    installed_scorers,
)


class Failure(Enum):
    """Why a strict score is wrong, as far as the lenient one shows."""

    FORMATTING = "formatting failure"  # the task was done, but the answer has another form
    TASK = "task failure"


@dataclass(frozen=True, slots=True)
class Scores:
    """Both verdicts on one answer."""

    strict: AnswerScore
    lenient: AnswerScore

    @property
    def failure(self) -> Failure | None:
        """None if the strict score is right."""
        if self.strict.correct:
            return None
        return Failure.FORMATTING if self.lenient.correct else Failure.TASK


@dataclass(frozen=True, slots=True)
class Scored:
    """A check of rubrics (grading.Check): the final message and the collected files are right by
    a scoring type; ``lenient`` forgives how the answer is packed."""

    scoring_type: str
    expected: str
    file: str
    paths: tuple[str, ...]
    lenient: bool = False

    def passes(self, answer: Answer) -> bool:
        """True if the answer meets the check."""
        judge = score_leniently if self.lenient else score
        key = Key(self.scoring_type, self.expected, self.file, self.paths)
        return judge(key, answer.text, answer).correct


def scoring_types() -> tuple[str, ...]:
    """All types that may be scored: the six, ours, and those of installed packages."""
    return (*_BUILT_IN, *installed_scorers(_BUILT_IN))


def score(key: Key, response: str, workspace: Workspace) -> AnswerScore:
    """The strict verdict. Raises TemplateError for a scoring type that nothing scores."""
    return _scorer(key).score(key, response, workspace)


def score_leniently(key: Key, response: str, workspace: Workspace) -> AnswerScore:
    """The lenient verdict. Raises as ``score`` does."""
    return score_both(key, response, workspace).lenient


def score_both(key: Key, response: str, workspace: Workspace) -> Scores:
    """Both verdicts. Raises as ``score`` does."""
    scorer = _scorer(key)
    strict = scorer.score(key, response, workspace)
    if strict.correct or not (scorer.leniently and scorer.leniently(key, response, workspace)):
        return Scores(strict, strict)
    return Scores(strict, AnswerScore(True, details=strict.details))


# --- the six types


def _score_text(key: Key, response: str, workspace: Workspace) -> AnswerScore:
    answer = _answer_text(key, response, workspace)
    if isinstance(answer, AnswerScore):
        return answer
    expected, actual = key.expected.strip(), answer.strip()
    details = _details(key, response, actual, "expected")
    if actual == expected:
        return AnswerScore(True, details=details)
    place = f"{key.file}: " if key.file else ""
    return AnswerScore(False, f"{place}expected {quoted(expected)}, got {quoted(actual)}", details)


def _score_json(key: Key, response: str, workspace: Workspace) -> AnswerScore:
    answer = _answer_text(key, response, workspace)
    if isinstance(answer, AnswerScore):
        return answer
    details = _details(key, response, answer.strip(), "expected_raw")
    what = key.file or "the response"
    try:
        wanted = read_json(key.expected.strip())
    except NotJson as error:
        return AnswerScore(False, f"the key is no JSON: {error}", details)
    try:
        actual = read_json(answer.strip())
    except NotJson as error:
        return AnswerScore(False, f"{what} is no JSON: {error}", details)
    if same_json(wanted, actual):
        return AnswerScore(True, details=details)
    details["differences"] = differences(wanted, actual)
    return AnswerScore(False, f"{what} is other JSON: {details['differences'][0]}", details)


def _answer_text(key: Key, response: str, workspace: Workspace) -> str | AnswerScore:
    return file_text(key, workspace) if _reads_file(key) else cleaned_response(response)


def _reads_file(key: Key) -> bool:
    return key.scoring_type.startswith("readfile_")


def _score_existence(key: Key, response: str, workspace: Workspace) -> AnswerScore:
    if not key.paths:
        return AnswerScore(False, "the key names no files to check")
    missing = [path for path in key.paths if workspace.kind(path) is None]
    details = {
        "files_to_check": list(key.paths),
        "all_files_exist": not missing,
        "missing_files": missing,
    }
    return AnswerScore(not missing, f"missing: {_listed(missing)}" if missing else "", details)


def _score_structure(key: Key, response: str, workspace: Workspace) -> AnswerScore:
    if not key.paths:
        return AnswerScore(False, "the key names no paths to expect")
    kinds = {path: workspace.kind(path) for path in key.paths}
    missing = [path for path, kind in kinds.items() if kind is None]
    wrong = [
        path for path, kind in kinds.items() if kind and (kind == "folder") != path.endswith("/")
    ]
    details = {
        "expected_paths": list(key.paths),
        "all_paths_correct": not missing and not wrong,
        "missing_paths": missing,
        "wrong_type_paths": wrong,
    }
    reasons = [f"missing: {_listed(missing)}"] * bool(missing)
    reasons += [f"of the other kind: {_listed(wrong)}"] * bool(wrong)
    return AnswerScore(not reasons, "; ".join(reasons), details)


# --- the same, leniently: called for strictly wrong answers


def _text_leniently(key: Key, response: str, workspace: Workspace) -> bool:
    answer = _answer_text(key, response, workspace)
    return isinstance(answer, str) and same_text_leniently(key.expected, answer)


def _json_leniently(key: Key, response: str, workspace: Workspace) -> bool:
    answer = _answer_text(key, response, workspace)
    if isinstance(answer, AnswerScore):
        return False
    try:
        return same_json_leniently(read_json(key.expected.strip()), answer)
    except NotJson:
        return False


_BUILT_IN: Mapping[str, Scorer] = {
    scorer.name: scorer
    for scorer in (
        Scorer("stringmatch", _score_text, _text_leniently),
        Scorer("jsonmatch", _score_json, _json_leniently),
        Scorer("readfile_stringmatch", _score_text, _text_leniently),
        Scorer("readfile_jsonmatch", _score_json, _json_leniently),
        Scorer("files_exist", _score_existence),
        Scorer("directory_structure", _score_structure),
        Scorer("readfile_jsonedit", score_edit, edit_leniently),
    )
}


def _scorer(key: Key) -> Scorer:
    built_in = _BUILT_IN.get(key.scoring_type)
    return built_in or _installed(key.scoring_type, tuple(sys.path))


@cache
def _installed(scoring_type: str, path: tuple[str, ...]) -> Scorer:
    """Loaded once: the metadata of all that is installed is read to find it."""
    installed = installed_scorers(_BUILT_IN)
    if scoring_type not in installed:
        hint = nearest(scoring_type, (*_BUILT_IN, *installed))
        raise TemplateError(f"unknown scoring type {scoring_type!r}; {hint}")
    return installed[scoring_type]()


# --- parts


def _details(key: Key, response: object, answer: str, expected: str) -> dict[str, Any]:
    """Details to record of an answer; ``expected`` is the field name of the key's text."""
    if _reads_file(key):
        return {
            "expected_file": key.file,
            "expected_content": key.expected.strip(),
            "actual_content": kept(answer),
            "file_exists": True,
        }
    raw = response if isinstance(response, str) else answer
    return {
        expected: key.expected.strip(),
        "actual_raw": kept(raw),
        "actual_cleaned": kept(answer),
        "thinking_tags_found": clean_telling(raw)[1],
    }


def _listed(paths: list[str]) -> str:
    return ", ".join(paths[:10]) + (f" and {len(paths) - 10} more" if len(paths) > 10 else "")
