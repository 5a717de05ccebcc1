"""Power and sample size, by simulation of the plan's own test.

Seed means are drawn from variance components; each study is calibrated, permuted and tested
at the look's alpha over its models by the functions that the plan runs (P1, P3), and the
monitoring over looks likewise (P4). Formulas give the range to simulate.

One of a look's models is inflated where power for a model is asked, so that the step-down over
models gives it nothing; all models from the onset on where it is asked for the study. The
control models that calibrate the scores are drawn on the same instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from analysis.errors import AnalysisError
from analysis.plan.presets import look_alpha, validate_plan
from analysis.plan.primary import ModelScores, Studies
from analysis.plan.rule import apply_rule
from analysis.power.variance_components import (
    Components,
    SimulationSize,
    allocation,
    batches,
    check_components,
    draw_normal,
    draw_shared,
    rate_error,
)
from analysis.stats.adjustment import calibrate
from analysis.stats.clearing import clear_models, find_doubts
from analysis.stats.intervals import estimate_gaps
from analysis.stats.permutation import Bools, Floats, Ints, permute_gaps
from analysis.stats.sequential import linear_spending, remove_rows, scan_windows, tie_keys
from registry.ledger.records import Plan

Watch = Callable[[int, int], None]  # steps done, of

MOST_SEEDS = 20_000  # an arm and stratum: beyond it a number is not worth having
_LADDER = (0.7, 0.85, 1.0, 1.2, 1.45)  # times the number by the formula
_LEAST, _MOST = 0.02, 0.98  # powers that a straight line through probits may rest on


@dataclass(frozen=True, slots=True)
class PowerSetting:
    """The values that are varied beside the plan: the new models of a look, the control models and
    the runs of each on an instance (no models: nothing is calibrated), the inflation, and the look
    at which it begins."""

    models: int = 1
    control_models: int = 0
    control_runs: int = 1
    gap: float = 0.10  # of a model
    study_gap: float = 0.05  # of all models from the onset on
    onset: int = 1


@dataclass(frozen=True, slots=True)
class PowerDesign:
    """A planned study: the plan's strata, seeds, runs, looks, alpha and outcomes; the components of
    the variance; and the settings that vary beside the plan."""

    plan: Plan
    components: Components
    setting: PowerSetting = field(default_factory=PowerSetting)

    @property
    def control_noise(self) -> float:
        """The share of a run's variance by which the control models' mean strays from what all
        models share; 0 without them."""
        _, per_seed, run = self.components.parts
        setting = self.setting
        if not setting.control_models:
            return 0.0
        return (per_seed + run / setting.control_runs) / setting.control_models

    @property
    def own_share(self) -> float:
        """The share of a run's variance in a seed mean that is the model's own."""
        _, per_seed, run = self.components.parts
        return per_seed + run / self.plan.replicates

    @property
    def standard_error(self) -> float:
        """Of a model's gap in the outcome that shows it best, in units of that outcome's inflation,
        calibrated where there are control models."""
        plan, everyone = self.plan, self.components.parts[0]
        mean = self.own_share + (self.control_noise if self.setting.control_models else everyone)
        n = sum(plan.sizes)
        pairs = zip(self.components.sd, self.raised, strict=False)
        least = min(sd / raised for sd, raised in pairs if raised > 0)
        return least * math.sqrt(2 * mean / n)

    def shown(self, gap: float) -> float:
        """The part of an inflation that the score has room for, between guesses and full marks."""
        return min((1 - self.components.guessed) * gap, self.components.lacks)

    @property
    def raised(self) -> tuple[float, ...]:
        """The inflation of each outcome, in units of the first one's."""
        others = len(self.plan.outcomes) - 1
        return self.components.raised or (1.0,) * (1 + others)


