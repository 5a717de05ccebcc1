"""invariant_mass_reconstruction: pairs that fly as physics has it, a fit that can be trusted,
and marks that memory does not earn."""

from __future__ import annotations

import csv
import dataclasses
import functools
import importlib
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from PIL import Image
from scipy import optimize, stats

from generators.errors import GuardExhausted
from generators.grading.answer import Answer, parse_answer
from generators.grading.rubric import check_answer, score_verdicts
from generators.physics.invariant_mass_reconstruction import FAMILY, sample
from generators.physics.invariant_mass_reconstruction.parameters import (
    BY_DIFFICULTY,
    ELECTRON_MASS,
    HIGH_MASS,
    LOW_MASS,
    MOST_ETA,
    NAME,
    REACH,
    SAMPLED_EVENTS,
)
from generators.physics.invariant_mass_reconstruction.reference import Reference, fit_reference
from generators.physics.invariant_mass_reconstruction.render import (
    draw_longitudinal,
    draw_transverse,
    encode_png,
    fixed,
)
from generators.physics.invariant_mass_reconstruction.sample import Detector, Electron, Particle
from generators.seed import SeedStreams
from generators.stream import Stream
from generators.validation.scores import BEYOND_INSTRUCTIONS, solver_answer
from generators.validation.validate import instance_digest, public_seeds

DIFFICULTIES = ("easy", "medium", "hard")
EASY = BY_DIFFICULTY["easy"]
ROOT = Path(__file__).resolve().parents[3]


def streams_of(number: int = 0, difficulty: str = "easy") -> SeedStreams:
    return SeedStreams(public_seeds(number + 1)[number], NAME, "1", difficulty)


class Forced:
    """Streams whose words are given by purpose, index and attempt; None leaves one alone."""

    def __init__(self, words):
        self._words = words

    def at(self, purpose, index=0, attempt=0):
        word = self._words(purpose, index, attempt)
        return streams_of().at(purpose, index, attempt) if word is None else Constant(word)


class Constant(Stream):
    __slots__ = ("_word",)

    def __init__(self, word):
        self._word = word

    def word(self):
        return self._word


NEAR_ONE = (1 << 64) - (1 << 50)


@functools.cache
def instance_of(difficulty: str = "easy", number: int = 0):
    return FAMILY.generate(difficulty, public_seeds(number + 1)[number])


@functools.cache
def sample_of(difficulty: str = "easy"):
    return sample.draw_sample(BY_DIFFICULTY[difficulty], streams_of(0, difficulty))


# --- masses


def test_background_falls_exponentially_and_signal_peaks():
    particle = Particle(40.0, 4.0, 0.1)

    def masses(fraction):
        meant = dataclasses.replace(EASY, events=2000, signal_fraction=fraction)
        return sample.draw_masses(meant, particle, streams_of())

    reach = (HIGH_MASS - LOW_MASS) * particle.slope
    falling = stats.truncexpon(reach, loc=LOW_MASS, scale=1 / particle.slope)
    assert stats.kstest(masses(0.0), falling.cdf).pvalue > 0.01
    peak = stats.cauchy(particle.mass, particle.width / 2)
    low, high = peak.cdf([LOW_MASS, HIGH_MASS])
    found = stats.kstest(masses(1.0), lambda mass: (peak.cdf(mass) - low) / (high - low))
    assert found.pvalue > 0.01


@pytest.mark.parametrize("fraction", [0.0, 1.0])
@pytest.mark.parametrize("word", [0, (1 << 64) - 1])
def test_no_mass_leaves_the_range(fraction, word):
    meant = dataclasses.replace(EASY, events=3, signal_fraction=fraction)
    forced = Forced(lambda *_: word)
    if fraction == 1.0 and word:
        forced = Forced(lambda *_: NEAR_ONE)
    for mass in sample.draw_masses(meant, Particle(20.0, 16.0, 0.15), forced):
        assert LOW_MASS <= mass <= HIGH_MASS


def test_widths_are_log_uniform_and_no_two_difficulties_share_a_particle():
    drawn = [sample.draw_particle(EASY, streams_of(), attempt) for attempt in range(400)]
    shares = [math.log(each.width / 4) / math.log(4) for each in drawn]
    assert stats.kstest(shares, "uniform").pvalue > 0.01
    same_seed = [
        sample.draw_particle(BY_DIFFICULTY[level], streams_of(0, level)) for level in DIFFICULTIES
    ]
    assert len({each.mass for each in same_seed}) == 3


# --- pairs


