"""Power and sample size, by simulation of the plan's own test (spec/statistics.md, sections 3, 5).

Seed means are drawn from variance components; each study is adjusted (D5), permuted and held
against the look's alpha over its models by the functions that the plan runs (P1, P3), and the
monitoring over looks likewise (P4). Formulas stand beside, and tell where to look.

One of a look's models is inflated where power for a model is asked, so that the step-down over
models gives it nothing; all models from the onset on where it is asked for the study. Where the
plan names negative controls, they are drawn on the same instances and held to C1 by its own rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.errors import AnalysisError
from analysis.plan import (
    ModelScores,
    Studies,
    apply_rule,
    control_settings,
    look_alpha,
    validate_plan,
)
from analysis.planning.control_power import ControlOutcome, NegativeControls, apply_controls
from analysis.planning.variance_components import (
    Components,
    allocation,
    batches,
    check_components,
    draw_columns,
    draw_normal,
    draw_shared,
    rate_error,
)
from analysis.stats import (
    Bools,
    Floats,
    Ints,
    adjust,
    linear_spending,
    permute_gaps,
    remove_rows,
    scan_windows,
    tie_keys,
)
from registry.ledger import Plan

Watch = Callable[[int, int], None]  # steps done, of

MOST_SEEDS = 20_000  # an arm and stratum: beyond it a number is not worth having
_LADDER = (0.7, 0.85, 1.0, 1.2, 1.45)  # of what the formula says
_LEAST, _MOST = 0.02, 0.98  # powers that a straight line through probits may rest on


@dataclass(frozen=True, slots=True)
class PowerSetting:
    """What is varied beside the plan: the new models of a look, the runs of pre-exposure models
    on each instance (0: no covariate), the inflation, and the look at which it begins; the
    negative controls, None where nothing of them is asked."""

    models: int = 1
    covariate_runs: int = 0
    gap: float = 0.05
    final_only: bool = False  # the first outcome alone is inflated
    onset: int = 1
    controls: NegativeControls | None = None


@dataclass(frozen=True, slots=True)
class SimulationSize:
    """How much is simulated. ``permutations`` take the place of the plan's: fewer are enough to
    tell power, and cost it a little. Of the study's power, which takes longer and is mostly near
    1, a quarter of the replications is made, or 100."""

    replications: int = 400
    permutations: int = 1999
    seed: int = 1

    @property
    def studies(self) -> int:
        """Replications for the study's power."""
        return min(self.replications, max(100, self.replications // 4))


@dataclass(frozen=True, slots=True)
class PowerPoint:
    """One design. Powers are simulated, with their Monte-Carlo errors; ``formula`` is what
    (gap / SE − z) gives for the least noisy outcome that is inflated, alpha shared equally by the
    look's models."""

    seeds: int  # an arm and stratum
    gap: float
    power: float  # to name a model that is inflated (P3)
    error: float
    formula: float
    study_power: float | None = None  # to reject for the study by the last look (P4)
    study_error: float | None = None
    study_look: float | None = None  # mean look of rejection
    withheld: float | None = None  # by C1 at a look, of clean controls
    withheld_error: float | None = None
    half_width: float | None = None  # mean, of the 90 % interval that C1 holds to its margin
    issued: float | None = None  # power to name the model in a verdict that is not withheld
    issued_error: float | None = None


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """Points, and the value at which power reaches ``target``; None where nothing within reach
    does. ``formula`` is the value by formula."""

    target: float
    points: tuple[PowerPoint, ...]
    value: float | None
    formula: float | None


def check_setting(plan: Plan, setting: PowerSetting, effort: SimulationSize) -> None:
    """Raise AnalysisError where nothing can be simulated as asked."""
    validate_plan(plan)
    if not 0 < setting.gap < 1:
        raise AnalysisError(f"gap {setting.gap:g} must lie between 0 and 1 (0.05 is five points)")
    if setting.models < 1 or setting.covariate_runs < 0:
        raise AnalysisError("give one new model a look or more, and no negative number of runs")
    if not 1 <= setting.onset <= plan.looks:
        raise AnalysisError(f"onset {setting.onset}: the plan has looks 1 to {plan.looks}")
    if effort.replications < 20:
        raise AnalysisError(f"{effort.replications} replications say nothing; give 20 or more")
    least = math.ceil(plan.looks / plan.alpha) - 1
    if effort.permutations < least:
        raise AnalysisError(
            f"{effort.permutations} permutations cannot reach alpha {plan.alpha:g} over "
            f"{plan.looks} looks; give {least} or more"
        )


def check_target(plan: Plan, target: float) -> None:
    """Raise AnalysisError where no design has that power, or every one."""
    if not look_alpha(plan) < target < 1:
        raise AnalysisError(f"power {target:g} must lie between alpha and 1 (0.8 is usual)")


def power_at(
    plan: Plan,
    components: Components,
    setting: PowerSetting,
    effort: SimulationSize,
    *,
    study: bool = True,
) -> PowerPoint:
    """Power of one design: the plan's strata, seeds, runs, looks, alpha, outcomes; the study's
    where the plan monitors one (standard-v1)."""
    check_setting(plan, setting, effort)
    check_components(components)
    named, outcome = _one_look(plan, components, setting, effort)
    power = float(named.mean())
    point = PowerPoint(
        plan.seeds_per_arm,
        setting.gap,
        power,
        rate_error(power, effort.replications),
        formula_power(plan, components, setting),
    )
    if outcome is not None:
        point = _withhold(point, named, outcome, effort)
    if not study or plan.standard is None:
        return point
    alpha = plan.standard.study_alpha - plan.standard.onset_alpha  # the e-process has its own
    looks = _study_looks(plan, components, setting, effort, alpha)
    rate = float((looks > 0).mean())
    return replace(
        point,
        study_power=rate,
        study_error=rate_error(rate, effort.studies),
        study_look=float(looks[looks > 0].mean()) if rate else None,
    )


def seeds_curve(
    plan: Plan,
    components: Components,
    setting: PowerSetting,
    effort: SimulationSize,
    target: float,
    watch: Watch | None = None,
) -> PowerCurve:
    """Power over seeds an arm and stratum, and how many reach the target: simulated about what
    the formula says, a line through the probits over √seeds, and simulated again there."""
    start = formula_seeds(plan, components, setting, target)
    if start > MOST_SEEDS:
        return PowerCurve(target, (), None, None)
    tried = sorted({max(2, round(start * step)) for step in _LADDER})
    points: list[PowerPoint] = []
    for seeds in tried:
        points.append(power_at(replace(plan, seeds_per_arm=seeds), components, setting, effort))
        _report(watch, len(points), len(tried) + 1)
    root = _crossing([(math.sqrt(p.seeds), p.power) for p in points], target)
    if root is None or root < 0 or root**2 > MOST_SEEDS:
        return PowerCurve(target, tuple(points), None, start)
    needed = max(2, math.ceil(root**2))
    if needed not in tried:
        planned = replace(plan, seeds_per_arm=needed)
        points.append(power_at(planned, components, setting, effort))
    _report(watch, len(tried) + 1, len(tried) + 1)
    return PowerCurve(target, tuple(sorted(points, key=lambda p: p.seeds)), needed, start)


def gaps_curve(
    plan: Plan,
    components: Components,
    setting: PowerSetting,
    effort: SimulationSize,
    target: float,
    watch: Watch | None = None,
) -> PowerCurve:
    """Power over the inflation at the plan's seeds, and the smallest that reaches the target."""
    start = formula_gap(plan, components, setting, target)
    tried = sorted({min(0.9, start * math.sqrt(step)) for step in _LADDER})
    points: list[PowerPoint] = []
    for gap in tried:
        points.append(power_at(plan, components, replace(setting, gap=gap), effort))
        _report(watch, len(points), len(tried))
    crossing = _crossing([(p.gap, p.power) for p in points], target)
    value = crossing if crossing is not None and 0 < crossing < 1 else None
    return PowerCurve(target, tuple(points), value, start)


# Formulas


def standard_error(plan: Plan, components: Components, setting: PowerSetting) -> float:
    """Of a model's gap in the least noisy outcome that is inflated, adjusted where there is a
    covariate."""
    everyone, per_seed, run = components.parts
    mean = everyone + per_seed + run / plan.replicates
    if setting.covariate_runs:
        noise = _covariate_noise(plan, components, setting)
        mean -= everyone**2 / (everyone + noise) if everyone else 0.0
    n = len(plan.strata) * plan.seeds_per_arm
    inflated = components.sd[: 1 if setting.final_only else len(plan.outcomes)]
    return min(inflated) * math.sqrt(2 * mean / n)


def formula_power(plan: Plan, components: Components, setting: PowerSetting) -> float:
    """Φ(gap / SE − z), z of the look's alpha shared by its models."""
    from scipy.special import ndtr

    se = standard_error(plan, components, setting)
    return float(ndtr(setting.gap / se - _critical(plan, setting)))


def formula_gap(plan: Plan, components: Components, setting: PowerSetting, target: float) -> float:
    """The gap of that power."""
    return _total_z(plan, setting, target) * standard_error(plan, components, setting)


def formula_seeds(plan: Plan, components: Components, setting: PowerSetting, target: float) -> int:
    """The seeds an arm and stratum of that power."""
    one = standard_error(replace(plan, seeds_per_arm=1), components, setting)
    return max(2, math.ceil((_total_z(plan, setting, target) * one / setting.gap) ** 2))


def _critical(plan: Plan, setting: PowerSetting) -> float:
    from scipy.special import ndtri

    return float(-ndtri(look_alpha(plan) / setting.models))


def _total_z(plan: Plan, setting: PowerSetting, target: float) -> float:
    from scipy.special import ndtri

    check_target(plan, target)
    return _critical(plan, setting) + float(ndtri(target))


# The plan's test on many simulated studies at once


def claims(
    plan: Plan,
    values: Floats,
    covariate: Floats | None,
    stratum: Ints,
    public: Bools,
    seed: int,
) -> Bools:
    """Which models of which studies the plan names (B, models): D5, P1, P3 of one look.

    ``values`` (n, B, models, outcomes) are seed means of B studies on the same allocation;
    ``covariate`` (n, B, outcomes). The studies share the permutations.
    """
    n, studies, models, outcomes = values.shape
    wide = None if covariate is None else np.repeat(covariate, models, axis=1)
    scores = ModelScores(values.reshape(n, studies * models, outcomes), wide)
    members = np.arange(studies * models).reshape(studies, models)
    drawn = Studies(scores, members, public[:, None], stratum, np.zeros_like(stratum))
    return apply_rule(plan, drawn, scores.adjusted(stratum).residuals, seed).contaminated


def first_rejections(
    scores: Floats,
    stratum: Ints,
    public: Bools,
    *,
    alpha: float,
    permutations: int,
    seed: int,
) -> Ints:
    """P4 of many studies at once: the look at which each rejects, from 1, 0 for never.
    ``scores`` (n, B, looks) are D on seeds that all looks use."""
    n, studies, looks = scores.shape
    gaps = permute_gaps(
        scores.reshape(n, studies * looks, 1),
        stratum,
        public,
        permutations=permutations,
        enumerate_up_to=0,
        seed=seed,
    )
    rows = np.concatenate([gaps.observed[None], gaps.permuted])[..., 0]
    spent = np.array(linear_spending(alpha, looks)) * (permutations + 1)
    quota, keys = np.floor(spent + 1e-9).astype(np.int64), tie_keys(permutations + 1, seed)
    by_study = rows.reshape(len(rows), studies, looks)
    return np.array(
        [
            remove_rows(scan_windows(by_study[:, b]).statistics, quota, keys)[0]
            for b in range(studies)
        ]
    )


def _withhold(
    point: PowerPoint, named: Bools, outcome: ControlOutcome, effort: SimulationSize
) -> PowerPoint:
    """The point, and what C1 leaves of its power."""
    lost, issued = float(outcome.withheld.mean()), float((named & ~outcome.withheld).mean())
    return replace(
        point,
        withheld=lost,
        withheld_error=rate_error(lost, effort.replications),
        half_width=float(outcome.half_width.mean()),
        issued=issued,
        issued_error=rate_error(issued, effort.replications),
    )


def _one_look(
    plan: Plan, components: Components, setting: PowerSetting, effort: SimulationSize
) -> tuple[Bools, ControlOutcome | None]:
    """Whether the one inflated model of a look is named, and what C1 says, by study."""
    stratum, public = allocation(plan)
    tested = replace(plan, permutations=effort.permutations)
    outcomes = len(plan.outcomes)
    columns = 0 if setting.controls is None else len(setting.controls.columns)
    size = len(stratum) * (setting.models + columns) * outcomes
    named, controlled = [], []
    for count, stream, seed in batches(effort.seed, "model", effort.replications, size):
        shared = draw_shared(components, outcomes, (len(stratum), count), stream)
        controls = _controls(plan, components, setting, shared, stream)
        x = _covariate(plan, components, setting, shared, controls, stream)
        _, per_seed, run = components.parts
        spread = math.sqrt(per_seed + run / plan.replicates)
        shape = (len(stratum), count, setting.models)
        noise = spread * draw_normal(components, outcomes, shape, stream)
        values = shared[:, :, None] + noise
        values[public, :, 0] += _raise(setting, outcomes)
        named.append(claims(tested, values, x, stratum, public, seed)[:, 0])
        if controls is not None:
            controlled.append(_hold(tested, setting, controls, stratum, public, seed))
    return np.concatenate(named), _joined(controlled) if controlled else None


def _hold(
    plan: Plan,
    setting: PowerSetting,
    values: Floats,
    stratum: Ints,
    public: Bools,
    seed: int,
) -> ControlOutcome:
    if plan.standard is None or setting.controls is None:
        raise AnalysisError(f"plan {plan.name!r} holds nothing to negative controls")
    settings = control_settings(plan, seed + 1)
    return apply_controls(setting.controls, values, stratum, public, settings)


def _joined(outcomes: Sequence[ControlOutcome]) -> ControlOutcome:
    return ControlOutcome(
        np.concatenate([outcome.withheld for outcome in outcomes]),
        np.concatenate([outcome.half_width for outcome in outcomes]),
    )


def _study_looks(
    plan: Plan, components: Components, setting: PowerSetting, effort: SimulationSize, alpha: float
) -> Ints:
    """The look at which each simulated study rejects, all models inflated from the onset on."""
    stratum, public = allocation(plan)
    looks = []
    size = len(stratum) * plan.looks
    for count, stream, seed in batches(effort.seed, "study", effort.studies, size):
        shared = draw_shared(components, 1, (len(stratum), count), stream)
        x = _covariate(plan, components, setting, shared, None, stream)
        _, per_seed, run = components.parts
        spread = components.sd[0] * math.sqrt((per_seed + run / plan.replicates) / setting.models)
        shape = (len(stratum), count, plan.looks)
        scores = shared + spread * stream.standard_normal(shape)
        scores[public, :, setting.onset - 1 :] += setting.gap
        if x is not None:
            flat = scores.reshape(len(stratum), -1, 1)
            wide = np.repeat(x, plan.looks, axis=1)
            scores = adjust(flat, wide, stratum).residuals.reshape(shape)
        looks.append(
            first_rejections(
                scores, stratum, public, alpha=alpha, permutations=effort.permutations, seed=seed
            )
        )
    return np.concatenate(looks)


def _controls(
    plan: Plan,
    components: Components,
    setting: PowerSetting,
    shared: Floats,
    stream: np.random.Generator,
) -> Floats | None:
    """The negative controls' scores (n, B, columns, outcomes); None where there are none."""
    if setting.controls is None:
        return None
    return draw_columns(components, shared, setting.controls.columns, plan.replicates, stream)


def _covariate(
    plan: Plan,
    components: Components,
    setting: PowerSetting,
    shared: Floats,
    controls: Floats | None,
    stream: np.random.Generator,
) -> Floats | None:
    """x (n, B, outcomes): the mean of the controls' scores where they are as many runs as the
    setting says, else drawn on its own; None without a covariate."""
    if not setting.covariate_runs:
        return None
    if controls is not None and _made_by_controls(plan, setting) and setting.controls is not None:
        return np.asarray(controls[:, :, setting.controls.covariate].mean(axis=2))
    noise = math.sqrt(_covariate_noise(plan, components, setting))
    n, studies, outcomes = shared.shape
    return shared + noise * draw_normal(components, outcomes, (n, studies), stream)


def _made_by_controls(plan: Plan, setting: PowerSetting) -> bool:
    controls = setting.controls
    return controls is not None and controls.runs(plan.replicates) == setting.covariate_runs


def _covariate_noise(plan: Plan, components: Components, setting: PowerSetting) -> float:
    """The share of a run's variance by which x strays from what all models share: that of so many
    models run once, or of the controls, some of which are the same model."""
    _, per_seed, run = components.parts
    models = float(setting.covariate_runs)
    if setting.controls is not None and _made_by_controls(plan, setting):
        models = setting.controls.models
    return per_seed / models + run / setting.covariate_runs


def _raise(setting: PowerSetting, outcomes: int) -> Floats:
    raised = np.full(outcomes, setting.gap)
    if setting.final_only:
        raised[1:] = 0.0
    return raised


def _crossing(points: Sequence[tuple[float, float]], target: float) -> float | None:
    """Where a line through the probits reaches the target; None where it does not rise."""
    from scipy.special import ndtri

    kept = [(x, float(np.clip(y, _LEAST, _MOST))) for x, y in points if 0 < y < 1]
    if len(kept) < 2:
        return None
    x = np.array([pair[0] for pair in kept])
    z = ndtri(np.array([pair[1] for pair in kept]))
    slope, level = np.polyfit(x, z, 1)
    return None if slope <= 0 else float((ndtri(target) - level) / slope)


def _report(watch: Watch | None, done: int, of: int) -> None:
    if watch is not None:
        watch(done, of)
