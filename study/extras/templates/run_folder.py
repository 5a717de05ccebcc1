"""Run folders that people have, scored: ``precheck.jsonl``, ``responses.jsonl``, ``conversations/``
and a sandbox tree or zip in, ``scores.json`` out.

A path of a key is looked up

- below NEW, where ``--remap OLD=NEW`` names a folder that it lies in (the longest counts);
- where it is, if it is absolute and inside the run folder;
- if it is absolute and elsewhere and there is no ``--remap``, in the run folder's tree or its only
  zip, if a common root of the paths is found that leads to them there;
- if it is relative, in the run folder's tree: with ``artifacts/`` at its start in that of its own
  sample, ``sandbox/q<id>_s<n>/``; else in ``sandbox/`` or ``test_artifacts/``, or the one zip
  named ``sandbox…``, a leading ``test_artifacts/`` taken off.

A path that leads out is refused before anything is scored. A question about files without a tree is
undetermined and stays out of the denominator, and so does a sample whose run failed
(``execution_successful: false``). A response that is given twice counts as it was given
last; one that is not there is wrong, and stays in the denominator.
"""

from __future__ import annotations

import codecs
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from analysis.templates.breakdown import grouped
from generators.errors import TemplateError
from generators.templates.language.keys import TARGETED_KEYS
from generators.templates.scoring.json_edit import JSON_EDIT, TARGETED_EDIT, translate_edit
from generators.templates.scoring.score import Failure, Scores, score_both
from generators.templates.scoring.scorer import AnswerScore, Key
from registry.files import write_whole
from study.errors import StudyError
from study.extras.templates.run_tree import NoTreeError, RunFiles, SampleFiles, Tree, parse_remaps

PRECHECK, RESPONSES, SCORES = "precheck.jsonl", "responses.jsonl", "scores.json"
CONVERSATIONS = "conversations"
BEFORE = "scores.before.json"  # the earlier scores of another program
MISSING = "missing response"
UNDETERMINED = "undetermined"
LOST = "lost run"
_NO_TREE = "the sandbox tree is not there, so this cannot be scored"
_MOST_LINE = 1 << 29
_BY_RESPONSE = ("stringmatch", "jsonmatch")
_BY_FILE = ("readfile_stringmatch", "readfile_jsonmatch", "readfile_jsonedit")
_BY_PATHS = {"files_exist": "files_to_check", "directory_structure": "expected_paths"}

_ID = (str, int, float)

Id = tuple[Any, Any]  # question_id and sample_number, as they are written


@dataclass(frozen=True, slots=True)
class Sample:
    """A line of ``precheck.jsonl``: the question, and the key to it."""

    line: int
    id: Id
    key: Key

    @property
    def qs_id(self) -> str:
        """The sample's name, ``q<question>_s<number>``, as PICARD writes it."""
        return f"q{self.id[0]}_s{self.id[1]}"

    @property
    def paths(self) -> list[str]:
        """The paths that its key looks at."""
        return [path for path in (self.key.file, *self.key.paths) if path]


class Lost(str):
    """In place of a response: the cause for which a run failed, which was not the model."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one sample; without scores if there is no response, or if it is undetermined: it
    asks for files and the tree is not there, or its run was lost."""

    sample: Sample
    scores: Scores | None
    reason: str = ""  # why there are no scores
    undetermined: bool = False
    lost: str = ""  # the cause of a lost run

    @property
    def strict(self) -> AnswerScore:
        """The score of the answer as it stands; wrong without a response, and without meaning if
        undetermined."""
        return self.scores.strict if self.scores else AnswerScore(False, self.reason)

    @property
    def lenient(self) -> AnswerScore:
        """The score with errors of format forgiven; wrong without a response."""
        return self.scores.lenient if self.scores else self.strict

    @property
    def failure(self) -> str | None:
        """The kind of the failure; None if there is none."""
        if self.undetermined:
            return LOST if self.lost else UNDETERMINED
        if self.scores is None:
            return MISSING
        return self.scores.failure.value if self.scores.failure else None


