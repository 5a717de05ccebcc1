"""Shortcuts that leave out a step or an instrument, and solvers that err in what they read.

All find tracks as the reference solver does, which is more than the shortcuts would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from generators.attackers import Access, Attacker, Files, NoisySolver
from generators.physics.invariant_mass_reconstruction import solver
from generators.physics.invariant_mass_reconstruction.parameters import (
    BY_DIFFICULTY,
    CALORIMETER_FILE,
    CALORIMETER_RADIUS,
    DETECTOR_FILE,
    DETECTOR_SCALES,
    FIELD_FILE,
    FIELDS,
    GAINS,
    GAINS_FILE,
    LOWEST_MASSES,
    TRACKER_FILE,
)
from generators.stream import Stream

Block = dict[str, Any]
_MIDDLE_FIELD = sum(FIELDS) / 2
_MIDDLE_GAIN = math.sqrt(GAINS[0] * GAINS[1])
_MIDDLE_EDGE = math.sqrt(LOWEST_MASSES[0] * LOWEST_MASSES[1])
_EDGE_WINDOW = 0.15  # in ln m


@dataclass(frozen=True)
class _Recorded:
    """What an able solver makes of all files: the instrument, the tracks, the clusters, and the
    helices, masses and kinds of the pairs, with the fit of their masses."""

    instrument: solver.Instrument
    tracks: solver.Tracks
    clusters: Any
    masses: Any
    muons: Any
    peak: Any


def _recorded(files: Files) -> _Recorded:
    pictures = (files[DETECTOR_FILE], files[GAINS_FILE], files[FIELD_FILE])
    return _record(files[TRACKER_FILE], files[CALORIMETER_FILE], *pictures)


@lru_cache(maxsize=1)  # every attacker and noisy solver of an instance asks for the same
def _record(hits: bytes, clusters: bytes, detector: bytes, gains: bytes, field: bytes) -> _Recorded:
    pictures = {DETECTOR_FILE: detector, GAINS_FILE: gains, FIELD_FILE: field}
    instrument = solver.read_instrument(pictures)
    table = solver.read_table(clusters)
    events = int(table[-1, 0])
    tracks = solver.find_tracks(solver.read_table(hits), instrument.radii, events)
    masses, muons = solver.measure(tracks, table, instrument)
    peak = solver.fit(masses[masses < solver.HIGH])
    return _Recorded(instrument, tracks, table, masses, muons, peak)


def _block(instrument: solver.Instrument, masses: Any, muons: Any, start: Any) -> Block:
    """The answer with these masses, their peak sought from ``start``."""
    fitted = masses[(masses > 1.0) & (masses < solver.HIGH)]
    theta = solver.descend(start, fitted).x if len(fitted) else start
    known = [[number, float(mass)] for number, mass in enumerate(masses, 1) if math.isfinite(mass)]
    return solver.answer(instrument, muons, theta) | {"events": known}


# --- a step skipped


def straight_line(files: Files) -> Block:
    """Directions from the first layer alone, and energies from the calorimeter."""
    seen = _recorded(files)
    helices = solver.fit_tracks(seen.tracks, seen.instrument.radii)
    energy = solver.deposits(seen.clusters, helices, seen.instrument)
    first = seen.tracks.phi[..., 0], seen.tracks.z[..., 0] / seen.instrument.radii[0]
    return _of_directions(seen, energy, *first)


def one_gain(files: Files) -> Block:
    """The mean gain for every module."""
    seen = _recorded(files)
    gains = np.full(len(seen.instrument.gains), seen.instrument.gains.mean())
    instrument = replace(seen.instrument, gains=gains)
    return _block(instrument, *solver.measure(seen.tracks, seen.clusters, instrument), seen.peak)


def written_order(files: Files) -> Block:
    """The first hit of each layer is of one lepton, and the second of the other."""
    seen = _recorded(files)
    hits = solver.read_table(files[TRACKER_FILE])
    event, layer = hits[:, 0].astype(int) - 1, hits[:, 1].astype(int) - 1
    tracks = solver.Tracks(
        np.full_like(seen.tracks.phi, np.nan),
        np.full_like(seen.tracks.z, np.nan),
        np.full_like(seen.tracks.leads, 1e-3),
    )
    groups = event * (layer.max() + 1) + layer
    place = np.arange(len(groups)) - np.searchsorted(groups, groups)
    for number in (0, 1):
        rows = place == number
        tracks.phi[event[rows], number, layer[rows]] = hits[rows, 2]
        tracks.z[event[rows], number, layer[rows]] = hits[rows, 3]
    masses, muons = solver.measure(tracks, seen.clusters, seen.instrument)
    return _block(seen.instrument, masses, muons, seen.peak)


def _of_directions(seen: _Recorded, energy: Any, azimuth: Any, slope: Any) -> Block:
    """Pairs of these energies and directions; where both deposits are small, the pair is of muons
    and has the median mass of the others."""
    muons = energy.max(axis=1) < 1.0
    masses = solver.masses_of(energy, azimuth, slope, muons)
    masses[muons] = np.nanmedian(masses[~muons])
    return _block(seen.instrument, masses, muons, seen.peak)


# --- an instrument ignored


def without_calorimeter(files: Files) -> Block:
    """Momenta from the tracks alone, as if no electron radiated."""
    seen = _recorded(files)
    gains = np.full(len(seen.instrument.gains), _MIDDLE_GAIN)
    curvature, azimuth, slope = solver.fit_tracks(seen.tracks, seen.instrument.radii)
    momentum = 0.3 * seen.instrument.field / np.abs(curvature) * np.sqrt(1 + slope**2)
    muons = np.ones(len(momentum), bool)
    masses = solver.masses_of(momentum, azimuth, slope, muons)
    return _block(replace(seen.instrument, gains=gains), masses, muons, seen.peak)


def without_tracker(files: Files) -> Block:
    """Straight lines to the two largest deposits of each event."""
    seen = _recorded(files)
    event, module = (seen.clusters[:, column].astype(int) - 1 for column in (0, 1))
    energy = seen.clusters[:, 4] * seen.instrument.gains[module] / 1000
    order = np.lexsort((-energy, event))
    starts = np.searchsorted(event[order], np.arange(len(seen.masses)))
    largest = order[np.stack([starts, starts + 1], axis=1)]
    slope = seen.clusters[largest, 3] / seen.instrument.radii[-1]
    return _of_directions(seen, energy[largest], seen.clusters[largest, 2], slope)


# --- without a picture


def tables_alone(files: Files) -> Block:
    """Ratios of radii and of gains from the tables, and the middle of what is drawn for the scale
    of the detector. That of the masses is the mean of two guesses: the middle of the fields, and
    that of the masses at which the trigger has its edge."""
    hits, clusters = (solver.read_table(files[name]) for name in (TRACKER_FILE, CALORIMETER_FILE))
    event, layer = hits[:, 0].astype(int) - 1, hits[:, 1].astype(int) - 1
    nominal = _nominal_radii(int(layer.max()) + 1)
    ratios = _ratios(event, layer, hits[:, 2], hits[:, 3], nominal)
    radii = np.append(nominal[-2] * ratios, nominal[-1])
    tracks = solver.find_tracks(hits, radii, int(event.max()) + 1)
    gains = np.full(int(clusters[:, 1].max()), _MIDDLE_GAIN)
    instrument = solver.Instrument(radii, gains, _MIDDLE_FIELD)
    gains = _gains_of_tracks(tracks, clusters, instrument)
    masses, muons = solver.measure(tracks, clusters, replace(instrument, gains=gains))
    scale = math.sqrt(_MIDDLE_EDGE / _edge(masses))
    instrument = replace(instrument, gains=gains * scale, field=instrument.field * scale)
    masses = masses * scale
    start = (float(np.median(masses[masses < solver.HIGH])) + 5, 1.0, math.log(0.15), -1.0)
    return _block(instrument, masses, muons, start)


def _edge(masses: Any) -> float:
    """The least mass above which there are many pairs and below which there are few."""
    logs = np.sort(np.log(masses[masses > 0]))
    places = logs[: len(logs) // 2]
    below, at, above = (np.searchsorted(logs, places + off * _EDGE_WINDOW) for off in (-1, 0, 1))
    many, few = above - at, at - below
    steep = np.flatnonzero((many >= 0.02 * len(logs)) & (few <= 0.4 * many))
    best = steep[0] if len(steep) else int((many - few).argmax())
    return math.exp(places[best] + _EDGE_WINDOW / 2)


def _nominal_radii(layers: int) -> Any:
    """The radii before they vary, in the middle of the scales that are drawn."""
    (radii,) = (each.radii for each in BY_DIFFICULTY.values() if len(each.radii) == layers)
    return np.array([*radii, CALORIMETER_RADIUS]) * sum(DETECTOR_SCALES) / 2


def _ratios(event: Any, layer: Any, phi: Any, z: Any, nominal: Any) -> Any:
    """Radii over that of the outermost layer: a straight track's z rises with the radius."""
    last = len(nominal) - 2
    inner, outer = solver.pairs_within(event)
    near = (layer[outer] == last) & (np.abs(solver.turn(phi[outer] - phi[inner])) < 0.05)
    near &= np.abs(z[outer]) > 0.3
    ratios = np.ones(last + 1)
    for index in range(last):
        rows = near & (layer[inner] == index)
        found = z[inner[rows]] / z[outer[rows]]
        expected = nominal[index] / nominal[last]
        found = found[np.abs(found / expected - 1) < 0.07]
        counts, edges = np.histogram(found, 60)
        at = edges[int(counts.argmax())]
        ratios[index] = np.median(found[np.abs(found - at) < 0.01]) if len(found) else expected
    return ratios


