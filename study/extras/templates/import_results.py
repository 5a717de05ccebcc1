"""``dosimeter import``: run folders of PICARD and of PARAMETR-Bench as rows that can be tested."""

from __future__ import annotations

import fcntl
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from analysis.templates.breakdown import cluster_half_width
from generators.yaml_lines import key_of
from registry.canonical import digest_value
from registry.result_row import GRADER, Arm, ResultRow, Status
from study.errors import StudyError
from study.extras.templates.run_folder import ModelRun, Result, score_runs
from study.files import read_from_elsewhere

RESULTS = re.compile(r"^(_partial-)?benchmark_results(_judge_.+)?\.json$")
_DIMENSIONS: Mapping[str, str] = {
    "sr": "score_sr",
    "scientific reasoning": "score_sr",
    "dh": "score_dh",
    "data handling": "score_dh",
    "im": "score_im",
    "image data extraction": "score_im",
    "image": "score_im",
    "if": "score_if",
    "instruction following": "score_if",
    "instructions following": "score_if",
}
_MAX_BYTES = 200_000_000
_Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Overall:
    """One file of results: its score as the original computes it, the original's interval, which
    takes criteria as independent, and one that knows that those of a seed go together."""

    source: str
    model: str
    grader: str
    score: float
    interval: tuple[float, float]
    clustered: tuple[float, float] | None  # None for fewer than two seeds
    seeds: int
    dimensions: Mapping[str, float | None]  # None if its weights are 0


@dataclass(frozen=True, slots=True)
class Imported:
    rows: tuple[ResultRow, ...]
    overall: tuple[Overall, ...]
    warnings: tuple[str, ...]


def import_picard(
    folders: Sequence[tuple[str, Path]], arm: Arm, look: int, at: datetime, remaps: Sequence[str]
) -> Imported:
    """Rows of run folders, each a model's, scored strictly. A sample without a response is the
    model's failure, 0, as the original counts it; one whose run failed is missing. The same sample
    in two folders of one model is a replicate. Raises StudyError as ``score_run`` does."""
    rows: list[ResultRow] = []
    warnings: list[str] = []
    for run in score_runs(folders, at, remaps):
        warnings += run.warnings
        rows += [_picard_row(result, run, arm, look) for result in run.scores.results]
    return Imported(tuple(rows), (), tuple(warnings))


def import_parametr(folders: Sequence[Path], arm: Arm, look: int) -> Imported:
    """Rows of result folders: every ``benchmark_results_judge_*.json`` below them, whole ones or,
    where there are no others, partial ones. A row is a task and seed as one judge graded it. The
    same from another folder, or twice in a file, is a replicate; another file of that judge in one
    folder (``…_1.json``) grades the same responses again, as the grader ``JUDGE/again-1``.

    Raises StudyError that names file and key for any other file, and if the overall score
    of a file is not the one that it states.
    """
    rows: list[ResultRow] = []
    overall: list[Overall] = []
    warnings: list[str] = []
    runs: dict[tuple[str, str], dict[tuple[Path, int], int]] = defaultdict(dict)
    gradings: Counter[tuple[Path, str, str]] = Counter()
    for folder in folders:
        for path in _result_files(folder):
            if path.name.startswith("_partial-"):
                warnings.append(f"{path}: a partial run; what it lacks is not in the table")
            results = _read(path)
            overall.append(_overall(path, results))
            again = gradings[path.parent, overall[-1].model, overall[-1].grader]
            gradings[path.parent, overall[-1].model, overall[-1].grader] += 1
            inside: Counter[tuple[str, str, str]] = Counter()
            for row in (_parametr_row(task, arm, look) for task in results.task_results):
                run, known = (row.model, row.instance, row.grader), runs[row.model, row.instance]
                replicate = known.setdefault((path.parent, inside[run]), len(known))
                grader = f"{row.grader}/again-{again}" if again else row.grader
                rows.append(replace(row, replicate=replicate, grader=grader))
                inside[run] += 1
    if not rows:
        raise StudyError(f"{folders[0]}: no benchmark_results_judge_*.json here or below")
    return Imported(tuple(rows), tuple(overall), tuple(warnings))


