"""Results of other harnesses as rows: logs of Inspect, of lm-evaluation-harness, of Every Eval Ever
and of Harbor, and lines of JSON. Scores are taken as they are, but answers to the instances of a
release that Inspect ran are graded; what failed is missing."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

from pydantic import BaseModel, ConfigDict, Field

from publish.errors import PublishError
from publish.released import grade_released, is_released, released_of
from registry.result_row import GRADER, Arm, Status
from study.errors import StudyError
from study.extras.tables.every_eval_ever import read_eee
from study.extras.tables.sample import (
    NO_SCORE,
    Log,
    Sample,
    digest_of,
    json_lines,
    number_of,
    parse_as,
)
from study.extras.templates.import_results import Imported, make_row
from study.files import read_from_elsewhere

_MOST_BYTES = 2_000_000_000
_UNREAD = {"messages", "events", "output", "store", "attachments", "timelines"}  # long, of Inspect
_CUT_OFF = "(content truncated)"  # as Inspect marks it


def import_logs(kind: str, places: Sequence[str], arm: Arm) -> Imported:
    """Rows of the logs that lie at ``places``: files or folders, after ``STRATUM=`` if the stratum
    is not the task. Of one model on one sample, further runs are replicates. Raises StudyError that
    names file and place."""
    pattern, read = KINDS[kind]
    seen: set[str] = set()
    samples: list[tuple[str, Sample]] = []
    warnings: list[str] = []
    for stratum, place in map(named_place, places):
        for path in files_of(place, pattern):
            log = read_from_elsewhere(read, path)
            warnings += log.warnings
            for sample in log.samples:
                if not (sample.model and (stratum or sample.task)):
                    lacks = "task" if sample.model else "model"
                    raise StudyError(f"{path}: sample {sample.id!r} names no {lacks}")
                if not sample.run or sample.run not in seen:
                    seen.add(sample.run)
                    samples.append((stratum or sample.task, sample))
    graders = sorted({name for _, sample in samples for name in sample.scores})
    if not graders:
        raise StudyError(f"{places[0]}: none of its samples has a score")
    runs: Counter[tuple[str, str, str]] = Counter()
    rows = []
    for stratum, sample in samples:
        for grader in graders if sample.error else sample.scores:
            instance = f"{stratum}/{sample.sample}"
            replicate = runs[sample.model, grader, instance]
            runs[sample.model, grader, instance] += 1
            score = None if sample.error else sample.scores[grader]
            row = make_row(
                wave=0,
                model=sample.model,
                arm=arm,
                stratum=stratum,
                instance=instance,
                replicate=replicate,
                grader=GRADER if len(graders) == 1 else grader,
                status=Status.MISSING if score is None else Status.SCORED,
                score=score,
                error_class=sample.error or (NO_SCORE if score is None else ""),
                **sample.columns,
            )
            rows.append(row)
    return Imported(tuple(rows), (), tuple(warnings))


def named_place(place: str) -> tuple[str, Path]:
    """A name before "=", or "", and a path."""
    name, equals, path = place.partition("=")
    return (name, Path(path)) if equals and not Path(place).exists() else ("", Path(place))


def files_of(place: Path, pattern: str) -> list[Path]:
    """The files of a folder whose names fit the pattern, or the file itself. Raises StudyError."""
    found = sorted(place.rglob(pattern)) if place.is_dir() else [place]
    if not found:
        raise StudyError(f"{place}: no {pattern} here or below")
    for path in found:
        try:
            size = path.stat().st_size
        except OSError as error:
            raise StudyError(f"{path}: cannot be read: {error.strerror}") from None
        if size > _MOST_BYTES:
            raise StudyError(f"{path}: more than {_MOST_BYTES:,} bytes")
    return found


# -- Inspect


def _read_inspect(path: Path, answers: bool = False) -> Log:
    """A log of Inspect, whole or as far as it came; with ``answers`` if asked for, which takes
    longer."""
    from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

    try:
        log = read_eval_log(path, header_only=True)
        found: Sequence[Any] = [] if answers else read_eval_log_sample_summaries(path)
        answers = answers or any(is_released(each.metadata) for each in found)
        # A summary's question is without pictures, and cut off where it is long.
        if answers or not all(isinstance(s.input, str) and _CUT_OFF not in s.input for s in found):
            unread = _UNREAD - {"output"} if answers else _UNREAD
            found = sorted(_stored_samples(path, unread), key=lambda sample: sample.epoch)
    except Exception as error:  # of any kind: the file is untrusted, and its reader not ours
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise StudyError(f"{path}: not a log of Inspect that can be read ({reason})") from None
    samples = [_inspect_sample(path, log.eval, each) for each in found]
    owed = (log.eval.dataset.samples or 0) * (log.eval.config.epochs or 1)
    warnings = []
    if log.status != "success" or len(samples) < owed:
        there = f"{len(samples)} of {owed} samples"
        warnings = [f"{path}: status {log.status}, {there}: those that lack are not in the table"]
    version = log.eval.packages.get("inspect_ai", "of unknown version")
    return Log(tuple(samples), tuple(warnings), f"Inspect {version}")


def _stored_samples(path: Path, unread: Set[str]) -> Iterator[Any]:
    """Yield the samples of a log without some fields. Inspect's own reader awaits each read of an
    archive, which takes five times as long. Raises as it does, BadZipFile, and ValueError."""
    from inspect_ai.log import EvalSample, read_eval_log

    if not is_zipfile(path):
        yield from read_eval_log(path).samples or ()
        return
    with ZipFile(path) as archive:
        for name in dict.fromkeys(archive.namelist()):  # the last of a name counts
            if name.startswith("samples/") and name.endswith(".json"):
                body = json.loads(archive.read(name))
                yield EvalSample.model_validate({k: body[k] for k in body.keys() - unread})


def _inspect_sample(path: Path, header: Any, sample: Any) -> Sample:
    place = f"{path}: sample {sample.id}"
    scores = {n: number_of(s.value, f"{place}, {n}") for n, s in (sample.scores or {}).items()}
    answers = (sample.output.completion,) if hasattr(sample, "output") else ()
    usage = (sample.model_usage or {}).values()
    columns: dict[str, Any] = {"limits_hit": str(getattr(sample.limit, "type", sample.limit or ""))}
    if usage:
        columns["input_tokens"] = sum(each.input_tokens for each in usage)
        columns["output_tokens"] = sum(each.output_tokens for each in usage)
    asked = sample.model_dump(
        include={"input", "target", "choices"}, exclude={"input": {"__all__": {"id"}}}
    )
    made = Sample(
        model=header.model,
        task=header.task,
        sample=f"{sample.id}-{digest_of(asked, sample.target, sample.choices)}",
        scores=scores,
        error="" if scores else "error" if sample.error else NO_SCORE,
        run=sample.uuid or "",
        columns=columns,
        id=str(sample.id),
        answers=answers,
        epoch=sample.epoch,
    )
    return _graded(made, sample.metadata, place) if is_released(sample.metadata) else made


def _graded(sample: Sample, metadata: Mapping[str, Any], place: str) -> Sample:
    """Return the run of a released instance under its name there, with the score of the study's
    rules if it has an answer. Raises StudyError that names the place."""
    released = released_of(metadata)
    if sample.error or not sample.answers:
        scores = sample.scores
    else:
        try:
            scores = {GRADER: grade_released(released, sample.answers[0])}
        except PublishError as error:
            raise StudyError(f"{place}: {error}") from None
    return replace(sample, task=released.stratum, sample=released.instance, scores=scores)


# -- lm-evaluation-harness


class _Document(BaseModel):
    doc_id: int | str
    doc: Any = None
    doc_hash: str = ""
    resps: tuple[tuple[Any, ...], ...] = ()
    filter: str = "none"
    metrics: tuple[str, ...]
    model_config = ConfigDict(extra="allow")

    @property
    def values(self) -> dict[str, object]:
        """The value of each metric."""
        given = self.model_extra or {}
        suffix = "" if self.filter == "none" else f",{self.filter}"
        return {f"{name}{suffix}": given.get(name) for name in self.metrics}

    @property
    def answers(self) -> tuple[str, ...]:
        """The texts that were generated."""
        first = self.resps[0] if len(self.resps) == 1 else ()
        return tuple(text for text in first if isinstance(text, str))


def _read_lm_eval(path: Path) -> Log:
    """A file of samples; the model is named in the file of results beside it. A metric is a score
    if all of its numbers lie in 0 to 1; where a sample has none, it is missing."""
    task, _, date = path.stem.removeprefix("samples_").rpartition("_")
    if not path.name.startswith("samples_") or not task:
        raise StudyError(f"{path}: samples of lm-evaluation-harness lie in samples_TASK_DATE.jsonl")
    results, what = _lm_eval_results(path, date), "a sample of lm-evaluation-harness"
    documents = [parse_as(_Document, row, place, what) for place, row in json_lines(path)]
    names = dict.fromkeys(name for each in documents for name in each.values)
    given = {
        name: [each.values[name] for each in documents if name in each.values] for name in names
    }
    scores = {name for name, values in given.items() if _are_scores(values)}
    samples = [
        Sample(
            results.model_name,
            task,
            f"{each.doc_id}-{each.doc_hash[:16] or digest_of(each.doc)}",
            {
                n: number_of(math.nan if v is None else v, n)
                for n, v in each.values.items()
                if n in scores
            },
            id=str(each.doc.get("id", "") if isinstance(each.doc, dict) else ""),
            answers=each.answers,
        )
        for each in documents
    ]
    left = sorted(name for name in {*given} - scores if any(given[name]))
    warnings = [f"{path}: {name} is no number from 0 to 1, and is left out" for name in left]
    return Log(tuple(samples), tuple(warnings), f"lm-evaluation-harness {results.version}")


def _are_scores(values: Sequence[object]) -> bool:
    """Report whether values are numbers from 0 to 1, but for those that are not there."""
    known = [value for value in values if value is not None and value == value]
    return bool(known) and all(isinstance(v, int | float) and 0 <= v <= 1 for v in known)


class _Results(BaseModel):
    model_name: str = Field(min_length=1)
    version: str = Field(default="of unknown version", alias="lm_eval_version")


def _lm_eval_results(path: Path, date: str) -> _Results:
    results = [*path.parent.glob(f"*{date}.json")]
    if len(results) != 1:
        raise StudyError(f"{path}: no results_{date}.json beside it, which names the model")
    value = _json(results[0])
    return parse_as(_Results, value, str(results[0]), "results of lm-evaluation-harness")


# -- Harbor


class _Name(BaseModel):
    name: str = Field(min_length=1)


class _Agent(_Name):
    version: str = "of unknown version"
    model_info: _Name | None = None


class _Verified(BaseModel):
    rewards: dict[str, Any] | None = None


class _Failure(BaseModel):
    exception_type: str = ""


class _Trial(BaseModel):
    """A trial's result.json, as far as it is read."""

    id: str = ""
    task_name: str = Field(min_length=1)
    source: str | None = None
    agent_info: _Agent
    verifier_result: _Verified | None = None
    exception_info: _Failure | None = None
    reward_valid: bool | None = None


