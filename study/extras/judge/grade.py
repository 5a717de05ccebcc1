"""Grades of stored episodes by judges: no episode is run again, no request is paid for twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial

from analysis.judge.error_rates import cohen_kappa
from generators.family import FORM_CRITERIA
from harness.episode import Cell, Grade, GradeStatus
from harness.episodes.result import LENIENT
from harness.judge.grade import build_judge, judge_episode, read_grade, submission_of
from harness.judge.judge import Judge, judging_bound, questions_of
from harness.spending.budget import Account, Budget
from harness.spending.purchases import CallKind, ReplyStore
from harness.storage import GRADE_CODEC, grade_key
from harness.sweep.workbench import instance_of
from registry.ledger.records import Graded, JudgePin, Regraded, pin_digest
from registry.sealing import Keys
from study.errors import StudyError
from study.extras.judge.records import (
    FIRST,
    Clock,
    archive_to_grade,
    finished_waves,
    graded_by,
    judge_pin,
    read_attempt,
    record_graded,
    record_regraded,
    share_of,
)
from study.steps.sweep.spending import (
    Caller,
    CallResult,
    CallTotals,
    Pricing,
    lock_budget,
    open_budget,
    price_pins,
    sum_calls,
)
from study.workspace.setup import Watch
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study

Waves = dict[int, tuple[Cell, ...]]


@dataclass(frozen=True, slots=True)
class GradeRequest:
    """Judges, and the episodes that they are to grade. ``wave`` None is every wave that was begun;
    ``again_at`` is the wave at whose look the first wave's answers are graded once more, and
    nothing else."""

    judges: tuple[str, ...]
    wave: int | None = None
    allow_unknown_price: bool = False
    again_at: int | None = None


@dataclass(frozen=True, slots=True)
class JudgeOutcome(CallTotals):
    """The grades of one judge, and their agreement with exact grading."""

    judge: str
    digest: str  # of its pin
    owed: int  # episodes that have a result
    graded: int
    criteria: int  # that it was to decide
    ungraded: int  # of them, left without a verdict
    kappa: float | None  # with the exact grader, criterion by criterion
    recorded: tuple[int, ...]  # waves that it has graded whole, by the ledger
    unpinned: tuple[int, ...]  # of them, those with a manifest that does not name it


@dataclass(frozen=True, slots=True)
class GradeOutcome:
    """The result of a grading run."""

    judges: tuple[JudgeOutcome, ...]
    accounts: tuple[tuple[int, tuple[Account, ...]], ...] = ()  # the budget, by wave
    again_at: int | None = None

    @property
    def complete(self) -> bool:
        """True if every episode is graded."""
        return all(judge.graded == judge.owed for judge in self.judges)

    @property
    def over_budget(self) -> bool:
        """True if the budget does not pay for the episodes still owed."""
        return any(judge.over_budget for judge in self.judges)


def grade_study(study: Study, request: GradeRequest, watch: Watch, now: Clock) -> GradeOutcome:
    """Have each judge grade every episode that has a result and no grade yet, as far as the
    budget of its wave goes; and record in the ledger which closed waves it has graded whole. Or,
    for a later look, grade every episode of the archive once more, paid for by the look's wave.
    Killed at any moment, it resumes when called again.

    Raises StudyError, RegistryError, HarnessError (a judge that cannot be built).
    """
    look = request.again_at
    pins = [judge_pin(study, name) for name in request.judges]
    pricing = price_pins(study, pins, request.allow_unknown_price)
    judges = [build_judge(pin, str(study.folder.resolve())) for pin in pins]
    waves = _waves_to_grade(study, request, pins)
    with ExitStack() as stack:
        for judge in judges:
            stack.callback(judge.close)
        lock_budget(study, waves if pricing.limits else (), stack)
        grading = _Grading(
            study=study,
            waves=waves,
            look=look,
            pricing=pricing,
            budgets={wave: _open_budget(study, wave, pricing, pins, stack) for wave in waves},
            keys=study.keys(),
        )
        results = [grading.grade_by(judge, watch) for judge in judges]
        outcomes = grading.compare(judges, results, now)
    budgets = grading.budgets.items()
    accounts = tuple((wave, budget.accounts()) for wave, budget in budgets if budget)
    return GradeOutcome(outcomes, accounts, look)


def _waves_to_grade(study: Study, request: GradeRequest, pins: Sequence[JudgePin]) -> Waves:
    if request.again_at is not None:
        return {request.again_at: archive_to_grade(study, pins, request.again_at)}
    waves = finished_waves(study, request.wave)
    if not waves:
        first = request.wave or 0
        raise StudyError(
            f"wave {first} was not begun; `dosimeter sweep --wave {first}` makes its episodes"
        )
    return waves


def _open_budget(
    study: Study, wave: int, pricing: Pricing, pins: Sequence[JudgePin], stack: ExitStack
) -> Budget | None:
    digests: list[str] = [pin_digest(pin) for pin in pins]
    graded = {
        digest: graded_by(study, digest) | graded_by(study, digest, wave) for digest in digests
    }
    return open_budget(
        study,
        wave,
        pricing,
        CallKind.JUDGE,
        pins,
        lambda c: c.subject in graded[c.payer.pin],
        stack,
    )


@dataclass(frozen=True, slots=True)
class _Grading:
    """State that all judges of a grading run share."""

    study: Study
    waves: Waves  # the cells to grade, by the wave that pays
    look: int | None  # the wave for which they are graded again, if they are
    pricing: Pricing
    budgets: Mapping[int, Budget | None]  # by wave
    keys: Keys

    def grade_by(self, judge: Judge, watch: Watch) -> list[CallResult]:
        """Grade, wave by wave, a judge's ungraded episodes; return the result of each episode."""
        name = judge.pin.name
        done = graded_by(self.study, judge.digest, self.look)
        total = sum(map(len, self.waves.values()))
        owed = {w: [c for c in cells if c.episode not in done] for w, cells in self.waves.items()}
        graded = total - sum(map(len, owed.values()))
        results: list[CallResult] = []
        stop = threading.Event()  # one for all waves: a provider that fails for good fails for all
        price = self.pricing.price_of(name)
        for wave, cells in owed.items():
            caller = Caller(
                self.study,
                CallKind.JUDGE,
                judge.pin,
                wave,
                price,
                stop=stop,
                budget=self.budgets[wave],
            )
            grade = partial(self._grade_cell, judge, caller)
            for result in caller.call_each(grade, cells):
                results.append(result)
                graded += not result.failure
                watch(f"judge {name}", graded, total)
        return results

    def _grade_cell(self, judge: Judge, caller: Caller, cell: Cell) -> CallResult:
        """Grade one episode and store the grade, if the budget pays for it."""
        study, look = self.study, self.look
        episode = read_attempt(study, cell.episode, self.keys)
        instance = instance_of(cell, study.protocol.catalog)
        bound = None
        if caller.price is not None:
            submission = submission_of(instance, episode, look)
            questions = questions_of(instance.rubric)
            bound = judging_bound(judge, submission, questions, caller.price)

        def grade(replies: ReplyStore) -> None:
            made = judge_episode(judge, instance, episode, replies.judge_call, look)
            key = grade_key(judge.digest, cell.episode, look)
            GRADE_CODEC.write(study.store, key, made, replies.keys)

        return caller.pay(cell.episode, bound, grade)

    def compare(
        self, judges: Sequence[Judge], results: Sequence[Sequence[CallResult]], now: Clock
    ) -> tuple[JudgeOutcome, ...]:
        """Return the outcome of each judge; record waves in the ledger that are graded whole."""
        store, snapshot = self.study.store, take_snapshot(self.study)
        exact_grades = {
            episode: result.grade
            for wave in (self.waves if self.look is None else (FIRST,))
            for episode, result in snapshot.waves[wave].results.items()
        }
        episodes = [cell.episode for cells in self.waves.values() for cell in cells]
        truths = [exact_grades[episode] for episode in episodes]
        exact = [verdict for truth in truths for verdict in truth.verdicts]
        outcomes: list[JudgeOutcome] = []
        for judge, made in zip(judges, results, strict=True):
            grades = [
                read_grade(store, judge.digest, episode, self.keys, self.look)
                for episode in episodes
            ]
            both = list(zip(grades, truths, strict=True))
            verdicts = [
                v for g, t in both for v in (g.verdicts if g else (None,) * len(t.verdicts))
            ]
            decided = [
                verdict for grade, truth in both if grade for verdict in _decided(grade, truth)
            ]
            records = self._record(judge, now)
            calls = sum_calls(made, unknown=self.pricing.price_of(judge.pin.name) is None)
            outcomes.append(
                JudgeOutcome(
                    judge=judge.pin.name,
                    digest=judge.digest,
                    owed=len(episodes),
                    graded=sum(grade is not None for grade in grades),
                    criteria=len(decided),
                    ungraded=decided.count(None),
                    kappa=cohen_kappa(exact, verdicts),
                    recorded=tuple(record.wave for record in records),
                    unpinned=tuple(
                        r.wave for r in records if isinstance(r, Graded) and not r.pinned
                    ),
                    **asdict(calls),
                )
            )
        return tuple(outcomes)

    def _record(self, judge: Judge, now: Clock) -> list[Graded | Regraded]:
        """Return the ledger's records of the waves that the judge has graded whole, or of the
        archive that it has graded again."""
        study, look, pin = self.study, self.look, judge.pin
        done = graded_by(study, judge.digest, look)
        records: list[Graded | Regraded] = []
        for wave, cells in self.waves.items():
            episodes = [cell.episode for cell in cells]
            if not done.issuperset(episodes):
                continue
            if look is not None:
                records.append(record_regraded(study, pin, look, share_of(study), episodes, now))
            elif record := record_graded(study, pin, wave, episodes, now):
                records.append(record)
        return records


def _decided(grade: Grade, truth: Grade) -> Iterator[bool | None]:
    """Yield the verdicts on what a judge decides, unless the attempt failed: all that counts but
    the form of the answer."""
    if truth.status is not GradeStatus.MISSING:
        for part, verdict in zip(grade.parts, grade.facts, strict=True):
            if part != LENIENT and part.partition("/")[0] not in FORM_CRITERIA:
                yield verdict