def _gains_of_tracks(tracks: solver.Tracks, clusters: Any, instrument: solver.Instrument) -> Any:
    """Gains at which the electrons that radiate least have the energies of their tracks."""
    helices = solver.fit_tracks(tracks, instrument.radii)
    curvature, azimuth, slope = helices
    momentum = 0.3 * instrument.field / np.abs(curvature) * np.sqrt(1 + slope**2)
    at = azimuth - np.arcsin(np.clip(curvature * instrument.radii[-1] / 2, -1, 1))
    energy = solver.deposits(clusters, helices, instrument)
    modules = len(instrument.gains)
    module = np.floor(at / (2 * math.pi) % 1 * modules)
    gains = instrument.gains.copy()
    for index in range(modules):
        ratio = (energy / momentum)[(module == index) & (energy > 0.5)]
        ratio = ratio[ratio > 0.6 * np.median(ratio)] if len(ratio) else ratio
        if len(ratio):
            gains[index] /= np.quantile(ratio, 0.05)
    return gains


ATTACKERS = (
    Attacker("straight line to the first layer", Access.STEP_SKIPPED, straight_line),
    Attacker("one gain for all modules", Access.STEP_SKIPPED, one_gain),
    Attacker("hits in their written order", Access.STEP_SKIPPED, written_order),
    Attacker("calorimeter ignored", Access.DETECTOR_IGNORED, without_calorimeter),
    Attacker("tracker ignored", Access.DETECTOR_IGNORED, without_tracker),
    Attacker("tables alone, scale guessed", Access.TABLES, tables_alone),
)


