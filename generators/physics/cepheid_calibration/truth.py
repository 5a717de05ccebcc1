"""Ground truth of an instance as it is written, and the answer that states it.

The fit uses ``math`` on scalars and exactly rounded sums only, so that all machines agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from generators.physics.cepheid_calibration.parameters import MAGNITUDE_TOLERANCE, NAME, Parameters
from generators.physics.cepheid_calibration.sample import Galaxy, Sample, distance_of, spread
from generators.task import GroundTruth, Scalar, TruthTable

# Decimals of values computed with logarithms: their last bits depend on the C library.
_DECIMALS = 9

_VALUES = ("a", "b", "sigma_a", "sigma_b")


@dataclass(frozen=True, slots=True)
class Fit:
    """y = slope x + offset, with standard errors."""

    slope: float
    offset: float
    slope_error: float
    offset_error: float


def absolute_magnitude(magnitude: float, z: float) -> float:
    """M = m + 5 − 5 log10 d, with d in parsecs."""
    return magnitude - 25.0 - 5.0 * math.log10(distance_of(z))


def fit_line(x: Sequence[float], y: Sequence[float]) -> Fit:
    """Ordinary least squares, s² = Σr²/(n−2), for at least three points with some spread.

    σ_slope = √(s²/S_xx), σ_offset = √(s²(1/n + x̄²/S_xx)).
    """
    count = len(x)
    middle, level = math.fsum(x) / count, math.fsum(y) / count
    s_xx = spread(x)
    slope = math.fsum((a - middle) * (b - level) for a, b in zip(x, y, strict=True)) / s_xx
    offset = level - slope * middle
    residuals = (b - slope * a - offset for a, b in zip(x, y, strict=True))
    variance = math.fsum(r * r for r in residuals) / (count - 2)
    return Fit(
        slope,
        offset,
        math.sqrt(variance / s_xx),
        math.sqrt(variance * (1.0 / count + middle * middle / s_xx)),
    )


def fit_relation(
    periods: Sequence[float], magnitudes: Sequence[float], redshifts: Sequence[float]
) -> Fit:
    """M against log10 P − 1."""
    x = [math.log10(period) - 1.0 for period in periods]
    y = [absolute_magnitude(m, z) for m, z in zip(magnitudes, redshifts, strict=True)]
    return fit_line(x, y)


def make_truth(parameters: Parameters, sample: Sample) -> GroundTruth:
    """Tables ``redshifts`` (of the complete rows), ``excluded`` (Cepheids that lack something,
    and what), ``results`` (value and closed interval of each) and ``relation`` (as drawn)."""
    complete = [galaxy for galaxy in sample.galaxies if galaxy.is_complete]
    results = _results(parameters, complete)
    return GroundTruth(
        tables=(
            ("redshifts", _redshifts(parameters, complete)),
            ("excluded", _excluded(sample)),
            ("results", results),
            ("relation", TruthTable.of_row(a=sample.relation.slope, b=sample.relation.offset)),
        ),
        tolerances=(("z", parameters.z_tolerance), *_tolerances(results)),
    )


def _redshifts(parameters: Parameters, complete: Sequence[Galaxy]) -> TruthTable:
    """Redshift and absolute magnitude of each star, with their intervals: whoever meets that of
    the redshift meets that of the magnitude."""
    rows: list[tuple[Scalar, ...]] = []
    for galaxy in sorted(complete, key=lambda item: item.cepheid or ""):
        z, off, magnitude = galaxy.z or 0.0, parameters.z_tolerance, galaxy.magnitude or 0.0
        absolute = (absolute_magnitude(magnitude, z + step) for step in (0.0, off, -off))
        value, low, high = absolute
        limits = (value, low - MAGNITUDE_TOLERANCE, high + MAGNITUDE_TOLERANCE)
        written = (round(limit, _DECIMALS) for limit in limits)
        rows.append((galaxy.cepheid or "", galaxy.id, z, z - off, z + off, *written))
    return TruthTable(
        ("cepheid_id", "galaxy_id", "z", "z_min", "z_max", "M", "M_min", "M_max"), tuple(rows)
    )


def _excluded(sample: Sample) -> TruthTable:
    """All with a spectrum that lack a magnitude or a period, and the decoys without one."""
    decoys = set(sample.decoys)
    rows = []
    for galaxy in sample.galaxies:
        name = galaxy.cepheid
        if name is None or galaxy.is_complete:
            continue
        if galaxy.z is not None or name in decoys:
            rows.append((name, _lacks(galaxy)))
    return TruthTable(("cepheid_id", "lacks"), tuple(sorted(rows)))


def _lacks(galaxy: Galaxy) -> str:
    parts = {"spectrum": galaxy.z, "magnitude": galaxy.magnitude, "period": galaxy.period}
    return ", ".join(part for part, value in parts.items() if value is None)


def _results(parameters: Parameters, complete: Sequence[Galaxy]) -> TruthTable:
    """Values and closed intervals of the fit on true redshifts and written measurements."""
    fit = _fit(complete, 0.0)
    off = parameters.z_tolerance
    up, down = _fit(complete, off), _fit(complete, -off)
    share = parameters.error_share
    # A common offset that every redshift interval admits must not fail the line (R8d).
    slope = share * fit.slope_error + _shift(fit.slope, up.slope, down.slope)
    offset = share * fit.offset_error + _shift(fit.offset, up.offset, down.offset)
    widths = (
        slope,
        offset,
        parameters.sigma_tolerance * fit.slope_error,
        parameters.sigma_tolerance * fit.offset_error,
    )
    values = (fit.slope, fit.offset, fit.slope_error, fit.offset_error)
    row: dict[str, Scalar] = {"n": len(complete)}
    for name, value, width in zip(_VALUES, values, widths, strict=True):
        row[name] = round(value, _DECIMALS)
        row[f"{name}_min"] = round(value - width, _DECIMALS)
        row[f"{name}_max"] = round(value + width, _DECIMALS)
    return TruthTable.of_row(**row)


def _fit(complete: Sequence[Galaxy], shift: float) -> Fit:
    return fit_relation(
        [galaxy.period or 0.0 for galaxy in complete],
        [galaxy.magnitude or 0.0 for galaxy in complete],
        [(galaxy.z or 0.0) + shift for galaxy in complete],
    )


def _shift(value: float, *refits: float) -> float:
    return max(abs(refit - value) for refit in refits)


def _tolerances(results: TruthTable) -> tuple[tuple[str, float], ...]:
    row = results.records()[0]
    widths = ((name, float(row[f"{name}_max"]) - float(row[name])) for name in _VALUES)
    return tuple((name, round(width, _DECIMALS)) for name, width in widths)


def make_key(truth: GroundTruth) -> dict[str, Any]:
    """The answer block that scores full marks."""
    result = truth.table("results").records()[0]
    redshifts = truth.table("redshifts").records()
    return {
        "task": NAME,
        "cepheids": [{"id": row["cepheid_id"], "z": row["z"], "M": row["M"]} for row in redshifts],
        **{name: result[name] for name in _VALUES},
    }
