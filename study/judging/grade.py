"""Stored episodes graded again by judges: nothing is run again, and nothing is asked twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial

from analysis.judges import cohen_kappa, krippendorff_alpha
from generators.task import TaskInstance
from harness.episode import Cell, Episode, Grade, GradeStatus
from harness.episodes import LENIENT
from harness.errors import AttemptFailed, Boundary
from harness.judging import (
    Judge,
    StoreReplies,
    build_judge,
    judge_episode,
    judgement_bound,
    keep_grade,
    purpose_of,
    questions_of,
    read_grade,
    submission_of,
)
from harness.spending import Account, JudgePurse, Price, spend_on
from harness.store_keys import result_key
from harness.sweep import instance_of, read_result
from registry.ledger import Graded, JudgePin, Regraded, record_digest
from study.judging.drift import archive_to_grade, share_of
from study.judging.grades import graded_by, judge_pin, read_attempt, waves_there
from study.judging.records import record_graded, record_regraded
from study.paid_calls import HELD, HOPELESS, Tried, run_each, try_unless
from study.spending import Money, check_prices, judge_money, open_judge_purse
from study.workspace import Study, exclusive

Watch = Callable[[str, int, int], None]  # what, done, of


@dataclass(frozen=True, slots=True)
class GradeRequest:
    """Who grades what. ``wave`` None is every wave that was begun; ``again_at`` is the wave at
    whose look the first wave's answers are graded once more, and nothing else."""

    judges: tuple[str, ...]
    wave: int | None = None
    parallel: int = 4  # episodes at once
    allow_unknown_price: bool = False
    again_at: int | None = None


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
    failed_tries: tuple[tuple[str, int], ...]  # requests that failed now, by class
    cost_usd: float | None  # of the replies bought now; None where that is unknown
    recorded: tuple[int, ...]  # waves of which the ledger says that it has graded them
    unpinned: tuple[int, ...]  # of them, those whose manifest does not name it


@dataclass(frozen=True, slots=True)
class GradeOutcome:
    judges: tuple[JudgeOutcome, ...]
    alpha: float | None  # Krippendorff's, over the judges, where there are several
    accounts: tuple[tuple[int, tuple[Account, ...]], ...] = ()  # the budget, by wave
    again_at: int | None = None

    @property
    def complete(self) -> bool:
        return all(each.graded == each.owed for each in self.judges)

    @property
    def held(self) -> bool:
        """Whether the budget does not pay for what is still owed."""
        return any(HELD in dict(each.failures) for each in self.judges)


@dataclass(frozen=True, slots=True)
class _Bench:
    """One judge at work on one wave of a study."""

    study: Study
    judge: Judge
    wave: int  # that pays
    look: int | None  # where it grades again: at this wave
    price: Price | None
    purse: JudgePurse | None
    recipients: tuple[str, ...]
    identities: tuple[str, ...] = field(repr=False)
    stop: threading.Event  # nothing more is tried
    held: threading.Event  # because the budget does not pay for it

    def replies(self, episode: str) -> StoreReplies:
        pin = self.judge.pin
        return StoreReplies(
            self.study.store,
            self.judge.digest,
            self.recipients,
            self.identities,
            purpose_of(pin, self.wave, episode),
        )


Waves = dict[int, tuple[Cell, ...]]


def grade_study(
    study: Study, request: GradeRequest, watch: Watch, now: Callable[[], str]
) -> GradeOutcome:
    """Have each judge grade every episode that has a result, where it has not, as far as the
    budget of its wave goes; and put into the ledger which closed waves it has graded whole. Or,
    for a later look, every episode of the archive once more, paid for by the look's wave. Killed
    at any moment, it goes on where it was.

    Raises StudyError, RegistryError, HarnessError (a judge that cannot be built).
    """
    look = request.again_at
    pins = [judge_pin(study, name) for name in request.judges]
    money = check_prices(
        judge_money(study.folder, study.protocol, pins, request.allow_unknown_price), study.folder
    )
    judges = [build_judge(pin, str(study.folder.resolve())) for pin in pins]
    waves: Waves = (
        {manifest.wave: cells for manifest, cells in waves_there(study, request.wave, True)}
        if look is None
        else {look: archive_to_grade(study, pins, look)}
    )
    with ExitStack() as stack:
        for judge in judges:
            stack.callback(judge.close)
        _lock(study, waves if money.budget else (), stack)
        purses = {wave: _purse(study, wave, money, pins) for wave in waves}
        made = [
            _grade_waves(study, judge, waves, purses, money, request, watch) for judge in judges
        ]
        found = _tell(study, judges, waves, made, money, look, now)
    accounts = tuple((wave, purse.accounts()) for wave, purse in purses.items() if purse)
    return GradeOutcome(*found, accounts, look)


def _lock(study: Study, waves: Iterable[int], stack: ExitStack) -> None:
    """Keep out who would buy the same, or buys from the same budget."""
    grading = "another `dosimeter grade` or `judge check` of this study"
    stack.enter_context(exclusive(study.folder / ".grade.lock", grading))
    for wave in waves:
        sweep = f"a sweep of wave {wave}, whose budget is this one's too,"
        stack.enter_context(exclusive(study.folder / f".sweep-{wave}.lock", sweep))


def _purse(study: Study, wave: int, money: Money, pins: Sequence[JudgePin]) -> JudgePurse | None:
    digests: list[str] = [record_digest(pin) for pin in pins]
    graded = {
        digest: graded_by(study, digest) | graded_by(study, digest, wave) for digest in digests
    }
    return open_judge_purse(study, wave, money, pins, graded)