@dataclass(frozen=True, slots=True)
class PowerPoint:
    """One design. Powers are simulated, with their Monte-Carlo errors; ``formula`` is
    the power from (gap / SE − z) for the least noisy inflated outcome, with alpha shared equally
    by the look's models."""

    seeds: int  # an arm and stratum
    gap: float
    power: float  # to name a model that is inflated (P3)
    error: float
    formula: float
    cleared: float  # chance to clear a model of a look of clean ones
    cleared_error: float
    study_power: float | None = None  # to reject for the study by the last look (P4)
    study_error: float | None = None
    study_look: float | None = None  # mean look of rejection


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """Points, and the value at which power reaches ``target``; None where nothing within reach
    does. ``formula`` is the value by formula."""

    target: float
    points: tuple[PowerPoint, ...]
    value: float | None
    formula: float | None


def check_design(design: PowerDesign, effort: SimulationSize) -> None:
    """Raise AnalysisError where nothing can be simulated as asked."""
    plan, setting = validate_plan(design.plan), design.setting
    for gap in (setting.gap, setting.study_gap):
        if not 0 < gap < 1:
            raise AnalysisError(f"gap {gap:g} must lie between 0 and 1 (0.05 is five points)")
    least = math.ceil(plan.looks / plan.alpha) - 1
    if effort.permutations < least:
        raise AnalysisError(
            f"{effort.permutations} permutations cannot reach alpha {plan.alpha:g} over "
            f"{plan.looks} looks; give {least} or more"
        )
    check_components(design.components)


def power_at(design: PowerDesign, effort: SimulationSize, *, study: bool = True) -> PowerPoint:
    """Power of one design; the study's too where the plan monitors one (standard-v1)."""
    check_design(design, effort)
    plan, replications = design.plan, effort.replications
    power = float(_one_look(design, effort).mean())
    error = rate_error(power, replications)
    cleared = chance_cleared(design, effort)
    point = PowerPoint(
        seeds=round(sum(plan.sizes) / len(plan.strata)),
        gap=design.setting.gap,
        power=power,
        error=error,
        formula=formula_power(design),
        cleared=cleared,
        cleared_error=rate_error(cleared, replications * design.setting.models),
    )
    if not study or plan.standard is None:
        return point
    looks = _study_looks(design, effort, plan.standard.study_alpha)
    rate = float((looks > 0).mean())
    return replace(
        point,
        study_power=rate,
        study_error=rate_error(rate, effort.studies),
        study_look=float(looks[looks > 0].mean()) if rate else None,
    )


def chance_cleared(design: PowerDesign, effort: SimulationSize) -> float:
    """The chance that a model is cleared in a look whose models are all clean."""
    plan, setting = design.plan, design.setting
    stratum, public = allocation(plan)
    outcomes, cleared = len(plan.outcomes), 0
    size = len(stratum) * (setting.models + setting.control_models) * outcomes
    for count, stream, _ in batches(effort.seed, "clean", effort.replications, size):
        values, controls = _draw_look(design, count, stream)
        scores = _calibrated(values, _mean_of(controls), stratum)
        gaps = estimate_gaps(scores, stratum, public)
        doubts = find_doubts(scores, stratum, public, controls)
        cleared += int(clear_models(gaps, plan.margin, doubts).cleared.sum())
    return cleared / (effort.replications * setting.models)


def _unwatched(done: int, of: int) -> None:
    """Report no progress."""


def _with_seeds(design: PowerDesign, seeds: int) -> PowerDesign:
    return replace(design, plan=replace(design.plan, seeds_per_arm=seeds))


