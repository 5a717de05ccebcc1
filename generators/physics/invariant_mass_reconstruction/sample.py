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
    CALORIMETER_RADIUS,
    DETECTOR_SCALES,
    ELECTRON_MASS,
    FIELDS,
    GAINS,
    HIGH_MASS,
    LEAST_LEAD,
    LOWEST_MASSES,
    MEAN_LOSS,
    MEAN_PTS,
    MOST_ETA,
    MOST_LOSS,
    MOST_PAIR_ETA,
    MOST_PULL,
    MOST_WIDTH_ERROR,
    MUON_MASS,
    MUON_SHARE,
    PARTICLE_MASSES,
    RADIUS_FACTORS,
    REACH,
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
_GAUGES = (1_000_000, 9_999_999)

Momentum = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Detector:
    """Radii of the tracker's layers and of the calorimeter (m), the field along +z (T), the gain
    of each module of the calorimeter (MeV per count), and the number on the field's gauge, all as
    the pictures show them."""

    layers: tuple[float, ...]
    calorimeter: float
    field: float
    gains: tuple[float, ...]
    gauge: int

    def module(self, phi: float) -> int:
        """The index of the module at this azimuth; module 1 begins at zero."""
        turns = phi / (2 * math.pi) % 1.0
        return min(int(turns * len(self.gains)), len(self.gains) - 1)


@dataclass(frozen=True, slots=True)
class Particle:
    """Mass and width (FWHM) of what is sought, the background's slope, and the least mass of a
    pair (GeV and per GeV)."""

    mass: float
    width: float
    slope: float
    lowest: float


@dataclass(frozen=True, slots=True)
class Spectrum:
    """A particle, the mass of each pair (GeV), and what the reference fit makes of them."""

    particle: Particle
    masses: tuple[float, ...]
    reference: Reference


@dataclass(frozen=True, slots=True)
class Lepton:
    """One of a pair where it starts; ``turn`` is the charge, +1 turns clockwise. ``kept`` is the
    share of its momentum with which it enters the tracker: an electron radiates before it."""

    momentum: Momentum
    energy: float
    turn: int
    kept: float = 1.0

    @property
    def tracked(self) -> Momentum:
        """The momentum in the tracker."""
        px, py, pz = self.momentum
        return self.kept * px, self.kept * py, self.kept * pz


@dataclass(frozen=True, slots=True)
class Pair:
    """The two leptons of an event: muons, or electrons."""

    muons: bool
    leptons: tuple[Lepton, Lepton]


