"""Normal-mixture e-processes, an alternative to the scan of windows that the page measures.

Their score increments are independent only if looks weigh alike: with looks of unequal numbers of
models their false alarms are many times alpha, so no plan runs one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.errors import AnalysisError

# S_k = g_k I_k, I_k = 1/SE_k², of cumulative seed means: a score and the information in it, whose
# increments are independent in large samples (asymptotic, not exact as the joint randomisation is).
# If a look brings no information (its I is no larger than the last, or cannot be estimated), S
# and I stay as they were: nothing is bet on it.

RHO = 1 / 0.05**2  # precision of the mixture over the gap, with an SD of five points


@dataclass(frozen=True, slots=True)
class OnsetProcess:
    """``values`` are E_k by look; ``rejected_at`` the first look, counted from 1, at which
    E ≥ 1/alpha."""

    values: tuple[float, ...]
    rejected_at: int | None
    alpha: float


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
