"""What a small gap proves: equivalence, and a bound on inflation (spec/statistics.md, P5)."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.errors import AnalysisError

LEVEL = 0.05  # of each one-sided test


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Two one-sided tests of a gap against ± margin, each at 5 % (Schuirmann 1987).

    ``p_lower`` is against a gap ≤ −margin, ``p_upper`` against one ≥ margin. ``interval90`` is
    two-sided; ``equivalent`` says that it lies inside ± margin, ``no_inflation`` that its upper
    end, which is the one-sided 95 % bound, lies below margin.
    """

    p_lower: float
    p_upper: float
    equivalent: bool
    interval90: tuple[float, float]
    no_inflation: bool
    margin: float


def tost(gap: float, se: float | None, df: float | None, margin: float) -> Equivalence:
    """Equivalence of the arms from a gap, its standard error and degrees of freedom (P2, P5).

    Where the variance is not known (``se`` or ``df`` None) nothing is claimed: p is 1 and the
    interval that of the scale. Raises AnalysisError for a margin or SE that is not positive.
    """
    if not margin > 0:
        raise AnalysisError(f"margin {margin}: a gap above 0 is wanted (0.05 is 5 points)")
    if se is None or df is None:
        return Equivalence(1.0, 1.0, False, (-1.0, 1.0), False, margin)
    if not (se > 0 and df > 0):
        raise AnalysisError(f"SE {se} on {df} degrees of freedom: both must be above 0, or None")
    from scipy.special import stdtr, stdtrit

    half = float(stdtrit(df, 1 - LEVEL)) * se
    low, high = gap - half, gap + half
    return Equivalence(
        p_lower=float(stdtr(df, -(gap + margin) / se)),
        p_upper=float(stdtr(df, (gap - margin) / se)),
        equivalent=-margin < low and high < margin,
        interval90=(low, high),
        no_inflation=high < margin,
        margin=margin,
    )
