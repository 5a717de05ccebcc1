"""Draws: the detector, the particle, the masses of the pairs, and how each pair flies.

Everything that follows from a drawn value follows from its rounded one. Only ``math`` on
scalars is used: numpy's functions on arrays may differ in the last bit between processors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from generators.physics.invariant_mass_reconstruction.parameters import (
    BEND,
    CALORIMETER_RADII,
    ELECTRON_MASS,
    FIELDS,
    HIGH_MASS,
    LEAST_LEAD,
    LOW_MASS,
    MEAN_PT,
    MOST_ETA,
    MOST_PULL,
    MOST_WIDTH_ERROR,
    PARTICLE_MASSES,
    RADIUS_FACTORS,
    REACH,
    SAMPLED_EVENTS,
    SLOPE_FACTORS,
    SOUGHT_MASSES,
    SOUGHT_WIDTHS,
    Parameters,
)
from generators.physics.invariant_mass_reconstruction.reference import Reference, fit_reference
from generators.seed import Streams, redraw
from generators.stream import Stream

_MASS_DECIMALS = 10
_PARTICLE_DECIMALS = 6

Momentum = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Detector:
    """Radii of the tracker's layers and of the calorimeter (m), and the field along +z (T)."""

    layers: tuple[float, ...]
    calorimeter: float
    field: float


@dataclass(frozen=True, slots=True)
class Particle:
    """Mass and width (FWHM) of what is sought, GeV, and the background's slope, per GeV."""

    mass: float
    width: float
    slope: float


@dataclass(frozen=True, slots=True)
class Spectrum:
    """A particle, the mass of each pair (GeV), and what the reference fit makes of them."""

    particle: Particle
    masses: tuple[float, ...]
    reference: Reference


@dataclass(frozen=True, slots=True)
class Electron:
    """One of a pair where it starts; ``turn`` is the charge, +1 turns clockwise."""

    momentum: Momentum
    energy: float
    turn: int


Pair = tuple[Electron, Electron]


@dataclass(frozen=True, slots=True)
class Sample:
    """One instance's draws. Event number i + 1 has the i-th mass and pair; ``orders`` says
    which of an event's hits is written first, and ``sampled`` which events are graded."""

    detector: Detector
    spectrum: Spectrum
    pairs: tuple[Pair, ...]
    orders: tuple[tuple[int, ...], ...]
    sampled: tuple[int, ...]
    redraws: int
    pair_redraws: int


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted if a draw stays degenerate."""
    detector = draw_detector(parameters, streams)
    spectrum, redraws = redraw(
        lambda attempt: draw_spectrum(parameters, streams, attempt), "spectrum"
    )
    pairs, pair_redraws = [], 0
    for index, mass in enumerate(spectrum.masses):
        pair, attempt = redraw(
            partial(_draw_pair, mass, detector, streams, index), f"pair of event {index + 1}"
        )
        pairs.append(pair)
        pair_redraws += attempt
    flips = len(detector.layers) + 1
    return Sample(
        detector,
        spectrum,
        tuple(pairs),
        tuple(_draw_order(flips, streams, index) for index in range(parameters.events)),
        _draw_sampled(parameters.events, streams),
        redraws,
        pair_redraws,
    )


def draw_detector(parameters: Parameters, streams: Streams) -> Detector:
    """Radii and field to three decimals, as the figures print them. The layers keep their
    order: the nominal radii differ by more than the factors do."""
    layers = tuple(
        round(radius * streams.at("layer", index).uniform(*RADIUS_FACTORS), 3)
        for index, radius in enumerate(parameters.radii)
    )
    calorimeter = round(streams.at("calorimeter").uniform(*CALORIMETER_RADII), 3)
    return Detector(layers, calorimeter, round(streams.at("field").uniform(*FIELDS), 3))


def draw_particle(parameters: Parameters, streams: Streams, attempt: int = 0) -> Particle:
    """One particle of an event."""
    narrow, wide = parameters.widths
    share = streams.at("width", 0, attempt).uniform()
    mass = streams.at("particle", 0, attempt).uniform(*PARTICLE_MASSES)
    slope = parameters.slope * streams.at("slope", 0, attempt).uniform(*SLOPE_FACTORS)
    return Particle(
        round(mass, _PARTICLE_DECIMALS),
        round(narrow * math.exp(share * math.log(wide / narrow)), _PARTICLE_DECIMALS),
        round(slope, _PARTICLE_DECIMALS),
    )


def draw_masses(
    parameters: Parameters, particle: Particle, streams: Streams, attempt: int = 0
) -> tuple[float, ...]:
    """The mass of each event's pair, each from a stream of its own."""
    return tuple(
        round(
            _draw_mass(parameters.signal_fraction, particle, streams.at("mass", index, attempt)),
            _MASS_DECIMALS,
        )
        for index in range(parameters.events)
    )