@dataclass(frozen=True, slots=True)
class RunScores:
    """A run folder, scored."""

    name: str
    at: datetime
    results: tuple[Result, ...] = field(repr=False)
    warnings: tuple[str, ...] = ()
    skipped: int = 0  # malformed lines of responses

    @property
    def undetermined(self) -> int:
        """The number of samples without a verdict."""
        return sum(result.undetermined for result in self.results)

    def as_json(self) -> dict[str, Any]:
        """The whole of ``scores.json`` but the detailed results."""
        tally = _tally(self.results)
        total = tally["total"]
        by_question = grouped(self.results, lambda result: result.sample.id[0])
        by_type = grouped(self.results, lambda result: result.sample.key.scoring_type)
        return {
            "metadata": {
                "test_id": self.name,
                "timestamp": self.at.strftime("%Y%m%d_%H%M%S"),
                "total_questions": total,
                "correct_answers": tally["correct"],
                "accuracy_percentage": _percentage(tally["correct"], total),
                "scorer": "dosimeter",
                "lenient_correct_answers": tally["lenient_correct"],
                "lenient_accuracy_percentage": _percentage(tally["lenient_correct"], total),
                **{name: n for name, n in tally.items() if not name.endswith(("correct", "total"))},
                "malformed_responses": self.skipped,
                "warnings": list(self.warnings),
            },
            "by_question": {
                str(question): {
                    **_tally(results),
                    "scoring_type": results[0].sample.key.scoring_type,
                }
                for question, results in by_question.items()
            },
            "by_scoring_type": {name: _tally(results) for name, results in by_type.items()},
        }

    def details(self) -> Iterator[dict[str, Any]]:
        """The detailed results, in the order of the precheck."""
        at = self.at.isoformat()
        for result in self.results:
            strict = result.strict
            question, number = result.sample.id
            yield {
                "question_id": question,
                "sample_number": number,
                "scoring_type": result.sample.key.scoring_type,
                "correct": None if result.undetermined else strict.correct,
                "error_message": strict.error or None,
                "details": strict.details,
                "timestamp": at,
                "lenient_correct": None if result.undetermined else result.lenient.correct,
                "failure": result.failure,
            }


def score_run(run: Path, at: datetime, remaps: Sequence[str] = ()) -> RunScores:
    """Score a run folder; writes nothing.

    Raises StudyError, which names file and line, for a folder without its two files, a malformed
    line of the key, a path that leads out of the run folder or that no ``--remap`` covers, an
    unknown scoring type, and a bad zip. Malformed lines of responses are skipped and counted.
    """
    samples = read_samples(run / PRECHECK)
    responses, skipped = read_responses(run / RESPONSES)
    paths = (path for sample in samples for path in sample.paths)
    files = RunFiles(run, parse_remaps(remaps, run), paths)
    lacking, doubts = _check_paths(samples, files)
    if skipped:  # a line that cannot be read may be of any of them
        unread = Lost(f"its response is not among the lines of {RESPONSES} that can be read")
        responses = {sample.id: unread for sample in samples} | responses
    results = tuple([_score(sample, responses, files, lacking) for sample in samples])
    warnings = (
        [f"malformed lines skipped: {len(skipped)}; the first: {skipped[0]}"] if skipped else []
    )
    if lost := sum(bool(result.lost) for result in results):
        warnings.append(f"runs that failed, without a verdict: {lost}")
    if left_over := len(responses.keys() - {sample.id for sample in samples}):
        warnings.append(f"{left_over} responses are to no sample of {PRECHECK}; left out")
    warnings += doubts
    return RunScores(run.resolve().name, at, results, tuple(warnings), len(skipped))


def named_folders(texts: Iterable[str]) -> list[tuple[str, Path]]:
    """Parse ``MODEL=DIR``, or ``DIR`` with the model's name. Raises StudyError for a name
    that cannot be printed."""
    named = []
    for text in texts:
        name, equals, folder = text.partition("=")
        if not equals or not name or Path(text).is_dir():
            name, folder = Path(text).resolve().name, text
        if not name.isprintable():
            raise StudyError(f"{text!r}: a model's name is of characters that can be printed")
        named.append((name, Path(folder)))
    return named


@dataclass(frozen=True, slots=True)
class ModelRun:
    """A scored run folder of a model. A model's further folders are replicates of its first;
    ``rounds`` are inference rounds by the name of the sample."""

    model: str
    folder: Path
    replicate: int
    scores: RunScores
    rounds: Mapping[str, int | None]

    @property
    def warnings(self) -> list[str]:
        """The warnings about the folder, naming it."""
        return [f"{self.folder}: {warning}" for warning in self.scores.warnings]


def score_runs(
    folders: Sequence[tuple[str, Path]], at: datetime, remaps: Sequence[str]
) -> Iterator[ModelRun]:
    """Score the run folders of some models, as ``score_run`` does. Raises StudyError for malformed
    lines, too."""
    replicates: Counter[str] = Counter()
    for model, folder in folders:
        scores = score_run(folder, at, remaps)
        if scores.skipped:
            raise StudyError(f"{folder}: {scores.warnings[0]}; mend or remove them")
        yield ModelRun(model, folder, replicates[model], scores, read_rounds(folder))
        replicates[model] += 1


