"""No material inflation: every outcome below the margin, corrected over the models of a look
(spec/verdicts.md, section 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.stats.intervals import GapEstimates
from analysis.stats.permutation import Bools, Floats, Ints

CLEARING_LEVEL = 0.05  # of a look, over its models; not shared over looks
FEW_INSTANCES = 50  # instances an arm: with fewer, a gap far below zero clears nothing


@dataclass(frozen=True, slots=True, eq=False)
class Clearing:
    """Each model's clearing (…, M).

    ``p`` is the largest over outcomes of the p of a gap at the margin or above, ``adjusted`` that
    by Holm. ``bound`` is the largest upper bound, that of ``outcome``, at the one-sided ``level``
    that Holm leaves the model; ``lower`` the least lower bound (90 %, two-sided) if it decides too,
    else NaN. A model is cleared if and only if its bound lies below the margin, and ``lower``,
    where there is one, above −margin.
    """

    p: Floats
    adjusted: Floats
    level: Floats
    bound: Floats
    outcome: Ints
    lower: Floats
    cleared: Bools


def clear_models(gaps: GapEstimates, margin: float) -> Clearing:
    """Test each model's gaps (…, M, outcomes) against the margin: one-sided t, the largest p over
    outcomes (intersection–union), Holm over the M models."""
    from scipy.special import stdtr, stdtrit

    known = ~np.isnan(gaps.se)
    se, df = np.where(known, gaps.se, 1.0), np.where(known, gaps.df, 1.0)
    p = np.where(known, stdtr(df, (gaps.gap - margin) / se), 1.0).max(axis=-1)
    level, adjusted = _holm_levels(p)
    bounds = np.where(known, gaps.gap + stdtrit(df, 1.0 - level[..., None]) * se, 1.0)
    outcome = bounds.argmax(axis=-1)
    bound = np.take_along_axis(bounds, outcome[..., None], axis=-1)[..., 0]
    lows = np.where(known, gaps.gap - stdtrit(df, 1.0 - CLEARING_LEVEL) * se, -1.0).min(axis=-1)
    few = np.minimum(gaps.n_public, gaps.n_private).min(axis=-1) < FEW_INSTANCES
    lower = np.where(few, lows, np.nan)
    cleared = (bound < margin) & (~few | (lows > -margin))
    return Clearing(
        p=p,
        adjusted=adjusted,
        level=level,
        bound=bound,
        outcome=outcome,
        lower=lower,
        cleared=cleared,
    )


def _holm_levels(p: Floats) -> tuple[Floats, Floats]:
    """The level at which Holm's steps test each model (…, M), for those after the first that fails
    the level at which it stopped; and adjusted p."""
    order = np.argsort(p, axis=-1, kind="stable")
    ordered, models = np.take_along_axis(p, order, axis=-1), p.shape[-1]
    levels = CLEARING_LEVEL / np.arange(models, 0, -1)
    passed = np.logical_and.accumulate(ordered < levels, axis=-1)
    stop = levels[np.minimum(passed.sum(axis=-1, keepdims=True), models - 1)]
    stepped = np.minimum(np.maximum.accumulate(ordered * np.arange(models, 0, -1), axis=-1), 1.0)
    level, adjusted = np.empty_like(p), np.empty_like(p)
    np.put_along_axis(level, order, np.where(passed, levels, stop), axis=-1)
    np.put_along_axis(adjusted, order, stepped, axis=-1)
    return level, adjusted
