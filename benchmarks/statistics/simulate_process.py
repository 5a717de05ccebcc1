"""The data-generating process of spec/statistics.md, section 3: what tests and plans are tried on.

Episodes of the four PARAMETR-Bench tasks at their hard level: a task has 7 to 9 metarubrics with 38
to 211 criteria (474 in the four; the article counts "approximately 1900" for four seeds of each).
A criterion of metarubric m of task h passes on run r of seed s with probability

    expit(mu_hm + shared_s + own_s + run_sr + part_srm),

independent normal latents: ``shared`` is what makes an instance hard for every model, ``own`` for
this model, ``run`` is the luck of a run, ``part`` that of a metarubric within it. The mu_hm are
such that each metarubric passes at its own rate on average.

Where the numbers come from. The spread of the whole, and its split, are two things: with a common
latent SD (shared, own and run together) of 1 and a part of .3 the weighted score has an SD of .267
within a task (spec: .267), the unweighted fraction one of .216, criteria within a run an intraclass
correlation of about .19 (spec: .09 to .30). Shares of the variance of a score that stay with a seed
are 4 %, 32 % and 50 % (regimes A, B, C); how much of that all models share is chosen such that four
runs of four other models save the variance that the specification names (A .2 to .5 %, B 13 %,
C 33 %). ``moments`` computes all of it by quadrature, and a test holds the constants to it.

Pure: the stream is passed. Shapes: B replications, n instances (sorted by task), R runs.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
EffectKind = Literal["none", "all", "final", "sparse"]

SPARSE_FIXED = 0.9  # of a known instance's failures


@dataclass(frozen=True, slots=True)
class Metarubric:
    """So many criteria of one weight; ``rate`` is how many of them a clean model passes."""

    weight: float
    rows: int
    rate: float
    final: bool = False  # asks for a final answer


@dataclass(frozen=True, slots=True)
class Regime:
    """SDs of the latents."""

    name: str
    shared: float
    own: float
    run: float
    part: float

    @property
    def stable(self) -> float:
        """The SD of what stays with a seed."""
        return math.hypot(self.shared, self.own)

    @property
    def total(self) -> float:
        return math.hypot(self.shared, self.own, self.run, self.part)


@dataclass(frozen=True, slots=True)
class Design:
    """K tasks, S seeds an arm in each, R runs of each seed."""

    tasks: int
    seeds: int
    runs: int = 1
    covariate_runs: int = 0  # of as many other models, before exposure


@dataclass(frozen=True, slots=True)
class Effect:
    """How the public arm is inflated, by ``size`` of the score.

    ``all``: every criterion's pass rate rises by size. ``final``: only criteria that ask for final
    answers rise, all by the same share of their failures, and the four tasks' mean by size.
    ``sparse``: of a few seeds in each task nine in ten failures are put right, nothing elsewhere.
    """

    kind: EffectKind = "none"
    size: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """Replications of one model's results. ``passed``: by task (B, 2S, R, metarubrics), criteria;
    ``scores`` (B, n, R, 2): weighted score, fraction passed; ``covariate`` (B, n, 2), or None."""

    design: Design
    passed: tuple[NDArray[np.int16], ...]
    scores: Floats
    covariate: Floats | None
    stratum: NDArray[np.int64]
    public: NDArray[np.bool_]

    @property
    def means(self) -> Floats:
        """Seed means (B, n, 2)."""
        values: Floats = self.scores.mean(axis=2)
        return values


@dataclass(frozen=True, slots=True)
class Moments:
    """What a regime amounts to, over the four tasks."""

    sd_score: float  # of a run's weighted score within a task
    sd_fraction: float
    share: float  # of the score's variance that stays with a seed
    shared: float  # of it that all models share
    mean: float


# Weights and rows after the article's tasks at their hard level; rates such that task means lie
# near one half and differ by an SD of some six points, sections (weight .5) being easy.
_SECTION = Metarubric(0.5, 1, 0.78)
TEMPLATES: tuple[tuple[Metarubric, ...], ...] = (
    (  # cepheid_calibration
        Metarubric(2, 60, 0.62),
        Metarubric(8, 60, 0.40),
        Metarubric(1, 1, 0.78),
        Metarubric(10, 1, 0.40, True),
        Metarubric(10, 1, 0.40, True),
        Metarubric(8, 1, 0.40, True),
        Metarubric(8, 1, 0.40, True),
    ),
    (  # hubble_constant
        _SECTION,
        _SECTION,
        _SECTION,
        Metarubric(2, 1, 0.55),
        Metarubric(10, 30, 0.47),
        Metarubric(1, 1, 0.78),
        Metarubric(2, 1, 0.60),
        Metarubric(8, 1, 0.47, True),
        Metarubric(8, 1, 0.47, True),
    ),
    (  # invariant_mass_reconstruction
        _SECTION,
        _SECTION,
        _SECTION,
        Metarubric(0.5, 5, 0.70),
        Metarubric(1, 1, 0.60),
        Metarubric(5, 200, 0.46),
        Metarubric(10, 1, 0.48, True),
        Metarubric(10, 1, 0.48, True),
    ),
    (  # lissajous_figures
        _SECTION,
        _SECTION,
        Metarubric(2, 12, 0.60),
        Metarubric(2, 38, 0.70),
        Metarubric(8, 12, 0.54),
        Metarubric(4, 12, 0.56),
        Metarubric(2, 12, 0.56),
        Metarubric(2, 3, 0.56, True),
        Metarubric(2, 9, 0.62, True),
    ),
)

_COMMON, _PART = 1.055, 0.3


def _regime(name: str, stable: float, shared: float) -> Regime:
    """Of the common latent SD, ``stable`` stays with the seed; ``shared`` of its square is
    every model's."""
    return Regime(
        name,
        shared=stable * math.sqrt(shared),
        own=stable * math.sqrt(1 - shared),
        run=math.sqrt(_COMMON**2 - stable**2),
        part=_PART,
    )