def write_scores(run: Path, scores: RunScores) -> Path:
    """Write ``scores.json`` atomically. Scores of another program are saved as
    ``scores.before.json``. Raises StudyError."""
    head = json.dumps(scores.as_json(), indent=2)[:-2]
    rows = ",\n".join([f"    {json.dumps(row, default=repr)}" for row in scores.details()])
    path = run / SCORES
    try:
        if _is_anothers(path) and not (run / BEFORE).exists():
            os.link(path, run / BEFORE)
        write_whole(path, f'{head},\n  "detailed_results": [\n{rows}\n  ]\n}}\n')
    except OSError as error:
        raise StudyError(f"{path}: cannot be written: {error.strerror}") from None
    return path


# --- reading


def read_samples(path: Path) -> tuple[Sample, ...]:
    """The samples of ``precheck.jsonl``. Raises StudyError naming the line."""
    samples = tuple([_sample(line) for line in _lines(path)])
    if not samples:
        raise StudyError(f"{path}: holds no sample")
    return samples


def read_responses(path: Path) -> tuple[dict[Id, Any], list[str]]:
    """Return the last response to each sample, or that its run was lost, and why each malformed
    line was skipped. Raises StudyError for a file that cannot be read."""
    responses: dict[Id, Any] = {}
    skipped: list[str] = []
    for line in _lines(path, skipped):
        try:
            response = line.entry.get("response_text", "")
            if line.entry.get("execution_successful", True) is not True:
                cause = "".join(filter(str.isprintable, str(line.entry.get("error_message") or "")))
                response = Lost(cause[:100] or "unknown")
            responses[line.id()] = response
        except StudyError as error:
            skipped.append(str(error))
    return responses, skipped


def read_rounds(run: Path) -> dict[str, int | None]:
    """The inference rounds in ``conversations/q<id>_s<n>.json``, by ``q<id>_s<n>``; None if a file
    does not say; nothing without the folder.

    Raises StudyError naming the file that cannot be read.
    """
    rounds = {}
    for path in sorted((run / CONVERSATIONS).glob("q*_s*.json")):
        try:
            count = (json.loads(path.read_bytes()).get("statistics") or {}).get("inference_rounds")
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise StudyError(f"{path}: is no conversation: {error}") from None
        rounds[path.stem] = count if type(count) is int else None
    return rounds


@dataclass(frozen=True, slots=True)
class _Line:
    """An object of a file, one a line. A wrong field raises StudyError that names the line."""

    path: Path
    number: int
    entry: Mapping[str, Any]

    def error(self, message: str) -> StudyError:
        return StudyError(f"{self.path}:{self.number}: {message}")

    def id(self) -> Id:
        ids = self.entry.get("question_id"), self.entry.get("sample_number")
        if not all(isinstance(value, _ID) for value in ids):
            raise self.error("lacks a question_id or a sample_number")
        for value in ids:
            if type(value) is not int and not _is_writable(value):
                raise self.error(f"{value!r:.40} is no id: give a number or a text")
        return ids

    def text(self, name: str) -> str:
        value = self.entry.get(name, "")
        if not isinstance(value, str):
            raise self.error(f"{name}: must be a text, not {value!r:.40}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.entry.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(f"{name}: must be a list of texts")
        return tuple(value)


def _lines(path: Path, skipped: list[str] | None = None) -> Iterator[_Line]:
    """The objects of a file; blank lines do not count. Malformed ones are added to ``skipped`` if
    it is given; otherwise StudyError is raised."""
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(iter(partial(file.readline, _MOST_LINE), b""), 1):
                line = _first(path, line) if number == 1 else line
                if line.isspace():
                    continue
                try:
                    yield _Line(path, number, _entry(line))
                except ValueError as error:
                    reason = f"{path}:{number}: is no JSON {error}"
                    if skipped is None:
                        raise StudyError(f"{reason}; mend or remove the line") from None
                    skipped.append(reason)
    except OSError as error:
        raise StudyError(
            f"{path}: {error.strerror}; a run folder holds {PRECHECK} and {RESPONSES}"
        ) from None


def _first(path: Path, line: bytes) -> bytes:
    """The first line without a byte order mark. Raises StudyError for other forms of file."""
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise StudyError(f"{path}: is UTF-16; write it as UTF-8")
    line = line.removeprefix(codecs.BOM_UTF8)
    if line.lstrip().startswith(b"["):
        raise StudyError(f"{path}: is a JSON array; write an object a line, without brackets")
    return line


def _entry(line: bytes) -> Mapping[str, Any]:
    """The object of a line. Raises ValueError."""
    try:
        entry = json.loads(line.decode().strip())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"({error})") from None
    if not isinstance(entry, dict):
        raise ValueError("object")
    return entry


