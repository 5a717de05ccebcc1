"""Grades of stored episodes by judges: no episode is run again, no request is paid for twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from analysis.judges import cohen_kappa, krippendorff_alpha
from harness.episode import Cell, Grade, GradeStatus
from harness.episodes import LENIENT
from harness.judging import (
    Judge,
    build_judge,
    judge_episode,
    judging_bound,
    keep_grade,
    questions_of,
    read_grade,
    submission_of,
)
from harness.spending import Account, Budget, CallKind, Charge, Payer, ReplyStore
from harness.store_keys import result_key
from harness.sweep import instance_of, read_result
from registry.ledger import Graded, JudgePin, Regraded, record_digest
from study.judging.drift import archive_to_grade, share_of
from study.judging.records import (
    finished_waves,
    graded_by,
    judge_pin,
    read_attempt,
    record_graded,
    record_regraded,
)
from study.paid_calls import (
    OVER_BUDGET,
    Caller,
    CallResult,
    cost_usd,
    count_failed_requests,
    count_failures,
)
from study.sweeps import Pricing, check_prices, lock_budget, open_budget, price_judges
from study.workspace import Study

Watch = Callable[[str, int, int], None]  # what, done, of


@dataclass(frozen=True, slots=True)
class GradeRequest:
    """What to grade. ``wave`` None is every wave that was begun; ``again_at`` is the wave at
    whose look the first wave's answers are graded once more, and nothing else."""

    judges: tuple[str, ...]
    wave: int | None = None
    parallel: int = 4  # episodes at once
    allow_unknown_price: bool = False
    again_at: int | None = None


@dataclass(frozen=True, slots=True)
class JudgeOutcome:
    """The grades of one judge, and their agreement with exact grading."""

    judge: str
    digest: str  # of its pin
    owed: int  # episodes that have a result
    graded: int
    fresh: int  # of them, now
    criteria: int  # that it was to decide
    ungraded: int  # of them, left without a verdict
    kappa: float | None  # with the exact grader, criterion by criterion
    failures: tuple[tuple[str, int], ...]  # why episodes are still owed, and how often
    failed_tries: tuple[tuple[str, int], ...]  # requests that failed now, by class
    cost_usd: float | None  # of the replies paid for now; None if unknown
    recorded: tuple[int, ...]  # waves that it has graded whole, by the ledger
    unpinned: tuple[int, ...]  # of them, those with a manifest that does not name it


@dataclass(frozen=True, slots=True)
class GradeOutcome:
    """The result of a grading run."""

    judges: tuple[JudgeOutcome, ...]
    alpha: float | None  # Krippendorff's, over the judges, if there are several
    accounts: tuple[tuple[int, tuple[Account, ...]], ...] = ()  # the budget, by wave
    again_at: int | None = None

    @property
    def complete(self) -> bool:
        """Whether every episode is graded."""
        return all(each.graded == each.owed for each in self.judges)

    @property
    def over_budget(self) -> bool:
        """Whether the budget does not pay for what is still owed."""
        return any(OVER_BUDGET in dict(judge.failures) for judge in self.judges)


@dataclass(frozen=True, slots=True)
class _Grading:
    """The grading of one wave by one judge."""

    study: Study
    judge: Judge
    wave: int  # that pays
    look: int | None  # the wave for which it grades again, if it does
    caller: Caller
    recipients: tuple[str, ...]
    identities: tuple[str, ...] = field(repr=False)


Waves = dict[int, tuple[Cell, ...]]


def grade_study(
    study: Study, request: GradeRequest, watch: Watch, now: Callable[[], str]
) -> GradeOutcome:
    """Have each judge grade every episode that has a result and no grade yet, as far as the
    budget of its wave goes; and record in the ledger which closed waves it has graded whole. Or,
    for a later look, grade every episode of the archive once more, paid for by the look's wave.
    Killed at any moment, it resumes when called again.

    Raises StudyError, RegistryError, HarnessError (a judge that cannot be built).
    """
    look = request.again_at
    pins = [judge_pin(study, name) for name in request.judges]
    pricing = check_prices(
        price_judges(study.folder, study.protocol, pins, request.allow_unknown_price), study.folder
    )
    judges = [build_judge(pin, str(study.folder.resolve())) for pin in pins]
    waves: Waves = (
        {manifest.wave: cells for manifest, cells in finished_waves(study, request.wave, True)}
        if look is None
        else {look: archive_to_grade(study, pins, look)}
    )
    with ExitStack() as stack:
        for judge in judges:
            stack.callback(judge.close)
        lock_budget(study, waves if pricing.limits else (), stack)
        budgets = {wave: _budget(study, wave, pricing, pins) for wave in waves}
        results = [
            _grade_waves(study, judge, waves, budgets, pricing, request, watch) for judge in judges
        ]
        outcomes, alpha = _outcomes(study, judges, waves, results, pricing, look, now)
    accounts = tuple((wave, budget.accounts()) for wave, budget in budgets.items() if budget)
    return GradeOutcome(outcomes, alpha, accounts, look)