# -- PICARD -------------------------------------------------------------------------------------


def _picard_row(result: Result, run: ModelRun, arm: Arm, look: int) -> ResultRow:
    sample, answered = result.sample, result.scores is not None
    status = Status.SCORED if answered else Status.MODEL_FAILURE
    status = Status.MISSING if result.undetermined else status
    return make_row(
        wave=look,
        model=run.model,
        arm=arm,
        stratum=f"picard/q{sample.id[0]}",
        # A sample's number is reused by every preparation; its question is not.
        instance=str(digest_value([sample.qs_id, repr(sample.key)])),
        replicate=run.replicate,
        grader=GRADER,
        status=status,
        score=None if result.undetermined else float(result.strict.correct),
        passed=None if result.undetermined else int(result.strict.correct),
        total=None if result.undetermined else 1,
        stop_reason="" if result.lost else "answered" if answered else "no response",
        error_class=result.lost,
        turns=run.rounds.get(sample.qs_id) or 0,
    )


# -- PARAMETR-Bench -----------------------------------------------------------------------------


def _printable(name: str) -> str:
    if not name or not name.isprintable():
        raise ValueError("a name is wanted, of characters that can be printed")
    return name


_Name = Annotated[str, AfterValidator(_printable)]  # that a row may have
_Number = Annotated[int, Field(strict=True, ge=0)]


class _Part(BaseModel):
    """One metarubric of one task and seed."""

    dimension: str = ""
    weight: float = Field(strict=True, ge=0, allow_inf_nan=False)
    passed: _Number
    total: _Number

    @field_validator("dimension", mode="before")
    @classmethod
    def _as_column(cls, value: Any) -> str:
        return _DIMENSIONS.get(str(value).strip().lower(), "")

    @model_validator(mode="after")
    def _add_up(self) -> Self:
        if self.passed > self.total:
            raise ValueError(f"passed {self.passed} of total {self.total}: at most all can be")
        return self

    @property
    def rate(self) -> float:
        return self.passed / self.total if self.total else 0.0


class _Task(BaseModel):
    model: _Name
    judge: str
    task: _Name
    difficulty: _Name
    seed: str = Field(coerce_numbers_to_str=True)
    metarubrics: tuple[_Part, ...]

    @field_validator("judge")
    @classmethod
    def _named(cls, value: str) -> str:
        return _printable(value or "unknown judge")


class _Results(BaseModel):
    task_results: tuple[_Task, ...] = Field(min_length=1)
    summary: Any = None


def _result_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise StudyError(f"{folder}: no such folder")
    paths = sorted(path for path in folder.rglob("*.json") if RESULTS.match(path.name))
    whole = {path.parent for path in paths if not path.name.startswith("_partial-")}
    return [
        path for path in paths if not path.name.startswith("_partial-") or path.parent not in whole
    ]


def _read(path: Path) -> _Results:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise StudyError(f"{path}: more than {_MAX_BYTES:,} bytes")
        return _Results.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StudyError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise StudyError(f"{path}: {key_of(first['loc'])}: {first['msg']}") from None


def _overall(path: Path, results: _Results) -> Overall:
    """The original's overall score and interval, checked against the file's own."""
    tasks, summary = results.task_results, results.summary
    parts = [part for task in tasks for part in task.metarubrics]
    weight, score = sum(part.weight for part in parts), _mean(parts)
    if score is None:
        raise StudyError(f"{path}: its metarubrics weigh nothing together: there is no score")
    stated = summary.get("success_rate") if isinstance(summary, dict) else None
    if isinstance(stated, int | float) and abs(stated - score) > 1e-6:
        raise StudyError(
            f"{path}: summary.success_rate is {stated}, but its task_results give {score:.6f}: the "
            "file was changed, or is of another version"
        )
    variance = sum((part.weight / weight) ** 2 * _spread(part) for part in parts if part.total)
    half = _Z * math.sqrt(variance)
    seeds = {(task.task, task.seed) for task in tasks}
    names = sorted({part.dimension for part in parts if part.dimension})
    return Overall(
        str(path),
        tasks[0].model,
        tasks[0].judge,
        score,
        (max(0.0, score - half), min(1.0, score + half)),
        clustered=_clustered(tasks, score, weight),
        seeds=len(seeds),
        dimensions={name: _mean([p for p in parts if p.dimension == name]) for name in names},
    )


