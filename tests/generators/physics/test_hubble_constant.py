"""hubble_constant: pixels that give the redshifts, data that give the constant, and marks that a
remembered constant does not earn."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import math
import random
import statistics

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize

from generators.errors import GuardExhausted
from generators.grading.answer import Answer
from generators.grading.rubric import check_answer, score_verdicts
from generators.physics.hubble_constant import FAMILY
from generators.physics.hubble_constant.estimate import Point, estimate_constant
from generators.physics.hubble_constant.parameters import (
    BY_DIFFICULTY,
    LARGEST_ERROR,
    LIGHT,
    NAME,
    SCATTER,
)
from generators.physics.hubble_constant.sample import (
    Sample,
    apparent_magnitude,
    distance,
    draw_sample,
)
from generators.physics.hubble_constant.solver import estimate, solve
from generators.physics.hubble_constant.truth import make_truth
from generators.physics.spectra import LAB_LINES, distinct_ids, is_identifiable
from generators.seed import Seed, SeedStreams
from generators.task import DIFFICULTIES
from generators.validation.result import KEY_SCORE
from generators.validation.scores import BEYOND_INSTRUCTIONS
from generators.validation.validate import public_seeds
from tests.generators.measures import as_many, noisy_means, shortcuts_over_bound
from tests.generators.words import Forced, Told

HIGHEST, LOWEST = (1 << 64) - 1, 0


def streams_of(seed: Seed) -> SeedStreams:
    return SeedStreams(seed, NAME, FAMILY.version, "test")


def forced(words) -> Forced:
    return Forced(streams_of(public_seeds(1)[0]), words)


@functools.cache
def sample_of(difficulty: str, index: int = 0) -> Sample:
    seed = public_seeds(index + 1)[index]
    return draw_sample(BY_DIFFICULTY[difficulty], streams_of(seed))


@functools.cache
def instance_of(difficulty: str, index: int = 0):
    return FAMILY.generate(difficulty, public_seeds(index + 1)[index])


def usable(sample: Sample):
    return [each for each in sample.galaxies if each.point is not None]


# --- draws


def test_an_identifier_that_was_drawn_already_is_drawn_again():
    assert distinct_ids("", 2, Told(7, 7, 7, 8)) == ("0000000007", "0000000008")


def test_too_few_usable_galaxies_are_drawn_again():
    """The highest word makes no spectrum and no Cepheid."""
    bare = forced(
        lambda purpose, _i, attempt: HIGHEST if (purpose, attempt) == ("presence", 0) else None
    )
    sample = draw_sample(dataclasses.replace(BY_DIFFICULTY["easy"], p_spectrum=0.9), bare)
    assert sample.redraws >= 1
    assert len(usable(sample)) >= 5


def test_too_few_usable_galaxies_for_ever_fail_loudly():
    bare = forced(lambda purpose, _i, _a: HIGHEST if purpose == "presence" else None)
    medium = BY_DIFFICULTY["medium"]
    with pytest.raises(GuardExhausted, match="usable galaxies: degenerate in 100 draws"):
        draw_sample(dataclasses.replace(medium, galaxies=20), bare)


def test_a_spectrum_that_cannot_be_read_is_drawn_again():
    """The highest word keeps no line."""
    dark = forced(
        lambda purpose, _i, attempt: HIGHEST if (purpose, attempt) == ("lines", 0) else None
    )
    sample = draw_sample(BY_DIFFICULTY["medium"], dark)
    spectra = [each.spectrum for each in sample.galaxies if each.spectrum is not None]
    assert sample.redraws >= len(spectra) > 10
    assert all(sum(each.kept) >= 3 for each in spectra)


def test_lines_that_do_not_give_one_redshift_are_drawn_again():
    """They are too close together."""
    kept = tuple(wavelength in (656.279, 667.815, 670.776) for wavelength, _ in LAB_LINES)
    words = [LOWEST if each else HIGHEST for each in kept]
    close = forced(lambda purpose, _i, at: words if (purpose, at) == ("lines", 0) else None)
    sample = draw_sample(BY_DIFFICULTY["medium"], close)
    spectra = [each.spectrum for each in sample.galaxies if each.spectrum is not None]
    fooled = [each for each in spectra if not is_identifiable(each.z, kept)]
    assert sample.redraws >= len(fooled) > 10
    assert all(each.kept != kept for each in fooled)


def test_spectra_that_can_never_be_read_fail_loudly():
    dark = forced(lambda purpose, _i, _a: HIGHEST if purpose == "lines" else None)
    with pytest.raises(GuardExhausted, match="lines of galaxy"):
        draw_sample(BY_DIFFICULTY["medium"], dark)


# --- relations


def test_a_distance_follows_from_the_modulus():
    assert distance(apparent_magnitude(37.5, 23.4, 0.3), 0.3, 37.5) == pytest.approx(23.4)
    assert apparent_magnitude(10.0, 1e-5, 0.0) == pytest.approx(-5.9)  # at 10 pc
    assert apparent_magnitude(10.0, 1e-5, 0.2) == pytest.approx(-5.6)  # behind dust


def random_points(draws, constant, count):
    """Galaxies of a universe with this constant."""
    points = []
    for _ in range(count):
        away, motion, error = draws.uniform(15, 38), draws.uniform(60, 250), draws.uniform(0, 0.15)
        z = (constant * away + draws.gauss(0, motion)) / LIGHT
        spread = math.log(10) / 5 * math.hypot(SCATTER, error)
        points.append(Point(z, motion, away * math.exp(draws.gauss(0, spread)), error))
    return points


def test_the_estimate_maximises_the_likelihood():
    """Of the constant and of all distances at once, as scipy finds the maximum."""
    points = random_points(random.Random(1), 70.0, 12)
    z, motion, away, error = (
        np.array([getattr(point, name) for point in points])
        for name in ("z", "motion", "distance", "magnitude_error")
    )
    spread = math.log(10) / 5 * np.hypot(SCATTER, error)

    def misfits(parameters):
        logarithm, distances = parameters[0], parameters[1:]
        expected = np.exp(logarithm + distances)
        return np.concatenate(
            [(LIGHT * z - expected) / motion, (distances - np.log(away)) / spread]
        )

    start = np.concatenate([[math.log(60.0)], np.log(away)])
    best = optimize.least_squares(misfits, start, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    covariance = np.linalg.inv(best.jac.T @ best.jac)
    found = estimate_constant(points)
    assert math.log(found.constant) == pytest.approx(best.x[0], abs=1e-7)
    assert found.error / found.constant == pytest.approx(math.sqrt(covariance[0, 0]), rel=1e-6)
    theirs = estimate(LIGHT * z, away, error, motion)
    assert theirs == pytest.approx((found.constant, found.error), rel=1e-9)


def test_the_estimate_is_unbiased_with_the_error_that_it_states():
    """The regression of velocity on distance is not: it errs by the scatter of the distances."""
    draws = random.Random(2)
    estimates, regressions, pulls = [], [], []
    for _ in range(as_many(800, 1500)):
        points = random_points(draws, 70.0, 30)
        found = estimate_constant(points)
        estimates.append(found.constant / 70 - 1)
        pulls.append((found.constant - 70) / found.error)
        away, v = ([p.distance for p in points], [LIGHT * p.z for p in points])
        regressions.append(sm.OLS(v, away).fit().params[0] / 70 - 1)
    error = statistics.stdev(estimates) / math.sqrt(len(estimates))
    assert abs(statistics.mean(estimates)) < 3 * error
    assert statistics.mean(regressions) < -5 * error
    assert statistics.pstdev(regressions) > statistics.pstdev(estimates)
    assert 0.95 < statistics.pstdev(pulls) < 1.05
    assert statistics.mean(abs(pull) < 2.5 for pull in pulls) > 0.98


def test_an_estimate_that_errs_too_much_is_drawn_again():
    for difficulty in DIFFICULTIES:
        sample = sample_of(difficulty)
        found = estimate_constant([each.point for each in usable(sample)])
        assert abs(found.constant - sample.constant) <= LARGEST_ERROR * found.error
    seeds = public_seeds(as_many(10, 40))
    redrawn = [draw_sample(BY_DIFFICULTY["easy"], streams_of(seed)) for seed in seeds]
    for sample in redrawn:
        found = estimate_constant([each.point for each in usable(sample)])
        assert abs(found.constant - sample.constant) <= LARGEST_ERROR * found.error


@pytest.mark.parametrize("towards", [-math.inf, math.inf], ids=["down", "up"])
def test_the_last_bit_of_a_c_library_shows_in_no_truth(towards, monkeypatch):
    """R2: or an instance would have another id where the library rounds otherwise."""
    levels = ("easy", "medium")
    here = [make_truth(BY_DIFFICULTY[each], sample_of(each)) for each in levels]

    def misround(exact):
        return lambda *x: math.nextafter(exact(*x), towards * (-1) ** (hash(x) % 2))

    for name in ("log10", "pow", "log", "exp"):
        monkeypatch.setattr(math, name, misround(getattr(math, name)))
    for level, truth in zip(levels, here, strict=True):
        sample = draw_sample(BY_DIFFICULTY[level], streams_of(public_seeds(1)[0]))
        assert make_truth(BY_DIFFICULTY[level], sample) == truth


# --- files


def read_table(instance) -> list[dict[str, str]]:
    text = instance.brief.assets[0].data.decode("ascii")
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_truth_is_that_of_the_files_as_they_are_written(difficulty):
    instance = instance_of(difficulty)
    pictured = {asset.path for asset in instance.brief.assets}
    analyzed = instance.truth.table("analyzed_galaxies").records()
    redshifts = {row["galaxy_ID"]: row["z"] for row in analyzed}
    rows = {
        row["galaxy_ID"]: row
        for row in read_table(instance)
        if row["mean_mag_cepheid"]
        and row["period [days]"]
        and f"observed_spectra/{row['galaxy_ID']}.png" in pictured
    }
    assert sorted(rows) == [row["galaxy_ID"] for row in analyzed]
    for row in analyzed:
        written = rows[row["galaxy_ID"]]
        modulus = float(written["mean_mag_cepheid"]) - 1.5 * float(written["E(B-V)"]) + 5.9
        modulus += 3.1 * (math.log10(float(written["period [days]"])) - 1)
        assert row["distance_Mpc"] == pytest.approx(10 ** (modulus / 5 - 5), rel=1e-8)
        assert row["distance_min"] == pytest.approx(0.99 * row["distance_Mpc"])
        assert row["distance_max"] == pytest.approx(1.01 * row["distance_Mpc"])
    names = [row["galaxy_ID"] for row in analyzed]
    best, error = estimate(
        LIGHT * np.array([redshifts[name] for name in names]),
        np.array([row["distance_Mpc"] for row in analyzed]),
        np.array([float(rows[name]["mag_error"]) for name in names]),
        np.array([float(rows[name]["sigma_v [km/s]"]) for name in names]),
    )
    (result,) = instance.truth.table("results").records()
    assert result["n"] == len(rows)
    assert result["sigma_H0"] == pytest.approx(error, rel=1e-7)
    assert abs(best - result["H0"]) <= LARGEST_ERROR * error
    assert result["H0_max"] - result["H0"] > 2.5 * error


def test_no_value_that_is_sought_stands_in_the_text_files():
    instance = instance_of("easy")
    text = instance.brief.prompt + instance.brief.assets[0].data.decode()
    (result,) = instance.truth.table("results").records()
    assert f"{result['H0']:.2f}" not in text
    for z in instance.truth.table("analyzed_galaxies").column("z"):
        assert f"{z:.5f}" not in text


# --- the solver


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_solver_reads_redshifts_from_pixels(difficulty):
    instance = instance_of(difficulty)
    answer = solve({asset.path: asset.data for asset in instance.brief.assets})
    truth = dict(
        zip(*map(instance.truth.table("analyzed_galaxies").column, ("galaxy_ID", "z")), strict=True)
    )
    read = {each["id"]: each["z"] for each in answer["galaxies"]}
    assert sorted(read) == sorted(truth)
    assert max(abs(read[name] - z) for name, z in truth.items()) < 1e-5
    verdicts = check_answer(instance.rubric, Answer(answer))
    assert score_verdicts(instance.rubric, verdicts) == KEY_SCORE


def test_a_shortcut_earns_less_than_its_bound():
    instances = [instance_of("easy", number) for number in range(as_many(6, 12))]
    assert shortcuts_over_bound(FAMILY, instances) == {}


def test_readers_who_err_more_earn_less():
    means = noisy_means(FAMILY, as_many(6, 12))
    assert means == sorted(means, reverse=True)
    assert means[0] > 0.75
    assert means[-1] < 0.5


# --- marks


def score(instance, block, dimensions=BEYOND_INSTRUCTIONS) -> float:
    verdicts = check_answer(instance.rubric, Answer(block))
    found = score_verdicts(instance.rubric, verdicts, dimensions)
    assert found is not None
    return found
