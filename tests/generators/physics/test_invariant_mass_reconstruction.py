"""invariant_mass_reconstruction: pairs that fly as physics has it, a fit that can be trusted,
and marks that memory does not earn."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import math

import numpy as np
import pytest
from PIL import Image
from scipy import optimize, stats

from generators.errors import GuardExhausted
from generators.grading.answer import Answer
from generators.grading.rubric import check_answer, score_verdicts
from generators.physics.invariant_mass_reconstruction import (
    FAMILY,
    attackers,
    measure,
    sample,
    solver,
)
from generators.physics.invariant_mass_reconstruction.parameters import (
    BY_DIFFICULTY,
    ELECTRON_MASS,
    HIGH_MASS,
    MOST_ETA,
    MUON_MASS,
    NAME,
    REACH,
)
from generators.physics.invariant_mass_reconstruction.reference import Reference, fit_reference
from generators.physics.invariant_mass_reconstruction.render import (
    draw_detector,
    draw_field,
    draw_gains,
    encode_png,
)
from generators.physics.invariant_mass_reconstruction.sample import Detector, Lepton, Particle
from generators.seed import SeedStreams
from generators.validation.scores import attack_scores, noisy_scores, solver_answer
from generators.validation.validate import public_seeds
from tests.cases import cases
from tests.generators.measures import as_many
from tests.generators.words import Forced

DIFFICULTIES = ("easy", "medium", "hard")
EASY = BY_DIFFICULTY["easy"]
LOW_MASS = 4.0  # of the toys below


def streams_of(number: int = 0, difficulty: str = "easy") -> SeedStreams:
    return SeedStreams(public_seeds(number + 1)[number], NAME, "1", difficulty)


def forced(words) -> Forced:
    return Forced(streams_of(), words)


NEAR_ONE = (1 << 64) - (1 << 50)


@functools.cache
def instance_of(difficulty: str = "easy", number: int = 0):
    return FAMILY.generate(difficulty, public_seeds(number + 1)[number])


@functools.cache
def sample_of(difficulty: str = "easy"):
    return sample.draw_sample(BY_DIFFICULTY[difficulty], streams_of(0, difficulty))


# --- masses


@pytest.mark.parametrize("fraction", [0.0, 1.0])
@pytest.mark.parametrize("word", [0, (1 << 64) - 1])
def test_no_mass_leaves_the_range(fraction, word):
    meant = dataclasses.replace(EASY, events=3, signal_fraction=fraction)
    streams = forced(lambda *_: NEAR_ONE if fraction == 1.0 and word else word)
    for mass in sample.draw_masses(meant, Particle(20.0, 16.0, 0.15, LOW_MASS), streams):
        assert LOW_MASS <= mass <= HIGH_MASS


# --- pairs


def test_a_pair_has_the_mass_that_it_was_drawn_with():
    drawn = sample_of("hard")
    for mass, pair in zip(drawn.spectrum.masses[:300], drawn.pairs, strict=False):
        energy = sum(each.energy for each in pair.leptons)
        momentum = [sum(each.momentum[axis] for each in pair.leptons) for axis in range(3)]
        # Of the squares' difference: at most a few rounding errors of the energy squared.
        square = energy**2 - sum(part**2 for part in momentum)
        assert square == pytest.approx(mass**2, abs=1e-13 * energy**2)
        for each in pair.leptons:
            own = each.energy**2 - sum(part**2 for part in each.momentum)
            rest = MUON_MASS if pair.muons else ELECTRON_MASS
            assert own == pytest.approx(rest**2, abs=1e-12 * each.energy**2)
        assert {each.turn for each in pair.leptons} == {-1, 1}


@pytest.mark.parametrize("turn", [1, -1])
def test_a_track_follows_the_lorentz_force(turn):
    """Small steps along the force's equation of motion end where ``crossing`` says."""
    field, radius = 1.3, 1.0
    electron = Lepton((0.9, -0.4, 0.7), 0.0, turn)
    momentum = np.array(electron.momentum)
    place, step = np.zeros(3), 2e-4
    while np.hypot(place[0], place[1]) < radius:
        unit = momentum / np.linalg.norm(momentum)
        turned = momentum + step / 2 * 0.3 * turn * np.cross(unit, [0, 0, field])
        middle = turned / np.linalg.norm(turned)
        momentum = momentum + step * 0.3 * turn * np.cross(middle, [0, 0, field])
        place = place + step * middle
    found = sample.crossing(electron, radius, field)
    assert found == pytest.approx((math.atan2(place[1], place[0]), place[2]), abs=6e-4)