def _spread(part: _Part) -> float:
    near = (part.passed + _Z**2 / 2) / (part.total + _Z**2)
    return near * (1 - near) / part.total


def _clustered(tasks: Sequence[_Task], score: float, weight: float) -> tuple[float, float] | None:
    """The ratio of sums over seeds, with the linearised variance of such a ratio."""
    errors: dict[tuple[str, str], float] = defaultdict(float)
    for task in tasks:
        errors[task.task, task.seed] += sum(p.weight * (p.rate - score) for p in task.metarubrics)
    half = cluster_half_width(errors.values(), weight)
    return None if half is None else (max(0.0, score - half), min(1.0, score + half))


def _parametr_row(task: _Task, arm: Arm, look: int) -> ResultRow:
    parts, stratum = task.metarubrics, f"{task.task}/{task.difficulty}"
    passed, total = sum(part.passed for part in parts), sum(part.total for part in parts)
    scores: dict[str, Any] = {"status": Status.MISSING}
    if total and any(part.weight for part in parts):
        scores = {"status": Status.SCORED, "score": _mean(parts), "passed": passed, "total": total}
        for dimension in {part.dimension for part in parts if part.dimension}:
            scores[dimension] = _mean([part for part in parts if part.dimension == dimension])
    return make_row(
        wave=look,
        model=task.model,
        arm=arm,
        stratum=stratum,
        instance=f"{stratum}/{task.seed}",
        grader=task.judge,
        **scores,
    )


def _mean(parts: Sequence[_Part]) -> float | None:
    weight = sum(part.weight for part in parts)
    return sum(part.weight * part.rate for part in parts) / weight if weight else None


# -- both ---------------------------------------------------------------------------------------

# Values of a row where files do not say.
_UNKNOWN: Mapping[str, Any] = {
    **dict.fromkeys(("stop_reason", "error_class", "limits_hit", "served_version"), ""),
    **dict.fromkeys(("score", "passed", "total"), None),
    **dict.fromkeys(("score_sr", "score_dh", "score_im", "score_if"), None),
    **dict.fromkeys(("input_tokens", "output_tokens", "cost_usd"), None),
    **{"replicate": 0, "turns": 0, "tool_calls": 0, "seconds": 0.0, "attempts": 1},
}


def make_row(*, stratum: str, **known: Any) -> ResultRow:
    """A row with what is known; the rest has the values of files that do not say it."""
    family, _, difficulty = stratum.partition("/")
    place = {"stratum": stratum, "family": family, "difficulty": difficulty}
    return ResultRow(**{**_UNKNOWN, **place, **known})


def write_rows(path: Path, rows: Sequence[ResultRow]) -> int:
    """Write the rows as Parquet, after those that are there, whole or not at all. How many the
    file then has. Two at once lose nothing: one waits for the other. Raises
    StudyError, as for a repeated row."""
    if path.suffix != ".parquet":
        raise StudyError(f"{path}: rows are written as .parquet")
    if not path.parent.is_dir():
        raise StudyError(f"{path.parent}: no such folder")
    # Between the reading of a file and its replacement no other import may come. The lock is on the
    # folder, so that it leaves no file behind; the kernel lets go however this process ends.
    handle = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        return _write(path, rows)
    finally:
        os.close(handle)


def _write(path: Path, rows: Sequence[ResultRow]) -> int:
    from analysis.data.table import make_table, read_rows, read_table, write_table
    from analysis.errors import AnalysisError

    before = read_from_elsewhere(read_table, path) if path.exists() else None
    all_rows = [*(read_rows(before) if before else ()), *rows]
    try:
        make_table(all_rows)
    except AnalysisError as error:
        raise StudyError(
            f"{path}: {error}; is a folder imported twice, or in both arms? Further runs of the "
            "same seeds are imported in one command with the first, which numbers them"
        ) from error
    write_table(path, all_rows)
    return len(all_rows)
