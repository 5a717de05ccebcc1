"""Markers: the exact test of whether a model has read the public instances.

Each instance is published under one of eight markers, drawn at random. A model that has not read an
instance names its marker with probability 1/8 at most, whatever its skill: the number of public
instances with the right marker is compared with the binomial distribution. Private instances are
the control: nothing but a fault of the study makes their markers known. Exposure is shown, not
inflation: no verdict rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from analysis.plan.presets import MARKER_CONTROL, marker_alpha
from analysis.stats.permutation import holm
from registry.ledger.records import Plan

CHANCE = 1 / 8  # generators.title.MARKERS
RECALLED = (0.10, 0.15)  # shares of the public markers, of which the power is shown


class MarkerFinding(StrEnum):
    """The result of a model's markers."""

    EXPOSED = "exposed"
    NOT_SHOWN = "not shown"
    INVALID = "invalid"  # markers are known that nobody can have read


@dataclass(frozen=True, slots=True)
class MarkerCounts:
    """A model's replies about the instances of one arm. One that names no marker is not right."""

    asked: int
    right: int
    unnamed: int = 0


@dataclass(frozen=True, slots=True)
class MarkerExposure:
    """One model's markers at a wave: one-sided exact p of the public instances, and that adjusted
    over the wave's models (Holm). ``rate`` of the public ones is right, with its exact 95 %
    interval; ``recalled`` is the share of them that the model knew, if it guessed the others.
    ``p_private`` is the control's. A model of before the publication has no adjusted p."""

    wave: int
    model: str
    public: MarkerCounts
    private: MarkerCounts
    rate: float
    interval: tuple[float, float]
    recalled: float
    p: float
    p_adjusted: float | None
    p_private: float
    alpha: float
    finding: MarkerFinding


def test_markers(
    plan: Plan, counts: Sequence[tuple[str, MarkerCounts, MarkerCounts]], wave: int
) -> tuple[MarkerExposure, ...]:
    """The test of the models that were asked about every instance at a wave: each with the counts
    of its public and private instances. Models of before the publication are not tested: of them
    both arms are the control."""
    rules = plan.standard
    early = set() if rules is None else {*rules.pre_exposure, *rules.frozen}
    tested = [(public.right, public.asked) for name, public, _ in counts if name not in early]
    adjusted = iter(holm(np.array([tail(*each) for each in tested], dtype=np.float64)).tolist())
    return tuple(
        _exposure(plan, wave, *each, None if each[0] in early else next(adjusted))
        for each in counts
    )


test_markers.__test__ = False  # type: ignore[attr-defined]  # its name is not pytest's


def _exposure(
    plan: Plan,
    wave: int,
    model: str,
    public: MarkerCounts,
    private: MarkerCounts,
    adjusted: float | None,
) -> MarkerExposure:
    rate, alpha = public.right / public.asked, marker_alpha(plan)
    p, control = tail(public.right, public.asked), tail(private.right, private.asked)
    finding = MarkerFinding.NOT_SHOWN
    if control <= MARKER_CONTROL or (adjusted is None and p <= MARKER_CONTROL):
        finding = MarkerFinding.INVALID
    elif adjusted is not None and adjusted <= alpha:
        finding = MarkerFinding.EXPOSED
    return MarkerExposure(
        wave=wave,
        model=model,
        public=public,
        private=private,
        rate=rate,
        interval=exact_interval(public.right, public.asked),
        recalled=max(0.0, (rate - CHANCE) / (1 - CHANCE)),
        p=p,
        p_adjusted=adjusted,
        p_private=control,
        alpha=alpha,
        finding=finding,
    )


def tail(right: int, asked: int, rate: float = CHANCE) -> float:
    """The probability of that many or more right ones; 1 for none."""
    from scipy.special import bdtrc

    return 1.0 if right == 0 else float(bdtrc(right - 1, asked, rate))


def exact_interval(right: int, asked: int) -> tuple[float, float]:
    """The two-sided 95 % interval of a rate (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    low = float(betaincinv(right, asked - right + 1, 0.025)) if right else 0.0
    high = float(betaincinv(right + 1, asked - right, 0.975)) if right < asked else 1.0
    return low, high


def marker_power(asked: int, recalled: float, alpha: float) -> float:
    """The probability that a model that knows a share of the markers, and guesses the others, is
    found at a level."""
    critical = next((k for k in range(asked + 1) if tail(k, asked) <= alpha), None)
    if critical is None:
        return 0.0
    return tail(critical, asked, recalled + (1 - recalled) * CHANCE)


@dataclass(frozen=True, slots=True)
class MarkerRates:
    """Exact rates of the markers' test as it is registered, ``asked`` about each arm: the
    probability of a false alarm in a study of which no model recalls any, at most ``alpha``; and
    for a share that one model recalls, the probability that it is found."""

    asked: int
    looks: int
    models: int  # of a look
    alpha: float
    false_alarms: float
    found: tuple[tuple[float, float], ...]

    def as_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self) | {"found": {f"{share:g}": power for share, power in self.found}}


def marker_rates(plan: Plan, models: int) -> MarkerRates:
    """Exact rates for this number of tested models at each look, with independent errors. Holm's
    first step compares the smallest p of a look with alpha / models, and every false alarm begins
    with it."""
    asked = sum(plan.sizes)
    alpha = marker_alpha(plan) / models
    size = marker_power(asked, 0.0, alpha)
    return MarkerRates(
        asked=asked,
        looks=plan.looks,
        models=models,
        alpha=plan.marker_alpha,
        false_alarms=-math.expm1(plan.looks * models * math.log1p(-size)),
        found=tuple((share, marker_power(asked, share, alpha)) for share in RECALLED),
    )