def test_a_pair_has_the_mass_that_it_was_drawn_with():
    drawn = sample_of("hard")
    for mass, pair in zip(drawn.spectrum.masses[:300], drawn.pairs, strict=False):
        energy = sum(each.energy for each in pair)
        momentum = [sum(each.momentum[axis] for each in pair) for axis in range(3)]
        # Of the squares' difference: at most a few rounding errors of the energy squared.
        square = energy**2 - sum(part**2 for part in momentum)
        assert square == pytest.approx(mass**2, abs=1e-13 * energy**2)
        for each in pair:
            own = each.energy**2 - sum(part**2 for part in each.momentum)
            assert own == pytest.approx(ELECTRON_MASS**2, abs=1e-13 * each.energy**2)
        assert {each.turn for each in pair} == {-1, 1}


def test_decay_is_isotropic_in_the_frame_of_the_pair():
    """For a parent at rest the electron's direction is uniform on the sphere."""
    cosines = []
    for index in range(1000):
        stream = streams_of().at("test", index)
        first, second = sample.decay(30.0, stream)
        parent = tuple(a + b for a, b in zip(first.momentum, second.momentum, strict=True))
        back = tuple(-part for part in parent)
        momentum, _ = boosted(first, back, 30.0)
        cosines.append(momentum[2] / 15.0)
    assert stats.kstest(cosines, stats.uniform(-1, 2).cdf).pvalue > 0.01


def boosted(electron: Electron, frame: tuple[float, ...], mass: float):
    """By the textbook's matrix, with γ and β."""
    beta = np.array(frame) / math.sqrt(mass**2 + sum(part**2 for part in frame))
    gamma = 1 / math.sqrt(1 - beta @ beta)
    momentum = np.array(electron.momentum)
    along = beta @ momentum
    shift = ((gamma - 1) * along / (beta @ beta) + gamma * electron.energy) * beta
    return momentum + shift, gamma * (electron.energy + along)


@pytest.mark.parametrize("turn", [1, -1])
def test_a_track_follows_the_lorentz_force(turn):
    """Small steps along the force's equation of motion end where ``crossing`` says."""
    field, radius = 1.3, 1.0
    electron = Electron((0.9, -0.4, 0.7), 0.0, turn)
    momentum = np.array(electron.momentum)
    place, step = np.zeros(3), 2e-4
    while np.hypot(place[0], place[1]) < radius:
        unit = momentum / np.linalg.norm(momentum)
        turned = momentum + step / 2 * 0.3 * turn * np.cross(unit, [0, 0, field])
        middle = turned / np.linalg.norm(turned)
        momentum = momentum + step * 0.3 * turn * np.cross(middle, [0, 0, field])
        place = place + step * middle
    assert np.array(sample.crossing(electron, radius, field)) == pytest.approx(place, abs=6e-4)


def test_every_electron_reaches_the_calorimeter_within_the_detector():
    for difficulty in DIFFICULTIES:
        drawn = sample_of(difficulty)
        least = REACH * drawn.detector.field * drawn.detector.calorimeter
        for pair in drawn.pairs:
            for each in pair:
                pt = math.hypot(*each.momentum[:2])
                assert pt > least
                assert abs(math.asinh(each.momentum[2] / pt)) < MOST_ETA


# --- independence


def test_more_events_leave_the_others_as_they_were():
    more = dataclasses.replace(EASY, events=EASY.events + 5)
    particle = sample.draw_particle(EASY, streams_of())
    few = sample.draw_masses(EASY, particle, streams_of())
    many = sample.draw_masses(more, particle, streams_of())
    assert many[: EASY.events] == few
    assert sample.draw_detector(more, streams_of()) == sample.draw_detector(EASY, streams_of())


def test_another_detector_leaves_spectrum_and_orders_as_they_were():
    other = dataclasses.replace(EASY, radii=(0.10, 0.50))
    changed = sample.draw_sample(other, streams_of())
    assert changed.detector != sample_of().detector
    assert changed.spectrum == sample_of().spectrum
    assert (changed.orders, changed.sampled) == (sample_of().orders, sample_of().sampled)


def test_a_pair_that_is_redrawn_leaves_the_others_as_they_were():
    lost = Forced(
        lambda purpose, index, attempt: (
            NEAR_ONE if (purpose, index, attempt) == ("pair", 3, 0) else None
        )
    )
    changed = sample.draw_sample(EASY, lost)
    assert changed.pair_redraws == sample_of().pair_redraws + 1
    assert changed.pairs[3] != sample_of().pairs[3]
    assert changed.pairs[:3] + changed.pairs[4:] == sample_of().pairs[:3] + sample_of().pairs[4:]


# --- guards


