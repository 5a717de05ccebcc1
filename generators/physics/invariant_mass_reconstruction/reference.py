"""The reference fit: unbinned maximum likelihood of a Breit–Wigner over an exponential.

Both are truncated to the range of the masses and normalised in it. The parameters are the
mass M, the width Γ (FWHM), the slope λ and the signal's fraction f; inside, they are
θ = (M, ln(Γ/2), ln λ, logit f), in which the fit is well scaled. The results are rounded far
above the noise of floating-point sums, so that they are the same on every processor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from generators.physics.invariant_mass_reconstruction.parameters import (
    HIGH_MASS,
    SOUGHT_MASSES,
    SOUGHT_WIDTHS,
)

Array = NDArray[np.float64]

DECIMALS = 8
_STEP = 1e-4  # of the differences that make the Hessian from the gradient, in units of scale
_CONVERGED = 1e-10  # length of a Newton step, in units of scale
_MOST_STEPS = 200
# The scan for other peaks: bins of the masses, and the widths tried.
_BIN = 0.4  # of the width sought
_WIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_NEAR = 20.0  # a local maximum of the scan this close to the best in −ln L is fitted in full
_MOST_PEAKS = 8
_SAME = 0.5  # two fits closer than this share of their widths are one peak


@dataclass(frozen=True, slots=True)
class Reference:
    """Fitted mass, width, slope and fraction of signal (GeV and per GeV), each with its error from
    the Hessian, and by how much −ln L of the next best peak is larger (at most _NEAR)."""

    mass: float
    sigma_mass: float
    width: float
    sigma_width: float
    slope: float
    sigma_slope: float
    fraction: float
    sigma_fraction: float
    lead: float


@dataclass(frozen=True, slots=True)
class _Fit:
    theta: Array
    loss: float  # −ln L
    covariance: Array

    @property
    def mass(self) -> float:
        return float(self.theta[0])

    @property
    def width(self) -> float:
        return 2 * math.exp(self.theta[1])


@dataclass(frozen=True, slots=True)
class _Place:
    """A local maximum of the scan: mass, width, fraction of signal, −ln L."""

    mass: float
    width: float
    share: float
    loss: float


def fit_reference(
    masses: Sequence[float], lowest: float, start: tuple[float, float, float, float]
) -> Reference | None:
    """The best fit, over masses from the lowest to HIGH_MASS, that has mass and width in the
    ranges that the prompt names; None if the
    search from ``start`` (M, Γ, λ, f) or from the other peaks of a scan reaches no maximum."""
    values = np.array(masses)
    first = _fit(values, lowest, _theta(*start))
    if first is None:
        return None
    slope = math.exp(first.theta[2])
    places = _places(values, lowest, slope, first.loss)
    fits = [_fit(values, lowest, _theta(at.mass, at.width, slope, at.share)) for at in places]
    sought = [fit for fit in (first, *fits) if fit is not None and _sought(fit)]
    if not sought:
        return None
    best = min(sought, key=lambda fit: fit.loss)
    # If the fit leaves the ranges, the edge of the range still counts as another peak.
    edges = [at for at, fit in zip(places, fits, strict=True) if fit is None or not _sought(fit)]
    peaks: tuple[_Fit | _Place, ...] = (*sought, *edges)
    other_losses = (peak.loss for peak in peaks if not _same(peak, best))
    return _report(best, min(other_losses, default=math.inf) - best.loss)


def _report(best: _Fit, lead: float) -> Reference:
    errors = [float(error) for error in np.sqrt(np.diag(best.covariance))]
    slope, fraction = math.exp(best.theta[2]), 1 / (1 + math.exp(-best.theta[3]))
    values = (
        *(best.mass, errors[0]),
        *(best.width, best.width * errors[1]),
        *(slope, slope * errors[2]),
        *(fraction, fraction * (1 - fraction) * errors[3]),
        min(lead, _NEAR),
    )
    return Reference(*(round(value, DECIMALS) for value in values))


def _theta(mass: float, width: float, slope: float, share: float) -> Array:
    return np.array([mass, math.log(width / 2), math.log(slope), math.log(share / (1 - share))])


def _sought(fit: _Fit) -> bool:
    low, high = SOUGHT_MASSES
    narrow, wide = SOUGHT_WIDTHS
    return low < fit.mass < high and narrow < fit.width < wide


def _same(peak: _Fit | _Place, best: _Fit) -> bool:
    return abs(peak.mass - best.mass) < _SAME * max(peak.width, best.width)


def _fit(values: Array, lowest: float, theta: Array) -> _Fit | None:
    """The minimum of −ln L near ``theta``, by damped Newton steps; None if there is none."""
    loss, gradient = _loss(values, lowest, theta)
    damping = 1e-3
    for _ in range(_MOST_STEPS):
        scale = np.array([math.exp(theta[1]), 1.0, 1.0, 1.0])
        hessian = _hessian(values, lowest, theta, scale)
        step = _step(hessian, gradient * scale, damping)
        if damping <= 1e-9 and np.max(np.abs(step)) < _CONVERGED:
            return _finish(theta, loss, hessian, scale)
        tried = theta + scale * step
        new_loss, new_gradient = (
            _loss(values, lowest, tried) if _sane(tried) else (math.inf, gradient)
        )
        # At the minimum the loss is flat to rounding: there a smaller step decides.
        if new_loss <= loss + 1e-9:
            theta, loss, gradient = tried, new_loss, new_gradient
            damping = damping / 10 if damping > 1e-12 else 0.0
        else:
            damping = max(10 * damping, 1e-3)
            if damping > 1e12:
                return None
    return None


def _sane(theta: Array) -> bool:
    mass, log_half, log_slope, logit = theta
    return bool(0 < mass < 100 and abs(log_half) < 5 and -8 < log_slope < 3 and abs(logit) < 12)


def _step(hessian: Array, gradient: Array, damping: float) -> Array:
    """A Newton step on the Hessian with its eigenvalues made positive and damped."""
    values, vectors = np.linalg.eigh(hessian)
    stiff = np.maximum(np.abs(values), 1e-6) * (1 + damping)
    step: Array = -(vectors @ ((vectors.T @ gradient) / stiff))
    return step / max(1.0, float(np.max(np.abs(step))))


def _finish(theta: Array, loss: float, hessian: Array, scale: Array) -> _Fit | None:
    """The fit with its covariance; None at a saddle."""
    if np.linalg.eigvalsh(hessian)[0] <= 0:
        return None
    return _Fit(theta, loss, np.linalg.inv(hessian) * np.outer(scale, scale))


def _hessian(values: Array, lowest: float, theta: Array, scale: Array) -> Array:
    """Second derivatives in units of ``scale``, from central differences of the gradient."""
    rows = []
    for index in range(len(theta)):
        shift = np.zeros(len(theta))
        shift[index] = _STEP * scale[index]
        above = _loss(values, lowest, theta + shift)[1]
        below = _loss(values, lowest, theta - shift)[1]
        rows.append((above - below) * scale / (2 * _STEP))
    matrix = np.array(rows)
    return (matrix + matrix.T) / 2


def _loss(values: Array, lowest: float, theta: Array) -> tuple[float, Array]:
    """−ln L and its gradient in θ."""
    mass, half, slope = float(theta[0]), math.exp(theta[1]), math.exp(theta[2])
    share = 1 / (1 + math.exp(-theta[3]))
    off = values - mass
    square = off * off + half * half
    up, down = HIGH_MASS - mass, lowest - mass
    area = math.atan(up / half) - math.atan(down / half)
    up2, down2 = up * up + half * half, down * down + half * half
    reach = HIGH_MASS - lowest
    kept = -math.expm1(-slope * reach)
    signal = share * half / area / square
    total = signal + (1 - share) * slope / kept * np.exp(-slope * (values - lowest))
    weight = signal / total
    by_mass = 2 * off / square - (half / down2 - half / up2) / area
    by_half = 1 - 2 * half * half / square - half * (down / down2 - up / up2) / area
    by_slope = 1 - slope * (values - lowest) - slope * reach * (1 - kept) / kept
    gradient = np.array(
        [
            -np.sum(weight * by_mass),
            -np.sum(weight * by_half),
            -np.sum((1 - weight) * by_slope),
            -np.sum(weight - share),
        ]
    )
    return float(-np.sum(np.log(total))), gradient


def _places(values: Array, lowest: float, slope: float, best: float) -> list[_Place]:
    """Find the local maxima in M of the likelihood, with the background's slope as given, that
    come near the best; the nearest first."""
    maxima = []
    reach = HIGH_MASS - lowest
    for width in _WIDTHS:
        edges = np.linspace(lowest, HIGH_MASS, round(reach / (_BIN * width)) + 1)
        counts = np.histogram(values, edges)[0].astype(float)
        places = np.arange(SOUGHT_MASSES[0], SOUGHT_MASSES[1], min(width / 2, 2.0))
        shares, losses = _profile(counts, edges, slope, places, width)
        for at in _lowest_of_neighbours(losses):
            if losses[at] < best + _NEAR and shares[at] > 1e-3:
                share, loss = float(shares[at]), float(losses[at])
                maxima.append(_Place(float(places[at]), width, share, loss))
    return sorted(maxima, key=lambda place: place.loss)[:_MOST_PEAKS]


def _profile(
    counts: Array, edges: Array, slope: float, places: Array, width: float
) -> tuple[Array, Array]:
    """For a peak at each place: the best fraction of signal, and −ln L there, up to the little
    that the bins lose."""
    bins = np.diff(edges)
    falling = np.exp(-slope * (edges - edges[0]))
    background = (falling[:-1] - falling[1:]) / (falling[0] - falling[-1])
    primitive = np.arctan((edges[None, :] - places[:, None]) * (2 / width))
    signal = np.diff(primitive, axis=1) / (primitive[:, -1:] - primitive[:, :1])
    ratio = signal / background - 1
    shares = np.full(len(places), 0.05)
    for _ in range(8):  # Newton on a concave function of one number
        inner = ratio / (1 + shares[:, None] * ratio)
        rise, curve = _weigh(inner, counts), _weigh(inner * inner, counts)
        shares = np.clip(shares + rise / curve, shares / 5, 1 - (1 - shares) / 5)
    gain = _weigh(np.log1p(shares[:, None] * ratio), counts)
    return shares, -(gain + float(np.sum(np.log(background / bins) * counts)))


def _weigh(rows: Array, counts: Array) -> Array:
    """The product of a matrix and a vector, without the threads of a linear algebra library, whose
    waiting costs more than the work."""
    product: Array = np.einsum("ij,j->i", rows, counts)
    return product


def _lowest_of_neighbours(losses: Array) -> Iterator[int]:
    padded = np.concatenate([[math.inf], losses, [math.inf]])
    for at in range(len(losses)):
        if padded[at + 1] <= padded[at] and padded[at + 1] < padded[at + 2]:
            yield at
