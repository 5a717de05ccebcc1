"""The share of verdicts that control C1 withholds where the negative controls are clean
(spec/statistics.md, C1, P6).

The rule is that of ``analysis.plan.controls``, put together as in ``analysis.plan.standard``:
verdicts of a look are withheld where the models from before the publication fail, or the frozen
ones at the look, whose interval is that of all of them together. Events that appear only in
the data, such as lost runs, are not simulated.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.plan import ControlSettings, clean_controls, control_settings, pool_models
from analysis.planning.variance_components import (
    Components,
    SimulationSize,
    allocation,
    batches,
    draw_columns,
    draw_normal,
    draw_shared,
    rate_error,
)
from analysis.stats import Bools, Floats, Ints, t_quantile
from registry.ledger import Plan

TARGET = 0.10  # share of withheld looks that a remedy aims at
ALARM = 0.20  # a larger share is warned of
MOST_SEEDS = 20_000  # an arm and stratum
MOST_MODELS = 64  # before publication
_DRAWS = 40_000  # of the formula
_TRIES = 6  # of a remedy, a tenth more each time


@dataclass(frozen=True, slots=True)
class NegativeControls:
    """The negative controls that a look rests on, a name for each run of a model over all
    instances: those before the first look, and the frozen ones at the look."""

    baseline: tuple[str, ...]
    frozen: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The model of each run: the baseline, then the frozen ones."""
        return (*self.baseline, *self.frozen)

    @property
    def covariate(self) -> tuple[int, ...]:
        """The places among ``columns`` of the pre-exposure models: their scores make the
        covariate."""
        return tuple(i for i, name in enumerate(self.columns) if name in self.baseline)

    @property
    def models(self) -> float:
        """Effective number of models in the covariate: different models with as little noise."""
        names = [self.columns[place] for place in self.covariate]
        return len(names) ** 2 / sum(names.count(name) for name in names)

    def runs(self, replicates: int) -> int:
        """Number of runs on each instance that make the covariate."""
        return replicates * len(self.covariate)


@dataclass(frozen=True, slots=True, eq=False)
class ControlOutcome:
    """Studies (B,): whether C1 withholds a look's verdicts, and half the 90 % interval that must
    fit into the margin, the widest where there are two."""

    withheld: Bools
    half_width: Floats


@dataclass(frozen=True, slots=True)
class Remedy:
    """A ``count`` of ``what`` ("instances an arm and stratum", "pre-exposure models"), and the
    share of looks that is withheld at it, by simulation."""

    what: str
    count: int
    withheld: float
    error: float


def apply_controls(
    controls: NegativeControls,
    values: Floats,
    stratum: Ints,
    public: Bools,
    settings: ControlSettings,
) -> ControlOutcome:
    """C1 of one look of many studies. ``values`` (n, B, columns, outcomes) are the controls'
    scores, none missing; the studies share the permutations."""
    first, studies = len(controls.baseline), values.shape[1]
    parts = [p for p in (values[:, :, :first], values[:, :, first:]) if p.shape[2]]
    pools = [pool_studies(part, stratum) for part in parts]
    intervals = [pools[0], pool_studies(values, stratum)][: len(parts)]
    results = clean_controls(
        np.concatenate(pools, axis=1),
        stratum,
        public,
        settings,
        wider=np.concatenate([pool[:, :, 0] for pool in intervals], axis=1),
    )
    failed = np.array([not result.passed for result in results])
    half = np.array([(result.interval90[1] - result.interval90[0]) / 2 for result in results])
    by_study = (len(parts), studies)
    withheld = np.logical_or.reduce(failed.reshape(by_study), axis=0)
    return ControlOutcome(np.asarray(withheld), half.reshape(by_study).max(axis=0))


def pool_studies(values: Floats, stratum: Ints) -> Floats:
    """``pool_models`` of many studies: (n, B, columns, outcomes) to (n, B, outcomes)."""
    n, studies, columns, outcomes = values.shape
    wide = np.moveaxis(values, 2, 1).reshape(n, columns, studies * outcomes)
    return pool_models(wide, stratum).reshape(n, studies, outcomes)


def withheld_rate(
    plan: Plan, components: Components, controls: NegativeControls, effort: SimulationSize
) -> tuple[float, float]:
    """The share of looks that C1 withholds, and its Monte-Carlo error."""
    planned = replace(plan, permutations=effort.permutations)
    stratum, public = allocation(plan)
    outcomes = len(plan.outcomes)
    size, lost = len(stratum) * len(controls.columns) * outcomes, 0
    for count, stream, seed in batches(effort.seed, "controls", effort.replications, size):
        shared = draw_shared(components, outcomes, (len(stratum), count), stream)
        values = draw_columns(components, shared, controls.columns, plan.replicates, stream)
        settings = control_settings(planned, seed)
        lost += int(apply_controls(controls, values, stratum, public, settings).withheld.sum())
    rate = lost / effort.replications
    return rate, rate_error(rate, effort.replications)


