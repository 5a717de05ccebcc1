"""Power of a level above the instance, by simulation of its own test and by formula."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from analysis.levels.levels import least_p
from analysis.plan.presets import look_alpha
from analysis.stats.permutation import Floats, Statistics, westfall_young
from registry.ledger.draw_records import FAMILY, VARIANT
from registry.ledger.records import Plan

STUDIES, PERMUTATIONS = 400, 3999


@dataclass(frozen=True, slots=True)
class LevelDesign:
    """A level as it is planned: the area of each unit, the spread ``tau`` of the control models
    over units, the SD of a run, the fresh instances of a unit, the control models and the runs of
    each on an instance, and the new models of a look."""

    run_sd: float
    instances: int
    control_models: int
    control_runs: int
    models: int = 1
    level: str = FAMILY
    areas: tuple[str, ...] = ()
    tau: float = 0.0
    measured: bool = True  # τ; else it is the largest with which the level is tested

    @property
    def noise(self) -> float:
        """The variance of a unit's calibrated score: τ² and what sampling adds to it."""
        runs = self.control_models * self.control_runs
        return self.tau**2 + self.run_sd**2 * (1 + (1 / runs if runs else 0)) / self.instances


@dataclass(frozen=True, slots=True)
class LevelPower:
    """The chance that a level finds a gap of one model of a look, with its Monte-Carlo error;
    ``formula`` by the normal distribution, and the least p that the units can show."""

    level: str
    units: int
    tau: float
    measured: bool
    gap: float
    power: float
    error: float
    formula: float
    least_p: float
    alpha: float  # of a look


def level_power(plan: Plan, design: LevelDesign, gap: float, seed: int = 1) -> LevelPower:
    """Simulate studies in which one model gains ``gap`` on the published units."""
    from scipy.special import ndtr, ndtri

    own = replace(plan, alpha=plan.level_alpha)
    alpha, size = look_alpha(own), len(design.areas)
    error = math.sqrt(design.noise) * (2 / math.sqrt(size))  # √(2/P) for pairs, 2/√J for units
    found = _simulate(own, design, gap, seed)
    return LevelPower(
        level=design.level,
        units=size // 2 if design.level == VARIANT else size,
        tau=design.tau,
        measured=design.measured,
        gap=gap,
        power=float(found.mean()),
        error=float(found.std() / math.sqrt(len(found))),
        formula=float(ndtr(gap / error - ndtri(1 - alpha / design.models))),
        least_p=least_p(design.areas),
        alpha=alpha,
    )


def _simulate(plan: Plan, design: LevelDesign, gap: float, seed: int) -> Floats:
    """1 for each study in which the first model, which gains the gap, is found. All studies share
    their permutations, drawn as the test draws them."""
    random = np.random.default_rng(seed)
    sizes = [*Counter(sorted(design.areas)).values()]
    area = np.repeat(np.arange(len(sizes)), sizes)
    # Of each area in turn, the order of its units in each row; the first half stays sealed.
    orders = [random.random((1 + PERMUTATIONS, n)).argsort(axis=1) for n in sizes]
    published = np.concatenate([each >= each.shape[1] // 2 for each in orders], axis=1)
    many, few = (np.array([half(n / 2) for n in sizes])[area] for half in (math.ceil, math.floor))
    weights = np.where(published, 1 / many, -1 / few) / len(sizes)
    scores = random.normal(0, math.sqrt(design.noise), (len(area), STUDIES, design.models))
    scores[published[0], :, 0] += gap
    gaps = np.tensordot(weights, scores, 1)
    z = gaps / gaps.std(axis=0)
    studies = (westfall_young(Statistics(z[0, n], z[1:, n], False)) for n in range(STUDIES))
    return np.array([p[0] <= look_alpha(plan) for p in studies], dtype=float)
