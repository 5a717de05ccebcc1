"""The columns that judges add to a report: whether they are shown, and gaps freed of errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.estimators import GapEstimate, estimate_gap
from analysis.judgerates import CorrectedGap, JudgeRates, correct_estimate, shortfall
from analysis.load import Table, one_of
from analysis.means import seed_means
from analysis.plan import GRADER
from analysis.rates import Rate
from registry.records import Graded, JudgePin, Plan, record_digest


@dataclass(frozen=True, slots=True)
class JudgeFacts:
    """What the ledger and the study say of a judge, for its column."""

    pin: JudgePin
    rates: JudgeRates | None  # None where it was never checked
    graded: tuple[Graded, ...] = ()
    same_family: tuple[str, ...] = ()  # models of its own maker


@dataclass(frozen=True, slots=True)
class JudgeGap:
    """A model at a wave: public minus private by a judge, freed of its errors, and exactly. All of
    the plan's first outcome; None where it cannot be told."""

    wave: int
    model: str
    exact: float | None
    judged: float
    corrected: CorrectedGap | None


@dataclass(frozen=True, slots=True)
class JudgeColumn:
    """One judge in a report. Where it is withheld, for the reason given, there are no gaps."""

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


def judge_column(plan: Plan, table: Table, facts: JudgeFacts) -> JudgeColumn:
    """The column of a judge: withheld where the plan asks more of it than it was measured at."""
    pin, digest = facts.pin, record_digest(facts.pin)
    rule = next((each for each in plan.judges if each.name == pin.name), None)
    withheld = "" if rule is None else shortfall(rule, facts.rates)
    here = table["grader"] == pin.name
    waves = tuple(sorted(set(table["wave"][here].tolist())))
    records = {record.wave: record for record in facts.graded}
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
        gaps=() if withheld else _gaps(plan, table, pin.name, facts.rates),
    )


def judge_departures(plan: Plan, columns: Iterable[JudgeColumn], waves: Sequence[int]) -> list[str]:
    """Where judges depart from what was promised of them, a sentence each."""
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
    return found


def _gaps(plan: Plan, table: Table, judge: str, rates: JudgeRates | None) -> tuple[JudgeGap, ...]:
    exact = _estimates(plan, table, GRADER)
    return tuple(
        JudgeGap(
            wave, model,
            exact[wave, model].gap if (wave, model) in exact else None,
            judged.gap,
            None if rates is None else correct_estimate(judged, rates),
        )
        for (wave, model), judged in _estimates(plan, table, judge).items()
    )  # fmt: skip


def _estimates(plan: Plan, table: Table, grader: str) -> dict[tuple[int, str], GapEstimate]:
    """The gap of each model at each wave by one grader, where every stratum has both arms."""
    rows = table.where((table["grader"] == grader) & one_of(table["stratum"], plan.strata))
    found = {}
    for wave in sorted(set(rows["wave"].tolist())):
        data = seed_means(rows, wave, plan.outcomes[:1], plan.strata)
        for place, model in enumerate(data.models):
            scores = data.values[:, place, 0]
            there = ~np.isnan(scores)
            stratum, public = data.stratum[there], data.public[there]
            cells = set(zip(stratum.tolist(), public.tolist(), strict=True))
            if len(cells) == 2 * len(data.strata):
                found[wave, model] = estimate_gap(scores[there], stratum, public)
    return found


def column_json(column: JudgeColumn) -> dict[str, Any]:
    """A column as plain JSON values: ``withheld`` is a reason, or null; ``sensitivity`` and
    ``specificity`` tell rate, interval and the criteria behind them; ``gaps`` has a row for each
    model, with the gap as the judge graded it, ``corrected`` and its interval, and the exact
    grader's."""
    rates = column.rates
    return {
        "judge": column.judge,
        "digest": column.digest,
        "provider": column.provider,
        "version": column.version,
        "withheld": column.withheld or None,
        "criteria": None if rates is None else rates.criteria,
        "sensitivity": None if rates is None else _rate_json(rates.sensitivity),
        "specificity": None if rates is None else _rate_json(rates.specificity),
        "kappa": None if rates is None else rates.kappa,
        "same_family": list(column.same_family),
        "waves": list(column.waves),
        "unpinned": list(column.unpinned),
        "gaps": [_gap_json(gap) for gap in column.gaps],
    }


def _rate_json(rate: Rate) -> dict[str, Any]:
    return {"rate": rate.mean, "interval": rate.interval, "criteria": rate.answers}


def _gap_json(gap: JudgeGap) -> dict[str, Any]:
    corrected = gap.corrected
    return {
        "wave": gap.wave,
        "model": gap.model,
        "exact": gap.exact,
        "judged": gap.judged,
        "corrected": None if corrected is None else corrected.gap,
        "interval": None if corrected is None else corrected.interval,
    }
