"""Lost runs: their share of each seed mean, and seed means in which they are filled."""

from __future__ import annotations

import numpy as np

from analysis.stats.permutation import Bools, Floats, Ints, sum_within


def lost_share(missing: Ints, runs: Ints) -> Floats:
    """The share of each instance's owed runs that is missing (n, models), NaN where none was
    owed."""
    share = np.full(missing.shape, np.nan)
    np.divide(missing, runs, out=share, where=runs > 0)
    return share


def fill_lost(values: Floats, share: Floats, fill: Floats) -> Floats:
    """Seed means with every lost run at ``fill``.

    ``values`` (n, models, outcomes), NaN where all runs are missing; ``share`` (n, models) as of
    ``lost_share``; ``fill`` of a shape that broadcasts to the values'. A mean of some runs is moved
    by those that it lacks; an instance of which nothing was owed stays NaN.
    """
    lost = np.where(np.isnan(values) & ~np.isnan(share)[:, :, None], 1.0, share[:, :, None])
    return np.asarray(np.where(np.isnan(values), 0.0, values) * (1.0 - lost) + fill * lost)


def blind_fill(values: Floats, stratum: Ints) -> Floats:
    """The mean of each model's known values in the instance's stratum, over both arms, in the shape
    of the values; NaN in a stratum without any."""
    total = sum_within(np.nan_to_num(values), stratum)
    count = sum_within((~np.isnan(values)).astype(np.float64), stratum)
    filled: Floats = np.divide(total, count, out=np.full(values.shape, np.nan), where=count > 0)
    return filled


def adverse_fill(public: Bools, *, against_claim: bool) -> Floats:
    """The values (n, 1, 1) of lost runs that speak most against a claim of contamination, 0 for
    public instances and 1 for private ones; or, if not ``against_claim``, the converse, which
    speaks most against a claim that there is no inflation."""
    return np.asarray((public != against_claim).astype(np.float64)[:, None, None])


def centred_ranks(values: Floats, stratum: Ints) -> Floats:
    """Ranks of values (n,) within their stratum on a scale from −0.5 (the lowest) to 0.5; equal
    values share the mean of their ranks, and an unknown one has 0."""
    from scipy.stats import rankdata

    ranks = np.zeros(len(values))
    for code in np.unique(stratum):
        here = (stratum == code) & ~np.isnan(values)
        if here.any():
            ranks[here] = (rankdata(values[here]) - 0.5) / here.sum() - 0.5
    return ranks