def test_a_pair_that_never_reaches_the_calorimeter_fails_loudly():
    lost = Forced(lambda purpose, *_: NEAR_ONE if purpose == "pair" else None)
    with pytest.raises(GuardExhausted, match="pair of event 1:"):
        sample.draw_sample(EASY, lost)


def test_each_guard_on_an_electron_refuses_what_it_names():
    detector = Detector((0.05, 0.55), 1.5, 1.0)
    least = REACH * detector.field * detector.calorimeter

    def is_seen(pt, eta):
        momentum = (0.6 * pt, -0.8 * pt, pt * math.sinh(eta))
        return sample.seen(Electron(momentum, pt * math.cosh(eta), 1), detector)

    assert [is_seen(least + off, 0.0) for off in (1e-6, -1e-6)] == [True, False]
    for edge in (MOST_ETA, -MOST_ETA):
        assert [is_seen(10.0, edge * factor) for factor in (0.9999, 1.0001)] == [True, False]
    # What passes is bent too little to turn back before the calorimeter.
    assert 2 * least / (0.3 * detector.field) > detector.calorimeter


@pytest.mark.parametrize(
    ("word", "masses", "guard"),
    [(1 << 50, (20.0, 60.0), "eta"), (1 << 55, (8.0, 14.0), "pt")],
)
def test_a_stream_that_trips_one_guard_alone_has_its_pair_drawn_again(word, masses, guard):
    drawn = sample_of()
    least = REACH * drawn.detector.field * drawn.detector.calorimeter
    at, mass = next(
        (at, mass)
        for at, mass in enumerate(drawn.spectrum.masses)
        if masses[0] < mass < masses[1]
        and drawn.pairs[at] == redrawn_pair(at, 0)
        and all(sample.seen(each, drawn.detector) for each in redrawn_pair(at, 1))
    )
    lost = sample.decay(mass, Constant(word))
    pts = [math.hypot(*each.momentum[:2]) for each in lost]
    etas = [math.asinh(each.momentum[2] / pt) for each, pt in zip(lost, pts, strict=True)]
    assert (max(map(abs, etas)) > MOST_ETA, min(pts) < least) == (guard == "eta", guard == "pt")

    forced = Forced(
        lambda purpose, index, attempt: (
            word if (purpose, index, attempt) == ("pair", at, 0) else None
        )
    )
    again = sample.draw_sample(EASY, forced)
    assert again.pair_redraws == drawn.pair_redraws + 1
    assert again.pairs[at] == redrawn_pair(at, 1)


def redrawn_pair(at, attempt):
    return sample.decay(sample_of().spectrum.masses[at], streams_of().at("pair", at, attempt))


def test_masses_that_determine_nothing_are_drawn_again():
    flat = Forced(
        lambda purpose, _index, attempt: NEAR_ONE if (purpose, attempt) == ("mass", 0) else None
    )
    spectrum = sample.draw_sample(EASY, flat)
    assert spectrum.redraws >= 1
    assert spectrum.spectrum == sample.draw_spectrum(EASY, streams_of(), spectrum.redraws)


def test_masses_that_never_determine_anything_fail_loudly(monkeypatch):
    monkeypatch.setattr("generators.seed.MAX_ATTEMPTS", 3)
    flat = Forced(lambda purpose, *_: NEAR_ONE if purpose == "mass" else None)
    with pytest.raises(GuardExhausted, match="spectrum: degenerate in 3 draws"):
        sample.draw_sample(EASY, flat)


GOOD = Reference(mass=40.0, sigma_mass=0.2, width=4.0, sigma_width=0.8, lead=15.0)


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({}, True),
        ({"sigma_width": 1.41}, False),
        ({"sigma_width": 1.39}, True),
        ({"lead": 5.9}, False),
        ({"lead": 6.0}, True),
        ({"mass": 40.61}, False),
        ({"mass": 39.41}, True),
        ({"width": 0.45, "sigma_width": 0.1}, False),
        ({"mass": 14.9, "sigma_mass": 30.0}, False),
    ],
)
def test_each_guard_refuses_what_it_names(change, holds):
    found = dataclasses.replace(GOOD, **change)
    assert sample.determines(found, Particle(40.0, 4.0, 0.1)) is holds


# --- the reference fit


def toy(peaks, background: int, slope: float = 0.1, seed: int = 1):
    draws = np.random.default_rng(seed)
    parts = [LOW_MASS + draws.exponential(1 / slope, background)]
    for mass, width, size in peaks:
        parts.append(stats.cauchy(mass, width / 2).rvs(size, random_state=draws))
    values = np.concatenate(parts)
    return values[(values > LOW_MASS) & (values < HIGH_MASS)]


