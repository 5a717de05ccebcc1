"""Stored episodes graded again by judges: nothing is run again, and nothing is asked twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from analysis.agreement import cohen_kappa, krippendorff_alpha
from harness.codec import decode_episode
from harness.episode import Cell, Episode, Grade, GradeStatus
from harness.errors import AttemptFailed, Boundary, HarnessError, name_error
from harness.judge import Judge
from harness.judging import (
    StoreReplies,
    build_judge,
    judge_episode,
    keep_grade,
    read_grade,
)
from harness.keys import GRADES, attempt_key, hex_of, result_key
from harness.tabulate import LENIENT, EpisodeResult
from harness.work import instance_of, read_result
from registry.errors import RegistryError
from registry.records import JudgePin, record_digest
from registry.seal import decrypt
from study.alone import alone
from study.errors import StudyError
from study.folder import Study
from study.protocol import FILE_NAME
from study.runs import cells_of, finished_of, manifest_of

Watch = Callable[[str, int, int], None]  # what, done, of

# Failures of a provider that the next episode would meet as well.
_HOPELESS = frozenset(("auth", "quota", "connection", "bad_request"))


@dataclass(frozen=True, slots=True)
class GradeRequest:
    """Who grades what. ``wave`` None is every wave that was begun."""

    judges: tuple[str, ...]
    wave: int | None = None
    parallel: int = 4  # episodes at once


@dataclass(frozen=True, slots=True)
class JudgeOutcome:
    """What one judge has graded, and how it agrees with the exact grader on it."""

    judge: str
    digest: str  # of its pin
    owed: int  # episodes that have a result
    graded: int
    fresh: int  # of them, now
    criteria: int  # asked about
    ungraded: int  # of them, left without a verdict
    kappa: float | None  # with the exact grader, criterion by criterion
    failures: tuple[tuple[str, int], ...]  # why episodes are still owed, and how often


@dataclass(frozen=True, slots=True)
class GradeOutcome:
    judges: tuple[JudgeOutcome, ...]
    alpha: float | None  # Krippendorff's, over the judges, where there are several

    @property
    def complete(self) -> bool:
        return all(each.graded == each.owed for each in self.judges)


@dataclass(frozen=True, slots=True)
class _Bench:
    """One judge at work on a study."""

    study: Study
    judge: Judge
    recipients: tuple[str, ...]
    identities: tuple[str, ...] = field(repr=False)
    stop: threading.Event

    @property
    def replies(self) -> StoreReplies:
        return StoreReplies(self.study.store, self.judge.digest, self.recipients, self.identities)


def judge_pin(study: Study, name: str) -> JudgePin:
    """The judge of that name in study.yaml. Raises StudyError."""
    for pin in study.protocol.judges:
        if pin.name == name:
            return pin
    known = ", ".join(pin.name for pin in study.protocol.judges) or "none"
    raise StudyError(
        f"{study.folder / FILE_NAME}: no judge {name!r} under `judges`; known: {known}"
    )


def grade_study(study: Study, request: GradeRequest, watch: Watch) -> GradeOutcome:
    """Have each judge grade every episode that has a result, where it has not. Killed at any
    moment, it goes on where it was.

    Raises StudyError, RegistryError, HarnessError (a judge that cannot be built).
    """
    judges = [
        build_judge(judge_pin(study, name), str(study.folder.resolve())) for name in request.judges
    ]
    cells = list(results_there(study, request.wave, needed=True))
    with alone(study.folder / ".grade.lock", "another `dosimeter grade` of this study"):
        benches = [
            _Bench(study, judge, study.recipients(), study.identities(), threading.Event())
            for judge in judges
        ]
        try:
            made = [_grade_all(bench, cells, request.parallel, watch) for bench in benches]
        finally:
            for judge in judges:
                judge.close()
        return _tell(benches, cells, made)


def results_there(study: Study, wave: int | None = None, needed: bool = False) -> Iterator[Cell]:
    """The cells that have a result, of one wave or of all. Raises StudyError where they are
    ``needed`` and nothing was begun."""
    waves = range(len(study.protocol.waves)) if wave is None else [wave]
    begun = [found for each in waves if (found := manifest_of(study, each)) is not None]
    if needed and not begun:
        first = wave or 0
        raise StudyError(
            f"wave {first} was not begun; `dosimeter sweep --wave {first}` makes its episodes"
        )
    for manifest in begun:
        cells = cells_of(study, manifest)
        finished = finished_of(study, cells)
        yield from (cell for cell in cells if result_key(cell.episode) in finished)


@dataclass(frozen=True, slots=True)
class _Made:
    fresh: int
    failures: tuple[tuple[str, int], ...]


def _grade_all(bench: _Bench, cells: Sequence[Cell], parallel: int, watch: Watch) -> _Made:
    done = graded_by(bench.study, bench.judge.digest)
    owed = [cell for cell in cells if cell.episode not in done]
    failures: Counter[str] = Counter()
    finished = len(cells) - len(owed)
    with ThreadPoolExecutor(parallel, thread_name_prefix="judge") as pool:
        jobs = [pool.submit(_grade_cell, bench, cell) for cell in owed]
        try:
            for job in as_completed(jobs):
                failure = job.result()
                failures.update([failure] if failure else [])
                finished += not failure
                watch(f"judge {bench.judge.pin.name}", finished, len(cells))
        except BaseException:
            bench.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    fresh = len(owed) - failures.total()
    return _Made(fresh, tuple(sorted(failures.items())))


def _grade_cell(bench: _Bench, cell: Cell) -> str:
    """Grade one episode and keep the grade; why not, in a word, where that failed."""
    if bench.stop.is_set():
        return "not tried after that"
    try:
        episode = read_attempt(bench.study, cell.episode, bench.identities)
        grade = judge_episode(bench.judge, instance_of(cell), episode, bench.replies)
        keep_grade(bench.study.store, bench.judge.digest, grade, bench.recipients)
    except AttemptFailed as failed:
        if failed.error_class in _HOPELESS:
            bench.stop.set()
        return f"{failed.boundary}:{failed.error_class}"
    except (HarnessError, RegistryError):
        raise
    except Exception as bug:  # what it says may quote a transcript
        return f"{Boundary.WORKER}:{name_error(bug)}"
    return ""


def read_attempt(study: Study, episode: str, identities: tuple[str, ...]) -> Episode:
    """The attempt that counts, of an episode that has a result. Raises RegistryError."""
    result = read_result(study.store, result_key(episode), identities)
    key = attempt_key(episode, result.attempt)
    return decode_episode(decrypt(study.store.get(key), identities, key), key)


def graded_by(study: Study, judge: str) -> frozenset[str]:
    """The episodes that a judge has graded; ``judge`` is the digest of its pin."""
    prefix = f"{GRADES}{hex_of(judge)}/"
    keys = study.store.list(prefix)
    return frozenset(f"sha256:{key.removeprefix(prefix).removesuffix('.age')}" for key in keys)


def judge_grades(
    study: Study, results: Iterable[EpisodeResult], identities: tuple[str, ...]
) -> Iterator[tuple[EpisodeResult, Grade]]:
    """The results with each grade of a judge of study.yaml, for the judges that have graded them
    all: a column with holes would compare other episodes than its neighbour."""
    held = list(results)
    for pin in study.protocol.judges:
        digest = record_digest(pin)
        done = graded_by(study, digest)
        if not all(result.episode in done for result in held):
            continue
        for result in held:
            grade = read_grade(study.store, digest, result.episode, identities)
            if grade is not None:
                yield result, grade


def _tell(benches: Sequence[_Bench], cells: Sequence[Cell], made: Sequence[_Made]) -> GradeOutcome:
    """What was done, and how the graders agree on what they have both graded."""
    store, identities = benches[0].study.store, benches[0].identities
    truths = [read_result(store, result_key(cell.episode), identities).grade for cell in cells]
    exact = [verdict for truth in truths for verdict in truth.verdicts]
    columns: list[list[bool | None]] = []
    outcomes: list[JudgeOutcome] = []
    for bench, done in zip(benches, made, strict=True):
        grades = [read_grade(store, bench.judge.digest, x.episode, identities) for x in cells]
        said = [x.verdicts if x else (None,) * len(t.verdicts) for x, t in _both(grades, truths)]
        columns.append([verdict for verdicts in said for verdict in verdicts])
        asked = [verdict for x, t in _both(grades, truths) if x for verdict in _asked(x, t)]
        outcomes.append(
            JudgeOutcome(
                judge=bench.judge.pin.name,
                digest=bench.judge.digest,
                owed=len(cells),
                graded=sum(grade is not None for grade in grades),
                fresh=done.fresh,
                criteria=len(asked),
                ungraded=sum(verdict is None for verdict in asked),
                kappa=cohen_kappa(exact, columns[-1]),
                failures=done.failures,
            )
        )
    return GradeOutcome(tuple(outcomes), krippendorff_alpha(columns) if len(columns) > 1 else None)


def _both(
    grades: Sequence[Grade | None], truths: Sequence[Grade]
) -> Iterator[tuple[Grade | None, Grade]]:
    return zip(grades, truths, strict=True)


def _asked(grade: Grade, truth: Grade) -> Iterator[bool | None]:
    """The verdicts on what a judge is asked: all that counts, of an attempt that came through."""
    if truth.status is not GradeStatus.MISSING:
        for criterion, verdict in zip(grade.criteria, grade.verdicts, strict=True):
            if criterion != LENIENT:
                yield verdict