REGIMES = MappingProxyType(
    {
        "A": _regime("A", 0.276, 0.60),
        "B": _regime("B", 0.778, 0.75),
        "C": _regime("C", 0.968, 0.87),
    }
)


def simulate(
    design: Design,
    regime: Regime,
    effect: Effect,
    replications: int,
    stream: np.random.Generator,
) -> Simulated:
    """Replications of a whole study of one model. Tasks beyond the four repeat their templates."""
    per_task = 2 * design.seeds
    public = np.tile(np.arange(per_task) < design.seeds, design.tasks)
    own_public = public[:per_task]
    passed, scores, covariates = [], [], []
    for task in range(design.tasks):
        template = TEMPLATES[task % len(TEMPLATES)]
        shape = (replications, per_task)
        shared = regime.shared * stream.standard_normal(shape)
        results = _episodes(template, regime, shared, design.runs, stream)
        _inflate(results, template, effect, own_public, stream)
        passed.append(results)
        scores.append(_outcomes(results, template))
        if design.covariate_runs:
            others = [
                _outcomes(_episodes(template, regime, shared, 1, stream), template)[:, :, 0]
                for _ in range(design.covariate_runs)
            ]
            covariates.append(np.mean(others, axis=0))
    return Simulated(
        design,
        tuple(passed),
        np.concatenate(scores, axis=1),
        np.concatenate(covariates, axis=1) if covariates else None,
        np.repeat(np.arange(design.tasks), per_task),
        public,
    )


def simulate_looks(
    share: float,
    *,
    looks: int,
    models: int,
    per_arm: int,
    gaps: Floats,
    replications: int,
    stream: np.random.Generator,
    fresh: bool = False,
    covariate_runs: int = 0,
    sd: float = 0.267,
) -> tuple[Floats, Floats | None]:
    """Gaussian scores of a study of many looks (specification, section 4): (B, looks, models, n),
    the first ``per_arm`` of n public and raised by ``gaps`` (looks, models), or one such for each
    replication; and the covariate (B, looks or 1, n). ``share`` of the variance stays with a seed,
    for all models and looks; with ``fresh`` each look has seeds of its own."""
    n = 2 * per_arm
    places = looks if fresh else 1
    stable = math.sqrt(share) * sd * stream.standard_normal((replications, places, n))
    noise = math.sqrt(1 - share) * sd
    scores = noise * stream.standard_normal((replications, looks, models, n))
    scores += stable[:, :, None]
    scores[..., :per_arm] += np.asarray(gaps)[..., None]
    if not covariate_runs:
        return scores, None
    runs = noise / math.sqrt(covariate_runs) * stream.standard_normal((replications, places, n))
    return scores, stable + runs


def moments(regime: Regime) -> Moments:
    """SDs and shares of the four tasks, by quadrature: of what a normal latent leaves of scores,
    and of what the binomial adds."""
    by_task = np.array([_task_moments(template, regime) for template in TEMPLATES])
    score, fraction, stable, shared, mean = by_task.mean(axis=0).tolist()
    return Moments(math.sqrt(score), math.sqrt(fraction), stable / score, shared / stable, mean)


def task_means() -> tuple[float, ...]:
    """The mean weighted score of a clean model in each template."""
    return tuple(
        sum(m.weight * m.rate for m in template) / sum(m.weight for m in template)
        for template in TEMPLATES
    )


def _episodes(
    template: tuple[Metarubric, ...],
    regime: Regime,
    shared: Floats,
    runs: int,
    stream: np.random.Generator,
) -> NDArray[np.int16]:
    """Criteria passed by one model: (B, seeds, runs, metarubrics)."""
    seed_effect = regime.own * stream.standard_normal(shared.shape)
    common = (shared + seed_effect)[:, :, None] + regime.run * stream.standard_normal(
        (*shared.shape, runs)
    )
    passed = np.empty((*common.shape, len(template)), dtype=np.int16)
    places = _intercepts(template, regime.total)
    for m, (metarubric, place) in enumerate(zip(template, places, strict=True)):
        chance = _expit(place + common + regime.part * stream.standard_normal(common.shape))
        passed[..., m] = stream.binomial(metarubric.rows, chance)
    return passed


