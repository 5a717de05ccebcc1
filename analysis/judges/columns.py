"""The columns that judges add to a report: whether they are shown, and gaps freed of errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.data import ResultTable, make_seed_means, one_of
from analysis.judges.error_rates import CorrectedGap, JudgeRates, correct_estimate, shortfall
from analysis.judges.errors_by_arm import (
    CorrectedByArm,
    ErrorsByArm,
    Labels,
    arm_mean,
    arm_shortfall,
    correct_by_arm,
    errors_by_arm,
    errors_json,
)
from analysis.plan import GRADER, Drift, drift_json, drift_words
from analysis.stats import GapEstimate, Rate, estimate_gap
from registry.ledger import Graded, JudgePin, Plan, record_digest


@dataclass(frozen=True, slots=True)
class JudgeFacts:
    """What the ledger and the study say of a judge, for its column. ``labels`` are its verdicts on
    criteria of known truth, ``drifts`` what it said again of archived answers."""

    pin: JudgePin
    rates: JudgeRates | None  # None where it was never checked
    graded: tuple[Graded, ...] = ()
    same_family: tuple[str, ...] = ()  # models of its own maker
    labels: Labels | None = None
    drifts: tuple[Drift, ...] = ()
    released: str = ""  # ISO 8601, as documented


@dataclass(frozen=True, slots=True)
class JudgeGap:
    """A model at a wave: public minus private by a judge, freed of its errors as they are on
    sheets, and as they are in each arm, and exactly. All of the plan's first outcome; None where
    it cannot be told."""

    wave: int
    model: str
    exact: float | None
    judged: float
    corrected: CorrectedGap | None
    by_arm: CorrectedByArm | None = None


@dataclass(frozen=True, slots=True)
class JudgeColumn:
    """One judge in a report. Where it is withheld, for the reason given, there are no gaps;
    ``uncorrected`` says why none is corrected by arm."""

    judge: str
    digest: str
    provider: str
    version: str
    withheld: str
    rates: JudgeRates | None
    same_family: tuple[str, ...]
    waves: tuple[int, ...]  # that it has graded whole
    unpinned: tuple[int, ...]  # of them, those whose manifest does not name it
    unrecorded: tuple[int, ...]  # of them, those of which the ledger has no record
    gaps: tuple[JudgeGap, ...] = field(default=())
    errors: ErrorsByArm | None = None
    uncorrected: str = ""
    drifts: tuple[Drift, ...] = ()
    released: str = ""


def judge_column(
    plan: Plan, table: ResultTable, facts: JudgeFacts, registration: str = ""
) -> JudgeColumn:
    """The column of a judge: withheld where the plan asks more of it than it was measured at.
    ``registration`` seeds the permutations."""
    pin, digest = facts.pin, record_digest(facts.pin)
    rule = next((each for each in plan.judges if each.name == pin.name), None)
    withheld = "" if rule is None else shortfall(rule, facts.rates)
    here = table["grader"] == pin.name
    waves = tuple(sorted(set(table["wave"][here].tolist())))
    records = {record.wave: record for record in facts.graded}
    labels = facts.labels
    errors = None if labels is None else errors_by_arm(plan, labels, pin.name, registration)
    uncorrected = arm_shortfall(rule, errors)
    return JudgeColumn(
        judge=pin.name,
        digest=digest,
        provider=pin.provider,
        version=pin.version,
        withheld=withheld,
        rates=facts.rates,
        same_family=facts.same_family,
        waves=waves,
        unpinned=tuple(w for w in waves if w in records and not records[w].pinned),
        unrecorded=tuple(w for w in waves if w not in records),
        gaps=()
        if withheld
        else _gaps(plan, table, pin.name, facts.rates, None if uncorrected else errors),
        errors=errors,
        uncorrected=uncorrected,
        drifts=facts.drifts,
        released=facts.released,
    )


def judge_departures(
    plan: Plan, columns: Iterable[JudgeColumn], waves: Sequence[int], published: str = ""
) -> list[str]:
    """Where judges depart from what was promised of them, a sentence each. ``published`` is the
    day of the first release."""
    ruled = {rule.name for rule in plan.judges}
    found = []
    for each in columns:
        if each.withheld:
            found.append(f"The column of judge {each.judge} is withheld: {each.withheld}.")
        found += [
            f"Wave {wave} is not graded whole by judge {each.judge}, of which the plan speaks."
            for wave in waves
            if each.judge in ruled and wave not in each.waves
        ]
        found += [
            f"Wave {wave} was begun without naming judge {each.judge}, which graded it: it was "
            "chosen afterwards."
            for wave in each.unpinned
        ]
        found += [
            f"Wave {wave}: what judge {each.judge} graded is promised by no record of the ledger."
            for wave in each.unrecorded
        ]
        found += _arm_departures(each)
        if published and each.released >= published:
            found.append(
                f"Judge {each.judge} was released on {each.released}, and the public arm on "
                f"{published}: it may have read the published instances, rubrics and all."
            )
    return found


def _arm_departures(column: JudgeColumn) -> Iterator[str]:
    """Where a judge is not alike in the arms: in its errors, or in what it says again."""
    errors = column.errors
    if errors is not None and errors.enough and errors.differ:
        yield (  # without numbers, which change from look to look: the table has them
            f"Judge {column.judge} errs more in one arm than in the other "
            f"({' and '.join(errors.differing)}): its own gaps may come of that."
        )
    for drift in column.drifts:
        if not drift.pooled.passed:
            yield f"Wave {drift.wave}: judge {drift_words(drift)}"


def _gaps(
    plan: Plan, table: ResultTable, judge: str, rates: JudgeRates | None, errors: ErrorsByArm | None
) -> tuple[JudgeGap, ...]:
    exact = {key: found for key, (found, _) in _estimates(plan, table, GRADER).items()}
    return tuple(
        JudgeGap(
            wave, model,
            exact[wave, model].gap if (wave, model) in exact else None,
            judged.gap,
            None if rates is None else correct_estimate(judged, rates),
            None if errors is None or arms is None else correct_by_arm(*arms, errors),
        )
        for (wave, model), (judged, arms) in _estimates(plan, table, judge).items()
    )  # fmt: skip


_Mean = tuple[float, float]  # and its standard error


def _estimates(
    plan: Plan, table: ResultTable, grader: str
) -> dict[tuple[int, str], tuple[GapEstimate, tuple[_Mean, _Mean] | None]]:
    """The gap of each model at each wave by one grader, where every stratum has both arms, and
    the two means, where their errors are known."""
    rows = table.where((table["grader"] == grader) & one_of(table["stratum"], plan.strata))
    found = {}
    for wave in sorted(set(rows["wave"].tolist())):
        data = make_seed_means(rows, plan.outcomes[:1], plan.strata, wave=wave)
        for place, model in enumerate(data.models):
            scores = data.values[:, place, 0]
            there = ~np.isnan(scores)
            stratum, public = data.stratum[there], data.public[there]
            cells = set(zip(stratum.tolist(), public.tolist(), strict=True))
            if len(cells) == 2 * len(data.strata):
                y = scores[there]
                first, second = (arm_mean(y[arm], stratum[arm]) for arm in (public, ~public))
                means = None if first is None or second is None else (first, second)
                found[wave, model] = estimate_gap(y, stratum, public), means
    return found


def column_json(column: JudgeColumn) -> dict[str, Any]:
    """A column as plain JSON values: ``withheld`` is a reason, or null; ``sensitivity`` and
    ``specificity`` tell rate, interval and the criteria behind them; ``gaps`` has a row for each
    model, with the gap as the judge graded it, ``corrected`` and its interval, that by the errors
    of each arm, and the exact grader's. ``errors_by_arm`` tells these errors, ``uncorrected`` why
    they correct nothing; ``drift`` has the rows of ``regrading.drift_json``."""
    rates = column.rates
    return {
        "judge": column.judge,
        "digest": column.digest,
        "provider": column.provider,
        "version": column.version,
        "released": column.released or None,
        "withheld": column.withheld or None,
        "criteria": None if rates is None else rates.criteria,
        "sensitivity": None if rates is None else _rate_json(rates.sensitivity),
        "specificity": None if rates is None else _rate_json(rates.specificity),
        "kappa": None if rates is None else rates.kappa,
        "same_family": list(column.same_family),
        "waves": list(column.waves),
        "unpinned": list(column.unpinned),
        "gaps": [_gap_json(gap) for gap in column.gaps],
        "errors_by_arm": None if column.errors is None else errors_json(column.errors),
        "uncorrected": column.uncorrected or None,
        "drift": [row for drift in column.drifts for row in drift_json(drift)],
    }


def _rate_json(rate: Rate) -> dict[str, Any]:
    return {"rate": rate.mean, "interval": rate.interval, "criteria": rate.answers}


def _gap_json(gap: JudgeGap) -> dict[str, Any]:
    corrected, by_arm = gap.corrected, gap.by_arm
    return {
        "wave": gap.wave,
        "model": gap.model,
        "exact": gap.exact,
        "judged": gap.judged,
        "corrected": None if corrected is None else corrected.gap,
        "interval": None if corrected is None else corrected.interval,
        "by_arm": None if by_arm is None else by_arm.gap,
        "by_arm_interval": None if by_arm is None else by_arm.interval,
    }