def seeds_curve(
    design: PowerDesign, effort: SimulationSize, target: float, watch: Watch = _unwatched
) -> PowerCurve:
    """Power over seeds an arm and stratum, and the number that reaches the target: simulated
    about the formula's, a line through the probits over √seeds, and simulated again there."""
    start = formula_seeds(design, target)
    if start > MOST_SEEDS:
        return PowerCurve(target, (), None, None)
    tried = sorted({max(2, round(start * step)) for step in _LADDER})
    points: list[PowerPoint] = []
    for seeds in tried:
        points.append(power_at(_with_seeds(design, seeds), effort))
        watch(len(points), len(tried) + 1)
    root = _crossing([(math.sqrt(p.seeds), p.power) for p in points], target)
    if root is None or root < 0 or root**2 > MOST_SEEDS:
        return PowerCurve(target, tuple(points), None, start)
    needed = max(2, math.ceil(root**2))
    if needed not in tried:
        points.append(power_at(_with_seeds(design, needed), effort))
    watch(len(tried) + 1, len(tried) + 1)
    return PowerCurve(target, tuple(sorted(points, key=lambda p: p.seeds)), needed, start)


def gaps_curve(
    design: PowerDesign, effort: SimulationSize, target: float, watch: Watch = _unwatched
) -> PowerCurve:
    """Power over the inflation at the plan's seeds, and the smallest that reaches the target."""
    start = formula_gap(design, target)
    tried = sorted({min(0.9, start * math.sqrt(step)) for step in _LADDER})
    points: list[PowerPoint] = []
    for gap in tried:
        inflated = replace(design, setting=replace(design.setting, gap=gap))
        points.append(power_at(inflated, effort))
        watch(len(points), len(tried))
    crossing = _crossing([(p.gap, p.power) for p in points], target)
    value = crossing if crossing is not None and 0 < crossing < 1 else None
    return PowerCurve(target, tuple(points), value, start)


# Formulas


def formula_power(design: PowerDesign) -> float:
    """Φ(gap / SE − z), z of the look's alpha shared by its models."""
    from scipy.special import ndtr

    shown = design.shown(design.setting.gap)
    return float(ndtr(shown / design.standard_error - _critical(design)))


def formula_gap(design: PowerDesign, target: float) -> float:
    """The gap of that power."""
    shown = _total_z(design, target) * design.standard_error
    return shown / (1 - design.components.guessed)


def formula_seeds(design: PowerDesign, target: float) -> int:
    """The seeds an arm and stratum of that power."""
    one = _with_seeds(design, 1).standard_error
    shown = design.shown(design.setting.gap)
    return max(2, math.ceil((_total_z(design, target) * one / shown) ** 2))


def _critical(design: PowerDesign) -> float:
    from scipy.special import ndtri

    return float(-ndtri(look_alpha(design.plan) / design.setting.models))


def _total_z(design: PowerDesign, target: float) -> float:
    from scipy.special import ndtri

    return _critical(design) + float(ndtri(target))


# The plan's test on many simulated studies at once


def claims(
    plan: Plan, values: Floats, control: Floats | None, stratum: Ints, public: Bools, seed: int
) -> Bools:
    """True for each model that the plan names in a study (B, models): D5, P1, P3 of one look.

    ``values`` (n, B, models, outcomes) are seed means of B studies on the same allocation;
    ``control`` (n, B, outcomes) the control models' means. The studies share the permutations.
    """
    n, studies, models, outcomes = values.shape
    wide = None if control is None else np.repeat(control, models, axis=1)
    scores = ModelScores(values.reshape(n, studies * models, outcomes), wide)
    members = np.arange(studies * models).reshape(studies, models)
    drawn = Studies(scores, members, public[:, None], stratum, np.zeros_like(stratum))
    return apply_rule(plan, drawn, scores.adjusted(stratum).residuals, seed).contaminated


def first_rejections(
    scores: Floats, stratum: Ints, public: Bools, *, alpha: float, permutations: int, seed: int
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
        [remove_rows(scan_windows(by_study[:, b])[0], quota, keys)[0] for b in range(studies)]
    )


