"""Group-sequential boundaries, one-sided, for reference beside the plan's own joint randomisation.

A boundary is a vector of z, one a look; the study rejects at the first look whose z reaches it.
``information`` (looks,) is each look's share of all the information, rising to 1. Under drift d
the z of look k has mean d √t_k and increments are independent (the canonical joint distribution;
Jennison and Turnbull 2000, chapters 3, 4, 7 and 19). Looks of seeds that differ in what they keep
from look to look do not have it: that is why the plan permutes instead.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError

Floats = NDArray[np.float64]

_NODES = 80  # Gauss–Legendre, a look: crossing probabilities are good to 1e-12
_REACH = 9.0  # SDs below the mean, beyond which nothing is


def equal_information(looks: int) -> Floats:
    """1/K, 2/K, … 1."""
    return np.arange(1, looks + 1) / looks


def obrien_fleming(looks: int, alpha: float = 0.025) -> Floats:
    """c √(K/k), K equal looks (O'Brien and Fleming 1979)."""
    information = equal_information(looks)
    return _scaled(1 / np.sqrt(information), information, alpha)


def pocock(looks: int, alpha: float = 0.025) -> Floats:
    """The same z at each of K equal looks (Pocock 1977)."""
    return _scaled(np.ones(looks), equal_information(looks), alpha)


def obf_spending(information: Sequence[float] | Floats, alpha: float = 0.025) -> Floats:
    """2 - 2 Φ(z_(α/2) / √t): what Lan and DeMets (1983) spend by information t."""
    from scipy.special import ndtr, ndtri

    return np.asarray(2 * ndtr(ndtri(alpha / 2) / np.sqrt(_checked(information))))


def spending_boundary(information: Sequence[float] | Floats, spent: Sequence[float]) -> Floats:
    """The z by look at which the chance of having crossed by look k is ``spent[k]``, under no
    drift. A look that spends nothing more has z = ∞."""
    times, bounds = _checked(information), np.full(len(spent), math.inf)
    if len(times) != len(spent) or np.any(np.diff([0.0, *spent]) < 0) or spent[-1] >= 1:
        raise AnalysisError("spending must have one value a look, not fall, and stay below 1")
    for k, level in enumerate(spent):
        if level > (spent[k - 1] if k else 0.0):
            bounds[k] = _solve(_crossed_by(bounds, times, k, level), -_REACH, _REACH)
    return bounds


def lan_demets(information: Sequence[float] | Floats, alpha: float = 0.025) -> Floats:
    """The boundary that spends as O'Brien and Fleming's, at looks of any information."""
    return spending_boundary(information, obf_spending(information, alpha).tolist())


def crossing(bounds: Floats, information: Sequence[float] | Floats, drift: float = 0.0) -> Floats:
    """The chance of having crossed by each look: size where drift is 0, power elsewhere. The
    density of the uncrossed sum is carried from look to look (Armitage, McPherson, Rowe 1969)."""
    from scipy.special import ndtr

    times = _checked(information)
    steps = np.diff(times, prepend=0.0)
    at, density = np.zeros(1), np.ones(1)  # of the sum z √t, with quadrature weights taken in
    crossed, total = np.zeros(len(times)), 0.0
    for k, (t, step) in enumerate(zip(times.tolist(), steps.tolist(), strict=True)):
        edge, sd = float(bounds[k]) * math.sqrt(t), math.sqrt(step)
        total += float(density @ ndtr((at + drift * step - edge) / sd))
        crossed[k] = total
        low = drift * t - _REACH * math.sqrt(t)
        high = min(edge, drift * t + _REACH * math.sqrt(t))
        if high <= low:
            crossed[k:] = total
            break
        at, density = _carry(at, density, drift * step, sd, (low, high))
    return crossed


def inflation(
    bounds: Floats,
    information: Sequence[float] | Floats,
    alpha: float = 0.025,
    power: float = 0.9,
) -> float:
    """By how much a sequential design's largest sample exceeds that of a single look of the same
    level and power: (drift of the boundary / drift of one look)²."""
    from scipy.special import ndtri

    single = float(ndtri(1 - alpha) + ndtri(power))
    drift = _solve(lambda d: power - float(crossing(bounds, information, d)[-1]), 0.0, 4 * single)
    return (drift / single) ** 2


def _scaled(shape: Floats, information: Floats, alpha: float) -> Floats:
    scale = _solve(lambda c: float(crossing(c * shape, information)[-1]) - alpha, 0.0, _REACH)
    return np.asarray(scale * shape)


def _crossed_by(bounds: Floats, times: Floats, k: int, level: float) -> Callable[[float], float]:
    def excess(z: float) -> float:
        tried = np.append(bounds[:k], z)
        return float(crossing(tried, times[: k + 1])[-1]) - level

    return excess


def _carry(
    at: Floats, density: Floats, shift: float, sd: float, span: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Places within the span, and there the density after one more step, times their weights."""
    nodes, weights = _rule()
    half = (span[1] - span[0]) / 2
    places = span[0] + half * (nodes + 1)
    z = (places[:, None] - at[None, :] - shift) / sd
    kernel = np.exp(-0.5 * z**2) / (sd * math.sqrt(2 * math.pi))
    return places, np.asarray(kernel @ density) * weights * half


@functools.cache
def _rule() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return np.asarray(nodes), np.asarray(weights)


def _solve(function: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=1e-11))


def _checked(information: Sequence[float] | Floats) -> Floats:
    times = np.asarray(information, dtype=np.float64)
    if not len(times) or times[0] <= 0 or times[-1] > 1 + 1e-12 or np.any(np.diff(times) <= 0):
        raise AnalysisError(f"information {times.tolist()} must rise from above 0 to 1 at most")
    return times