# --- solvers that err


@dataclass(frozen=True)
class _Skill:
    """Errors of reading a circle and a dot (px) and the needle (degrees), and the mean probability
    of confusing a hit, which spoils its pair; it differs from run to run."""

    circle: float
    dot: float
    needle: float
    confused: float


def noisy(skill: _Skill, files: Files, draws: Stream) -> Block:
    """The reference solver with errors of reading."""
    seen = _recorded(files)
    radii = seen.instrument.radii + [
        draws.normal(0, skill.circle) / 460 for _ in seen.instrument.radii
    ]
    gains = seen.instrument.gains * [
        5 ** (draws.normal(0, skill.dot) / 960) for _ in seen.instrument.gains
    ]
    field = seen.instrument.field + draws.normal(0, skill.needle) * 4 / 270
    instrument = solver.Instrument(radii, gains, field)
    masses, muons = solver.measure(seen.tracks, seen.clusters, instrument)
    clean = math.exp(-draws.exponential(skill.confused) * (len(radii) - 1))
    units = draws.uniforms(2 * len(masses)).reshape(2, -1)
    masses = np.where(units[0] < clean, masses, masses * np.exp(2 * units[1] - 1))
    return _block(instrument, masses, muons, seen.peak)


NOISY = (
    NoisySolver("able", partial(noisy, _Skill(1.1, 2.6, 0.35, 0.013))),
    NoisySolver("fair", partial(noisy, _Skill(2.3, 4.6, 0.75, 0.05))),
    NoisySolver("hasty", partial(noisy, _Skill(3.4, 8.0, 1.5, 0.12))),
    NoisySolver("weak", partial(noisy, _Skill(5.0, 13.0, 3.0, 0.22))),
)