def _sample(line: _Line) -> Sample:
    kind = line.text("scoring_type")
    if not kind:
        raise line.error("lacks scoring_type")
    key = _edit_key(line) if kind == TARGETED_EDIT else _key(line, kind)
    return Sample(line.number, line.id(), key)


def _key(line: _Line, kind: str) -> Key:
    """The key of a type: for types of others, all that a key may hold."""
    if kind in _BY_RESPONSE:
        return Key(kind, line.text("expected_response"))
    if kind in _BY_FILE:
        return Key(kind, line.text("expected_content"), line.text("file_to_read"))
    if kind in _BY_PATHS:
        return Key(kind, paths=line.texts(_BY_PATHS[kind]))
    expected = line.text("expected_content") or line.text("expected_response")
    paths = line.texts("files_to_check") or line.texts("expected_paths")
    return Key(kind, expected, line.text("file_to_read"), paths)


def _edit_key(line: _Line) -> Key:
    """Return the original's experimental type for edits as a key, unchecked fields included."""
    lacking = [name for name in TARGETED_KEYS if name not in line.entry]
    if lacking:
        raise line.error(f"lacks {lacking[0]}")
    original, modified = map(line.text, ("original_file", "modified_file"))
    try:
        expected = translate_edit(original, line.entry["edit_verification"])
    except TemplateError as error:
        raise line.error(f"edit_verification: {error}") from None
    return Key(JSON_EDIT, json.dumps(expected), modified)


def _is_writable(value: object) -> bool:
    """True if JSON and UTF-8 can represent it: no NaN, no infinity, no half of a character."""
    if isinstance(value, float):
        return isfinite(value)
    return not isinstance(value, str) or value.encode(errors="replace").decode() == value


# --- scoring


def _check_paths(samples: Sequence[Sample], files: RunFiles) -> tuple[set[int], list[str]]:
    """The lines of samples that ask for files of a tree that is not there, and warnings about
    trees. Raises StudyError for the first path that leads where nothing may be read."""
    asked: dict[int, list[Tree | None]] = {}
    there: set[int] = set()  # trees that some path shows to be the right ones
    advice = ""
    for sample in samples:
        for path in sample.paths:
            tree = None
            try:
                tree, inner = files.locate(sample.qs_id, path)
                if id(tree) not in there and files.shows(tree, inner):
                    there.add(id(tree))
            except NoTreeError as error:
                advice = advice or str(error)
            except StudyError as error:
                raise StudyError(f"{files.run / PRECHECK}:{sample.line}: {error}") from None
            asked.setdefault(sample.line, []).append(tree)
    lacking = {
        line for line, trees in asked.items() if any(id(tree) not in there for tree in trees)
    }
    found = files.found
    warnings = [f"paths below {found.old} are read from {found.tree.name}"] if found else []
    if lacking:
        reason = advice or "none of the paths is there: is the sandbox the right one?"
        warnings.append(
            f"{len(lacking)} of the {len(asked)} questions about files are undetermined, for the "
            f"sandbox tree is not there: {reason}"
        )
    return lacking, warnings


def _score(
    sample: Sample, responses: Mapping[Id, Any], files: RunFiles, lacking: set[int]
) -> Result:
    if sample.id not in responses:
        return Result(sample, None, f"{RESPONSES} holds no response to it")
    if sample.line in lacking:
        return Result(sample, None, _NO_TREE, undetermined=True)
    response = responses[sample.id]
    if isinstance(response, Lost):
        return Result(sample, None, f"its run failed: {response}", True, str(response))
    try:
        return Result(sample, score_both(sample.key, response, SampleFiles(files, sample.qs_id)))
    except TemplateError as error:
        raise StudyError(f"{files.run / PRECHECK}:{sample.line}: {error}") from None


# --- counting and writing


def _tally(results: Sequence[Result]) -> dict[str, int]:
    failures = [result.failure for result in results]
    undetermined, lost = failures.count(UNDETERMINED), failures.count(LOST)
    return {
        "correct": sum(result.strict.correct for result in results),
        "total": len(results) - undetermined - lost,
        "lenient_correct": sum(result.lenient.correct for result in results),
        "formatting_failures": failures.count(Failure.FORMATTING.value),
        "task_failures": failures.count(Failure.TASK.value),
        "missing_responses": failures.count(MISSING),
        "undetermined": undetermined,
        "lost_runs": lost,
    }


def _percentage(part: int, total: int) -> float | None:
    return round(100 * part / total, 2) if total else None


def _is_anothers(path: Path) -> bool:
    """True if the file holds scores in the original's shape that dosimeter did not write."""
    try:
        scores = json.loads(path.read_bytes())
        return "detailed_results" in scores and scores["metadata"].get("scorer") != "dosimeter"
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False
