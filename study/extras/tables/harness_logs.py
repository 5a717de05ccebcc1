"""Results of other harnesses as rows: logs of Inspect, of lm-evaluation-harness, of Every Eval Ever
and of Harbor. Scores are taken as they are; what failed is missing."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from registry.result_row import GRADER, Arm, Status
from study.errors import StudyError
from study.extras.templates.import_results import Imported, make_row
from study.files import read_from_elsewhere

HARNESSES: Mapping[str, str] = {
    "inspect": "Inspect",
    "lm-eval": "lm-evaluation-harness",
    "eee": "Every Eval Ever",
    "harbor": "Harbor",
}
_MOST_BYTES = 2_000_000_000
_WORDS = {"c": 1.0, "i": 0.0, "p": 0.5, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a model on a sample of a task, with its score by each grader; None where the run
    failed or the grader gave none."""

    model: str
    task: str
    sample: str
    scores: Mapping[str, float | None]
    error: str = ""  # what failed
    run: str = ""  # its own id; a run that is in several logs counts once
    columns: Mapping[str, Any] = field(default_factory=dict)  # of the row, beside these


@dataclass(frozen=True, slots=True)
class Log:
    samples: tuple[Sample, ...]
    warnings: tuple[str, ...] = ()


def import_logs(
    kind: str, places: Sequence[Path], arm: Arm, look: int, stratum: str | None = None
) -> Imported:
    """Rows of the logs that lie at ``places``, files or folders. ``stratum`` names the stratum of
    all of them, otherwise it is the task. Of one model on one sample, further runs are replicates.
    Raises StudyError that names file and place."""
    pattern, read = _KINDS[kind]
    paths = [path for place in places for path in _files(place, pattern)]
    logs = [read_from_elsewhere(read, path) for path in paths]
    seen: set[str] = set()
    samples: list[Sample] = []
    for sample in (sample for log in logs for sample in log.samples):
        if not sample.run or sample.run not in seen:
            seen.add(sample.run)
            samples.append(sample)
    graders = {name for sample in samples for name in sample.scores}
    if not graders:
        raise StudyError(f"{paths[0]}: none of its samples has a score")
    only = len(graders) == 1
    replicates: Counter[tuple[str, str, str]] = Counter()
    rows = []
    for sample in samples:
        for grader in sorted(graders) if sample.error else sorted(sample.scores):
            # Both arms of a task number their samples from one: the arm is part of the name.
            instance = f"{sample.task}/{arm}/{sample.sample}"
            key = sample.model, grader, instance
            score = None if sample.error else sample.scores[grader]
            row = make_row(
                wave=look,
                model=sample.model,
                arm=arm,
                stratum=stratum or sample.task,
                instance=instance,
                replicate=replicates[key],
                grader=GRADER if only else grader,
                status=Status.MISSING if score is None else Status.SCORED,
                score=score,
                error_class=sample.error or ("no score" if score is None else ""),
                **sample.columns,
            )
            replicates[key] += 1
            rows.append(row)
    return Imported(tuple(rows), (), tuple(text for log in logs for text in log.warnings))


def _files(place: Path, pattern: str) -> list[Path]:
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


def _number(value: object, place: str) -> float | None:
    """A score of 0 to 1, in any of the forms that harnesses write; None for NaN, which marks what
    was not scored. Raises StudyError for any other value."""
    if isinstance(value, str) and value.strip().casefold() in _WORDS:
        return _WORDS[value.strip().casefold()]
    try:
        number = float(value) if isinstance(value, int | float | str) else math.inf
    except ValueError:
        number = math.inf
    if math.isnan(number):
        return None
    if not 0 <= number <= 1:
        shown = repr(value)[:40]
        raise StudyError(f"{place}: a score is a number from 0 to 1, or C or I; here is {shown}")
    return number


# -- Inspect


def _read_inspect(path: Path) -> Log:
    """A log of Inspect, whole or as far as it came."""
    try:
        from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries
    except ImportError:
        raise StudyError(
            f"{path}: to read it install inspect-ai, dosimeter's extra inspect"
        ) from None
    try:
        log = read_eval_log(path, header_only=True)
        summaries = read_eval_log_sample_summaries(path)
    except Exception as error:  # of any kind: the file is untrusted, and its reader not ours
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise StudyError(f"{path}: not a log of Inspect that can be read ({reason})") from None
    task, model = log.eval.task, log.eval.model
    samples = [_inspect_sample(path, task, model, each) for each in summaries]
    owed = (log.eval.dataset.samples or 0) * (log.eval.config.epochs or 1)
    warnings = []
    if log.status != "success" or len(samples) < owed:
        there = f"{len(samples)} of {owed} samples"
        warnings = [f"{path}: status {log.status}, {there}: those that lack are not in the table"]
    return Log(tuple(samples), tuple(warnings))


def _inspect_sample(path: Path, task: str, model: str, summary: Any) -> Sample:
    place = f"{path}: sample {summary.id}"
    scores = {n: _number(s.value, f"{place}, {n}") for n, s in (summary.scores or {}).items()}
    usage = (summary.model_usage or {}).values()
    columns: dict[str, Any] = {"limits_hit": summary.limit or ""}
    if usage:
        columns["input_tokens"] = sum(each.input_tokens for each in usage)
        columns["output_tokens"] = sum(each.output_tokens for each in usage)
    if summary.total_time is not None:
        columns["seconds"] = float(summary.total_time)
    error = "" if scores else "error" if summary.error else "no score"
    return Sample(
        model, task, str(summary.id), scores, error=error, run=summary.uuid or "", columns=columns
    )