def plain_loss(theta, values):
    """Written anew from the distributions of scipy."""
    mass, width, slope, share = theta
    peak = stats.cauchy(mass, width / 2)
    low, high = peak.cdf([LOW_MASS, HIGH_MASS])
    fall = stats.truncexpon((HIGH_MASS - LOW_MASS) * slope, loc=LOW_MASS, scale=1 / slope)
    density = share * peak.pdf(values) / (high - low) + (1 - share) * fall.pdf(values)
    return -np.log(density).sum()


def test_the_fit_is_that_of_a_general_optimiser_with_its_hessian():
    values = toy([(40.0, 4.0, 200)], 800)
    found = fit_reference(values, (41.0, 3.0, 0.12, 0.3))
    best = optimize.minimize(
        plain_loss,
        (40.0, 4.0, 0.1, 0.2),
        (values,),
        "Nelder-Mead",
        options={"xatol": 1e-8, "fatol": 1e-9, "maxiter": 10_000, "maxfev": 10_000},
    )
    assert (found.mass, found.width) == pytest.approx(tuple(best.x[:2]), abs=2e-5)
    steps = np.array([1e-3, 1e-3, 1e-5, 1e-4])
    hessian = np.zeros((4, 4))
    for i, j in np.ndindex(4, 4):
        for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            at = best.x + a * steps * (np.arange(4) == i) + b * steps * (np.arange(4) == j)
            hessian[i, j] += a * b * plain_loss(at, values) / (4 * steps[i] * steps[j])
    errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
    assert (found.sigma_mass, found.sigma_width) == pytest.approx(tuple(errors[:2]), rel=1e-3)


def test_the_fit_does_not_depend_on_where_it_starts_or_in_which_order_it_adds():
    values = toy([(30.0, 1.5, 160)], 1840, slope=0.07)
    first = fit_reference(values, (30.0, 1.5, 0.07, 0.08))
    assert fit_reference(values[::-1], (30.0, 1.5, 0.07, 0.08)) == first
    assert fit_reference(np.sort(values), (31.0, 2.5, 0.05, 0.05)) == first


def test_errors_are_as_large_as_the_fits_scatter():
    pulls = []
    for seed in range(40):
        values = toy([(40.0, 4.0, 200)], 200, slope=0.2, seed=seed)
        found = fit_reference(values, (40.0, 4.0, 0.2, 0.5))
        pulls.append((found.mass - 40.0) / found.sigma_mass)
    assert abs(np.mean(pulls)) < 3 / math.sqrt(40)
    assert 0.7 < np.std(pulls) < 1.35


def test_a_second_peak_shows_in_the_lead_and_a_lone_one_does_not():
    def both_ways(*peaks):
        values = toy([(mass, 2.0, size) for mass, size in peaks], 600, slope=0.05)
        starts = [(mass, 2.0, 0.05, 0.1) for mass, _ in peaks]
        # The better of the two is found from either side.
        (found,) = {fit_reference(values, start) for start in starts}
        return found

    assert both_ways((30.0, 60)).lead == 20.0
    assert 6.0 < both_ways((30.0, 60), (60.0, 15)).lead < 20.0
    assert both_ways((30.0, 60), (60.0, 40)).lead < 6.0


def test_the_prompts_range_of_widths_keeps_a_spike_from_being_the_peak():
    """Two equal masses make the likelihood of a width of zero infinite."""
    values = np.concatenate([toy([(40.0, 4.0, 200)], 800), [62.0] * 3])
    assert fit_reference(values, (40.0, 4.0, 0.1, 0.2)).width > 1.0


def test_a_spike_at_the_edge_of_the_range_of_widths_is_a_rival():
    values = np.concatenate([toy([(30.0, 2.0, 40)], 600, slope=0.05), [62.0] * 12])
    found = fit_reference(values, (30.0, 2.0, 0.05, 0.1))
    assert found.mass == pytest.approx(30.0, abs=1.0)
    assert found.lead < 6.0


# --- files


