"""Read the instrument in the pictures of the current folder, find the pairs' tracks, and fit the
particle's peak; write answer.json there, and the mass of each event to event_masses.csv.

A program of its own: reads the input files alone, with numpy, scipy and Pillow.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.optimize import minimize

HIGH = 100.0
BOUNDS = ((9.0, 37.0), (math.log(0.4), math.log(12.0)), (-6.0, 1.0), (-8.0, 8.0))
MASSES_FILE = "event_masses.csv"
MUON = 0.105658
ROAD, Z_ROAD, CLUSTER_ROAD = 1.5e-3, 5e-3, 0.03  # m, about a track
PIXEL = 0.25  # a picture's coordinates start so far before the middle of its first pixel


# --- pictures


@dataclass(frozen=True)
class Instrument:
    """Radii of the layers and, last, of the calorimeter (m), gains (MeV per count), field (T)."""

    radii: Any
    gains: Any
    field: float


def read_instrument(files: Mapping[str, bytes]) -> Instrument:
    """What the pictures state."""
    return Instrument(
        read_radii(colour(files["detector.png"])),
        read_gains(colour(files["ecal_gains.png"])),
        read_field(colour(files["field_gauge.png"])),
    )


def colour(png: bytes) -> Any:
    """How far each pixel is from grey: axes and words are black."""
    with Image.open(io.BytesIO(png)) as image:
        red, green, blue = (np.asarray(band) for band in image.convert("RGB").split())
    most = np.maximum(np.maximum(red, green), blue)
    return most - np.minimum(np.minimum(red, green), blue)


def read_radii(picture: Any) -> Any:
    """The origin stands at (130, 810) and a metre has 460 pixels, as the axes show."""
    rows, columns = np.nonzero(picture[:810, :940])
    weights = picture[rows, columns]
    from_origin = np.hypot(columns - 130 + PIXEL, rows - 810 + PIXEL)
    total = np.bincount(from_origin.astype(int), weights)
    moment = np.bincount(from_origin.astype(int), weights * from_origin)
    starts = np.flatnonzero((total > 0) & (np.concatenate(([0.0], total[:-1])) == 0))
    return np.add.reduceat(moment, starts) / np.add.reduceat(total, starts) / 460


def read_gains(picture: Any) -> Any:
    """A row each 80 pixels from 110; the axis is logarithmic, 4 MeV at 170 and 20 at 1130."""
    gains = []
    for row in range(110, 750, 80):
        rows, columns = np.nonzero(picture[row - 12 : row + 13])
        if len(rows):
            weights = picture[row - 12 + rows, columns]
            middle = np.average(columns, weights=weights) + PIXEL
            gains.append(4 * 5 ** ((middle - 170) / 960))
    return np.array(gains)


def read_field(picture: Any) -> float:
    """The needle turns about (600, 480), by 270 degrees for 4 T from the lower left."""
    rows, columns = np.nonzero(picture)
    weights = picture[rows, columns]
    right = np.average(columns, weights=weights) + PIXEL - 600
    up = 480 - np.average(rows, weights=weights) - PIXEL
    turned = (225 - math.degrees(math.atan2(up, right))) % 360
    return turned / 270 * 4


# --- tracks


@dataclass(frozen=True)
class Tracks:
    """Two rows for each event, of the hits of a lepton: azimuth and z by layer, nan where there is
    none. ``leads`` are their first estimates of the curvature."""

    phi: Any
    z: Any
    leads: Any


def read_table(data: bytes) -> Any:
    """A table of numbers, without its header."""
    return np.loadtxt(io.BytesIO(data), delimiter=",", skiprows=1)


def turn(angle: Any) -> Any:
    """The angle between −π and π."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