def _grade_waves(
    study: Study,
    judge: Judge,
    waves: Waves,
    purses: dict[int, JudgePurse | None],
    money: Money,
    request: GradeRequest,
    watch: Watch,
) -> list[Tried]:
    """Grade, wave by wave, what a judge has not graded; what came of each."""
    price = money.price_of(judge.pin.name)
    done = graded_by(study, judge.digest, request.again_at)
    every = sum(map(len, waves.values()))
    owed = {wave: [c for c in cells if c.episode not in done] for wave, cells in waves.items()}
    graded = every - sum(map(len, owed.values()))
    tried: list[Tried] = []
    stop = threading.Event()  # one for all waves: a dead provider is dead for all
    for wave, cells in owed.items():
        bench = _Bench(
            study, judge, wave, request.again_at, price, purses[wave], study.recipients(),
            study.identities(), stop, threading.Event(),
        )  # fmt: skip
        for each in run_each(partial(_grade_cell, bench), cells, request.parallel, stop, "judge"):
            tried.append(each)
            graded += not each.failure
            watch(f"judge {judge.pin.name}", graded, every)
    return tried


def _grade_cell(bench: _Bench, cell: Cell) -> Tried:
    """Grade one episode and keep the grade, if that is paid for."""

    def work() -> Tried:
        episode = read_attempt(bench.study, cell.episode, bench.identities)
        return _grade_paid(bench, cell, instance_of(cell, bench.study.protocol.catalog), episode)

    return try_unless(bench.stop, bench.held, work)


def _grade_paid(bench: _Bench, cell: Cell, instance: TaskInstance, episode: Episode) -> Tried:
    name = bench.judge.pin.name
    if bench.purse and not bench.purse.take(name, cell.episode, _bound(bench, instance, episode)):
        bench.held.set()
        return Tried(HELD)
    replies, failure = bench.replies(cell.episode), f"{Boundary.WORKER}:stopped"
    try:
        grade = judge_episode(bench.judge, instance, episode, replies, bench.look)
        keep_grade(bench.study.store, bench.judge.digest, grade, bench.recipients, bench.look)
        failure = ""
    except AttemptFailed as failed:
        if failed.error_class in HOPELESS:
            bench.stop.set()
        failure = f"{failed.boundary}:{failed.error_class}"
    finally:
        spend = spend_on(replies.bought, bench.price)
        if bench.purse:
            bench.purse.settle(name, cell.episode, spend, not failure)
    return Tried(failure, tuple(replies.failed.elements()), spend)


def _bound(bench: _Bench, instance: TaskInstance, episode: Episode) -> Decimal | None:
    """The most that a grade can cost, where the judge's settings tell."""
    if bench.price is None:
        return None
    questions = questions_of(instance.rubric)
    submission = submission_of(instance, episode, bench.look)
    return judgement_bound(bench.judge, submission, questions, bench.price)


def _tell(
    study: Study,
    judges: Sequence[Judge],
    waves: Waves,
    made: Sequence[Sequence[Tried]],
    money: Money,
    look: int | None,
    now: Callable[[], str],
) -> tuple[tuple[JudgeOutcome, ...], float | None]:
    """What was done, and how the graders agree on what they have both graded."""
    cells = [cell for each in waves.values() for cell in each]
    identities = study.identities()
    truths = [
        read_result(study.store, result_key(cell.episode), identities).grade for cell in cells
    ]
    exact = [verdict for truth in truths for verdict in truth.verdicts]
    columns: list[list[bool | None]] = []
    outcomes: list[JudgeOutcome] = []
    for judge, tried in zip(judges, made, strict=True):
        grades = [read_grade(study.store, judge.digest, x.episode, identities, look) for x in cells]
        said = [x.verdicts if x else (None,) * len(t.verdicts) for x, t in _both(grades, truths)]
        columns.append([verdict for verdicts in said for verdict in verdicts])
        asked = [verdict for x, t in _both(grades, truths) if x for verdict in _asked(x, t)]
        records = _record(study, judge, waves, look, now)
        outcomes.append(
            JudgeOutcome(
                judge=judge.pin.name,
                digest=judge.digest,
                owed=len(cells),
                graded=sum(grade is not None for grade in grades),
                fresh=sum(not each.failure for each in tried),
                criteria=len(asked),
                ungraded=sum(verdict is None for verdict in asked),
                kappa=cohen_kappa(exact, columns[-1]),
                failures=_counted(each.failure for each in tried if each.failure),
                failed_tries=_counted(kind for each in tried for kind in each.failed),
                cost_usd=_cost(money.price_of(judge.pin.name), tried),
                recorded=tuple(record.wave for record in records),
                unpinned=tuple(
                    record.wave
                    for record in records
                    if isinstance(record, Graded) and not record.pinned
                ),
            )
        )
    alpha = krippendorff_alpha(columns) if len(columns) > 1 else None
    return tuple(outcomes), alpha


def _record(
    study: Study, judge: Judge, waves: Waves, look: int | None, now: Callable[[], str]
) -> list[Graded | Regraded]:
    """The ledger's records of the waves that the judge has graded whole, or of the archive that
    it has graded again."""
    done = graded_by(study, judge.digest, look)
    found: list[Graded | Regraded] = []
    for wave, cells in waves.items():
        episodes = [cell.episode for cell in cells]
        if not done.issuperset(episodes):
            continue
        if look is not None:
            found.append(record_regraded(study, judge.pin, look, share_of(study), episodes, now))
        elif record := record_graded(study, judge.pin, wave, episodes, now):
            found.append(record)
    return found


def _cost(price: Price | None, tried: Sequence[Tried]) -> float | None:
    if price is None or any(each.spend.unknown for each in tried):
        return None
    return float(sum(each.spend.usd for each in tried))


def _counted(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(names).items()))


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
