"""Scores before the test, adjusted by a covariate.

The covariate is how hard an instance was before anybody could have seen it.
spec/statistics.md, D5: with x the mean score of models released before publication, and both x
and y centred within strata, beta = Σ x·y / Σ x² over all instances of both arms, and e = y − beta·x
takes the place of y. Since beta does not know of the arms, the permutation test on e is exact; a
slope of one (difference in differences) is not taken, since it costs power where x is noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.errors import AnalysisError
from analysis.stats.permutation import Floats, Ints

LEAST_RUNS = 4  # of pre-exposure models on an instance (D5)
_NO_SPREAD = 1e-20  # a sum of squares below this is rounding of a constant


@dataclass(frozen=True, slots=True, eq=False)
class Adjusted:
    """``residuals`` (n, models, outcomes), NaN where the score is: y − beta·x with x centred and y
    not, so that means stay on the scale of scores. ``beta`` and ``rho2`` (models, outcomes): the
    slope, and the share of the variance within strata that it takes off; 0 where x has no spread.
    """

    residuals: Floats
    beta: Floats
    rho2: Floats


def adjust(values: Floats, covariate: Floats, stratum: Ints) -> Adjusted:
    """Return scores minus the covariate's prediction (spec/statistics.md, D5), blind to the arms.

    ``values`` (n, models, outcomes), NaN where missing; ``covariate`` (n, outcomes), or
    (n, models, outcomes) where models have their own. One beta for each model and outcome, pooled
    over strata, from the instances that the model has. Where the covariate is NaN the instance
    counts as its stratum's mean: its score stays as it is, and stays in the test. Raises
    AnalysisError for shapes that do not fit.
    """
    wide = covariate[:, None] if covariate.ndim == values.ndim - 1 else covariate
    try:
        x = np.broadcast_to(wide, values.shape)
    except ValueError as error:
        raise AnalysisError(
            f"covariate of shape {covariate.shape} for scores of shape {values.shape}: "
            "(instances, outcomes) or (instances, models, outcomes) is wanted"
        ) from error
    there = ~np.isnan(values)
    x = np.nan_to_num(centre_within(np.where(there, x, np.nan), stratum))  # unknown: the mean
    y = np.nan_to_num(centre_within(values, stratum))
    xy, xx, yy = (x * y).sum(axis=0), (x * x).sum(axis=0), (y * y).sum(axis=0)
    known = xx > _NO_SPREAD
    beta = np.divide(xy, xx, out=np.zeros_like(xy), where=known)
    rho2 = np.divide(beta * xy, yy, out=np.zeros_like(xy), where=known & (yy > _NO_SPREAD))
    return Adjusted(values - beta * x, beta, np.clip(rho2, 0.0, 1.0))


def unadjusted(values: Floats) -> Adjusted:
    """The scores as they are, in the same shape: beta and rho2 are 0."""
    nothing = np.zeros(values.shape[1:])
    return Adjusted(values, nothing, nothing)


def pre_exposure_means(values: Floats, runs: Ints, least: int = LEAST_RUNS) -> Floats:
    """x (n, outcomes): the mean of the pre-exposure models' scores ``values`` (n, models,
    outcomes); spec/statistics.md, D5.

    NaN for an instance on which these models have fewer than ``least`` runs together; ``runs``
    (n, models) counts those that were not missing. Whether a model was released before publication
    is for the caller to have documented, as it is to leave out a model that is itself to be
    adjusted: it would lose its gap.
    """
    scored = ~np.isnan(values)
    runs = np.where(scored[:, :, 0], runs, 0)
    n = scored.sum(axis=1)
    mean = np.full(n.shape, np.nan)
    enough = (runs.sum(axis=1) >= least)[:, None] & (n > 0)
    np.divide(np.where(scored, values, 0.0).sum(axis=1), n, out=mean, where=enough)
    return mean


def centre_within(values: Floats, stratum: Ints) -> Floats:
    """Values (n, …) minus the mean of their stratum's known values; NaN stays."""
    codes = np.unique(stratum, return_inverse=True)[1].reshape(-1)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    there = ~np.isnan(values)
    total = np.add.reduceat(np.where(there, values, 0.0)[order], starts, axis=0)
    count = np.add.reduceat(there[order].astype(np.float64), starts, axis=0)
    centred: Floats = values - (total / np.maximum(count, 1.0))[codes]
    return centred
