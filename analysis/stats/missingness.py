"""Shares of lost runs, and bounds on what the lost runs could hide (spec/statistics.md, D4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def lost_share(missing: Counts, runs: Counts) -> Floats:
    """The share of each instance's owed runs that is missing (n, models), NaN where none was
    owed."""
    share = np.full(missing.shape, np.nan)
    np.divide(missing, runs, out=share, where=runs > 0)
    return share


def adverse_bounds(
    values: Floats, public: NDArray[np.bool_], share: Floats | None = None
) -> tuple[Floats, Floats]:
    """Scores with what is missing filled against the claim and for it (spec/statistics.md, D4, ii).

    ``values`` (n, models, outcomes), NaN where all runs are missing. The first array puts 0 for
    public and 1 for private, which gives the lowest gap that the lost runs allow; the second
    the converse. With ``share`` (n, models), as of ``lost_share``, a mean of some runs is moved by
    those that it lacks, and a NaN of ``share`` (nothing owed) stays NaN; without it, every NaN
    of ``values`` is filled.
    """
    lost = np.isnan(values).astype(np.float64)
    if share is not None:
        lost = np.where(np.isnan(values) & ~np.isnan(share)[:, :, None], 1.0, share[:, :, None])
    filled = np.where(np.isnan(values), 0.0, values) * (1.0 - lost)
    arm = public[:, None, None]
    return filled + np.where(arm, 0.0, lost), filled + np.where(arm, lost, 0.0)