def rows_of(instance, name):
    data = next(each.data for each in instance.brief.assets if each.path == name)
    assert b"\r" not in data
    return list(csv.DictReader(io.StringIO(data.decode())))


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_every_layer_has_two_hits_of_every_event_at_its_radius(difficulty):
    instance, meant = instance_of(difficulty), BY_DIFFICULTY[difficulty]
    truth = instance.truth.table("detector").rows
    *radii, calorimeter = [radius for _, radius in truth]
    hits = rows_of(instance, "tracker_hits.csv")
    assert len(hits) == 2 * len(radii) * meant.events
    for number, hit in enumerate(hits):
        layer = number // 2 % len(radii)
        assert hit["event_id"] == str(1 + number // (2 * len(radii)))
        assert hit["layer"] == f"tracker layer {layer + 1}"
        assert math.hypot(float(hit["x"]), float(hit["y"])) == pytest.approx(radii[layer], abs=1e-6)
        assert "-0.000000" not in hit.values()
    hits = rows_of(instance, "ecal_hits.csv")
    assert [hit["event_id"] for hit in hits] == [str(1 + at // 2) for at in range(2 * meant.events)]
    for hit in hits:
        assert math.hypot(float(hit["x"]), float(hit["y"])) == pytest.approx(calorimeter, abs=1e-6)


def test_the_order_of_hits_tells_nothing():
    """In each layer the electron with more energy comes first in half of the events."""
    drawn = sample_of("hard")
    richer = np.array([pair[0].energy < pair[1].energy for pair in drawn.pairs])
    orders = np.array(drawn.orders)
    first = orders == richer[:, None]
    assert first.mean(axis=0) == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(2000))
    assert np.corrcoef(orders.T)[np.triu_indices(5, 1)] == pytest.approx(0.0, abs=0.1)


def test_no_number_is_written_as_negative_zero():
    assert [fixed(-1e-9), fixed(1e-9), fixed(-1e-6)] == ["0.000000", "0.000000", "-0.000001"]


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_files_determine_every_mass_far_better_than_is_asked(difficulty):
    """The written decimals cost less than a twentieth of the tolerance, through the solver."""
    instance = instance_of(difficulty)
    answer = solver_answer(FAMILY, instance)
    assert set(answer.files) == {"event_masses.csv"}
    lines = answer.files["event_masses.csv"].decode().splitlines()[1:]
    found = {int(event): float(mass) for event, mass in (line.split(",") for line in lines)}
    true = dict(instance.truth.table("events").rows)
    assert found.keys() == true.keys()
    tolerance = BY_DIFFICULTY[difficulty].event_tolerance
    assert max(abs(found[each] / true[each] - 1) for each in true) < tolerance / 20
    assert score_of(instance, answer) == 1.0


def test_the_prompt_states_the_field_nowhere_and_the_drawing_not_at_hard():
    prompts = [instance_of(each).brief.prompt for each in DIFFICULTIES]
    assert ["stated in the transverse drawing" in each for each in prompts] == [True, True, False]
    weak, strong = Detector((0.05, 0.5), 1.5, 0.9), Detector((0.05, 0.5), 1.5, 1.9)
    assert (draw_transverse(weak, False) == draw_transverse(strong, False)).all()
    assert (draw_transverse(weak, True) != draw_transverse(strong, True)).any()


def test_the_drawings_show_each_layer_at_its_radius():
    detector = Detector((0.047, 0.172, 0.281, 0.538), 1.591, 1.3)
    across = decode(encode_png(draw_transverse(detector, True)))
    side = decode(encode_png(draw_longitudinal(detector)))
    assert (across.shape, side.shape) == ((900, 1200, 3), (600, 1650, 3))
    for radius in (*detector.layers, detector.calorimeter):
        # Along the horizontal through the origin, and up the middle of the other drawing.
        for at in (495 - 215 * radius, 495 + 215 * radius):
            assert coloured(across[428:433, round(at) - 4 : round(at) + 5])
        assert coloured(side[round(505 - 235 * radius) - 1, 692:708])


def coloured(patch):
    return bool((patch.max(axis=-1).astype(int) - patch.min(axis=-1) > 60).any())


def decode(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def test_a_drawing_is_an_8_bit_palette_without_text_or_time():
    for asset in instance_of().brief.assets[2:]:
        assert set(chunk_names(asset.data)) == {b"IHDR", b"PLTE", b"IDAT", b"IEND"}
        assert asset.data[24:26] == b"\x08\x03"
        with Image.open(io.BytesIO(asset.data)) as image:
            digests = dict(instance_of().truth.digests)
            pixels = np.asarray(image).tobytes()
        assert digests[f"{asset.path}#pixels"] == "sha256:" + _sha256(pixels)


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def chunk_names(data: bytes):
    at = 8
    while at < len(data):
        yield data[at + 4 : at + 8]
        at += 12 + int.from_bytes(data[at : at + 4], "big")


# --- marks


def verdicts_of(instance, answer):
    found: dict[str, list[bool | None]] = {}
    verdicts = check_answer(instance.rubric, answer)
    for criterion, verdict in zip(instance.rubric.parts, verdicts, strict=True):
        found.setdefault(criterion.metarubric, []).append(verdict)
    return found


def score_of(instance, answer, *dimensions):
    return score_verdicts(instance.rubric, check_answer(instance.rubric, answer), *dimensions)


def key_of(instance):
    return FAMILY.key(instance.truth)


def test_the_weights_are_those_of_the_decision():
    for difficulty in DIFFICULTIES:
        criteria = instance_of(difficulty).rubric.parts
        weights = {each.metarubric: (each.dimension, each.weight) for each in criteria}
        assert weights == {
            "answer_block": ("IF", 0.075),
            "answer_schema": ("IF", 0.075),
            "final_result_mass": ("IF", 0.15),
            "final_result_width": ("IF", 0.15),
            "detector_dimensions": ("IM", 1.0),
            "no_of_particles": ("DH", 0.5),
            "invariant_masses": ("SR", 8.0),
            "new_particle_mass": ("SR", 10.0),
            "new_particle_decay_width": ("SR", 8.0),
        }


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_final_intervals_are_of_the_reference_fit_and_printed_as_graded(difficulty):
    """R5 and R8d: 1.5 errors and the shift of a common scale, in the judge's text too."""
    instance, tolerance = instance_of(difficulty), BY_DIFFICULTY[difficulty].event_tolerance
    (found,) = instance.truth.table("new_particle_properties").records()
    masses = instance.truth.table("events").column("mass")
    (drawn,) = instance.truth.table("drawn").records()
    share = BY_DIFFICULTY[difficulty].signal_fraction
    again = fit_reference(masses, (drawn["mass"], drawn["width"], drawn["slope"], share))
    assert (again.mass, again.width) == (found["mass"], found["width"])
    texts = {each.metarubric: each.text for each in instance.rubric.parts}
    for name, sigma, key in (
        ("mass", again.sigma_mass, "new_particle_mass"),
        ("width", again.sigma_width, "new_particle_decay_width"),
    ):
        half = 1.5 * sigma + tolerance * found[name]
        assert found[f"{name}_low"] == pytest.approx(found[name] - half, abs=1e-6)
        assert found[f"{name}_high"] == pytest.approx(found[name] + half, abs=1e-6)
        assert f"from {found[f'{name}_low']:.6f} to {found[f'{name}_high']:.6f} GeV" in texts[key]


def test_as_many_events_are_graded_as_meant_and_the_key_passes_all():
    found = verdicts_of(instance_of(), Answer(key_of(instance_of())))
    assert len(found["invariant_masses"]) == SAMPLED_EVENTS
    assert all(all(verdicts) for verdicts in found.values())


def test_events_may_come_as_a_file():
    instance, key = instance_of(), key_of(instance_of())
    lines = "".join(f"{event},{mass}\n" for event, mass in key.pop("events"))
    named = Answer(key | {"events_file": "m.csv"})
    assert named.named_files() == ("m.csv",)
    assert score_of(instance, named.with_files({"m.csv": lines.encode()})) == 1.0
    with_header = ("event_id,mass\n" + lines).encode()
    assert score_of(instance, named.with_files({"m.csv": with_header})) == 1.0
    # Without the file there are no masses, and so no particle.
    lost = verdicts_of(instance, named)
    for name in ("invariant_masses", "no_of_particles", "new_particle_mass"):
        assert not any(lost[name])


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_an_answer_at_the_edge_of_every_intermediate_interval_meets_the_final_one(difficulty):
    """R8d: masses that are all off by the tolerance make M and Γ as much off."""
    instance, key = instance_of(difficulty), key_of(instance_of(difficulty))
    # A hair inside, for the bounds are rounded to six decimals.
    for scale in (1 + 0.999 * BY_DIFFICULTY[difficulty].event_tolerance,):
        for factor in (scale, 2 - scale):
            events = [[event, mass * factor] for event, mass in key["events"]]
            off = key | {
                "events": events,
                "mass_GeV": key["mass_GeV"] * factor,
                "width_GeV": key["width_GeV"] * factor,
            }
            assert score_of(instance, Answer(off)) == 1.0


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_fit_to_masses_off_by_their_tolerance_is_within_the_final_intervals(difficulty):
    """R8d once more, with the fit done anew: all off the same way, and each its own way."""
    instance, tolerance = instance_of(difficulty), BY_DIFFICULTY[difficulty].event_tolerance
    (drawn,) = instance.truth.table("drawn").records()
    (found,) = instance.truth.table("new_particle_properties").records()
    start = (drawn["mass"], drawn["width"], drawn["slope"], 0.2)
    masses = np.array(instance.truth.table("events").column("mass"))
    spread = np.random.default_rng(1).uniform(-1.0, 1.0, len(masses))
    for off in (1.0, -1.0, spread, np.sign(spread)):
        shifted = np.clip(masses * (1 + tolerance * off), LOW_MASS, HIGH_MASS)
        fitted = fit_reference(shifted, start)
        assert found["mass_low"] <= fitted.mass <= found["mass_high"]
        assert found["width_low"] <= fitted.width <= found["width_high"]


def test_masses_off_by_more_than_the_tolerance_fail_and_by_ten_times_open_no_gate():
    instance, key = instance_of(), key_of(instance_of())

    def off(factor):
        events = [[event, mass * factor] for event, mass in key["events"]]
        return verdicts_of(instance, Answer(key | {"events": events}))

    slightly, grossly = off(1.05), off(1.11)
    assert not any(slightly["invariant_masses"])
    assert slightly["new_particle_mass"] == slightly["no_of_particles"] == [True]
    assert grossly["new_particle_mass"] == grossly["new_particle_decay_width"] == [False]
    assert grossly["no_of_particles"] == [False]
    assert all(grossly["detector_dimensions"])


def test_half_of_the_graded_masses_open_the_gate_and_fewer_do_not():
    instance, key = instance_of(), key_of(instance_of())
    graded = instance.truth.table("events_sampled").column("event_id")

    def with_wrong(count):
        wrong = set(graded[:count])
        events = [[event, 0.0 if event in wrong else mass] for event, mass in key["events"]]
        return verdicts_of(instance, Answer(key | {"events": events}))

    assert with_wrong(SAMPLED_EVENTS // 2)["new_particle_mass"] == [True]
    assert with_wrong(SAMPLED_EVENTS // 2 + 1)["new_particle_mass"] == [False]


def test_the_particle_without_its_events_earns_nothing_beyond_the_radii():
    instance, key = instance_of(), key_of(instance_of())
    for events in ([], [[1, 30.0]], [[event, 40.0] for event, _ in key["events"]]):
        found = verdicts_of(instance, Answer(key | {"events": events}))
        assert found["new_particle_mass"] == found["new_particle_decay_width"] == [False]


def test_a_missing_or_an_invented_event_costs_the_count_alone():
    instance, key = instance_of(), key_of(instance_of())
    graded = set(instance.truth.table("events_sampled").column("event_id"))
    spare = next(event for event, _ in key["events"] if event not in graded)
    fewer = [pair for pair in key["events"] if pair[0] != spare]
    for events in (fewer, [*fewer, [9999, 20.0]], [*key["events"], [9999, 20.0]]):
        found = verdicts_of(instance, Answer(key | {"events": events}))
        assert found.pop("no_of_particles") == [False]
        assert all(all(verdicts) for verdicts in found.values())


def test_listing_every_radius_earns_no_radius():
    instance, key = instance_of(), key_of(instance_of())
    every = [thousandth / 1000 for thousandth in range(2000)]
    found = verdicts_of(instance, Answer(key | {"layer_radii_m": every, "ecal_radius_m": every}))
    assert not any(found["detector_dimensions"])
    rounded = key | {"ecal_radius_m": key["ecal_radius_m"] + 0.0006}
    assert verdicts_of(instance, Answer(rounded))["detector_dimensions"] == [True, True, False]


def test_an_event_with_two_masses_counts_as_wrong():
    instance, key = instance_of(), key_of(instance_of())
    doubled = [*key["events"], *([event, mass + 1] for event, mass in key["events"])]
    found = verdicts_of(instance, Answer(key | {"events": doubled}))
    assert not any(found["invariant_masses"])
    assert found["new_particle_mass"] == [False]
    twice = Answer(key | {"events": key["events"] * 2})
    assert score_of(instance, twice) == 1.0


@pytest.mark.parametrize(
    "events",
    [
        None,
        "all",
        {"1": 20.0},
        [["1", "20.0"]] * 400,
        [[event, str(20.0)] for event in range(1, 401)],
        [[event, True] for event in range(1, 401)],
        [[event] for event in range(1, 401)],
        [[event, [5.0, 85.0]] for event in range(1, 401)],
        [{"event_id": event, "mass": 20.0} for event in range(1, 401)],
        [[event, 10**400] for event in range(1, 401)],
        [[event, 20.0] for event in range(1, 250_000)],
    ],
)
def test_events_of_another_form_earn_nothing(events):
    instance, key = instance_of(), key_of(instance_of())
    found = verdicts_of(instance, Answer(key | {"events": events}))
    for name in ("invariant_masses", "no_of_particles", "new_particle_mass"):
        assert not any(found[name])


@pytest.mark.parametrize("value", ["40", None, True, [40.0], {"value": 40.0}, 10**400])
def test_a_final_value_of_another_form_earns_nothing(value):
    instance, key = instance_of(), key_of(instance_of())
    found = verdicts_of(instance, Answer(key | {"mass_GeV": value, "width_GeV": value}))
    for name in ("new_particle_mass", "new_particle_decay_width", "final_result_mass"):
        assert found[name] == [False]


def test_a_block_that_cannot_be_parsed_scores_nothing_and_prose_after_one_changes_nothing():
    instance, key = instance_of(), key_of(instance_of())
    good = json.dumps(key)
    contradicted = f"<answer>\n{good}\n</answer>\nOn reflection M = 1 GeV and Γ = 2 GeV.\n"
    assert score_of(instance, parse_answer(contradicted)) == 1.0
    for text in (good[:-1], good.replace(str(key["mass_GeV"]), "NaN", 1)):
        assert parse_answer(f"<answer>\n{text}\n</answer>") is None


def test_both_forms_of_the_answer_fit_the_schema():
    schema, key = json.loads(instance_of().brief.answer_schema), key_of(instance_of())
    events = key.pop("events")
    for more in ({"events": events}, {"events_file": "masses.csv"}):
        jsonschema.validate(key | more, schema)
    for less in (key, key | {"events": [[1.5, 20.0]]}, key | {"events": [[1, 2, 3]]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(less, schema)


def test_what_a_width_of_the_middle_earns_is_nothing_since_it_has_no_events():
    for difficulty in DIFFICULTIES:
        instance = instance_of(difficulty)
        for name, block in FAMILY.nulls(instance).items():
            assert score_of(instance, Answer(block), BEYOND_INSTRUCTIONS) < 0.06, name


# --- bytes


@pytest.mark.parametrize("tunables", ["", "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F"])
def test_same_bytes_in_another_process_without_simd(tunables):
    """Without numpy's fast paths, and without those of the C library's functions."""
    core = importlib.import_module("numpy._core._multiarray_umath")
    chosen = [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]
    slow = {"NPY_DISABLE_CPU_FEATURES": " ".join(chosen)} if chosen else {}
    program = (
        "from generators.physics.invariant_mass_reconstruction import FAMILY\n"
        "from generators.validation.validate import instance_digest, public_seeds\n"
        f"for level in {DIFFICULTIES!r}:\n"
        "    print(instance_digest(FAMILY.generate(level, public_seeds(1)[0])))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "77", "GLIBC_TUNABLES": tunables} | slow,
        capture_output=True,
        text=True,
        check=True,
    )
    here = [instance_digest(instance_of(level)) for level in DIFFICULTIES]
    assert ended.stdout.split() == here


def test_every_difficulty_is_as_the_specification_has_it():
    """§4, column V; what varies about it is decision 0007's."""
    table = {
        name: (
            each.events,
            each.signal_fraction,
            each.widths,
            each.slope,
            each.radii,
            each.event_tolerance,
            each.states_field,
        )
        for name, each in BY_DIFFICULTY.items()
    }
    assert table == {
        "easy": (400, 0.5, (4.0, 16.0), 0.3, (0.05, 0.55), 0.01, True),
        "medium": (1000, 0.2, (1.2, 8.0), 0.1, (0.05, 0.30, 0.60), 0.0025, True),
        "hard": (2000, 0.08, (0.6, 4.0), 0.07, (0.05, 0.15, 0.30, 0.55), 0.001, False),
    }


def test_draws_keep_to_their_ranges():
    for number in range(60):
        drawn = sample.draw_detector(EASY, streams_of(number))
        assert 0.8 <= drawn.field <= 2.0
        assert 1.35 <= drawn.calorimeter <= 1.65
        for radius, nominal in zip(drawn.layers, EASY.radii, strict=True):
            assert 0.85 * nominal - 5e-4 <= radius <= 1.15 * nominal + 5e-4
        particle = sample.draw_particle(EASY, streams_of(number))
        assert 20.0 <= particle.mass <= 70.0
        assert 0.15 <= particle.slope <= 0.45


def test_the_prompt_says_what_the_specification_asks_for():
    for level in DIFFICULTIES:
        prompt = instance_of(level).brief.prompt
        for needed in (
            "right-handed",
            "pseudorapidity",
            "produced at the origin",
            "magnetic field points along +z",
            "measured perfectly",
            "all hits of an event belong to its pair",
            "particle yet unknown",
            "fall exponentially",
            "full width at half maximum",
            "unbinned maximum-likelihood",
            "are in GeV, with c = 1",
            "SUMMARY",
            "INTERMEDIATE RESULTS FOR EVERY EVENT",
            "FINAL RESULTS",
            "events_file",
            "answer.json",
        ):
            assert needed in prompt
