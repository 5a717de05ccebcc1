"""Calibrate the Cepheids of the current folder; write answer.json there.

A program of its own: reads the input files alone, with numpy and Pillow.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from math import log10, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from PIL.PngImagePlugin import PngImageFile

LIGHT_SPEED, HUBBLE = 299_792.0, 67.0
SHORTEST, LONGEST = 400.0, 700.0  # nm, the ends of the scale
FAINTEST = 0.02  # of a peak, relative to the brightest
CLEAR = 8.0  # pixels to the next line, for a centroid that it does not pull
REACH = 6.0  # pixels either side of a peak that its centroid takes in
MATCH = 0.08  # nm
LARGEST_Z = 0.08

TABLE, LAB = "cepheids_measurements.csv", "spectral_lines_lab.png"

# Wavelength (nm), whether it stands clear of other lines, and its height.
Line = tuple[float, bool, float]
Lines = list[Line]


def read_lines(png: bytes) -> Lines:
    """The lines of a spectrum, in nm against the long tick marks of its scale."""
    with PngImageFile(io.BytesIO(png)) as image:
        pixels = np.asarray(image.convert("L"))
    base, ticks = find_scale(pixels)
    plot = pixels[base // 4 : base, ticks[0] : ticks[-1] + 1]
    top = int(np.argmax((plot < 255).all(axis=1)))
    heights = plot[top:].sum(axis=0, dtype=np.float64)
    scale = (LONGEST - SHORTEST) / (ticks[-1] - ticks[0])
    return [
        (SHORTEST + scale * place, clear, height) for place, clear, height in find_lines(heights)
    ]


def find_scale(pixels: np.ndarray) -> tuple[int, list[int]]:
    """The first row below the plot, and the columns of the long tick marks: 31 in equal steps,
    in the lowest row that has such marks and no others."""
    for row in range(len(pixels) - 1, 0, -1):
        columns = np.flatnonzero(pixels[row] < 128)
        steps = set(np.diff(columns).tolist())
        if len(columns) == 31 and len(steps) == 1:
            left = columns[0]
            inside = (pixels[:row, left + 1 : left + 3] < 255).any(axis=1)
            return int(np.flatnonzero(inside)[-1]) + 1, columns.tolist()
    raise ValueError("no scale")


def find_lines(heights: np.ndarray) -> Lines:
    """The centroid of each peak, in pixels from the left end, whether it stands clear, and its
    height."""
    inner = heights[1:-1]
    above = inner > FAINTEST * heights.max()
    peaks = (np.flatnonzero(above & (heights[:-2] < inner) & (inner >= heights[2:])) + 1).tolist()
    found = []
    for number, peak in enumerate(peaks):
        others = [abs(peak - other) for other in peaks[max(number - 1, 0) : number + 2]]
        gap = min([distance for distance in others if distance], default=1000)
        reach = int(min(REACH, gap / 2))
        near = np.arange(peak - reach, peak + reach + 1)
        weights = heights[near]
        centroid = float((near * weights).sum() / weights.sum())
        found.append((centroid, gap >= CLEAR, float(heights[peak])))
    return found


def find_redshift(seen: Sequence[Line], lab: Sequence[Line], match: float = MATCH) -> float:
    """The redshift at which the most of the lines seen lie on lines of the laboratory: the mean
    over those that stand clear, if any do."""
    places, rest = (np.array([line[0] for line in lines]) for lines in (seen, lab))
    tried = (places[:, None] / rest - 1.0).ravel()
    tried = tried[(tried >= 0.0) & (tried <= LARGEST_Z)]
    gaps = np.abs(rest * (1.0 + tried[:, None, None]) - places[:, None])
    nearest = gaps.argmin(axis=2)
    gap = gaps.min(axis=2)
    best = int(np.where(gap < match, 1.0 - gap, 0.0).sum(axis=1).argmax())
    pairs = [
        (place, lab[at])
        for place, at, fits in zip(seen, nearest[best], gap[best] < match, strict=True)
        if fits
    ]
    clear = [pair for pair in pairs if pair[0][1] and pair[1][1]] or pairs
    return float(np.mean([a[0] / b[0] - 1.0 for a, b in clear]))


def fit_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float, float]:
    """Slope, its standard error, offset, its standard error."""
    count, middle = len(x), x.mean()
    s_xx = float(((x - middle) ** 2).sum())
    slope = float(((x - middle) * y).sum()) / s_xx
    offset = float(y.mean() - slope * middle)
    variance = float(((y - slope * x - offset) ** 2).sum()) / (count - 2)
    return slope, sqrt(variance / s_xx), offset, sqrt(variance * (1 / count + middle**2 / s_xx))


def usable_rows(files: Mapping[str, bytes]) -> list[dict[str, str]]:
    """The rows of the table with a Cepheid, its magnitude and period, and a spectrum."""
    rows = csv.DictReader(io.StringIO(files[TABLE].decode("ascii"), newline=""))
    return [row for row in rows if all(row.values()) and picture_of(row) in files]


def picture_of(row: Mapping[str, str]) -> str:
    """The path of the spectrum of a row's galaxy."""
    return f"observed_spectra/{row['galaxy_ID']}.png"


def solve(files: Mapping[str, bytes]) -> dict[str, Any]:
    """The answer block for the files."""
    rows, lab = usable_rows(files), read_lines(files[LAB])
    return answer(rows, [find_redshift(read_lines(files[picture_of(row)]), lab) for row in rows])


def answer(rows: Sequence[Mapping[str, str]], redshifts: Sequence[float]) -> dict[str, Any]:
    """The answer block for these rows of the table and their redshifts."""
    x = [log10(float(row["period [days]"])) - 1.0 for row in rows]
    y = [
        float(row["mean_mag_cepheid"]) - 25.0 - 5.0 * log10(LIGHT_SPEED * z / HUBBLE)
        for row, z in zip(rows, redshifts, strict=True)
    ]
    a, sigma_a, b, sigma_b = fit_line(np.array(x), np.array(y))
    return {
        "task": "cepheid_calibration",
        "cepheids": [
            {"id": row["cepheid_ID"], "z": round(z, 7), "M": round(m, 5)}
            for row, z, m in zip(rows, redshifts, y, strict=True)
        ],
        "a": a,
        "sigma_a": sigma_a,
        "b": b,
        "sigma_b": sigma_b,
    }


def read_folder() -> dict[str, bytes]:
    """The input files of the current folder."""
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


if __name__ == "__main__":
    Path("answer.json").write_text(json.dumps(solve(read_folder())), encoding="utf-8")
