"""Scores that the plan was not written against: four strata whose outcomes are made in four ways.

The odds of failing are a product: the instance's difficulty for every model, the instance's own
difficulty for one model, the luck of a run, over the model's skill. All three are gamma variables
with mean 1, so that difficulty is skewed. From p = 1 / (1 + odds):

- binary: passed or not;
- rubric: criteria of different weight and hardness, passed independently given the odds;
- zero-inflated: nothing at all, or a share that is beta distributed;
- ordinal: 0, 1/2 or 1.

A failed run scores 0. A leaked instance is known to the model, which then scores full marks. Full
marks are TOP, not 1, so that a faulty harness can raise an arm by ten points and keep scores in
0…1. Nothing here is Gaussian, logistic or shared with ``analysis/power``.

Pure: the stream is passed. Shapes: n instances sorted by stratum, B studies, R runs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

KINDS = ("binary", "rubric", "zero-inflated", "ordinal")
CRITERIA = (1, 12, 20, 1)  # of an instance of each kind
TOP = 0.9
_EASE = (3.0, 1.0, 1.0, 1.5)  # times the skill, by kind
_WEIGHT = np.array([0.5, 0.5, 1, 1, 2, 2, 4, 4, 8, 8, 10, 10])
_HARDNESS = np.array([0.2, 0.3, 0.3, 0.5, 0.7, 1, 0.7, 1, 1.2, 1.5, 1.5, 2])
# Gamma shapes: of what makes an instance hard for every model, for one, and of a run's luck
_DIFFICULTY, _OWN, _LUCK = 1.5, 3.0, 1.0


@dataclass(frozen=True, slots=True)
class Model:
    """A model: its skill, the share of runs that it fails, and the gap that its leak makes."""

    name: str
    skill: float = 1.0
    failures: float = 0.03
    gap: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """Instances of B studies: ``difficulty`` (n, B), and ``stratum`` and ``public`` (n,)."""

    difficulty: Floats
    stratum: Ints
    public: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """One model's runs. ``outcomes`` (n, B, R, 2) are the score and the fraction of criteria,
    ``failed`` (n, B, R) marks the model's failures."""

    outcomes: Floats
    failed: Bools

    @property
    def means(self) -> Floats:
        """Means over runs (n, B, 2)."""
        return np.asarray(self.outcomes.mean(axis=2))


CONTROLS = tuple(
    Model(f"control-{number}", skill, failures)
    for number, (skill, failures) in enumerate(((0.5, 0.05), (0.7, 0.03), (0.9, 0.04), (1.2, 0.02)))
)
CONTROL_RUNS = 2


def draw_panel(per_arm: int, studies: int, stream: np.random.Generator) -> Panel:
    """Instances, ``per_arm`` in each arm and stratum."""
    n = 2 * per_arm * len(KINDS)
    stratum = np.arange(n) // (2 * per_arm)
    public = np.arange(n) % (2 * per_arm) < per_arm
    return Panel(stream.gamma(_DIFFICULTY, 1 / _DIFFICULTY, (n, studies)), stratum, public)


def run_model(
    panel: Panel, model: Model, stream: np.random.Generator, *, runs: int = 1, fault: float = 0.0
) -> Runs:
    """Runs of a model on a panel. A faulty harness adds ``fault`` to each public run's score."""
    shape = (*panel.difficulty.shape, runs)
    odds = panel.difficulty * stream.gamma(_OWN, 1 / _OWN, panel.difficulty.shape)
    odds = odds[:, :, None] * stream.gamma(_LUCK, 1 / _LUCK, shape) / model.skill
    outcomes = np.empty((*shape, 2))
    for code in range(len(KINDS)):
        here = panel.stratum == code
        outcomes[here] = _outcomes(code, odds[here], stream)
    if model.gap:
        known = stream.random(panel.difficulty.shape) < model.gap / _room(model)
        outcomes[known & panel.public[:, None]] = 1.0
    outcomes *= TOP
    outcomes[panel.public] += fault
    failed = stream.random(shape) < model.failures
    outcomes[failed] = 0.0
    return Runs(outcomes, failed)


def true_difficulty(panel: Panel, model: Model) -> Floats:
    """The score (n, B) that a clean model is expected to make, given an instance's difficulty."""
    expected = np.empty_like(panel.difficulty)
    for code in range(len(KINDS)):
        here = panel.stratum == code
        expected[here] = np.interp(panel.difficulty[here], _GRID, _curve(code, model.skill))
    return np.asarray((1 - model.failures) * TOP * expected)


@functools.cache
def _room(model: Model) -> float:
    """The gap of a model that knows every public instance."""
    difficulty = np.random.Generator(np.random.PCG64(7)).gamma(
        _DIFFICULTY, 1 / _DIFFICULTY, 200_000
    )
    clean = [np.interp(difficulty, _GRID, _curve(c, model.skill)).mean() for c in range(len(KINDS))]
    return (1 - model.failures) * TOP * (1 - float(np.mean(clean)))


def _outcomes(code: int, odds: Floats, stream: np.random.Generator) -> Floats:
    """Score and fraction of criteria (…, 2) in 0…1, of runs with such odds of failing."""
    kind, p = KINDS[code], 1 / (1 + odds / _EASE[code])
    if kind == "binary":
        score = fraction = (stream.random(p.shape) < p).astype(np.float64)
    elif kind == "rubric":
        passed = stream.random((*p.shape, len(_WEIGHT))) < _chances(odds)
        score, fraction = passed @ (_WEIGHT / _WEIGHT.sum()), passed.mean(axis=-1)
    elif kind == "zero-inflated":
        share = np.round(stream.beta(2 + 4 * p, 2) * CRITERIA[code]) / CRITERIA[code]
        score = fraction = np.where(stream.random(p.shape) < 0.25 + 0.5 * p, share, 0.0)
    else:
        luck = stream.random(p.shape)
        half, full = (luck < p).astype(np.float64), luck < p * p
        score, fraction = (half + full) / 2, half
    return np.stack([score, fraction], axis=-1)


def _chances(odds: Floats) -> Floats:
    """The chance to pass each criterion of the rubric (…, criteria)."""
    return np.asarray(1 / (1 + odds[..., None] * _HARDNESS))


def _mean_score(code: int, odds: Floats) -> Floats:
    """The mean of the scores that ``_outcomes`` draws."""
    kind, p = KINDS[code], 1 / (1 + odds / _EASE[code])
    if kind == "rubric":
        return np.asarray(_chances(odds) @ (_WEIGHT / _WEIGHT.sum()))
    if kind == "zero-inflated":
        return np.asarray((0.25 + 0.5 * p) * (2 + 4 * p) / (4 + 4 * p))
    return np.asarray(p if kind == "binary" else (p + p * p) / 2)


_GRID = np.geomspace(1e-6, 30, 300)  # difficulties


@functools.cache
def _curve(code: int, skill: float) -> Floats:
    """A clean model's mean score at each difficulty of the grid, without its failures."""
    stream = np.random.Generator(np.random.PCG64(code))
    rest = stream.gamma(_OWN, 1 / _OWN, 4000) * stream.gamma(_LUCK, 1 / _LUCK, 4000)
    return np.asarray(_mean_score(code, _GRID[:, None] * rest / skill).mean(axis=1))
