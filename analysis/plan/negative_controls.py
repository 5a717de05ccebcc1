"""Negative controls: models and grades that cannot show a gap (spec/statistics.md, C1, C3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.plan.presets import plan_draws
from analysis.stats import (
    Bools,
    Draws,
    Equivalence,
    Floats,
    GapEstimate,
    Ints,
    centre_within,
    estimate_gap,
    one_armed,
    p_words,
    permute_blocks,
    permute_gaps,
    signed,
    tost,
    two_sided_p,
)
from registry.ledger import Plan

LEVEL = 0.05  # a control that is sound fails this often
MARGIN = 0.05


@dataclass(frozen=True, slots=True)
class ControlTest:
    """A control over some models together. ``gap`` is of the first outcome, None where an arm of
    a stratum has nothing; ``interval90`` is two-sided, ``p`` too. ``reasons`` says in words why
    it failed, and is empty where it passed."""

    gap: float | None
    interval90: tuple[float, float]
    p: float
    reasons: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if nothing speaks against it."""
        return not self.reasons


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """Settings of the test of a negative control: its permutations, the margin that the 90 %
    interval must lie inside, and the level of the two-sided p."""

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
    small: Equivalence | None = None,
) -> ControlTest:
    """The pooled P1 of models that cannot have been exposed, two-sided (spec/statistics.md, C1).

    ``values`` (n, models, outcomes) are their scores, *not* adjusted by a covariate that is made
    of these same models: that would take off the gap that is looked for. The models are averaged
    over each seed, each taken from its mean in the stratum, so that one model's missing score does
    not move the average. ``tranche`` (n,) is the tranche of each instance, None if there is only
    one. Passes if p ≥ the level and the 90 % interval lies inside ± margin; ``small`` is the
    interval of a larger pool to take instead (``pooled_interval``).
    """
    if not values.shape[1]:
        return _nothing("no model that cannot have been exposed was run")
    pooled = pool_models(values, stratum)
    if one_armed(pooled[:, 0], stratum, public):
        return _nothing("an arm of a stratum has no scored instance")
    gap, p = _gap_and_p(pooled, stratum, public, settings, tranche)
    interval = tost(gap.gap, gap.se, gap.df, settings.margin) if small is None else small
    return _control(gap, p, interval, settings.level)


def pooled_interval(
    values: Floats, stratum: Ints, public: Bools, margin: float = MARGIN
) -> Equivalence | None:
    """Interval of the gap of such models together; None where an arm of a stratum has nothing."""
    pooled = pool_models(values, stratum)[:, 0]
    if one_armed(pooled, stratum, public):
        return None
    gap = estimate_gap(pooled, stratum, public)
    return tost(gap.gap, gap.se, gap.df, margin)


def clean_controls(
    pooled: Floats,
    stratum: Ints,
    public: Bools,
    settings: ControlSettings,
    *,
    wider: Floats | None = None,
) -> tuple[ControlTest, ...]:
    """``pooled_control`` of many controls on one allocation, for planning.

    ``pooled`` (n, B, outcomes) are pools of models (``pool_models``), none missing; ``wider``
    (n, B) the first outcome of the pools whose intervals count, where these are others. All share
    the permutations.
    """
    gaps = permute_gaps(pooled, stratum, public, **settings.draws)
    controls = []
    for b, p in enumerate(two_sided_p(gaps).tolist()):
        gap = estimate_gap(pooled[:, b, 0], stratum, public)
        large = gap if wider is None else estimate_gap(wider[:, b], stratum, public)
        small = tost(large.gap, large.se, large.df, settings.margin)
        controls.append(_control(gap, p, small, settings.level))
    return tuple(controls)


def regrade_drift(
    before: Floats, after: Floats, stratum: Ints, public: Bools, settings: ControlSettings
) -> ControlTest:
    """Test if a judge's second grades of archived answers moved one arm more than the other
    (spec/statistics.md, C3).

    ``before`` and ``after`` (n, models) are the seeds' scores by the first grading and by this one
    of the same answers, NaN where either lacks; the change, after minus before, is pooled over
    models and tested as in ``pooled_control``. Grades that all moved alike, or not at all, pass.
    """
    change = (after - before)[:, :, None]
    if np.isnan(change).all():
        return _nothing("no archived answer was graded twice")
    pooled = pool_models(change, stratum)
    if one_armed(pooled[:, 0], stratum, public):
        return _nothing("an arm of a stratum has no answer that was graded twice")
    gap, p = _gap_and_p(pooled, stratum, public, settings)
    if gap.se is None and np.nanmax(np.abs(pooled)) < 1e-12:
        return ControlTest(gap.gap, (gap.gap, gap.gap), p, ())
    return _control(gap, p, tost(gap.gap, gap.se, gap.df, settings.margin), settings.level)


def pool_models(values: Floats, stratum: Ints) -> Floats:
    """The mean over models (n, outcomes) of scores (n, models, outcomes) taken from each model's
    mean in the stratum; NaN where no model has one."""
    centred = centre_within(values, stratum)
    n = (~np.isnan(centred)).sum(axis=1)
    pooled = np.full(n.shape, np.nan)
    np.divide(np.nan_to_num(centred).sum(axis=1), n, out=pooled, where=n > 0)
    return pooled


def _gap_and_p(
    pooled: Floats,
    stratum: Ints,
    public: Bools,
    settings: ControlSettings,
    tranche: Ints | None = None,
) -> tuple[GapEstimate, float]:
    """The gap of a pool's first outcome, and its two-sided p."""
    scored = ~np.isnan(pooled[:, 0])
    tranche = np.zeros_like(stratum) if tranche is None else tranche
    scores, codes, arm = pooled[scored], stratum[scored], public[scored]
    gaps = permute_blocks(scores[:, None], codes, tranche[scored], arm, **settings.draws)
    return estimate_gap(scores[:, 0], codes, arm), float(two_sided_p(gaps)[0])


def _control(gap: GapEstimate, p: float, small: Equivalence, level: float) -> ControlTest:
    reasons = []
    if p < level:
        reasons.append(f"the arms differ by {signed(gap.gap)} points (two-sided p = {p_words(p)})")
    if not small.equivalent:
        low, high = map(signed, small.interval90)
        reasons.append(
            f"the 90 % interval, {low} to {high} points, does not lie inside "
            f"±{100 * small.margin:g}"
        )
    return ControlTest(gap.gap, small.interval90, p, tuple(reasons))


def _nothing(why: str) -> ControlTest:
    return ControlTest(None, (-1.0, 1.0), 1.0, (why,))