def _read_harbor(path: Path) -> Log:
    """One trial of Harbor; the file of a whole job, which has the same name, has no trial."""
    value = _json(path)
    if not isinstance(value, dict) or "trial_name" not in value:
        return Log(())
    trial = parse_as(_Trial, value, str(path), "a trial of Harbor")
    agent, model = trial.agent_info.name, trial.agent_info.model_info
    rewards = (trial.verifier_result.rewards if trial.verifier_result else None) or {}
    lost = not rewards or trial.reward_valid is False
    failure = (trial.exception_info and trial.exception_info.exception_type) or "no reward"
    sample = Sample(
        model=f"{model.name} by {agent}" if model else agent,
        task=trial.source or trial.task_name.rpartition("/")[0] or "harbor",
        sample=trial.task_name,
        scores={} if lost else {n: number_of(r, f"{path}: reward {n}") for n, r in rewards.items()},
        error=failure if lost else "",
        run=trial.id,
        id=trial.task_name.rpartition("/")[2],
    )
    return Log((sample,), (), f"Harbor with {agent} {trial.agent_info.version}")


# -- lines of JSON


class _Line(BaseModel):
    """A run, as anybody may write it."""

    id: str = Field(min_length=1, coerce_numbers_to_str=True)
    model: str = ""
    task: str = ""
    stratum: str = ""
    epoch: int = Field(default=1, ge=1)
    score: float | str | None = None
    answer: str | None = None
    error: Any = None


