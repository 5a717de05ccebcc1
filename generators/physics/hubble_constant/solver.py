"""Measure the Hubble constant from the files in the current folder; write answer.json there.

A program of its own: reads the input files alone, with numpy, Pillow and the standard library.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL.PngImagePlugin import PngImageFile

LIGHT = 299_792.0  # km/s
SHORTEST, LONGEST = 400.0, 700.0  # nm, at the first tick mark and at the last
TICKS = 301
FAINTEST = 12  # grey level of a peak; the faintest line has 20 or more
MATCH = 0.05  # nm, of a line with the one that it is taken for
LARGEST_Z = 0.08
SCATTER = 0.1  # mag, of Cepheids about their relation
LN_D = math.log(10) / 5  # change of ln d with a magnitude

TABLE, LAB = "cepheids_measurements.csv", "spectral_lines_lab.png"


def read_lines(png: bytes) -> np.ndarray:
    """The wavelengths (nm) and brightnesses of the peaks of a strip, a row each."""
    with PngImageFile(io.BytesIO(png)) as image:
        pixels = np.asarray(image.convert("L"))
    dark = pixels < 128
    row = int(np.flatnonzero(dark.sum(axis=1) == TICKS)[0])  # the first that shows ticks alone
    ticks = np.flatnonzero(dark[row])
    strip = pixels[row - 20, ticks[0] : ticks[-1] + 1].astype(float)
    inner = strip[1:-1]
    peaks = (inner >= FAINTEST) & (inner >= strip[:-2]) & (inner > strip[2:])
    places = np.flatnonzero(peaks) + 1
    # A Gaussian's logarithm is a parabola: its top, from the three columns about the peak.
    left, middle, right = (np.log(np.maximum(strip[places + step], 0.5)) for step in (-1, 0, 1))
    tops = places + 0.5 * (left - right) / (left - 2 * middle + right)
    scale = (LONGEST - SHORTEST) / (ticks[-1] - ticks[0])
    return np.column_stack((SHORTEST + scale * tops, strip[places]))


def measure_z(observed: np.ndarray, lab: np.ndarray, match: float = MATCH) -> float:
    """The redshift at which every observed line lies on a laboratory line, or not a number.

    The brightest observed line is taken for each laboratory line in turn.
    """
    best = (math.inf, math.nan)
    brightest = observed[np.argmax(observed[:, 1]), 0]
    for rest in lab[:, 0]:
        z = brightest / rest - 1
        if not -1e-3 < z < LARGEST_Z + 1e-3:
            continue
        shifted = lab[:, 0] * (1 + z)
        nearest = np.abs(observed[:, :1] - shifted).argmin(axis=1)
        if np.abs(observed[:, 0] - shifted[nearest]).max() > 2 * match:
            continue
        zs, weights = observed[:, 0] / lab[nearest, 0] - 1, np.sqrt(observed[:, 1])
        z = float((zs * weights).sum() / weights.sum())
        worst = float(np.abs(observed[:, 0] - lab[nearest, 0] * (1 + z)).max())
        if worst < min(best[0], match):
            best = (worst, z)
    return best[1]


def usable_rows(files: Mapping[str, bytes]) -> list[dict[str, str]]:
    """The rows of the table with magnitude, period and a spectrum."""
    rows = csv.DictReader(io.StringIO(files[TABLE].decode("ascii"), newline=""))
    return [
        row
        for row in rows
        if row["mean_mag_cepheid"]
        and row["period [days]"]
        and f"observed_spectra/{row['galaxy_ID']}.png" in files
    ]


def distance(row: Mapping[str, str]) -> float:
    """Mpc, from the distance modulus without extinction."""
    absolute = -3.1 * (math.log10(float(row["period [days]"])) - 1) - 5.9
    modulus = float(row["mean_mag_cepheid"]) - 1.5 * float(row["E(B-V)"]) - absolute
    return float(10 ** ((modulus - 25) / 5))


def estimate(
    velocities: np.ndarray, distances: np.ndarray, errors: np.ndarray, motion: np.ndarray
) -> tuple[float, float]:
    """The constant that maximises the likelihood, and its standard error: velocities err by the
    random motion, the logarithms of distances by scatter and photometry (errors, mag)."""
    variance = LN_D**2 * (SCATTER**2 + errors**2)
    observed = np.log(distances)
    constant = float(np.mean(velocities / distances))
    for _ in range(200):
        likeliest = observed.copy()  # ln d of each galaxy, for this constant
        for _ in range(100):
            expected = constant * np.exp(likeliest)
            slope = expected * (velocities - expected) / motion**2
            slope -= (likeliest - observed) / variance
            step = slope / ((expected / motion) ** 2 + 1 / variance)
            likeliest += step
            if np.abs(step).max() < 1e-12:
                break
        weights = 1 / (variance + (motion / (constant * np.exp(likeliest))) ** 2)
        change = float(((likeliest - observed) / variance).sum() / weights.sum())
        constant *= math.exp(change)
        if abs(change) < 1e-12:
            break
    return constant, constant / math.sqrt(weights.sum())


def solve(files: Mapping[str, bytes]) -> dict[str, Any]:
    """The answer block for the files."""
    rows, lab = usable_rows(files), read_lines(files[LAB])
    pictures = (files[f"observed_spectra/{row['galaxy_ID']}.png"] for row in rows)
    redshifts = [measure_z(read_lines(picture), lab) for picture in pictures]
    return answer(rows, redshifts)


def answer(rows: Sequence[Mapping[str, str]], redshifts: Sequence[float]) -> dict[str, Any]:
    """The answer block for these rows of the table and their redshifts."""
    distances = [distance(row) for row in rows]
    constant, error = estimate(
        LIGHT * np.array(redshifts),
        np.array(distances),
        np.array([float(row["mag_error"]) for row in rows]),
        np.array([float(row["sigma_v [km/s]"]) for row in rows]),
    )
    galaxies = zip(rows, redshifts, distances, strict=True)
    return {
        "task": "hubble_constant",
        "galaxies": [
            {"id": row["galaxy_ID"], "z": round(z, 7), "d": round(d, 4)} for row, z, d in galaxies
        ],
        "H0": round(constant, 4),
        "sigma_H0": round(error, 4),
    }


def read_folder() -> dict[str, bytes]:
    """The input files of the current folder."""
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


if __name__ == "__main__":
    Path("answer.json").write_text(json.dumps(solve(read_folder())), encoding="utf-8")