def _draw_mass(signal_fraction: float, particle: Particle, stream: Stream) -> float:
    """By the inverse of the truncated distribution: a Breit–Wigner's or an exponential's."""
    signal, share = stream.chance(signal_fraction), stream.uniform()
    if signal:
        half = particle.width / 2
        low = math.atan((LOW_MASS - particle.mass) / half)
        high = math.atan((HIGH_MASS - particle.mass) / half)
        return particle.mass + half * math.tan(low + share * (high - low))
    lost = -math.expm1(-particle.slope * (HIGH_MASS - LOW_MASS))
    return LOW_MASS - math.log1p(-share * lost) / particle.slope


def draw_spectrum(parameters: Parameters, streams: Streams, attempt: int) -> Spectrum | None:
    """None if the masses do not determine the particle (R4)."""
    particle = draw_particle(parameters, streams, attempt)
    masses = draw_masses(parameters, particle, streams, attempt)
    start = (particle.mass, particle.width, particle.slope, parameters.signal_fraction)
    reference = fit_reference(masses, start)
    if reference is None or not determines(reference, particle):
        return None
    return Spectrum(particle, masses, reference)


def determines(reference: Reference, particle: Particle) -> bool:
    """The fit is precise, correct and in the prompt's ranges; no other peak is nearly as likely."""
    return (
        SOUGHT_MASSES[0] < reference.mass < SOUGHT_MASSES[1]
        and SOUGHT_WIDTHS[0] < reference.width < SOUGHT_WIDTHS[1]
        and reference.sigma_width <= MOST_WIDTH_ERROR * reference.width
        and abs(particle.mass - reference.mass) <= MOST_PULL * reference.sigma_mass
        and reference.lead >= LEAST_LEAD
    )


def _draw_pair(
    mass: float, detector: Detector, streams: Streams, index: int, attempt: int
) -> Pair | None:
    pair = decay(mass, streams.at("pair", index, attempt))
    return pair if all(seen(electron, detector) for electron in pair) else None


def decay(mass: float, stream: Stream) -> Pair:
    """A pair of this mass from a parent that flies at random and decays isotropically."""
    pt = -MEAN_PT * math.log(stream.uniform())
    eta = stream.uniform(-MOST_ETA, MOST_ETA)
    phi = stream.uniform(0.0, 2 * math.pi)
    parent = (pt * math.cos(phi), pt * math.sin(phi), pt * math.sinh(eta))
    cosine, around = stream.uniform(-1.0, 1.0), stream.uniform(0.0, 2 * math.pi)
    size = math.sqrt(mass * mass / 4 - ELECTRON_MASS**2)
    across = size * math.sqrt(1 - cosine * cosine)
    rest = (across * math.cos(around), across * math.sin(around), size * cosine)
    turn = 1 if stream.chance(0.5) else -1
    first = boost(rest, mass, parent)
    second = boost((-rest[0], -rest[1], -rest[2]), mass, parent)
    return Electron(*first, turn), Electron(*second, -turn)


def boost(rest: Momentum, mass: float, parent: Momentum) -> tuple[Momentum, float]:
    """Momentum and energy of an electron, from the frame of its parent to that of the detector
    (both electrons have half the mass as energy there)."""
    px, py, pz = parent
    energy = math.sqrt(px * px + py * py + pz * pz + mass * mass)
    along = rest[0] * px + rest[1] * py + rest[2] * pz
    push = (along / (energy + mass) + mass / 2) / mass
    momentum = (rest[0] + push * px, rest[1] + push * py, rest[2] + push * pz)
    return momentum, (energy * mass / 2 + along) / mass


def seen(electron: Electron, detector: Detector) -> bool:
    """True if the electron crosses every layer within the detector's length."""
    px, py, pz = electron.momentum
    pt = math.sqrt(px * px + py * py)
    return pt > REACH * detector.field * detector.calorimeter and abs(pz) < pt * math.sinh(MOST_ETA)


def crossing(electron: Electron, radius: float, field: float) -> tuple[float, float, float]:
    """Point at which the electron's helix first crosses the cylinder of this radius (m)."""
    px, py, pz = electron.momentum
    pt = math.sqrt(px * px + py * py)
    bend = pt / (BEND * field)
    half = math.asin(radius / (2 * bend))
    phi = math.atan2(py, px) - electron.turn * half
    return radius * math.cos(phi), radius * math.sin(phi), 2 * bend * half * pz / pt


def _draw_order(layers: int, streams: Streams, index: int) -> tuple[int, ...]:
    """For each layer, which of the two electrons is written first."""
    stream = streams.at("order", index)
    return tuple(stream.integer(0, 1) for _ in range(layers))


def _draw_sampled(events: int, streams: Streams) -> tuple[int, ...]:
    """Numbers of the events whose masses are graded, in order."""
    numbers = streams.at("sampled").shuffle(range(1, events + 1))
    return tuple(sorted(numbers[:SAMPLED_EVENTS]))