@dataclass(frozen=True, slots=True)
class Sample:
    """One instance's draws. Event number i + 1 has the i-th mass and pair."""

    detector: Detector
    spectrum: Spectrum
    pairs: tuple[Pair, ...]
    redraws: int
    pair_redraws: int


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted if a draw stays degenerate."""
    detector = draw_detector(parameters, streams)
    spectrum, redraws = redraw(
        lambda attempt: draw_spectrum(parameters, streams, attempt), "spectrum"
    )
    mean_pt = streams.at("momenta").uniform(*MEAN_PTS)
    pairs, pair_redraws = [], 0
    for index, mass in enumerate(spectrum.masses):
        pair, attempt = redraw(
            partial(_draw_pair, mass, mean_pt, detector, streams, index),
            f"pair of event {index + 1}",
        )
        pairs.append(pair)
        pair_redraws += attempt
    return Sample(detector, spectrum, tuple(pairs), redraws, pair_redraws)


def draw_detector(parameters: Parameters, streams: Streams) -> Detector:
    """Radii and field to three decimals, gains to two. The layers keep their order: the nominal
    radii differ by more than the factors do."""
    scale = streams.at("scale").uniform(*DETECTOR_SCALES)
    *layers, calorimeter = (
        round(scale * radius * streams.at("layer", index).uniform(*RADIUS_FACTORS), 3)
        for index, radius in enumerate((*parameters.radii, CALORIMETER_RADIUS))
    )
    low, high = map(math.log, GAINS)
    gains = (
        round(math.exp(streams.at("gain", index).uniform(low, high)), 2)
        for index in range(parameters.modules)
    )
    field = round(streams.at("field").uniform(*FIELDS), 3)
    # A needle alone would look the same in two of fifty instances.
    gauge = streams.at("gauge").integer(*_GAUGES)
    return Detector(tuple(layers), calorimeter, field, tuple(gains), gauge)


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
        round(streams.at("lowest", 0, attempt).uniform(*LOWEST_MASSES), _PARTICLE_DECIMALS),
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
        low = math.atan((particle.lowest - particle.mass) / half)
        high = math.atan((HIGH_MASS - particle.mass) / half)
        return particle.mass + half * math.tan(low + share * (high - low))
    lost = -math.expm1(-particle.slope * (HIGH_MASS - particle.lowest))
    return particle.lowest - math.log1p(-share * lost) / particle.slope


def draw_spectrum(parameters: Parameters, streams: Streams, attempt: int) -> Spectrum | None:
    """None if the masses do not determine the particle (R4)."""
    particle = draw_particle(parameters, streams, attempt)
    masses = draw_masses(parameters, particle, streams, attempt)
    start = (particle.mass, particle.width, particle.slope, parameters.signal_fraction)
    reference = fit_reference(masses, particle.lowest, start)
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
    mass: float, mean_pt: float, detector: Detector, streams: Streams, index: int, attempt: int
) -> Pair | None:
    pair = decay(mass, mean_pt, streams.at("pair", index, attempt))
    return pair if all(seen(lepton, detector) for lepton in pair.leptons) else None


def decay(mass: float, mean_pt: float, stream: Stream) -> Pair:
    """A pair of this mass from a parent that flies at random and decays isotropically."""
    pt = stream.exponential(mean_pt)
    eta = stream.uniform(-MOST_PAIR_ETA, MOST_PAIR_ETA)
    phi = stream.uniform(0.0, 2 * math.pi)
    parent = (pt * math.cos(phi), pt * math.sin(phi), pt * math.sinh(eta))
    cosine, around = stream.uniform(-1.0, 1.0), stream.uniform(0.0, 2 * math.pi)
    turn = 1 if stream.chance(0.5) else -1
    muons = stream.chance(MUON_SHARE)
    size = math.sqrt(mass * mass / 4 - (MUON_MASS if muons else ELECTRON_MASS) ** 2)
    across = size * math.sqrt(1 - cosine * cosine)
    rest = (across * math.cos(around), across * math.sin(around), size * cosine)
    first = boost(rest, mass, parent)
    second = boost((-rest[0], -rest[1], -rest[2]), mass, parent)
    kept = (1.0, 1.0) if muons else (_draw_kept(stream), _draw_kept(stream))
    return Pair(muons, (Lepton(*first, turn, kept[0]), Lepton(*second, -turn, kept[1])))


def _draw_kept(stream: Stream) -> float:
    """What radiation leaves of an electron's momentum, by a truncated exponential's inverse."""
    lost = -MEAN_LOSS * math.log1p(stream.uniform() * math.expm1(-MOST_LOSS / MEAN_LOSS))
    return 1.0 - lost


def boost(rest: Momentum, mass: float, parent: Momentum) -> tuple[Momentum, float]:
    """Momentum and energy of a lepton, from the frame of its parent to that of the detector
    (both leptons have half the mass as energy there)."""
    px, py, pz = parent
    energy = math.sqrt(px * px + py * py + pz * pz + mass * mass)
    along = rest[0] * px + rest[1] * py + rest[2] * pz
    push = (along / (energy + mass) + mass / 2) / mass
    momentum = (rest[0] + push * px, rest[1] + push * py, rest[2] + push * pz)
    return momentum, (energy * mass / 2 + along) / mass


def seen(lepton: Lepton, detector: Detector) -> bool:
    """True if the lepton crosses every layer within the detector's length."""
    px, py, pz = lepton.tracked
    pt = math.sqrt(px * px + py * py)
    return pt > REACH * detector.field * detector.calorimeter and abs(pz) < pt * math.sinh(MOST_ETA)


def crossing(lepton: Lepton, radius: float, field: float) -> tuple[float, float]:
    """Azimuth, and z in metres, at which the lepton's helix first crosses the cylinder of this
    radius."""
    px, py, pz = lepton.tracked
    pt = math.sqrt(px * px + py * py)
    bend = pt / (BEND * field)
    half = math.asin(radius / (2 * bend))
    return math.atan2(py, px) - lepton.turn * half, 2 * bend * half * pz / pt