def withheld_by_formula(plan: Plan, components: Components, controls: NegativeControls) -> float:
    """The same with normal gaps of known spread: a control fails where |z| of an outcome passes
    the point that it should pass so often, or |gap| + t SE the margin."""
    settings = control_settings(plan, 0)
    pools = [pool for pool in (controls.baseline, controls.frozen) if pool]
    covariance = _pool_covariance(plan, components, pools)
    gaps = _normal_gaps(components, covariance, len(plan.outcomes))
    share = np.array([len(pool) for pool in pools]) / len(controls.columns)
    weights = [np.eye(len(pools))[0], share][: len(pools)]
    n = len(plan.strata) * (plan.seeds_per_arm - 1)
    t = t_quantile(0.95, max(1, 2 * n))
    lost = np.zeros(len(gaps), dtype=bool)
    for place, weight in enumerate(weights):
        z = np.abs(gaps[:, place] / math.sqrt(covariance[place, place])).max(axis=1)
        lost |= z > np.quantile(z, 1 - settings.level)
        half = t * math.sqrt(float(weight @ covariance @ weight)) * components.sd[0]
        estimate = np.abs(gaps[:, :, 0] @ weight) * components.sd[0]
        lost |= estimate + half >= settings.margin
    return float(lost.mean())


def find_seeds(
    plan: Plan, components: Components, controls: NegativeControls, effort: SimulationSize
) -> Remedy | None:
    """The instances an arm and stratum at which ``TARGET`` is met: by formula, then simulated,
    and more where it did not hold. None where nothing within reach does."""

    def planned(count: int) -> tuple[Plan, Components, NegativeControls]:
        return replace(plan, seeds_per_arm=count), components, controls

    least = plan.seeds_per_arm + 1
    return _find("instances an arm and stratum", planned, (least, MOST_SEEDS), effort)


def find_models(
    plan: Plan, components: Components, controls: NegativeControls, effort: SimulationSize
) -> Remedy | None:
    """The models from before publication, each run once over, that do it at the planned seeds."""
    first = len(controls.baseline)

    def planned(count: int) -> tuple[Plan, Components, NegativeControls]:
        more = tuple(f"one more {number}" for number in range(count - first))
        return plan, components, replace(controls, baseline=(*controls.baseline, *more))

    return _find("pre-exposure models", planned, (first + 1, MOST_MODELS), effort)


def _find(
    what: str,
    planned: Callable[[int], tuple[Plan, Components, NegativeControls]],
    bounds: tuple[int, int],
    effort: SimulationSize,
) -> Remedy | None:
    """The least number within bounds at which the formula, which falls, is at ``TARGET``; and
    more until the simulation is."""

    def enough(count: int) -> bool:
        return withheld_by_formula(*planned(count)) <= TARGET

    least, most = bounds
    if least > most or not enough(most):
        return None
    count = least + bisect_left(range(least, most), True, key=enough)
    for _ in range(_TRIES):
        if count > most:
            return None
        rate, error = withheld_rate(*planned(count), effort)
        if rate <= TARGET + 2 * error:
            return Remedy(what, count, rate, error)
        count = math.ceil(1.1 * count)
    return None


def _pool_covariance(plan: Plan, components: Components, pools: Sequence[Sequence[str]]) -> Floats:
    """Of the gaps of pools of columns, in units of a run's variance."""
    everyone, per_seed, run = components.parts
    covariance = np.full((len(pools), len(pools)), everyone)
    for i, one in enumerate(pools):
        for j, two in enumerate(pools):
            same = sum(one.count(name) * two.count(name) for name in set(one))
            covariance[i, j] += per_seed * same / (len(one) * len(two))
        covariance[i, i] += run / plan.replicates / len(one)
    return np.asarray(covariance * 2 / (len(plan.strata) * plan.seeds_per_arm))


def _normal_gaps(components: Components, covariance: Floats, outcomes: int) -> Floats:
    """Draws (N, pools, outcomes), the same ones every time."""
    stream = np.random.Generator(np.random.PCG64(1))
    standard = replace(components, sd=(1.0,) * outcomes)
    drawn = draw_normal(standard, outcomes, (_DRAWS, len(covariance)), stream)
    return np.asarray(np.einsum("ij,njo->nio", np.linalg.cholesky(covariance), drawn))
