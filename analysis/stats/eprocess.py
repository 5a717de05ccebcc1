"""Normal-mixture e-processes, for looks without end (spec/statistics.md, P4, last part).

S_k = g_k I_k, I_k = 1/SE_k², of cumulative seed means: a score and the information in it, whose
increments are independent in large samples (asymptotic, not exact as the joint randomisation is).
Where a look brings no information (its I is no larger than the last, or cannot be estimated), S
and I stay as they were: nothing is bet on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.stats.intervals import estimate_gap
from analysis.stats.sequential import LookScores, study_scores

Floats = NDArray[np.float64]

GAP_SD = 0.05  # of the mixture over the gap: five points
RHO = 1 / GAP_SD**2


@dataclass(frozen=True, slots=True)
class OnsetProcess:
    """``values`` are E_k by look; ``rejected_at`` the first look, counted from 1, at which
    E ≥ 1/alpha."""

    values: tuple[float, ...]
    rejected_at: int | None
    alpha: float


@dataclass(frozen=True, slots=True)
class Cumulative:
    """Gap and SE by look, of each unit's mean over the looks so far; NaN where none is had."""

    gap: tuple[float, ...]
    se: tuple[float, ...]


def log_mixture(s: float, v: float, rho: float = RHO) -> float:
    """m(s, v) = ln 2 + ½ ln(ρ/(v+ρ)) + s²/(2(v+ρ)) + ln Φ(s/√(v+ρ)): the log of a mixture of
    exp(λ s - λ² v/2) over half-normal λ > 0 of precision ρ."""
    from scipy.special import log_ndtr

    total = v + rho
    tail = float(log_ndtr(s / math.sqrt(total)))
    return math.log(2) + 0.5 * math.log(rho / total) + s * s / (2 * total) + tail


def onset_process(
    gap: Sequence[float], se: Sequence[float], *, alpha: float, looks_most: int, rho: float = RHO
) -> OnsetProcess:
    """E_k = (1/T*) [Σ_(j<k) exp m(S_k - S_j, I_k - I_j) + (T* - k)], T* = ``looks_most``, the
    registered maximum: an even bet on each look being the one before the gap began. Under no gap
    E reaches 1/alpha with a chance of alpha at most. Raises AnalysisError for more looks."""
    if len(gap) > looks_most or len(gap) != len(se):
        raise AnalysisError(f"{len(gap)} gaps and {len(se)} SEs, where {looks_most} are the most")
    if not 0 < alpha < 1:
        raise AnalysisError(f"alpha {alpha} must lie between 0 and 1")
    score, information = _scores(gap, se)
    values = tuple(
        _onset_value(score[: k + 1], information[: k + 1], looks_most, rho)
        for k in range(1, len(score))
    )
    reached = [k for k, value in enumerate(values, start=1) if value >= 1 / alpha]
    return OnsetProcess(values, reached[0] if reached else None, alpha)


def cumulative_gaps(looks: Sequence[LookScores]) -> Cumulative:
    """Gap and SE (P2) of the units' means over looks 1…k, for each k. Scores are centred in each
    stratum of a look first, blind to the arms, so that what differs between looks adds no noise
    to units that were there at some of them only."""
    place: dict[object, int] = {}
    for look in looks:
        for unit in look.unit.tolist():
            place.setdefault(unit, len(place))
    stratum, public = np.empty(len(place), dtype=object), np.zeros(len(place), dtype=bool)
    total, count = np.zeros(len(place)), np.zeros(len(place))
    gaps = []
    for look in looks:
        at = np.array([place[unit] for unit in look.unit.tolist()], dtype=np.int64)
        stratum[at], public[at] = look.stratum, look.public
        centred = study_scores(look.scores[:, None], look.stratum)
        there = ~np.isnan(centred)
        total[at[there]] += centred[there]
        count[at[there]] += 1
        seen = count > 0
        gaps.append(_gap(total[seen] / count[seen], stratum[seen], public[seen]))
    return Cumulative(tuple(gap for gap, _ in gaps), tuple(se for _, se in gaps))


def _gap(
    scores: Floats, stratum: NDArray[np.object_], public: NDArray[np.bool_]
) -> tuple[float, float]:
    codes = np.unique(stratum.astype(str), return_inverse=True)[1].reshape(-1)
    if len(np.unique(codes * 2 + public)) < 2 * len(np.unique(codes)):
        return math.nan, math.nan
    estimate = estimate_gap(scores, codes, public)
    return estimate.gap, math.nan if estimate.se is None else estimate.se


def _scores(gap: Sequence[float], se: Sequence[float]) -> tuple[list[float], list[float]]:
    """S and I from look 0, where both are 0; carried on where a look brings no information."""
    score, information = [0.0], [0.0]
    for g, error in zip(gap, se, strict=True):
        known = 1 / error**2 if error > 0 and math.isfinite(g) else 0.0
        more = known > information[-1]
        score.append(g * known if more else score[-1])
        information.append(known if more else information[-1])
    return score, information


def _onset_value(score: list[float], information: list[float], most: int, rho: float) -> float:
    k = len(score) - 1
    since = (
        log_mixture(score[k] - score[j], information[k] - information[j], rho) for j in range(k)
    )
    bets = math.fsum(math.exp(min(m, 700.0)) for m in since)  # beyond it floats end
    return (bets + most - k) / most