def test_an_electron_that_radiates_bends_as_one_of_less_momentum():
    radiating = Lepton((2.0, 1.0, 0.6), 0.0, 1, 0.5)
    slower = Lepton((1.0, 0.5, 0.3), 0.0, 1)
    assert sample.crossing(radiating, 0.8, 2.0) == sample.crossing(slower, 0.8, 2.0)


def test_every_electron_reaches_the_calorimeter_within_the_detector():
    for difficulty in DIFFICULTIES:
        drawn = sample_of(difficulty)
        least = REACH * drawn.detector.field * drawn.detector.calorimeter
        for pair in drawn.pairs:
            for each in pair.leptons:
                pt = math.hypot(*each.tracked[:2])
                assert pt > least
                assert abs(math.asinh(each.tracked[2] / pt)) < MOST_ETA


# --- guards


def test_a_pair_that_never_reaches_the_calorimeter_fails_loudly():
    lost = forced(lambda purpose, *_: NEAR_ONE if purpose == "pair" else None)
    with pytest.raises(GuardExhausted, match="pair of event 1:"):
        sample.draw_sample(EASY, lost)


def test_each_guard_on_an_electron_refuses_what_it_names():
    detector = Detector((0.05, 0.55), 1.5, 1.0, (10.0,), 1_234_567)
    least = REACH * detector.field * detector.calorimeter

    def is_seen(pt, eta):
        momentum = (0.6 * pt, -0.8 * pt, pt * math.sinh(eta))
        return sample.seen(Lepton(momentum, pt * math.cosh(eta), 1), detector)

    assert [is_seen(least + off, 0.0) for off in (1e-6, -1e-6)] == [True, False]
    for edge in (MOST_ETA, -MOST_ETA):
        assert [is_seen(10.0, edge * factor) for factor in (0.9999, 1.0001)] == [True, False]
    # What passes is bent too little to turn back before the calorimeter.
    assert 2 * least / (0.3 * detector.field) > detector.calorimeter


def test_masses_that_determine_nothing_are_drawn_again():
    flat = forced(
        lambda purpose, _index, attempt: NEAR_ONE if (purpose, attempt) == ("mass", 0) else None
    )
    spectrum = sample.draw_sample(EASY, flat)
    assert spectrum.redraws >= 1
    assert spectrum.spectrum == sample.draw_spectrum(EASY, streams_of(), spectrum.redraws)


def test_masses_that_never_determine_anything_fail_loudly(monkeypatch):
    monkeypatch.setattr("generators.seed.MAX_ATTEMPTS", 3)
    flat = forced(lambda purpose, *_: NEAR_ONE if purpose == "mass" else None)
    with pytest.raises(GuardExhausted, match="spectrum: degenerate in 3 draws"):
        sample.draw_sample(EASY, flat)


GOOD = Reference(
    mass=30.0,
    sigma_mass=0.2,
    width=4.0,
    sigma_width=0.8,
    slope=0.1,
    sigma_slope=0.01,
    fraction=0.3,
    sigma_fraction=0.02,
    lead=15.0,
)


