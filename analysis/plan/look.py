"""Running the registered plan, look by look; anything else is exploratory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
from numpy.typing import NDArray

from analysis.data import ArmCount, ResultTable, SeedMeans, count_arms, make_seed_means, one_of
from analysis.errors import AnalysisError
from analysis.plan.burned import BurnedSeeds, keep_rows, note_burned
from analysis.plan.judge_drift import Drift
from analysis.plan.presets import GRADER, KEEP, STANDARD, control_models, look_alpha, validate_plan
from analysis.plan.standard import StandardResult, run_standard
from analysis.plan.verdict import Rule, Verdict, decide, decide_nothing
from analysis.stats import (
    MeanEstimate,
    estimate_gap,
    estimate_mean,
    holm,
    max_t,
    p_values,
    permutation_seed,
    permute_blocks,
    westfall_young,
)
from registry.ledger import Plan
from registry.result_row import Arm

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class ArmMean:
    """A model's mean in one arm: over all strata, where ``stratum`` is empty, or in one."""

    wave: int
    model: str
    stratum: str
    arm: Arm
    estimate: MeanEstimate


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a plan gives on a table: verdicts by wave and model, and what stands behind them."""

    plan: Plan
    registration: str
    verdicts: tuple[Verdict, ...]
    means: tuple[ArmMean, ...]
    counts: tuple[ArmCount, ...]
    standard: StandardResult | None = None  # of a plan standard-v1
    burned: tuple[BurnedSeeds, ...] = ()  # of the models that have any


def analyse(
    plan: Plan,
    table: ResultTable,
    registration: str,
    *,
    grader: str = GRADER,
    published: date | None = None,
    drifts: Sequence[Drift] = (),
    scored_by: str = GRADER,
) -> Analysis:
    """Run the registered plan over every wave of the table.

    With basic-v1 each wave is one look; with standard-v1 each that has a model which is no
    control, and ``published``, the day of the first release, is held against the dates of those;
    ``drifts`` and ``scored_by`` are as ``run_standard`` takes them.

    ``registration`` is the digest of the Preregistration: it seeds the permutations. Waves
    beyond the registered looks are marked exploratory, as is any grader but the registered one.
    Raises AnalysisError for an invalid plan, or a table without rows that the plan can use.
    """
    if plan.name == STANDARD and grader == GRADER:
        validate_plan(plan)
        found = run_standard(
            plan, table, registration, published=published, drifts=drifts, scored_by=scored_by
        )
        return _with_means(plan, table, registration, found)
    hypothesis = "primary" if grader == GRADER else f"grader {grader}"
    return _analyse(plan, table, registration, grader, hypothesis, exploratory=grader != GRADER)


def explore(
    plan: Plan,
    table: ResultTable,
    registration: str,
    label: str,
    *,
    outcomes: Sequence[str] | None = None,
    strata: Sequence[str] | None = None,
    grader: str = GRADER,
) -> Analysis:
    """The same test with other outcomes, strata or grader. Each Verdict says that it is
    exploratory, and carries the label. Raises AnalysisError as ``analyse`` does."""
    other = replace(
        plan,
        outcomes=tuple(outcomes or plan.outcomes),
        strata=tuple(strata or plan.strata),
    )
    return _analyse(other, table, registration, grader, label, exploratory=True)


def _with_means(
    plan: Plan, table: ResultTable, registration: str, found: StandardResult
) -> Analysis:
    held = table.where((table["grader"] == GRADER) & one_of(table["stratum"], plan.strata))
    waves = sorted(set(held["wave"].tolist()))
    means = [
        m
        for w in waves
        for m in _arm_means(make_seed_means(held, plan.outcomes, plan.strata, wave=w))
    ]
    return Analysis(
        plan, registration, found.verdicts, tuple(means), count_arms(held), found, found.burned
    )


def _analyse(
    plan: Plan,
    table: ResultTable,
    registration: str,
    grader: str,
    hypothesis: str,
    *,
    exploratory: bool,
) -> Analysis:
    validate_plan(plan)
    held = table.where((table["grader"] == grader) & one_of(table["stratum"], plan.strata))
    if not len(held):
        raise AnalysisError(
            f"no rows by grader {grader!r} in the strata {', '.join(plan.strata)}: nothing to test"
        )
    rule = KEEP if plan.standard is None else plan.standard.burned
    kept = keep_rows(held, rule, control_models(plan))
    seeds = {(each.wave, each.model): each for each in kept.seeds}
    clean = held.where(kept.primary)
    verdicts: list[Verdict] = []
    means: list[ArmMean] = []
    for number, wave in enumerate(sorted(set(held["wave"].tolist()))):
        data = make_seed_means(clean, plan.outcomes, plan.strata, wave=wave)
        beyond = exploratory or number >= plan.looks
        found = _look_verdicts(plan, data, registration, hypothesis, beyond)
        verdicts += (note_burned(each, seeds.get((wave, each.model))) for each in found)
        every = (
            data if clean is held else make_seed_means(held, plan.outcomes, plan.strata, wave=wave)
        )
        means += _arm_means(every)
    return Analysis(
        plan, registration, tuple(verdicts), tuple(means), count_arms(held), burned=kept.seeds
    )


def _look_verdicts(
    plan: Plan, data: SeedMeans, registration: str, hypothesis: str, exploratory: bool
) -> list[Verdict]:
    testable = [m for m in range(len(data.models)) if _has_both_arms(data, m)]
    p, adjusted = _adjusted(plan, data, testable, registration)
    rule = Rule(look_alpha(plan), plan.margin, hypothesis, exploratory)
    found = dict(zip(testable, zip(p.tolist(), adjusted.tolist(), strict=True), strict=True))
    return [
        _verdict(data, m, found[m], rule) if m in found else _no_verdict(data, m, rule)
        for m in range(len(data.models))
    ]


def _verdict(data: SeedMeans, model: int, p: tuple[float, float], rule: Rule) -> Verdict:
    there = ~np.isnan(data.values[:, model, 0])
    gap = estimate_gap(data.values[there, model, 0], data.stratum[there], data.public[there])
    return decide(data.models[model], data.columns[0].wave, gap, p[0], p[1], rule)


def _no_verdict(data: SeedMeans, model: int, rule: Rule) -> Verdict:
    there = ~np.isnan(data.values[:, model, 0])
    n = int((there & data.public).sum()), int((there & ~data.public).sum())
    return decide_nothing(data.models[model], data.columns[0].wave, n, rule)


def _adjusted(plan: Plan, data: SeedMeans, testable: list[int], registration: str) -> Pair:
    """p and adjusted p of the testable models of a look."""
    if not testable:
        return np.empty(0), np.empty(0)
    if plan.multiplicity == "holm":
        p = np.array([_own_p(plan, data, m, registration) for m in testable])
        return p, holm(p)
    gaps = permute_blocks(
        data.values[:, testable], data.stratum, data.tranche, data.public,
        permutations=plan.permutations, enumerate_up_to=plan.enumerate_up_to,
        seed=permutation_seed(registration, str(data.columns[0].wave)),
    )  # fmt: skip
    statistics = max_t(gaps)
    return p_values(statistics), westfall_young(statistics)


def _own_p(plan: Plan, data: SeedMeans, model: int, registration: str) -> float:
    """A model's p on permutations of the instances that it has, and its own."""
    there = ~np.isnan(data.values[:, model, 0])
    gaps = permute_blocks(
        data.values[there][:, [model]], data.stratum[there], data.tranche[there],
        data.public[there],
        permutations=plan.permutations, enumerate_up_to=plan.enumerate_up_to,
        seed=permutation_seed(registration, data.models[model], str(data.columns[0].wave)),
    )  # fmt: skip
    return float(p_values(max_t(gaps))[0])


def _has_both_arms(data: SeedMeans, model: int) -> bool:
    there = ~np.isnan(data.values[:, model, 0])
    cells = set(zip(data.stratum[there].tolist(), data.public[there].tolist(), strict=True))
    return len(cells) == 2 * len(data.strata)


def _arm_means(data: SeedMeans) -> list[ArmMean]:
    means = []
    for m, model in enumerate(data.models):
        for arm in (Arm.PUBLIC, Arm.PRIVATE):
            there = ~np.isnan(data.values[:, m, 0]) & (data.public == (arm == Arm.PUBLIC))
            scores, stratum = data.values[there, m, 0], data.stratum[there]
            present = np.unique(stratum).tolist()
            if len(present) == len(data.strata):
                means.append(
                    ArmMean(data.columns[m].wave, model, "", arm, estimate_mean(scores, stratum))
                )
            for h in present:
                own = stratum == h
                estimate = estimate_mean(scores[own], stratum[own])
                means.append(ArmMean(data.columns[m].wave, model, data.strata[h], arm, estimate))
    return means
