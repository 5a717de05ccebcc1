"""Negative controls: models and grades that cannot show a gap.

They calibrate scores and do not veto verdicts: their own gap is reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.plan.presets import plan_draws
from analysis.stats.adjustment import control_means
from analysis.stats.intervals import GapEstimate, estimate_gap, one_armed, p_words, signed, tost
from analysis.stats.permutation import (
    Bools,
    Draws,
    Floats,
    Ints,
    p_floor,
    permute_blocks,
    two_sided_p,
)
from registry.ledger.records import Plan

LEVEL = 0.05  # a control that is sound disagrees this often
MARGIN = 0.05


ControlState = Literal["agrees", "uninformative", "disagrees", "not run"]
AGREES: ControlState = "agrees"
UNINFORMATIVE: ControlState = "uninformative"  # too few instances to tell
DISAGREES: ControlState = "disagrees"
NOT_RUN: ControlState = "not run"


@dataclass(frozen=True, slots=True)
class ControlTest:
    """A control over some models together. ``gap`` is of the first outcome, None where an arm of
    a stratum has nothing, and ``se`` its standard error; ``interval90`` is two-sided, ``p`` too.
    It disagrees where p is below the level, agrees where the interval lies inside the margin, and
    is uninformative otherwise; ``reason`` says in words why it does not agree."""

    gap: float | None
    interval90: tuple[float, float]
    p: float
    state: ControlState
    reason: str = ""
    se: float | None = None
    p_floor: float = 0.0  # the least p that the permutations can show


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """Settings of the test of a negative control: its permutations, the margin that the 90 %
    interval lies inside where it agrees, and the level of the two-sided p."""

    draws: Draws
    margin: float = MARGIN
    level: float = LEVEL


def control_settings(plan: Plan, seed: int) -> ControlSettings:
    """The settings that a plan registers."""
    rules = plan.standard
    margin, level = (
        (MARGIN, LEVEL) if rules is None else (rules.control_margin, rules.control_alpha)
    )
    return ControlSettings(plan_draws(plan, seed), margin, level)


def pooled_control(
    values: Floats,
    stratum: Ints,
    public: Bools,
    settings: ControlSettings,
    *,
    tranche: Ints | None = None,
) -> ControlTest:
    """The pooled gap of models that cannot have been exposed, two-sided.

    ``values`` (n, models, outcomes) are their scores, *not* calibrated by these same models: that
    would take off the gap that is looked for. The models are averaged over each seed, each taken
    from its mean in the stratum, so that one model's missing score does not move the average.
    ``tranche`` (n,) is the tranche of each instance, None if there is only one.
    """
    pooled = control_means(values, stratum)
    if one_armed(pooled[:, 0], stratum, public):
        return _nothing("an arm of a stratum has no scored instance")
    return _test(pooled, stratum, public, settings, tranche)


def regrade_drift(
    before: Floats, after: Floats, stratum: Ints, public: Bools, settings: ControlSettings
) -> ControlTest:
    """Test if a judge's second grades of archived answers moved one arm more than the other.

    ``before`` and ``after`` (n, models) are the seeds' scores by the first grading and by this one
    of the same answers, NaN where either lacks; the change, after minus before, is pooled over
    models and tested as in ``pooled_control``. Grades that all moved alike, or not at all, agree.
    """
    change = (after - before)[:, :, None]
    if np.isnan(change).all():
        return _nothing("no archived answer was graded twice")
    pooled = control_means(change, stratum)
    if one_armed(pooled[:, 0], stratum, public):
        return _nothing("an arm of a stratum has no answer that was graded twice")
    return _test(pooled, stratum, public, settings)


def _test(
    pooled: Floats,
    stratum: Ints,
    public: Bools,
    settings: ControlSettings,
    tranche: Ints | None = None,
) -> ControlTest:
    """The test of a pool. Where nothing differs at all, as between two runs of a deterministic
    model, there is no spread to estimate an interval by, and no gap."""
    scored = ~np.isnan(pooled[:, 0])
    tranche = np.zeros_like(stratum) if tranche is None else tranche
    scores, codes, arm = pooled[scored], stratum[scored], public[scored]
    gaps = permute_blocks(scores[:, None], codes, tranche[scored], arm, **settings.draws)
    gap, p = estimate_gap(scores[:, 0], codes, arm), float(two_sided_p(gaps)[0])
    if gap.se is None and np.nanmax(np.abs(pooled)) < 1e-12:
        return ControlTest(gap.gap, (gap.gap, gap.gap), p, AGREES)
    return _control(gap, p, p_floor(gaps), settings)


def _control(gap: GapEstimate, p: float, floor: float, settings: ControlSettings) -> ControlTest:
    small = tost(gap.gap, gap.se, gap.df, settings.margin)
    low, high = map(signed, small.interval90)
    if p < settings.level:
        state = DISAGREES
        reason = f"the arms differ by {signed(gap.gap)} points (p {p_words(p, floor)})"
    elif small.equivalent:
        state, reason = AGREES, ""
    else:
        state = UNINFORMATIVE
        reason = f"too few instances to tell: the 90 % interval is {low} to {high} points"
    return ControlTest(
        gap=gap.gap,
        interval90=small.interval90,
        p=p,
        state=state,
        reason=reason,
        se=gap.se,
        p_floor=floor,
    )


def _nothing(why: str) -> ControlTest:
    return ControlTest(None, (-1.0, 1.0), 1.0, NOT_RUN, why)
