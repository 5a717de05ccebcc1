"""Reconstruct the pairs of the files in the current folder and fit the particle's peak; write
answer.json there, and the mass of each event to event_masses.csv.

A program of its own: reads the input files alone, with numpy and scipy.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

LOW, HIGH = 5.0, 85.0
BOUNDS = ((15.0, 75.0), (math.log(0.5), math.log(20.0)), (-6.0, 1.0), (-8.0, 8.0))
MASSES_FILE = "event_masses.csv"


def read_hits(path: Path) -> dict[str, dict[str, list[tuple[float, ...]]]]:
    """The hits of each event, by layer."""
    events: dict[str, dict[str, list[tuple[float, ...]]]] = defaultdict(lambda: defaultdict(list))
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            numbers = tuple(float(row[key]) for key in ("x", "y", "z", "energy") if key in row)
            events[row["event_id"]][row.get("layer", "")].append(numbers)
    return events


def direction(inner: Any, outer: Any) -> tuple[Any, Any, Any]:
    """Curvature, azimuth at the origin, and two estimates of cot θ, of helices from the origin
    through two hits each (rows x, y, z)."""
    r, big = np.hypot(*inner[:2]), np.hypot(*outer[:2])
    cross = inner[0] * outer[1] - inner[1] * outer[0]
    chord = np.hypot(outer[0] - inner[0], outer[1] - inner[1])
    curvature = 2 * cross / (r * big * chord)
    azimuth = np.arctan2(outer[1], outer[0]) - np.arcsin(curvature * big / 2)
    slopes = [
        hit[2] / (radius * arc(curvature * radius / 2))
        for hit, radius in ((inner, r), (outer, big))
    ]
    return curvature, azimuth, np.array(slopes)


def arc(half: Any) -> Any:
    """asin(x)/x: the arc over the chord."""
    safe = np.where(np.abs(half) < 1e-9, 1e-9, half)
    return np.arcsin(safe) / safe


def pair_masses(inner: Any, outer: Any, energy: Any) -> tuple[Any, Any]:
    """The invariant masses if the i-th inner hit belongs to the i-th outer one, and how badly
    that fits: both tracks must be helices, bend in opposite ways, and by as much as their
    energies say."""
    tracks = [direction(inner[i], outer[i]) for i in (0, 1)]
    cost, bends, momenta = 0.0, [], []
    for (curvature, azimuth, slopes), e in zip(tracks, energy, strict=True):
        cost = cost + np.abs(slopes[0] - slopes[1]) / (1 + np.abs(slopes[1]))
        transverse = e / np.sqrt(1 + slopes[1] ** 2)
        bends.append(curvature * transverse)
        momenta.append(transverse * np.array([np.cos(azimuth), np.sin(azimuth), slopes[1]]))
    cost = cost + np.abs(bends[0] + bends[1]) / (np.abs(bends[0]) + np.abs(bends[1]))
    # 2(E₁E₂ − p₁·p₂), from the directions' difference so that small angles keep their digits.
    unit = [p / np.sqrt((p * p).sum(axis=0)) for p in momenta]
    apart = ((unit[0] - unit[1]) ** 2).sum(axis=0)
    return np.sqrt(energy[0] * energy[1] * apart), cost


def reconstruct(tracker: Any, calorimeter: Any) -> tuple[list[str], Any]:
    """Event numbers and masses, with the likelier of the two ways to join the hits."""
    names = sorted(calorimeter, key=int)
    outermost = max(tracker[names[0]], key=lambda layer: radius_of([tracker[names[0]][layer]]))
    inner = np.array([tracker[name][outermost] for name in names]).transpose(1, 2, 0)
    hits = np.array([calorimeter[name][""] for name in names]).transpose(1, 2, 0)
    outer, energy = hits[:, :3], hits[:, 3]
    straight, straight_cost = pair_masses(inner, outer, energy)
    crossed, crossed_cost = pair_masses(inner[::-1], outer, energy)
    return names, np.where(straight_cost <= crossed_cost, straight, crossed)


def radius_of(layers: list[list[tuple[float, ...]]]) -> float:
    """The radius of a track, in metres."""
    radii = [math.hypot(hit[0], hit[1]) for hits in layers for hit in hits]
    return round(sum(radii) / len(radii), 3)


def loss(theta: Any, masses: Any) -> float:
    """−ln L in M, ln Γ, ln λ and logit f."""
    mass, half, slope = theta[0], math.exp(theta[1]) / 2, math.exp(theta[2])
    share = 1 / (1 + math.exp(-theta[3]))
    area = math.atan((HIGH - mass) / half) - math.atan((LOW - mass) / half)
    peak = half / area / ((masses - mass) ** 2 + half**2)
    fall = slope * np.exp(-slope * (masses - LOW)) / -math.expm1(-slope * (HIGH - LOW))
    return -float(np.log(share * peak + (1 - share) * fall).sum())


def fit(masses: Any) -> tuple[float, float]:
    """M and Γ at the highest maximum, looked for from the best places of a grid."""
    slope = math.log(1 / (masses.mean() - LOW))
    grid = []
    for width in (0.7, 1.5, 3.0, 6.0, 12.0):
        for mass in np.arange(15.5, 75.0, max(0.5, width / 3)):
            tried = [
                (float(mass), math.log(width), slope + steeper, logit)
                for steeper in (0.0, 0.5)
                for logit in (-3.5, -2.0, -0.5)
            ]
            grid.append(min((loss(theta, masses), theta) for theta in tried))
    found = [
        minimize(loss, theta, (masses,), "L-BFGS-B", bounds=BOUNDS)
        for theta in starts(sorted(grid))
    ]
    best = min(found, key=lambda each: float(each.fun))
    options: Any = {"xatol": 1e-4, "fatol": 1e-5}
    mass, log_width, *_ = minimize(
        loss, best.x, (masses,), "Nelder-Mead", bounds=BOUNDS, options=options
    ).x
    return float(mass), math.exp(log_width)


def starts(grid: list[tuple[float, tuple[float, ...]]]) -> list[tuple[float, ...]]:
    """The best few places of the grid, best first, that are not near a better one."""
    kept: list[tuple[float, ...]] = []
    for _, theta in grid:
        if all(abs(theta[0] - each[0]) > math.exp(each[1]) / 2 for each in kept):
            kept.append(theta)
    return kept[:6]


def solve(folder: Path) -> dict[str, object]:
    """The answer block for the files in the folder."""
    tracker = read_hits(folder / "tracker_hits.csv")
    calorimeter = read_hits(folder / "ecal_hits.csv")
    names, masses = reconstruct(tracker, calorimeter)
    lines = [f"{name},{mass:.6f}\n" for name, mass in zip(names, masses, strict=True)]
    (folder / MASSES_FILE).write_text("event_id,mass\n" + "".join(lines), encoding="utf-8")
    layers = {layer for event in tracker.values() for layer in event}
    radii = [radius_of([tracker[name][layer] for name in names]) for layer in layers]
    mass, width = fit(masses)
    return {
        "task": "invariant_mass_reconstruction",
        "layer_radii_m": sorted(radii),
        "ecal_radius_m": radius_of([calorimeter[name][""] for name in names]),
        "events_file": MASSES_FILE,
        "mass_GeV": round(mass, 4),
        "width_GeV": round(width, 4),
    }


if __name__ == "__main__":
    Path("answer.json").write_text(json.dumps(solve(Path())), encoding="utf-8")
