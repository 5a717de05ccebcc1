"""Scores before the test, calibrated by control models.

The control models were released before publication: x, their mean score on an instance, is what the
instance and the instrument give to a model that cannot have seen it. With x centred within strata,
e = y − x takes the place of y. A fault that shifts an arm for all models alike shifts x as much as
y, so it cannot move e, and no test of the controls has to pass first. ``fit_slope`` fits the slope
of x instead: it saves noise where x predicts y poorly, and loses that protection, so it is a
sensitivity analysis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.stats.permutation import Floats, Ints, sum_within

_NO_SPREAD = 1e-20  # a sum of squares below this is rounding of a constant


@dataclass(frozen=True, slots=True, eq=False)
class Adjusted:
    """``residuals`` (n, models, outcomes), NaN where the score is: y − beta·x with x centred and y
    not, so that means stay on the scale of scores. ``beta`` and ``rho2`` (models, outcomes): the
    slope, and the share of the variance within strata that it takes off, below 0 where x adds
    noise; 0 where x has no spread.
    """

    residuals: Floats
    beta: Floats
    rho2: Floats


def calibrate(values: Floats, control: Floats, stratum: Ints) -> Adjusted:
    """Return scores minus the control models' mean on each instance.

    ``values`` (n, models, outcomes), NaN where missing; ``control`` (n, outcomes), or
    (n, models, outcomes) where models have their own. Where it is NaN the instance counts as its
    stratum's mean: its score stays as it is, and stays in the test. Raises AnalysisError for
    shapes that do not fit.
    """
    x, y = _centred_pair(values, control, stratum)
    return _adjusted(values, x, y, np.ones(values.shape[1:]))


def fit_slope(values: Floats, control: Floats, stratum: Ints) -> Adjusted:
    """Return scores minus a fitted multiple of the control models' mean.

    As ``calibrate``, with one slope for each model and outcome, Σ x·y / Σ x² over all instances of
    both arms that the model has, blind to the arms.
    """
    x, y = _centred_pair(values, control, stratum)
    xy, xx = (x * y).sum(axis=0), (x * x).sum(axis=0)
    beta = np.divide(xy, xx, out=np.zeros_like(xy), where=xx > _NO_SPREAD)
    return _adjusted(values, x, y, beta)


def _centred_pair(values: Floats, covariate: Floats, stratum: Ints) -> tuple[Floats, Floats]:
    """x and y of the values' shape, centred within strata; 0 where unknown or missing."""
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
    return x, np.nan_to_num(centre_within(values, stratum))


def _adjusted(values: Floats, x: Floats, y: Floats, beta: Floats) -> Adjusted:
    yy, ee = (y * y).sum(axis=0), ((y - beta * x) ** 2).sum(axis=0)
    rho2 = np.divide(yy - ee, yy, out=np.zeros_like(yy), where=yy > _NO_SPREAD)
    return Adjusted(values - beta * x, beta, rho2)


def unadjusted(values: Floats) -> Adjusted:
    """The scores as they are, in the same shape: beta and rho2 are 0."""
    nothing = np.zeros(values.shape[1:])
    return Adjusted(values, nothing, nothing)


def control_means(values: Floats, stratum: Ints) -> Floats:
    """x (n, …, outcomes): the mean of the control models' scores ``values`` (n, …, models,
    outcomes), each taken from its model's mean in the stratum, so that a run that one model lacks
    does not move x; NaN for an instance on which none has a score.

    Whether a model was released before publication is for the caller to have documented, as it is
    to leave out a model that is itself to be calibrated: it would lose its gap.
    """
    centred = centre_within(values, stratum)
    n = (~np.isnan(centred)).sum(axis=-2)
    mean = np.full(n.shape, np.nan)
    np.divide(np.nan_to_num(centred).sum(axis=-2), n, out=mean, where=n > 0)
    return mean


def count_apart(values: Floats, stratum: Ints) -> int:
    """Number of scores (n,) that differ from the median of their stratum's known ones."""
    known = [values[(stratum == code) & ~np.isnan(values)] for code in np.unique(stratum)]
    return sum(int((scores != np.median(scores)).sum()) for scores in known if len(scores))


def centre_within(values: Floats, stratum: NDArray[Any]) -> Floats:
    """Values (n, …) minus the mean of their stratum's known values; NaN stays."""
    total = sum_within(np.nan_to_num(values), stratum)
    count = sum_within((~np.isnan(values)).astype(np.float64), stratum)
    return np.asarray(values - total / np.maximum(count, 1.0))