def pairs_within(groups: Any) -> tuple[Any, Any]:
    """All pairs of rows, in both orders, that are of one group; the groups are sorted."""
    counts = np.bincount(groups)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    sizes = counts[groups]
    first = np.repeat(np.arange(len(groups)), sizes)
    place = np.arange(len(first)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return first, starts[groups[first]] + place


def arc(curvature: Any, radius: Any) -> Any:
    """Length, in the transverse plane, of a track to a radius; nan for one that does not reach."""
    half = np.where(np.abs(curvature) < 1e-9, 1e-9, curvature) * radius / 2
    with np.errstate(invalid="ignore"):
        return np.arcsin(half) / half * radius


def find_tracks(hits: Any, radii: Any, events: int) -> Tracks:
    """The two tracks of each event: helices from the origin through two hits which pass most
    others, of opposite charge."""
    event, layer = hits[:, 0].astype(int) - 1, hits[:, 1].astype(int) - 1
    phi, z, radius = hits[:, 2], hits[:, 3], radii[layer]
    inner, outer = pairs_within(event)
    keep = layer[outer] - layer[inner] >= 2
    inner, outer = inner[keep], outer[keep]
    apart = turn(phi[outer] - phi[inner])
    chord = np.sqrt(
        radius[inner] ** 2 + radius[outer] ** 2 - 2 * radius[inner] * radius[outer] * np.cos(apart)
    )
    curvature = -2 * np.sin(apart) / chord
    slopes = [z[hit] / arc(curvature, radius[hit]) for hit in (inner, outer)]
    keep = np.abs(slopes[0] - slopes[1]) < 2.5e-3 / radius[inner]
    keep &= (np.abs(apart) < 1) & (np.abs(curvature) * radii[-1] < 2)
    inner, outer, curvature, slope = inner[keep], outer[keep], curvature[keep], slopes[1][keep]
    start = phi[outer] + np.arcsin(curvature * radius[outer] / 2)

    # For each candidate, the hits of its event in the road about it, the nearest of each layer.
    counts = np.bincount(event, minlength=events)
    starts = np.cumsum(counts) - counts
    sizes = counts[event[inner]]
    which = np.repeat(np.arange(len(inner)), sizes)
    hit = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    hit += starts[event[inner]][which]
    half = curvature[which] * radius[hit] / 2
    off = np.abs(turn(phi[hit] - start[which] + np.arcsin(half))) * radius[hit]
    off_z = np.abs(z[hit] - slope[which] * arc(curvature[which], radius[hit]))
    near = (off < ROAD) & (off_z < Z_ROAD)
    which, hit = which[near], hit[near]
    miss = (off[near] / ROAD) ** 2 + (off_z[near] / Z_ROAD) ** 2
    order = np.lexsort((miss, layer[hit], which))
    which, hit, miss = which[order], hit[order], miss[order]
    first = np.ones(len(which), bool)
    first[1:] = (which[1:] != which[:-1]) | (layer[hit[1:]] != layer[hit[:-1]])
    which, hit, miss = which[first], hit[first], miss[first]
    quality = np.bincount(which, 1 - miss / 100, len(inner))

    tracks = Tracks(
        np.full((events, 2, len(radii) - 1), np.nan),
        np.full((events, 2, len(radii) - 1), np.nan),
        np.full((events, 2), np.nan),
    )
    free = np.ones(len(hits), bool)
    sign = np.zeros(events)
    for number in (0, 1):
        usable = free[inner] & free[outer] & (np.sign(curvature) != sign[event[inner]])
        ranked = np.lexsort((-quality, event[inner]))
        ranked = ranked[usable[ranked]]
        found, at = np.unique(event[inner[ranked]], return_index=True)
        best = ranked[at]
        tracks.leads[found, number] = curvature[best]
        sign[found] = np.sign(curvature[best])
        chosen = np.isin(which, best) & free[hit]
        taken = hit[chosen]
        tracks.phi[event[taken], number, layer[taken]] = phi[taken]
        tracks.z[event[taken], number, layer[taken]] = z[taken]
        free[taken] = False
    return tracks


def fit_tracks(tracks: Tracks, radii: Any) -> tuple[Any, Any, Any]:
    """Curvature, azimuth at the origin, and slope dz/ds of each track, by least squares."""
    radius = radii[:-1]
    there = np.isfinite(tracks.phi)
    weight = np.where(there, radius**2, 0.0)
    total = weight.sum(axis=-1)
    curvature = tracks.leads.copy()
    with np.errstate(invalid="ignore", divide="ignore"):
        for _ in range(3):
            half = np.clip(curvature[..., None] * radius / 2, -0.99, 0.99)
            # phi + arcsin(half) is the azimuth at the origin, for each hit.
            azimuth = np.where(there, tracks.phi + np.arcsin(half), np.nan)
            reference = np.nanmax(azimuth, axis=-1, keepdims=True) if there.any() else 0.0
            azimuth = reference + turn(azimuth - reference)
            rate = radius / 2 / np.sqrt(1 - half**2)
            mean = (weight * np.where(there, azimuth, 0)).sum(axis=-1) / total
            mean_rate = (weight * rate).sum(axis=-1) / total
            spread = np.where(there, rate - mean_rate[..., None], 0)
            both = (weight * spread * np.where(there, azimuth - mean[..., None], 0)).sum(axis=-1)
            shift = -both / (weight * spread**2).sum(axis=-1)
            curvature = curvature + shift
            azimuth_at_origin = mean + mean_rate * shift
        length = np.where(there, arc(np.clip(curvature[..., None], -1.9, 1.9), radius), 0.0)
        slope = (length * np.where(there, tracks.z, 0)).sum(axis=-1) / (length**2).sum(axis=-1)
    return curvature, azimuth_at_origin, slope


# --- masses


def deposits(clusters: Any, helices: tuple[Any, Any, Any], instrument: Instrument) -> Any:
    """The energy, in GeV, where each track enters the calorimeter."""
    curvature, azimuth, slope = helices
    radius = instrument.radii[-1]
    with np.errstate(invalid="ignore"):
        at = azimuth - np.arcsin(curvature * radius / 2)
    height = slope * arc(curvature, radius)
    event, module = clusters[:, 0].astype(int) - 1, clusters[:, 1].astype(int) - 1
    energy = clusters[:, 4] * instrument.gains[module] / 1000
    found = np.zeros(curvature.shape)
    for number in (0, 1):
        off = np.hypot(
            radius * turn(clusters[:, 2] - at[event, number]),
            clusters[:, 3] - height[event, number],
        )
        near = off < CLUSTER_ROAD
        np.maximum.at(found[:, number], event[near], energy[near])
    return found


def measure(tracks: Tracks, clusters: Any, instrument: Instrument) -> tuple[Any, Any]:
    """The mass of each pair, and whether it is of muons, which leave little in the calorimeter."""
    helices = fit_tracks(tracks, instrument.radii)
    curvature, azimuth, slope = helices
    with np.errstate(divide="ignore"):
        momentum = 0.3 * instrument.field / np.abs(curvature) * np.sqrt(1 + slope**2)
    energy = deposits(clusters, helices, instrument)
    muons = energy.sum(axis=1) < 0.7 * momentum.sum(axis=1)
    size = np.where(muons[:, None], momentum, energy)
    return masses_of(size, azimuth, slope, muons), muons


def masses_of(size: Any, azimuth: Any, slope: Any, muons: Any) -> Any:
    """Invariant masses of pairs, from momenta, azimuths and slopes of both."""
    across = 1 / np.sqrt(1 + slope**2)
    unit = np.stack([np.cos(azimuth) * across, np.sin(azimuth) * across, slope * across])
    apart = ((unit[..., 0] - unit[..., 1]) ** 2).sum(axis=0)
    return np.sqrt(size[:, 0] * size[:, 1] * apart + np.where(muons, 4 * MUON**2, 0))


# --- the peak


def loss(theta: Any, masses: Any, low: float) -> tuple[float, Any]:
    """−ln L in M, ln Γ, ln λ and logit f, and its gradient, in the range of the masses."""
    mass, half, slope = theta[0], math.exp(theta[1]) / 2, math.exp(theta[2])
    share = 1 / (1 + math.exp(-theta[3]))
    off, up, down = masses - mass, HIGH - mass, low - mass
    square, reach = off**2 + half**2, HIGH - low
    area = math.atan(up / half) - math.atan(down / half)
    peak = share * half / area / square
    kept = -math.expm1(-slope * reach)
    total = peak + (1 - share) * slope / kept * np.exp(-slope * (masses - low))
    part = peak / total
    up2, down2 = up * up + half * half, down * down + half * half
    by_mass = 2 * off / square - (half / down2 - half / up2) / area
    by_half = 1 - 2 * half * half / square - half * (down / down2 - up / up2) / area
    by_slope = 1 - slope * (masses - low) - slope * reach * (1 - kept) / kept
    return -float(np.log(total).sum()), -np.array(
        [
            (part * by_mass).sum(),
            (part * by_half).sum(),
            ((1 - part) * by_slope).sum(),
            (part - share).sum(),
        ]
    )


def descend(start: Any, masses: Any) -> Any:
    """The nearest maximum of the likelihood."""
    low = float(masses.min())
    return minimize(loss, start, (masses, low), "L-BFGS-B", jac=True, bounds=BOUNDS)


def fit(masses: Any) -> Any:
    """M, ln Γ, ln λ and logit f at the highest maximum, from the best places of a grid."""
    low = float(masses.min())
    slope = math.log(1 / (masses.mean() - low))
    grid = []
    for width in (0.7, 1.5, 3.0, 6.0):
        for mass in np.arange(9.5, 37.0, max(0.5, width / 3)):
            tried = [
                (float(mass), math.log(width), slope + steeper, logit)
                for steeper in (0.0, 0.5)
                for logit in (-2.5, -1.0, 0.0)
            ]
            grid.append(min((loss(theta, masses, low)[0], theta) for theta in tried))
    found = [descend(theta, masses) for theta in starts(sorted(grid))]
    return min(found, key=lambda each: float(each.fun)).x


def starts(grid: list[tuple[float, tuple[float, ...]]]) -> list[tuple[float, ...]]:
    """The best few places of the grid, best first, that are not near a better one."""
    kept: list[tuple[float, ...]] = []
    for _, theta in grid:
        if all(abs(theta[0] - each[0]) > math.exp(each[1]) / 2 for each in kept):
            kept.append(theta)
    return kept[:6]


# --- the answer


def answer(instrument: Instrument, muons: Any, theta: Any) -> dict[str, Any]:
    """The answer block, without the events."""
    *layers, calorimeter = (round(float(radius), 4) for radius in instrument.radii)
    return {
        "task": "invariant_mass_reconstruction",
        "radii_m": {str(number): radius for number, radius in enumerate(layers, 1)}
        | {"calorimeter": calorimeter},
        "gains_MeV": {
            str(number): round(float(gain), 3) for number, gain in enumerate(instrument.gains, 1)
        },
        "field_T": round(instrument.field, 4),
        "muon_pairs": int(muons.sum()),
        "mass_GeV": round(float(theta[0]), 4),
        "width_GeV": round(math.exp(theta[1]), 4),
        "slope_per_GeV": round(math.exp(theta[2]), 5),
        "signal_fraction": round(1 / (1 + math.exp(-theta[3])), 4),
    }


def solve(folder: Path) -> dict[str, Any]:
    """The answer block for the files in the folder."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    instrument = read_instrument(files)
    clusters = read_table(files["ecal_hits.csv"])
    events = int(clusters[-1, 0])
    tracks = find_tracks(read_table(files["tracker_hits.csv"]), instrument.radii, events)
    masses, muons = measure(tracks, clusters, instrument)
    lines = [f"{number},{mass:.6f}\n" for number, mass in enumerate(masses, 1)]
    (folder / MASSES_FILE).write_text("event_id,mass\n" + "".join(lines), encoding="utf-8")
    block = answer(instrument, muons, fit(masses[masses < HIGH]))
    return block | {"events_file": MASSES_FILE}


if __name__ == "__main__":
    Path("answer.json").write_text(json.dumps(solve(Path())), encoding="utf-8")
