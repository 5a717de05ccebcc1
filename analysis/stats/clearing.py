"""No inflation above the margin: every outcome below it, corrected over the models of a look, and
nothing in the data that speaks against saying so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.stats.adjustment import centre_within, control_means
from analysis.stats.intervals import GapEstimates, estimate_gaps
from analysis.stats.permutation import Bools, Floats, Ints

CLEARING_LEVEL = 0.05  # of a look, over its models; not shared over looks
FEW_INSTANCES = 50  # instances an arm: with fewer, a gap far below zero clears nothing
CONTROL_LEVEL = 0.015  # of the control models' own gap, one-sided
DIFFERENCE_LEVEL = 0.005  # of a control model's gap above that of all, shared by these models
STRATUM_LEVEL = 0.015  # of a stratum's gap, one-sided, shared by the strata
_ROUNDING = 1e-9  # a gap of constants


@dataclass(frozen=True, slots=True, eq=False)
class Doubts:
    """What speaks against clearing whatever the bounds: a gap of the ``controls`` (…), and the code
    of a ``stratum`` (…, M) that has a gap by itself, −1 without."""

    controls: Bools
    stratum: Ints


@dataclass(frozen=True, slots=True)
class Bound:
    """What decides whether a model is cleared, as its verdict names it."""

    deciding_bound: float
    bound_outcome: str
    deciding_lower: float | None
    p_clear: float
    cleared: bool


@dataclass(frozen=True, slots=True, eq=False)
class Clearing:
    """Each model's clearing (…, M).

    ``p`` is the largest over outcomes of the p of a gap at the margin or above, ``adjusted`` that
    by Holm. ``bound`` is the largest upper bound, that of ``outcome``, at the one-sided ``level``
    that Holm leaves the model; ``lower`` the least lower bound (90 %, two-sided) if it decides too,
    else NaN. A model is cleared if and only if its bound lies below the margin, and ``lower``,
    where there is one, above −margin, and there are no doubts.
    """

    p: Floats
    adjusted: Floats
    level: Floats
    bound: Floats
    outcome: Ints
    lower: Floats
    cleared: Bools

    def one(self, place: int, outcomes: Sequence[str]) -> Bound:
        """The clearing of one model."""
        bound, lower, p = (float(x[place]) for x in (self.bound, self.lower, self.adjusted))
        outcome, least = outcomes[self.outcome[place]], None if math.isnan(lower) else lower
        return Bound(bound, outcome, least, p, bool(self.cleared[place]))


def clear_models(gaps: GapEstimates, margin: float, doubts: Doubts | None = None) -> Clearing:
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
    if doubts is not None:
        cleared &= ~doubts.controls[..., None] & (doubts.stratum < 0)
    return Clearing(
        p=p,
        adjusted=adjusted,
        level=level,
        bound=np.minimum(bound, 1.0),
        outcome=outcome,
        lower=np.maximum(lower, -1.0),
        cleared=cleared,
    )


def find_doubts(
    scores: Floats, stratum: Ints, public: Bools, controls: Floats | None = None
) -> Doubts:
    """Doubts on models with such calibrated ``scores`` (n, …, M, outcomes). ``controls``
    (n, …, C, outcomes) are the scores of the models that calibrated them.

    The control models' gap is taken off the tested models': one above 0 may be a leak of theirs,
    and so may the gap of one of them above that of all. A stratum too small for a p as low as is
    asked is passed over.
    """
    doubtful, codes = np.zeros(scores.shape[1:-2], dtype=bool), np.unique(stratum)
    if controls is not None:
        mean = control_means(controls, stratum)[..., None, :]
        both = np.concatenate([mean, centre_within(controls, stratum) - mean], axis=-2)
        p = _least_p(estimate_gaps(both, stratum, public))
        level = DIFFERENCE_LEVEL / controls.shape[-2]
        doubtful = (p[..., 0] < CONTROL_LEVEL) | (p[..., 1:] < level).any(axis=-1)
    level = STRATUM_LEVEL / len(codes)
    p = np.ones((len(codes), *scores.shape[1:-1]))
    for place, code in enumerate(codes.tolist()):
        here = stratum == code
        n, first = int(here.sum()), int(public[here].sum())
        if min(first, n - first) > 1 and math.comb(n, first) >= math.ceil(1 / level):
            p[place] = _least_p(estimate_gaps(scores[here], stratum[here], public[here]))
    return Doubts(doubtful, np.where(p.min(axis=0) < level, codes[p.argmin(axis=0)], -1))


def _least_p(gaps: GapEstimates) -> Floats:
    """The least one-sided p over outcomes of a gap above 0; 0 of constant arms that differ."""
    from scipy.special import stdtr

    known = ~np.isnan(gaps.se)
    p = stdtr(np.where(known, gaps.df, 1.0), -gaps.gap / np.where(known, gaps.se, 1.0))
    p = np.where(known, p, np.where(gaps.gap > _ROUNDING, 0.0, 1.0))
    return np.asarray(np.nan_to_num(p, nan=1.0).min(axis=-1))


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