@pytest.mark.parametrize(("change", "holds"), cases(__file__, "guards"))
def test_each_guard_refuses_what_it_names(change, holds):
    found = dataclasses.replace(GOOD, **change)
    assert sample.determines(found, Particle(30.0, 4.0, 0.1, LOW_MASS)) is holds


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
    values = toy([(30.0, 4.0, 200)], 800)
    found = fit_reference(values, LOW_MASS, (29.0, 3.0, 0.12, 0.3))
    best = optimize.minimize(
        plain_loss,
        (30.0, 4.0, 0.1, 0.2),
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
    assert (found.slope, found.fraction) == pytest.approx(tuple(best.x[2:]), abs=2e-5)
    ours = (found.sigma_mass, found.sigma_width, found.sigma_slope, found.sigma_fraction)
    assert ours == pytest.approx(tuple(errors), rel=2e-3)


def test_the_fit_does_not_depend_on_where_it_starts_or_in_which_order_it_adds():
    values = toy([(30.0, 1.5, 160)], 1840, slope=0.07)
    first = fit_reference(values, LOW_MASS, (30.0, 1.5, 0.07, 0.08))
    assert fit_reference(values[::-1], LOW_MASS, (30.0, 1.5, 0.07, 0.08)) == first
    assert fit_reference(np.sort(values), LOW_MASS, (31.0, 2.5, 0.05, 0.05)) == first


def test_errors_are_as_large_as_the_fits_scatter():
    pulls = []
    for seed in range(40):
        values = toy([(30.0, 4.0, 200)], 200, slope=0.2, seed=seed)
        found = fit_reference(values, LOW_MASS, (30.0, 4.0, 0.2, 0.5))
        pulls.append((found.mass - 30.0) / found.sigma_mass)
    assert abs(np.mean(pulls)) < 3 / math.sqrt(40)
    assert 0.7 < np.std(pulls) < 1.35


def test_a_second_peak_shows_in_the_lead_and_a_lone_one_does_not():
    def leads(*peaks):
        values = toy([(mass, 2.0, size) for mass, size in peaks], 600, slope=0.05)
        starts = [(mass, 2.0, 0.05, 0.1) for mass, _ in peaks]
        found = [fit_reference(values, LOW_MASS, start) for start in starts]
        # The better of the two is found from either side.
        assert len({(each.mass, each.width) for each in found}) == 1
        return [each.lead for each in found]

    assert leads((20.0, 60)) == [20.0]
    assert min(leads((20.0, 60), (34.0, 30))) > 6.0
    assert max(leads((20.0, 60), (30.0, 45))) < 6.0


def test_the_prompts_range_of_widths_keeps_a_spike_from_being_the_peak():
    """Two equal masses make the likelihood of a width of zero infinite."""
    values = np.concatenate([toy([(30.0, 4.0, 200)], 800), [36.0] * 3])
    assert fit_reference(values, LOW_MASS, (30.0, 4.0, 0.1, 0.2)).width > 1.0


def test_a_spike_at_the_edge_of_the_range_of_widths_is_a_rival():
    values = np.concatenate([toy([(30.0, 2.0, 40)], 600, slope=0.05), [36.0] * 14])
    found = fit_reference(values, LOW_MASS, (30.0, 2.0, 0.05, 0.1))
    assert found.mass == pytest.approx(30.0, abs=1.0)
    assert found.lead < 6.0


# --- files


def rows_of(instance, name):
    data = next(each.data for each in instance.brief.assets if each.path == name)
    assert b"\r" not in data
    return list(csv.DictReader(io.StringIO(data.decode())))


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_files_determine_every_graded_mass_within_its_tolerance(difficulty):
    instance = instance_of(difficulty)
    answer = solver_answer(FAMILY, instance)
    assert set(answer.files) == {"event_masses.csv"}
    lines = answer.files["event_masses.csv"].decode().splitlines()[1:]
    found = {int(event): float(mass) for event, mass in (line.split(",") for line in lines)}
    true = dict(instance.truth.table("events").rows)
    assert found.keys() == true.keys()
    tolerance = BY_DIFFICULTY[difficulty].event_tolerance
    off = np.array([abs(found[each] / true[each] - 1) for each in true])
    assert np.mean(off < tolerance) > 0.97
    assert score_of(instance, answer) == 1.0


def test_a_fitted_momentum_is_that_of_the_lepton_up_to_the_errors():
    """Exact hits give it back, for either charge and wherever the track goes."""
    detector = Detector((0.3, 0.5, 0.7, 0.9), 1.4, 2.5, (10.0,), 1_234_567)
    for momentum in ((3.0, 0.2, 1.0), (-1.0, -0.6, -1.2), (0.1, -9.0, 4.0)):
        for turn in (1, -1):
            lepton = Lepton(momentum, 0.0, turn)
            track = tuple(
                measure.Hit(layer, *sample.crossing(lepton, radius, detector.field))
                for layer, radius in enumerate(detector.layers)
            )
            found = measure.fitted_momentum(lepton, track, detector)
            assert found == pytest.approx(momentum, rel=1e-9)


# --- pictures

SHOWN = Detector(
    (0.247, 0.372, 0.481, 0.638, 0.9), 1.291, 3.137, (5.03, 17.97, 9.9, 12.34), 1_234_567
)


def test_the_solver_reads_the_pictures_far_better_than_is_asked():
    files = {
        "detector.png": encode_png(draw_detector(SHOWN)),
        "ecal_gains.png": encode_png(draw_gains(SHOWN)),
        "field_gauge.png": encode_png(draw_field(SHOWN)),
    }
    read = solver.read_instrument(files)
    assert read.radii == pytest.approx([*SHOWN.layers, SHOWN.calorimeter], abs=1.2e-3)
    assert read.gains == pytest.approx(SHOWN.gains, rel=2e-3)
    assert read.field == pytest.approx(SHOWN.field, rel=2e-3)


def test_nothing_but_the_pictures_states_radii_gains_and_field():
    """Another detector of the same ratios makes the same tables, as far as they are not noise."""
    briefs = {instance_of("easy", number).brief.prompt.split("\n", 2)[2] for number in range(3)}
    assert len(briefs) == 1
    for row in rows_of(instance_of(), "tracker_hits.csv"):
        assert set(row) == {"event_id", "layer", "phi", "z"}
    for row in rows_of(instance_of(), "ecal_hits.csv"):
        assert set(row) == {"event_id", "module", "phi", "z", "counts"}


def decode(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


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


FITTED = cases(__file__, "fitted")


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_fit_to_masses_off_by_their_tolerance_is_within_the_final_intervals(difficulty):
    """R8d, with the fit done anew: all off the same way, and each its own way."""
    instance, tolerance = instance_of(difficulty), BY_DIFFICULTY[difficulty].event_tolerance
    (drawn,) = instance.truth.table("drawn").records()
    (found,) = instance.truth.table("fit").records()
    start = (drawn["mass"], drawn["width"], drawn["slope"], 0.3)
    masses = np.array(instance.truth.table("events").column("mass"))
    spread = np.random.default_rng(1).uniform(-1.0, 1.0, len(masses))
    for off in (1.0, -1.0, spread):
        shifted = np.clip(masses * (1 + tolerance * off), 0, HIGH_MASS)
        fitted = fit_reference(shifted, float(shifted.min()), start)
        for name in FITTED:
            assert found[f"{name}_low"] <= getattr(fitted, name) <= found[f"{name}_high"]


def test_two_thirds_of_the_graded_masses_open_the_gate_and_fewer_do_not():
    instance, key = instance_of(), key_of(instance_of())
    graded = instance.truth.table("events_graded").column("event_id")

    def with_wrong(count):
        wrong = set(graded[:count])
        events = [[event, 0.0 if event in wrong else mass] for event, mass in key["events"]]
        return verdicts_of(instance, Answer(key | {"events": events}))

    assert with_wrong(20)["particle_mass"] == [True]
    assert with_wrong(21)["particle_mass"] == [False]


# --- shortcuts, and solvers that err


def test_every_shortcut_scores_within_its_bound_and_pictures_carry_the_readings():
    scores = [
        attack_scores(FAMILY, instance_of("medium", number)) for number in range(as_many(2, 4))
    ]
    means = {name: np.mean([each[name] for each in scores]) for name in scores[0]}
    assert {attacker.name for attacker in attackers.ATTACKERS} < set(means)
    for attacker in attackers.ATTACKERS:
        assert means[attacker.name] <= (0.3 if "tables" in attacker.name else 0.5)
    assert means["tables alone, scale guessed, image extraction"] <= 0.2


def test_solvers_that_err_more_score_less():
    scores = [
        noisy_scores(FAMILY, instance_of("easy", number), public_seeds(8)[number])
        for number in range(as_many(4, 8))
    ]
    able, fair, hasty, weak = (
        np.mean([each[solver.name] for each in scores]) for solver in attackers.NOISY
    )
    assert able > fair > hasty > weak
    assert (able, fair, hasty, weak) == pytest.approx((0.9, 0.7, 0.5, 0.3), abs=0.2)