def _read_jsonl(path: Path) -> Log:
    """Lines with ``id`` and ``score`` or ``answer``, and what else ``_Line`` has."""
    samples = []
    for place, row in json_lines(path):
        one = parse_as(_Line, row, place, "a run")
        given = None if one.error else one.score
        sample = Sample(
            model=one.model,
            task=one.stratum or one.task,
            sample=one.id,
            scores={"score": None if given is None else number_of(given, f"{place}: score")},
            error="error" if one.error else "",
            id=one.id,
            answers=() if one.answer is None else (one.answer,),
            epoch=one.epoch,
        )
        samples.append(sample)
    return Log(tuple(samples), (), "a harness that JSON lines do not name")


# -- all


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StudyError(f"{path}: not a JSON file that can be read") from error


KINDS: Mapping[str, tuple[str, Callable[[Path], Log]]] = {
    "inspect": ("*.eval", _read_inspect),
    "lm-eval": ("samples_*.jsonl", _read_lm_eval),
    "eee": ("*.jsonl", read_eee),
    "harbor": ("result.json", _read_harbor),
    "jsonl": ("*.jsonl", _read_jsonl),
}
WITH_ANSWERS: Mapping[str, tuple[str, Callable[[Path], Log]]] = {
    **KINDS,
    "inspect": ("*.eval", partial(_read_inspect, answers=True)),
}
