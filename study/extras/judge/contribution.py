"""Judges in a look at the data: their rows, the drift of their second grades, their columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from analysis.judge.columns import JudgeColumn, JudgeFacts, judge_column
from analysis.judge.drift import Drift, Regrading, drift_controls, measure_drift
from analysis.judge.error_rates import Labels, shortfall
from analysis.judge.part import judges_part
from analysis.plan.controls import ControlResult
from analysis.plan.look import explore
from analysis.plan.negative_controls import AGREES, DISAGREES
from analysis.plan.verdict import Verdict
from analysis.report.part import Part
from harness.episodes.result import judged_row
from registry.ledger.records import Graded, Plan
from registry.result_row import GRADER, ResultRow, columns_of
from study.errors import StudyError
from study.extras.judge.records import (
    find_grading,
    graded_records,
    judge_grades,
    judge_pin,
    labelled,
    rates_of,
    regradings_of,
)
from study.protocol.protocol import relatives_of
from study.steps.report.contributors import LookContext, LookScope, LookShare
from study.steps.sweep.exposure_ledger import burned_tranches, join_draw


class JudgeShare(LookShare):
    """The share of judges. ``labels`` counts each judge's verdicts on criteria with a truth that
    the exact grader knows."""

    def __init__(self, scope: LookScope) -> None:
        super().__init__(scope)
        self.labels: dict[str, Labels] = defaultdict(Labels)
        self.regradings: tuple[Regrading, ...] = ()
        self.drifts: tuple[Drift, ...] = ()

    def rows(self) -> Iterator[ResultRow]:
        """Yield the rows as judges scored them; those of the judge that scores under the name of
        the exact grader too, where it has no row. Raises StudyError if that judge has not graded a
        wave."""
        study = self.scope.study
        judged, scorer = study.protocol.judged, study.protocol.scorer
        for wave in self.scope.waves if judged else ():
            if find_grading(study, Graded, judge_pin(study, scorer), wave.number) is None:
                raise StudyError(
                    f"wave {wave.number} has no scores of {scorer} yet: `dosimeter judge grade "
                    f"--judge {scorer} --wave {wave.number}` makes them"
                )
        entries = {entry.instance: entry for entry in study.entries()}
        burned = burned_tranches(study.ledger.entries())
        for wave in self.scope.waves:
            for result, grade in judge_grades(study, wave.results.values(), study.keys()):
                entry = entries[result.instance]
                verdicts = labelled(result.grade, grade)
                self.labels[grade.grader].add(result.instance, result.stratum, entry.arm, verdicts)
                row = join_draw(judged_row(result, grade, entry.arm), entry, burned)
                yield row
                if grade.grader == scorer and row.stratum in judged:
                    yield replace(row, grader=GRADER)

    def digested(self) -> Sequence[object]:
        """Return the rows that judges graded again."""
        self.regradings = regradings_of(self.scope.study, self.scope.numbers)
        return [
            [r.judge, r.wave, columns_of(r.before), columns_of(r.after)] for r in self.regradings
        ]

    def controls(self, plan: Plan, registration: str) -> Sequence[ControlResult]:
        """Return the controls of the second grader's drift; of the judge that scores, also if it
        was measured as the plan asks."""
        self.drifts = tuple(measure_drift(plan, r, registration) for r in self.regradings)
        return (*drift_controls(plan, self.drifts), *self._measured(plan))

    def _measured(self, plan: Plan) -> Iterator[ControlResult]:
        if (rule := plan.scorer) is None:
            return
        study, what = self.scope.study, "measured on answer sheets"
        missed = shortfall(rule, rates_of(study, judge_pin(study, rule.name)))
        state, says = AGREES, f"{rule.name} reaches the minima of the plan."
        if missed:
            state, says = DISAGREES, f"{rule.name}: {missed}."
        for wave in self.scope.numbers:
            yield ControlResult("C3", what, wave, (), state, says=says)

    def parts(self, look: LookContext) -> Sequence[Part]:
        """Return the part with the columns of judges."""
        columns = self._columns(look)
        explored = tuple(_explored(columns, look))
        return (judges_part(look.plan, columns, self.scope.numbers, look.published, explored),)

    def _columns(self, look: LookContext) -> tuple[JudgeColumn, ...]:
        """Return the columns of judges that graded a whole wave or have a rule in the plan."""
        study, plan = self.scope.study, look.plan
        released = {fact.model: fact.released for fact in study.protocol.judge_facts}
        wanted = {*look.table["grader"].tolist(), *(rule.name for rule in plan.judges)}
        return tuple(
            judge_column(
                plan,
                look.table,
                JudgeFacts(
                    pin=pin,
                    rates=rates_of(study, pin),
                    graded=graded_records(study, pin),
                    same_family=relatives_of(study.protocol, pin.name),
                    labels=self.labels.get(pin.name),
                    drifts=tuple(drift for drift in self.drifts if drift.judge == pin.name),
                    released=released[pin.name],
                ),
                look.registration,
            )
            for pin in study.protocol.judges
            if pin.name in wanted
        )


def _explored(columns: Sequence[JudgeColumn], look: LookContext) -> Iterator[Verdict]:
    """Yield the registered test's verdicts on the scores of each judge with a shown column."""
    for column in columns:
        scores = look.plan.scorer is not None and look.plan.scorer.name == column.judge
        if column.waves and not column.withheld and not scores:
            yield from explore(
                look.plan,
                look.table,
                look.registration,
                f"graded by {column.judge}",
                grader=column.judge,
                history=look.history,
            ).verdicts


look = JudgeShare
