"""The columns that judges add to a report: whether they are shown, and gaps freed of errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field, PlainSerializer

from analysis.data.seed_means import make_seed_means
from analysis.data.table import ResultTable, one_of
from analysis.json_values import TextOrNull
from analysis.judge.drift import Drift, drift_json, drift_words
from analysis.judge.error_rates import (
    ErrorsBody,
    ErrorsByArm,
    JudgeRates,
    Labels,
    RateBody,
    arm_mean,
    arm_shortfall,
    correct_by_arm,
    correct_estimate,
    errors_by_arm,
    shortfall,
    wave_shortfall,
)
from analysis.plan.negative_controls import DISAGREES
from analysis.stats.intervals import GapEstimate, estimate_gap
from registry.ledger.records import Graded, JudgePin, Plan, pin_digest
from registry.result_row import GRADER


@dataclass(frozen=True, slots=True)
class JudgeFacts:
    """Facts of the ledger and the study about a judge, for its column. ``labels`` are its verdicts
    on criteria of known truth, ``drifts`` those of its second grades of archived answers."""

    pin: JudgePin
    rates: JudgeRates | None  # None where it was never checked
    graded: tuple[Graded, ...] = ()
    same_family: tuple[str, ...] = ()  # models of its own maker
    labels: Labels | None = None
    drifts: tuple[Drift, ...] = ()
    released: str = ""  # ISO 8601, as documented


@dataclass(frozen=True, slots=True)
class JudgeGap:
    """A model at a wave, by the plan's first outcome: public minus private by the exact grader and
    by the judge; the judge's ``corrected`` by its error rates on answer sheets, and by those in
    each arm (``by_arm``), with 95 % intervals. None if it cannot be estimated."""

    wave: int
    model: str
    exact: float | None
    judged: float
    corrected: float | None
    interval: tuple[float, float] | None
    by_arm: float | None
    by_arm_interval: tuple[float, float] | None


_MEASURED = ("criteria", "sensitivity", "specificity", "parsed", "kappa")


def _drift_rows(drifts: Sequence[Drift]) -> list[dict[str, Any]]:
    return [row for drift in drifts for row in drift_json(drift)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeColumn:
    """One judge in a report; the fields are the keys of ``report.json``. A column that is withheld,
    for the reason given, has no gaps; ``uncorrected`` is why none is corrected by arm. Rates are
    None if the judge was never measured."""

    judge: str
    digest: str
    provider: str
    version: str
    released: TextOrNull  # ISO 8601, as documented
    withheld: TextOrNull
    criteria: int | None = None
    sensitivity: RateBody | None = None
    specificity: RateBody | None = None
    parsed: RateBody | None = None
    kappa: float | None = None  # Cohen's, with the truth
    same_family: tuple[str, ...]
    waves: tuple[int, ...]  # that it has graded whole
    unpinned: tuple[int, ...]  # of them, those whose manifest does not name it
    unrecorded: Annotated[tuple[int, ...], Field(exclude=True)]  # without a record of the ledger
    gaps: tuple[JudgeGap, ...]
    errors: Annotated[ErrorsBody | None, Field(serialization_alias="errors_by_arm")]
    uncorrected: TextOrNull
    drifts: Annotated[
        tuple[Drift, ...], PlainSerializer(_drift_rows), Field(serialization_alias="drift")
    ]


def judge_column(
    plan: Plan, table: ResultTable, facts: JudgeFacts, registration: str = ""
) -> JudgeColumn:
    """The column of a judge: withheld if the plan asks more of it than it was measured at, or than
    it parsed of the waves.
    ``registration`` seeds the permutations."""
    pin, rates, labels = facts.pin, facts.rates, facts.labels
    rule = next((rule for rule in plan.judges if rule.name == pin.name), None)
    missed = () if rule is None else (shortfall(rule, rates), wave_shortfall(rule, labels))
    withheld = "; ".join(filter(None, missed))
    waves = tuple(sorted(set(table["wave"][table["grader"] == pin.name].tolist())))
    records = {record.wave: record for record in facts.graded}
    errors = None if labels is None else errors_by_arm(plan, labels, pin.name, registration)
    uncorrected = arm_shortfall(rule, errors)
    usable = None if uncorrected else errors
    return JudgeColumn(
        judge=pin.name,
        digest=pin_digest(pin),
        provider=pin.provider,
        version=pin.version,
        released=facts.released,
        withheld=withheld,
        same_family=facts.same_family,
        waves=waves,
        unpinned=tuple(w for w in waves if w in records and not records[w].pinned),
        unrecorded=tuple(w for w in waves if w not in records),
        gaps=() if withheld else _gaps(plan, table, pin.name, rates, usable),
        errors=errors,
        uncorrected=uncorrected,
        drifts=facts.drifts,
        **({} if rates is None else {name: getattr(rates, name) for name in _MEASURED}),
    )


def judge_departures(
    plan: Plan, columns: Iterable[JudgeColumn], waves: Sequence[int], published: str = ""
) -> list[str]:
    """Deviations of judges from the plan and the ledger's promises, a sentence each.
    ``published`` is the day of the first release."""
    ruled = {rule.name for rule in plan.judges}
    departures = []
    for column in columns:
        if column.withheld:
            departures.append(f"The column of judge {column.judge} is withheld: {column.withheld}.")
        departures += [
            f"Wave {wave} is not graded whole by judge {column.judge}, of which the plan speaks."
            for wave in waves
            if column.judge in ruled and wave not in column.waves
        ]
        departures += [
            f"Wave {wave} was begun without naming judge {column.judge}, which graded it: it was "
            "chosen afterwards."
            for wave in column.unpinned
        ]
        departures += [
            f"Wave {wave}: what judge {column.judge} graded is promised by no record of the ledger."
            for wave in column.unrecorded
        ]
        departures += _arm_departures(column)
        if published and column.released >= published:
            departures.append(
                f"Judge {column.judge} was released on {column.released}, and the public arm on "
                f"{published}: it may have read the published instances, rubrics and all."
            )
    return departures


def _arm_departures(column: JudgeColumn) -> Iterator[str]:
    """Differences of a judge between the arms: in its errors, or in its second grades."""
    errors = column.errors
    if errors is not None and errors.enough and errors.differ:
        yield (  # without numbers, which change from look to look: the table has them
            f"Judge {column.judge} errs more in one arm than in the other "
            f"({' and '.join(errors.differing)}): its own gaps may come of that."
        )
    for drift in column.drifts:
        if drift.pooled.state == DISAGREES:
            yield f"Wave {drift.wave}: judge {drift_words(drift)}"


def _gaps(
    plan: Plan, table: ResultTable, judge: str, rates: JudgeRates | None, errors: ErrorsByArm | None
) -> tuple[JudgeGap, ...]:
    scores = plan.scorer is not None and plan.scorer.name == judge  # the exact grader's are its own
    first = {} if scores else _estimates(plan, table, GRADER)
    exact = {key: estimate.gap for key, (estimate, _) in first.items()}
    gaps = []
    for (wave, model), (judged, means) in _estimates(plan, table, judge).items():
        overall = None if rates is None else correct_estimate(judged, rates)
        by_arm = None if errors is None or means is None else correct_by_arm(*means, errors)
        corrected, interval = overall or (None, None)
        arms, arms_interval = by_arm or (None, None)
        gaps.append(
            JudgeGap(
                wave=wave,
                model=model,
                exact=exact.get((wave, model)),
                judged=judged.gap,
                corrected=corrected,
                interval=interval,
                by_arm=arms,
                by_arm_interval=arms_interval,
            )
        )
    return tuple(gaps)


_Mean = tuple[float, float]  # and its standard error


def _estimates(
    plan: Plan, table: ResultTable, grader: str
) -> dict[tuple[int, str], tuple[GapEstimate, tuple[_Mean, _Mean] | None]]:
    """The gap of each model at each wave by one grader, where every stratum has both arms, and
    the two means, where their errors are known."""
    rows = table.where((table["grader"] == grader) & one_of(table["stratum"], plan.strata))
    estimates = {}
    for wave in sorted(set(rows["wave"].tolist())):
        data = make_seed_means(rows, plan.outcomes[:1], plan.strata, wave=wave)
        for place, model in enumerate(data.models):
            if data.has_both_arms(place):
                scores, stratum, public = data.values[:, place, 0], data.stratum, data.public
                scored = ~np.isnan(scores)
                first, second = (
                    arm_mean(scores[arm], stratum[arm])
                    for arm in (scored & public, scored & ~public)
                )
                means = None if first is None or second is None else (first, second)
                estimates[wave, model] = estimate_gap(scores, stratum, public), means
    return estimates