def _budget(study: Study, wave: int, pricing: Pricing, pins: Sequence[JudgePin]) -> Budget | None:
    digests: list[str] = [record_digest(pin) for pin in pins]
    graded = {
        digest: graded_by(study, digest) | graded_by(study, digest, wave) for digest in digests
    }
    return open_budget(
        study,
        wave,
        pricing,
        CallKind.JUDGE,
        pins,
        lambda charge: charge.subject in graded[charge.payer.pin],
    )


def _grade_waves(
    study: Study,
    judge: Judge,
    waves: Waves,
    budgets: Mapping[int, Budget | None],
    pricing: Pricing,
    request: GradeRequest,
    watch: Watch,
) -> list[CallResult]:
    """Grade, wave by wave, what a judge has not graded; return the result of each episode."""
    price = pricing.price_of(judge.pin.name)
    done = graded_by(study, judge.digest, request.again_at)
    total = sum(map(len, waves.values()))
    owed = {wave: [c for c in cells if c.episode not in done] for wave, cells in waves.items()}
    graded = total - sum(map(len, owed.values()))
    results: list[CallResult] = []
    stop = threading.Event()  # one for all waves: a provider that fails for good fails for all
    for wave, cells in owed.items():
        caller = Caller("judge", price, budgets[wave], stop)
        grading = _Grading(
            study, judge, wave, request.again_at, caller, study.recipients(), study.identities()
        )
        for result in caller.call_each(partial(_grade_cell, grading), cells, request.parallel):
            results.append(result)
            graded += not result.failure
            watch(f"judge {judge.pin.name}", graded, total)
    return results


def _grade_cell(grading: _Grading, cell: Cell) -> CallResult:
    """Grade one episode and store the grade, if the budget pays for it."""
    study, judge, look = grading.study, grading.judge, grading.look
    episode = read_attempt(study, cell.episode, grading.identities)
    instance = instance_of(cell, study.protocol.catalog)
    charge = Charge(CallKind.JUDGE, Payer.of(judge.pin), cell.episode, grading.wave)
    replies = ReplyStore(study.store, charge, grading.recipients, grading.identities)
    bound = None
    if (price := grading.caller.price) is not None:
        submission = submission_of(instance, episode, look)
        bound = judging_bound(judge, submission, questions_of(instance.rubric), price)

    def grade() -> None:
        made = judge_episode(judge, instance, episode, replies.judge_call, look)
        keep_grade(study.store, judge.digest, made, grading.recipients, look)

    return grading.caller.pay(replies, bound, grade)


def _outcomes(
    study: Study,
    judges: Sequence[Judge],
    waves: Waves,
    made: Sequence[Sequence[CallResult]],
    pricing: Pricing,
    look: int | None,
    now: Callable[[], str],
) -> tuple[tuple[JudgeOutcome, ...], float | None]:
    """What was graded, and how the graders agree on it."""
    cells = [cell for each in waves.values() for cell in each]
    identities = study.identities()
    truths = [
        read_result(study.store, result_key(cell.episode), identities).grade for cell in cells
    ]
    exact = [verdict for truth in truths for verdict in truth.verdicts]
    columns: list[list[bool | None]] = []
    outcomes: list[JudgeOutcome] = []
    for judge, results in zip(judges, made, strict=True):
        grades = [read_grade(study.store, judge.digest, x.episode, identities, look) for x in cells]
        both = list(zip(grades, truths, strict=True))
        columns.append(
            [v for g, t in both for v in (g.verdicts if g else (None,) * len(t.verdicts))]
        )
        decided = [verdict for grade, truth in both if grade for verdict in _decided(grade, truth)]
        records = _record(study, judge, waves, look, now)
        outcomes.append(
            JudgeOutcome(
                judge=judge.pin.name,
                digest=judge.digest,
                owed=len(cells),
                graded=sum(grade is not None for grade in grades),
                fresh=sum(not result.failure for result in results),
                criteria=len(decided),
                ungraded=sum(verdict is None for verdict in decided),
                kappa=cohen_kappa(exact, columns[-1]),
                failures=count_failures(results),
                failed_tries=count_failed_requests(results),
                cost_usd=cost_usd(results, pricing.price_of(judge.pin.name) is None),
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
    records: list[Graded | Regraded] = []
    for wave, cells in waves.items():
        episodes = [cell.episode for cell in cells]
        if not done.issuperset(episodes):
            continue
        if look is not None:
            records.append(record_regraded(study, judge.pin, look, share_of(study), episodes, now))
        elif record := record_graded(study, judge.pin, wave, episodes, now):
            records.append(record)
    return records


def _decided(grade: Grade, truth: Grade) -> Iterator[bool | None]:
    """The verdicts on what a judge decides: all that counts, unless the attempt failed."""
    if truth.status is not GradeStatus.MISSING:
        for criterion, verdict in zip(grade.criteria, grade.verdicts, strict=True):
            if criterion != LENIENT:
                yield verdict
