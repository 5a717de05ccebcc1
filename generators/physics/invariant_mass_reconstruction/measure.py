"""Measurement of the pairs: hits and clusters with errors, losses and noise, and the pairs whose
masses are graded.

Only ``math`` on scalars is used, as in sample.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from generators.physics.invariant_mass_reconstruction.parameters import (
    BEND,
    CLUSTER_ERRORS,
    CLUSTER_Z_ERROR,
    ENERGY_ERROR,
    GRADED_ELECTRONS,
    GRADED_MUONS,
    GRADED_SHARE,
    HIT_ERRORS,
    HIT_Z_ERROR,
    LEAST_HITS,
    MOST_ETA,
    MUON_DEPOSITS,
    MUON_DEVIATION,
    NOISE_DEPOSITS,
    Parameters,
)
from generators.physics.invariant_mass_reconstruction.sample import (
    Detector,
    Lepton,
    Momentum,
    Pair,
    Sample,
    crossing,
)
from generators.seed import Streams, redraw
from generators.stream import Stream

ANGLE_DECIMALS, Z_DECIMALS = 6, 5


@dataclass(frozen=True, slots=True)
class Hit:
    """A point of a layer (an index) as measured: azimuth in [0, 2π), and z in metres."""

    layer: int
    phi: float
    z: float


@dataclass(frozen=True, slots=True)
class Cluster:
    """A deposit in the calorimeter as measured: module (an index), azimuth, z and counts."""

    module: int
    phi: float
    z: float
    counts: int


@dataclass(frozen=True, slots=True)
class Event:
    """What is recorded of one pair. ``tracks`` and ``deposits`` are of its two leptons; ``hits``
    and ``clusters`` have the noise too, in the order in which they are written."""

    tracks: tuple[tuple[Hit, ...], tuple[Hit, ...]]
    deposits: tuple[Cluster, Cluster]
    hits: tuple[Hit, ...]
    clusters: tuple[Cluster, ...]


@dataclass(frozen=True, slots=True)
class Response:
    """Errors of a hit and of a cluster along the circumference (m), and the mean deposit of a muon
    (GeV), of one instance."""

    hit_error: float
    cluster_error: float
    muon_deposit: float


def draw_response(streams: Streams) -> Response:
    """How the detector of an instance responds."""
    return Response(
        streams.at("hit error").uniform(*HIT_ERRORS),
        streams.at("cluster error").uniform(*CLUSTER_ERRORS),
        streams.at("muon deposit").uniform(*MUON_DEPOSITS),
    )


def measure(parameters: Parameters, sample: Sample, streams: Streams) -> tuple[Event, ...]:
    """The record of each event. Raises GuardExhausted if a track keeps too few hits."""
    response = draw_response(streams)
    return tuple(
        _measure_event(parameters, sample.detector, response, pair, streams, index)
        for index, pair in enumerate(sample.pairs)
    )


def _measure_event(
    parameters: Parameters,
    detector: Detector,
    response: Response,
    pair: Pair,
    streams: Streams,
    index: int,
) -> Event:
    drawn, _ = redraw(
        partial(_draw_tracks, parameters, detector, response, pair, streams, index),
        f"hits of event {index + 1}",
    )
    stream = streams.at("clusters", index)
    first, second = (
        _draw_cluster(detector, response, lepton, pair.muons, stream) for lepton in pair.leptons
    )
    noise = streams.at("noise", index)
    hits = [hit for track in drawn for hit in track]
    layers = len(detector.layers)
    for _ in range(noise.poisson(layers * parameters.noise)):
        hits.append(_noise_hit(detector, noise.integer(0, layers - 1), noise))
    clusters = [first, second]
    for _ in range(noise.poisson(parameters.noise_clusters)):
        phi, z = _noise_place(detector.calorimeter, noise)
        clusters.append(
            _cluster(detector, phi, z, response.muon_deposit * noise.uniform(*NOISE_DEPOSITS))
        )
    # Hits of a layer stand together; the last digits of azimuths are an order that shows nothing.
    hits.sort(key=lambda hit: (hit.layer, _last_digits(hit.phi), hit.z))
    clusters.sort(key=lambda cluster: (_last_digits(cluster.phi), cluster.z))
    return Event(drawn, (first, second), tuple(hits), tuple(clusters))


def _draw_tracks(
    parameters: Parameters,
    detector: Detector,
    response: Response,
    pair: Pair,
    streams: Streams,
    index: int,
    attempt: int,
) -> tuple[tuple[Hit, ...], tuple[Hit, ...]] | None:
    """The hits of both leptons; None if too few of one are left."""
    stream = streams.at("hits", index, attempt)
    first, second = (
        tuple(
            _smeared_hit(
                layer, crossing(lepton, radius, detector.field), response.hit_error / radius, stream
            )
            for layer, radius in enumerate(detector.layers)
            if not stream.chance(parameters.inefficiency)
        )
        for lepton in pair.leptons
    )
    return (first, second) if min(len(first), len(second)) >= LEAST_HITS else None


def _smeared_hit(layer: int, at: tuple[float, float], error: float, stream: Stream) -> Hit:
    phi = stream.normal(at[0], error)
    return Hit(layer, rounded_angle(phi), round(stream.normal(at[1], HIT_Z_ERROR), Z_DECIMALS))


def _draw_cluster(
    detector: Detector, response: Response, lepton: Lepton, muon: bool, stream: Stream
) -> Cluster:
    phi, z = crossing(lepton, detector.calorimeter, detector.field)
    phi = stream.normal(phi, response.cluster_error / detector.calorimeter)
    z = stream.normal(z, CLUSTER_Z_ERROR)
    if muon:
        deposit = response.muon_deposit * stream.normal(1.0, MUON_DEVIATION)
        return _cluster(detector, phi, z, deposit)
    sampling, constant = ENERGY_ERROR
    error = math.sqrt(sampling * sampling * lepton.energy + (constant * lepton.energy) ** 2)
    return _cluster(detector, phi, z, stream.normal(lepton.energy, error))


def _cluster(detector: Detector, phi: float, z: float, energy: float) -> Cluster:
    angle = rounded_angle(phi)
    module = detector.module(angle)
    counts = max(1, round(1000 * energy / detector.gains[module]))
    return Cluster(module, angle, round(z, Z_DECIMALS), counts)


def _noise_hit(detector: Detector, layer: int, stream: Stream) -> Hit:
    phi, z = _noise_place(detector.layers[layer], stream)
    return Hit(layer, rounded_angle(phi), round(z, Z_DECIMALS))


def _noise_place(radius: float, stream: Stream) -> tuple[float, float]:
    reach = radius * math.sinh(MOST_ETA)
    return stream.uniform(0.0, 2 * math.pi), stream.uniform(-reach, reach)


def rounded_angle(phi: float) -> float:
    """The azimuth in [0, 2π) as it is written."""
    angle = round(phi % (2 * math.pi), ANGLE_DECIMALS)
    return 0.0 if angle >= round(2 * math.pi, ANGLE_DECIMALS) else angle


def _last_digits(phi: float) -> int:
    return round(phi * 1e6) % 1000


# --- the masses that the records give, without search: which hits are whose is known here


def measured_mass(pair: Pair, event: Event, detector: Detector) -> float:
    """The mass that the hits and clusters of both leptons give."""
    momenta = []
    for lepton, track, cluster in zip(pair.leptons, event.tracks, event.deposits, strict=True):
        px, py, pz = fitted_momentum(lepton, track, detector)
        if not pair.muons:
            energy = cluster.counts * detector.gains[cluster.module] / 1000
            scale = energy / math.sqrt(px * px + py * py + pz * pz)
            px, py, pz = scale * px, scale * py, scale * pz
        momenta.append((px, py, pz))
    sizes = [math.sqrt(px * px + py * py + pz * pz) for px, py, pz in momenta]
    apart = sum((a / sizes[0] - b / sizes[1]) ** 2 for a, b in zip(*momenta, strict=True))
    return math.sqrt(sizes[0] * sizes[1] * apart)


def fitted_momentum(lepton: Lepton, track: tuple[Hit, ...], detector: Detector) -> Momentum:
    """Momentum in the tracker by least squares, linear about the helix that was drawn."""
    px, py, _ = lepton.tracked
    pt = math.sqrt(px * px + py * py)
    curvature = lepton.turn * BEND * detector.field / pt
    start = math.atan2(py, px)
    weights, slopes, offs = [], [], []
    along, heights = 0.0, 0.0
    for hit in track:
        radius = detector.layers[hit.layer]
        half = curvature * radius / 2
        weights.append(radius * radius)
        slopes.append(-radius / 2 / math.sqrt(1 - half * half))
        off = hit.phi - start + math.asin(half)
        offs.append((off + math.pi) % (2 * math.pi) - math.pi)
        length = 2 / curvature * math.asin(half)
        along += length * length
        heights += length * hit.z
    total = sum(weights)
    mean_slope = sum(w * s for w, s in zip(weights, slopes, strict=True)) / total
    mean_off = sum(w * o for w, o in zip(weights, offs, strict=True)) / total
    both = sum(
        w * (s - mean_slope) * (o - mean_off) for w, s, o in zip(weights, slopes, offs, strict=True)
    )
    shift = both / sum(w * (s - mean_slope) ** 2 for w, s in zip(weights, slopes, strict=True))
    start += mean_off - shift * mean_slope
    pt = BEND * detector.field / abs(curvature + shift)
    return pt * math.cos(start), pt * math.sin(start), pt * heights / along


def draw_graded(
    parameters: Parameters, sample: Sample, events: tuple[Event, ...], streams: Streams
) -> tuple[int, ...]:
    """Numbers of the pairs whose masses are graded, in order: of either kind as many as asked,
    of those whose measured mass is well within its tolerance of the true one."""
    wanted = {False: GRADED_ELECTRONS, True: GRADED_MUONS}
    numbers: list[int] = []
    for number in streams.at("graded").shuffle(range(1, parameters.events + 1)):
        pair, mass = sample.pairs[number - 1], sample.spectrum.masses[number - 1]
        if not wanted[pair.muons]:
            continue
        found = measured_mass(pair, events[number - 1], sample.detector)
        if abs(found - mass) <= GRADED_SHARE * parameters.event_tolerance * mass:
            wanted[pair.muons] -= 1
            numbers.append(number)
    return tuple(sorted(numbers))
