"""Calibrate the Cepheids of the current folder; write answer.json there.

A program of its own: reads the input files alone, with numpy and Pillow.
"""

from __future__ import annotations

import csv
import json
from math import log10, sqrt
from pathlib import Path

import numpy as np
from PIL.PngImagePlugin import PngImageFile

LIGHT_SPEED, HUBBLE = 299_792.0, 67.0
SHORTEST, LONGEST = 400.0, 750.0  # nm, the ends of the scale
FAINTEST = 0.02  # of a peak, relative to the brightest
CLEAR = 8.0  # pixels to the next line, for a centroid that it does not pull
REACH = 6.0  # pixels either side of a peak that its centroid takes in
MATCH = 0.08  # nm

Line = tuple[float, bool]  # wavelength, and whether it stands clear of other lines
Lines = list[Line]
Pair = tuple[Line, Line]


def read_lines(path: Path) -> Lines:
    """The lines of a spectrum, in nm against the long tick marks of its scale."""
    with PngImageFile(path) as image:
        pixels = np.asarray(image.convert("L"))
    base, ticks = find_scale(pixels)
    plot = pixels[base // 4 : base, ticks[0] : ticks[-1] + 1]
    top = int(np.argmax((plot < 255).all(axis=1)))
    heights = plot[top:].sum(axis=0, dtype=np.float64)
    scale = (LONGEST - SHORTEST) / (ticks[-1] - ticks[0])
    return [(SHORTEST + scale * place, clear) for place, clear in find_lines(heights)]


def find_scale(pixels: np.ndarray) -> tuple[int, list[int]]:
    """The first row below the plot, and the columns of the long tick marks: 36 in equal steps,
    in the lowest row that has such marks and no others."""
    for row in range(len(pixels) - 1, 0, -1):
        columns = np.flatnonzero(pixels[row] < 128)
        steps = set(np.diff(columns).tolist())
        if len(columns) == 36 and len(steps) == 1:
            left = columns[0]
            inside = (pixels[:row, left + 1 : left + 3] < 255).any(axis=1)
            return int(np.flatnonzero(inside)[-1]) + 1, columns.tolist()
    raise ValueError("no scale")


def find_lines(heights: np.ndarray) -> Lines:
    """The centroid of each peak, in pixels from the left end, and whether it stands clear."""
    floor = FAINTEST * heights.max()
    peaks = [
        column
        for column in range(1, len(heights) - 1)
        if heights[column] > floor and heights[column - 1] < heights[column] >= heights[column + 1]
    ]
    found = []
    for number, peak in enumerate(peaks):
        others = [abs(peak - other) for other in peaks[max(number - 1, 0) : number + 2]]
        gap = min([distance for distance in others if distance], default=1000)
        reach = int(min(REACH, gap / 2))
        near = np.arange(peak - reach, peak + reach + 1)
        weights = heights[near]
        found.append((float((near * weights).sum() / weights.sum()), gap >= CLEAR))
    return found


def find_redshift(seen: Lines, lab: Lines) -> float:
    """The redshift at which the most of the lines seen lie on lines of the laboratory."""
    best, pairs = 0.0, list[Pair]()
    for wavelength, _ in seen:
        for rest, _ in lab:
            z = wavelength / rest - 1.0
            if 0.0 <= z <= 0.08:
                matched = match_lines(seen, lab, z)
                score = len(matched) - sum(abs(a[0] - b[0] * (1 + z)) for a, b in matched)
                if score > best:
                    best, pairs = score, matched
    clear = [(a[0], b[0]) for a, b in pairs if a[1] and b[1]]
    return float(np.mean([a / b - 1.0 for a, b in clear or [(a[0], b[0]) for a, b in pairs]]))


def match_lines(seen: Lines, lab: Lines, z: float) -> list[Pair]:
    """Each line seen, with the laboratory's that it lies on at this redshift."""
    pairs = []
    for line in seen:
        nearest = min(lab, key=lambda rest: abs(rest[0] * (1 + z) - line[0]))
        if abs(nearest[0] * (1 + z) - line[0]) < MATCH:
            pairs.append((line, nearest))
    return pairs


def fit_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float, float]:
    """Slope, its standard error, offset, its standard error."""
    count, middle = len(x), x.mean()
    s_xx = float(((x - middle) ** 2).sum())
    slope = float(((x - middle) * y).sum()) / s_xx
    offset = float(y.mean() - slope * middle)
    variance = float(((y - slope * x - offset) ** 2).sum()) / (count - 2)
    return slope, sqrt(variance / s_xx), offset, sqrt(variance * (1 / count + middle**2 / s_xx))


def solve(folder: Path) -> dict[str, object]:
    """The answer block for the files in the folder."""
    lab = read_lines(folder / "spectral_lines_lab.png")
    redshifts, x, y = [], [], []
    with open(folder / "cepheids_measurements.csv", encoding="ascii", newline="") as file:
        for galaxy, cepheid, magnitude, period in list(csv.reader(file))[1:]:
            image = folder / "observed_spectra" / f"{galaxy}.png"
            if not (cepheid and magnitude and period and image.exists()):
                continue
            z = find_redshift(read_lines(image), lab)
            redshifts.append({"id": cepheid, "z": round(z, 7)})
            x.append(log10(float(period)) - 1.0)
            y.append(float(magnitude) + 5.0 - 5.0 * log10(LIGHT_SPEED * z / HUBBLE * 1e6))
    a, sigma_a, b, sigma_b = fit_line(np.array(x), np.array(y))
    return {
        "task": "cepheid_calibration",
        "redshifts": redshifts,
        "a": a,
        "sigma_a": sigma_a,
        "b": b,
        "sigma_b": sigma_b,
        "fit": "linear_free_intercept",
    }


if __name__ == "__main__":
    Path("answer.json").write_text(json.dumps(solve(Path())), encoding="utf-8")