def _inflate(
    passed: NDArray[np.int16],
    template: tuple[Metarubric, ...],
    effect: Effect,
    public: NDArray[np.bool_],
    stream: np.random.Generator,
) -> None:
    """Put failures of the public arm right, in place."""
    if effect.kind == "none" or effect.size == 0:
        return
    known = np.ones((len(passed), int(public.sum())), dtype=bool)
    chances = [fix_chance(effect, m) for m in template]
    if effect.kind == "sparse":
        mean = sum(m.weight * m.rate for m in template) / sum(m.weight for m in template)
        known = stream.random(known.shape) < effect.size / (SPARSE_FIXED * (1 - mean))
    inflated = passed[:, public]
    for m, (metarubric, chance) in enumerate(zip(template, chances, strict=True)):
        fixed = stream.binomial(metarubric.rows - inflated[..., m], chance)
        inflated[..., m] += np.where(known[:, :, None], fixed, 0).astype(np.int16)
    passed[:, public] = inflated


def fix_chance(effect: Effect, metarubric: Metarubric) -> float:
    """With what chance a failed criterion of a known instance is put right."""
    if effect.kind == "sparse":
        return SPARSE_FIXED
    if effect.kind == "all":
        return min(1.0, effect.size / (1 - metarubric.rate))
    if effect.kind == "final" and metarubric.final:
        return min(1.0, effect.size / _final_room())
    return 0.0


def _final_room() -> float:
    """What a clean model's mean score would rise by, were all its final answers right."""
    rooms = [
        sum(m.weight * (1 - m.rate) for m in template if m.final) / sum(m.weight for m in template)
        for template in TEMPLATES
    ]
    return sum(rooms) / len(rooms)


def _outcomes(passed: NDArray[np.int16], template: tuple[Metarubric, ...]) -> Floats:
    """(…, metarubrics) to (…, 2): weighted score, fraction of criteria."""
    weight = np.array([m.weight for m in template])
    rows = np.array([m.rows for m in template], dtype=np.float64)
    both = np.stack([weight / rows / weight.sum(), np.full(len(rows), 1 / rows.sum())], axis=1)
    value: Floats = passed.astype(np.float64) @ both
    return value


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(31)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def _expit(x: Floats) -> Floats:
    value: Floats = 1 / (1 + np.exp(-x))
    return value


@functools.lru_cache
def _intercepts(template: tuple[Metarubric, ...], sd: float) -> tuple[float, ...]:
    """mu of each metarubric, such that E expit(mu + sd Z) is its rate: by bisection."""
    rate = np.array([m.rate for m in template])
    low, high = np.full(len(rate), -20.0), np.full(len(rate), 20.0)
    for _ in range(60):
        middle = (low + high) / 2
        above = _expit(middle[:, None] + sd * _NODES) @ _WEIGHTS > rate
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return tuple(((low + high) / 2).tolist())


def _task_moments(template: tuple[Metarubric, ...], regime: Regime) -> tuple[float, ...]:
    """Variance of a score, of a fraction; stable and shared variance of the score; its mean."""
    weight = np.array([m.weight for m in template])
    rows = np.array([m.rows for m in template], dtype=np.float64)
    rate = np.array([m.rate for m in template])
    scales = (weight / weight.sum(), rows / rows.sum())
    score, fraction = (_variance(template, regime, scale) for scale in scales)
    stable = _kept(template, regime, scales[0], regime.stable)
    shared = _kept(template, regime, scales[0], regime.shared)
    return score, fraction, stable, shared, float(scales[0] @ rate)


def _kept(template: tuple[Metarubric, ...], regime: Regime, scale: Floats, latent: float) -> float:
    """Variance of the score's mean given a latent of that SD, the others integrated out."""
    rest = math.sqrt(regime.total**2 - latent**2)
    place = np.array(_intercepts(template, regime.total))[:, None, None]
    chance = _expit(place + latent * _NODES[None, :, None] + rest * _NODES) @ _WEIGHTS
    mean = scale @ chance
    return float(_WEIGHTS @ mean**2 - (_WEIGHTS @ mean) ** 2)


def _variance(template: tuple[Metarubric, ...], regime: Regime, scale: Floats) -> float:
    """Variance of a run's score: what the common latent moves, and within it each metarubric's
    part and binomial."""
    common = math.hypot(regime.stable, regime.run)
    place = np.array(_intercepts(template, regime.total))[:, None, None]
    rows = np.array([m.rows for m in template], dtype=np.float64)[:, None]
    chance = _expit(place + common * _NODES[None, :, None] + regime.part * _NODES)
    mean = chance @ _WEIGHTS
    within = (chance**2) @ _WEIGHTS - mean**2 + (chance * (1 - chance)) @ _WEIGHTS / rows
    score = scale @ mean
    between = _WEIGHTS @ score**2 - (_WEIGHTS @ score) ** 2
    return float(between + _WEIGHTS @ (scale**2 @ within))