def _one_look(design: PowerDesign, effort: SimulationSize) -> Bools:
    """The studies that name the inflated model of a look."""
    plan, setting = design.plan, design.setting
    stratum, public = allocation(plan)
    tested = replace(plan, permutations=effort.permutations)
    outcomes = len(plan.outcomes)
    raised = design.shown(setting.gap) * np.array(design.raised)
    named: list[Bools] = []
    size = len(stratum) * (setting.models + setting.control_models) * outcomes
    for count, stream, seed in batches(effort.seed, "model", effort.replications, size):
        values, controls = _draw_look(design, count, stream)
        values[public, :, 0] += raised
        named.append(claims(tested, values, _mean_of(controls), stratum, public, seed)[:, 0])
    return np.concatenate(named)


def _draw_look(
    design: PowerDesign, count: int, stream: np.random.Generator
) -> tuple[Floats, Floats | None]:
    """Seed means (n, B, models, outcomes) of a look of clean models, and the control models'
    (n, B, control models, outcomes), None without any."""
    components, outcomes = design.components, len(design.plan.outcomes)
    n = len(allocation(design.plan)[0])
    shared = draw_shared(components, outcomes, (n, count), stream)
    controls = _draw_controls(design, shared, stream)
    shape = (n, count, design.setting.models)
    noise = math.sqrt(design.own_share) * draw_normal(components, outcomes, shape, stream)
    return shared[:, :, None] + noise, controls


def _calibrated(values: Floats, control: Floats | None, stratum: Ints) -> Floats:
    """Seed means (n, B, models, outcomes) minus the control models' means, if there are any."""
    n, studies, models, outcomes = values.shape
    if control is None:
        return values
    wide = np.repeat(control, models, axis=1)
    flat = calibrate(values.reshape(n, studies * models, outcomes), wide, stratum).residuals
    return flat.reshape(values.shape)


def _study_looks(design: PowerDesign, effort: SimulationSize, alpha: float) -> Ints:
    """The look at which each simulated study rejects, all models inflated from the onset on."""
    plan, components, setting = design.plan, design.components, design.setting
    stratum, public = allocation(plan)
    looks = []
    size = len(stratum) * plan.looks
    for count, stream, seed in batches(effort.seed, "study", effort.studies, size):
        shared = draw_shared(components, 1, (len(stratum), count), stream)
        x = _mean_of(_draw_controls(design, shared, stream))
        spread = components.sd[0] * math.sqrt(design.own_share / setting.models)
        shape = (len(stratum), count, plan.looks)
        scores = shared + spread * stream.standard_normal(shape)
        scores[public, :, setting.onset - 1 :] += design.shown(setting.study_gap)
        if x is not None:
            flat = scores.reshape(len(stratum), -1, 1)
            wide = np.repeat(x, plan.looks, axis=1)
            scores = calibrate(flat, wide, stratum).residuals.reshape(shape)
        looks.append(
            first_rejections(
                scores, stratum, public, alpha=alpha, permutations=effort.permutations, seed=seed
            )
        )
    return np.concatenate(looks)


def _draw_controls(
    design: PowerDesign, shared: Floats, stream: np.random.Generator
) -> Floats | None:
    """Seed means (n, B, control models, outcomes) of the control models; None without any."""
    models = design.setting.control_models
    if not models:
        return None
    n, studies, outcomes = shared.shape
    drawn = draw_normal(design.components, outcomes, (n, studies, models), stream)
    return shared[:, :, None] + math.sqrt(models * design.control_noise) * drawn


def _mean_of(controls: Floats | None) -> Floats | None:
    return None if controls is None else np.asarray(controls.mean(axis=2))


def _crossing(points: Sequence[tuple[float, float]], target: float) -> float | None:
    """The point where a line through the probits reaches the target; None if it does not rise."""
    from scipy.special import ndtri

    kept = [(x, float(np.clip(y, _LEAST, _MOST))) for x, y in points if 0 < y < 1]
    if len(kept) < 2:
        return None
    x = np.array([pair[0] for pair in kept])
    z = ndtri(np.array([pair[1] for pair in kept]))
    slope, level = np.polyfit(x, z, 1)
    return None if slope <= 0 else float((ndtri(target) - level) / slope)
