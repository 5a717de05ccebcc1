"""Whether arms lose runs alike, and what the lost ones could hide (spec/statistics.md, D4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.stats.permutation import permute_gaps, two_sided_p

LEVEL = 0.05  # of the test
MOST = 0.05  # share of runs that may be missing without more ado

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class MissingTest:
    """Per model (models,): the share of owed runs that is missing in either arm, NaN where none
    was owed, and the two-sided p of a stratified permutation of the seeds' shares."""

    share_public: Floats
    share_private: Floats
    p: Floats

    @property
    def needs_bound(self) -> NDArray[np.bool_]:
        """Whose claims must survive the adverse bound (D4, ii): p < .05, or more than 5 % of
        either arm's runs missing."""
        most = np.fmax(self.share_public, self.share_private)
        return np.asarray((self.p < LEVEL) | (most > MOST))


def test_by_arm(
    missing: Counts,
    runs: Counts,
    stratum: NDArray[np.int64],
    public: NDArray[np.bool_],
    permutations: int,
    seed: int,
    *,
    enumerate_up_to: int = 20_000,  # noqa: PT028 - the name is not pytest's
) -> MissingTest:
    """Missingness by arm (spec/statistics.md, D4, i).

    ``missing`` and ``runs`` (n, models) count what infrastructure lost and what was owed; an
    instance that a model owed no run of is left out. The statistic is the gap of the seeds' shares
    lost, averaged over strata, its labels permuted as those of P1. Raises AnalysisError where more
    is missing than was owed.
    """
    if (missing > runs).any() or (missing < 0).any():
        raise AnalysisError("missing runs must lie between 0 and the runs that were owed")
    if not missing.any():
        none = _share(missing, runs)
        return MissingTest(none, none, np.ones(missing.shape[1]))
    share = lost_share(missing, runs)
    gaps = permute_gaps(
        share[:, :, None], stratum, public,
        permutations=permutations, enumerate_up_to=enumerate_up_to, seed=seed,
    )  # fmt: skip
    return MissingTest(
        _share(missing[public], runs[public]),
        _share(missing[~public], runs[~public]),
        two_sided_p(gaps),
    )


test_by_arm.__test__ = False  # type: ignore[attr-defined]  # for tests that import it


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
    held = np.where(np.isnan(values), 0.0, values) * (1.0 - lost)
    arm = public[:, None, None]
    return held + np.where(arm, 0.0, lost), held + np.where(arm, lost, 0.0)


def _share(missing: Counts, runs: Counts) -> Floats:
    lost, owed = missing.sum(axis=0), runs.sum(axis=0)
    share = np.full(owed.shape, np.nan)
    np.divide(lost, owed, out=share, where=owed > 0)
    return share