# -- lm-evaluation-harness


def _read_lm_eval(path: Path) -> Log:
    """A file of samples; the model is named in the file of results beside it."""
    stem, _, date = path.stem.removeprefix("samples_").rpartition("_")
    if not path.name.startswith("samples_") or not stem:
        raise StudyError(f"{path}: samples of lm-evaluation-harness lie in samples_TASK_DATE.jsonl")
    model = _lm_eval_model(path, date)
    samples, left = [], Counter[str]()
    for place, row in _json_lines(path):
        names = row.get("metrics")
        if not isinstance(names, list) or "doc_id" not in row:
            raise StudyError(
                f"{place}: not a sample of lm-evaluation-harness: no doc_id or metrics"
            )
        kept = [n for n in names if isinstance(row.get(n), int | float) and 0 <= row[n] <= 1]
        left.update(str(name) for name in names if name not in kept)
        suffix = "" if row.get("filter", "none") == "none" else f",{row['filter']}"
        scores = {f"{name}{suffix}": float(row[name]) for name in kept}
        text = json.dumps(row.get("doc"), sort_keys=True)
        name = str(row.get("doc_hash") or hashlib.sha256(text.encode()).hexdigest())
        samples.append(Sample(model, stem, f"{row['doc_id']}-{name[:16]}", scores))
    warnings = [
        f"{path}: {name} is no number from 0 to 1 in {count} samples, and is left out"
        for name, count in sorted(left.items())
    ]
    return Log(tuple(samples), tuple(warnings))


def _lm_eval_model(path: Path, date: str) -> str:
    results = [*path.parent.glob(f"*{date}.json")]
    if len(results) != 1:
        raise StudyError(
            f"{path}: the file results_{date}.json beside it names the model: it lacks"
        )
    try:
        value = json.loads(results[0].read_bytes())
    except (OSError, ValueError) as error:
        raise StudyError(f"{results[0]}: not a JSON file that can be read") from error
    name = value.get("model_name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name.strip():
        raise StudyError(f"{results[0]}: model_name is not there")
    return name


# -- Every Eval Ever


def _read_eee(path: Path) -> Log:
    """Instances of Every Eval Ever (instance_level_eval.schema.json)."""
    samples = []
    for place, row in _json_lines(path):
        try:
            model, task, name = (str(row[n]) for n in ("model_id", "evaluation_name", "sample_id"))
            value = row["evaluation"]["score"]
        except (KeyError, TypeError):
            wanted = "model_id, evaluation_name, sample_id and evaluation.score"
            raise StudyError(f"{place}: not an instance of Every Eval Ever: {wanted}") from None
        usage = row.get("token_usage") or {}
        columns = {n: usage[n] for n in ("input_tokens", "output_tokens") if n in usage}
        error = "error" if row.get("error") else ""
        score = None if error else _number(value, f"{place}: evaluation.score")
        score_of = {"score": score}
        samples.append(Sample(model, task, name, score_of, error=error, columns=columns))
    return Log(tuple(samples))


# -- Harbor


def _read_harbor(path: Path) -> Log:
    """One trial of Harbor; the file of a whole job, which has the same name, has no trial."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StudyError(f"{path}: not a JSON file that can be read") from error
    if not isinstance(value, dict) or "trial_name" not in value:
        return Log(())
    agent = value.get("agent_info") or {}
    model = (agent.get("model_info") or {}).get("name")
    name = f"{model} by {agent.get('name')}" if model else agent.get("name")
    rewards = (value.get("verifier_result") or {}).get("rewards") or {}
    if not name or not value.get("task_name"):
        raise StudyError(f"{path}: not a trial of Harbor: no agent_info or task_name")
    lost = not rewards or value.get("reward_valid") is False
    failure = (value.get("exception_info") or {}).get("exception_type") or "no reward"
    scores = {} if lost else {n: _number(r, f"{path}: reward {n}") for n, r in rewards.items()}
    task, _, sample = str(value["task_name"]).rpartition("/")
    source = str(value.get("source") or task or "harbor")
    missing, run = str(failure) if lost else "", str(value.get("id") or "")
    return Log((Sample(str(name), source, sample, scores, error=missing, run=run),))


# -- all


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the object of each line. Raises StudyError for what is no object."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                value = json.loads(line.decode("utf-8-sig"))
            except ValueError:
                raise StudyError(f"{place}: not a line of JSON in UTF-8") from None
            if not isinstance(value, dict):
                raise StudyError(f"{place}: a JSON object is wanted")
            yield place, value


_KINDS: Mapping[str, tuple[str, Callable[[Path], Log]]] = {
    "inspect": ("*.eval", _read_inspect),
    "lm-eval": ("samples_*.jsonl", _read_lm_eval),
    "eee": ("*.jsonl", _read_eee),
    "harbor": ("result.json", _read_harbor),
}
