"""cepheid_calibration: data that determine the line, and marks that need the spectra."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import math

import numpy as np
import pytest
from scipy import stats

from generators.errors import GuardExhausted
from generators.physics.cepheid_calibration import FAMILY
from generators.physics.cepheid_calibration.parameters import BY_DIFFICULTY, DECOYS, FAINTEST, TABLE
from generators.physics.cepheid_calibration.sample import Galaxy, draw_sample, is_degenerate
from generators.physics.cepheid_calibration.truth import fit_line, make_truth
from generators.physics.spectra import LAB_LINES, is_identifiable
from generators.seed import SeedStreams
from generators.task import DIFFICULTIES
from generators.validation.validate import public_seeds
from tests.generators.measures import (
    as_many,
    noisy_means,
    shared_fingerprints,
    shortcuts_over_bound,
)
from tests.generators.words import Forced

FITTED = ("a", "b", "sigma_a", "sigma_b")
LEVELS = pytest.mark.parametrize("difficulty", DIFFICULTIES)


def streams_of(number: int) -> SeedStreams:
    return SeedStreams(public_seeds(number + 1)[number], "cepheid_calibration", "1", "test")


def forced(words) -> Forced:
    return Forced(streams_of(0), words)


def words_for(*wavelengths):
    """Words that keep these lines alone."""
    return [0 if wavelength in wavelengths else (1 << 64) - 1 for wavelength, _ in LAB_LINES]


@functools.cache
def drawn(difficulty: str, number: int = 0):
    return draw_sample(BY_DIFFICULTY[difficulty], streams_of(number))


@functools.cache
def truth_of(difficulty: str, number: int = 0):
    return make_truth(BY_DIFFICULTY[difficulty], drawn(difficulty, number))


@functools.cache
def instance_of(difficulty: str, number: int = 0):
    return FAMILY.generate(difficulty, public_seeds(number + 1)[number])


def complete(sample) -> list[Galaxy]:
    return [galaxy for galaxy in sample.galaxies if galaxy.is_complete]


# --- draws


@LEVELS
def test_every_instance_has_enough_to_fit(difficulty):
    for number in range(3):
        rows = complete(drawn(difficulty, number))
        periods = np.log10([galaxy.period for galaxy in rows])
        assert len(rows) >= 8
        assert len(rows) * periods.var() >= 0.5


@LEVELS
def test_a_telescope_reaches_every_star_however_bright_the_cepheids_are(difficulty):
    """And so magnitudes are alike in all instances: they do not show the offset."""
    samples = [drawn(difficulty, number) for number in range(8 if difficulty != "hard" else 2)]
    magnitudes = [[each.magnitude for each in s.galaxies if each.magnitude] for s in samples]
    assert max(map(max, magnitudes)) <= FAINTEST
    pairs = zip(magnitudes, samples, strict=True)
    brightest = [np.mean(each) - 0.5 * sample.relation.slope for each, sample in pairs]
    assert max(brightest) - min(brightest) < 1.0
    offsets = [sample.relation.offset for sample in samples]
    assert difficulty == "hard" or max(offsets) - min(offsets) > 1.0


@LEVELS
def test_every_spectrum_gives_its_redshift(difficulty):
    sample = drawn(difficulty)
    lines = dict(sample.lines)
    redshifts = {each.id: each.z for each in sample.galaxies if each.z is not None}
    assert lines.keys() == redshifts.keys()
    assert all(is_identifiable(z, lines[name]) for name, z in redshifts.items())


# --- guards


def test_rows_too_few_or_too_alike_are_degenerate():
    def galaxies(*periods):
        return [Galaxy("G", 0.03, "C", 25.0, period) for period in periods]

    assert is_degenerate(galaxies(10.0, 15.0, 19.0, 20.0, 40.0, 80.0, 100.0))
    enough = galaxies(10.0, 15.0, 19.0, 20.0, 40.0, 80.0, 100.0, 100.0)
    assert not is_degenerate(enough)
    assert is_degenerate([dataclasses.replace(enough[0], magnitude=FAINTEST + 0.01), *enough])
    assert is_degenerate(galaxies(*[20.0] * 7, 100.0))
    assert is_degenerate([dataclasses.replace(each, z=None) for each in galaxies(*range(3, 100))])
    assert is_degenerate([])


def test_galaxies_that_are_too_alike_are_drawn_again():
    alike = forced(lambda purpose, _i, at: 1 << 62 if (purpose, at) == ("galaxy", 0) else None)
    sample = draw_sample(BY_DIFFICULTY["easy"], alike)
    assert sample.redraws >= 1
    assert not is_degenerate(sample.galaxies)


def test_galaxies_that_stay_alike_fail_loudly():
    with pytest.raises(GuardExhausted, match="complete rows"):
        draw_sample(
            BY_DIFFICULTY["easy"],
            forced(lambda purpose, _i, _a: 1 << 62 if purpose == "galaxy" else None),
        )


def test_a_spectrum_without_lines_is_drawn_again():
    never = (1 << 64) - 1
    dark = forced(lambda purpose, _i, at: never if (purpose, at) == ("lines", 0) else None)
    plain = draw_sample(BY_DIFFICULTY["easy"], streams_of(0))
    sample = draw_sample(BY_DIFFICULTY["easy"], dark)
    assert sample.redraws >= plain.redraws + len(sample.lines)
    assert all(sum(kept) >= 3 for _, kept in sample.lines)


def test_galaxies_without_a_spectrum_are_drawn_again_and_for_ever_fail_loudly():
    """The highest word makes no spectrum, and so no complete row."""
    never = (1 << 64) - 1
    once = forced(lambda purpose, _i, at: never if (purpose, at) == ("galaxy", 0) else None)
    assert not is_degenerate(draw_sample(BY_DIFFICULTY["easy"], once).galaxies)
    with pytest.raises(GuardExhausted, match="complete rows: degenerate in 100 draws"):
        draw_sample(
            BY_DIFFICULTY["easy"],
            forced(lambda purpose, _i, _a: never if purpose == "galaxy" else None),
        )


def test_lines_too_close_together_are_drawn_again():
    close = words_for(656.279, 667.815, 670.776)
    near = forced(lambda purpose, _i, at: close if (purpose, at) == ("lines", 0) else None)
    sample = draw_sample(BY_DIFFICULTY["easy"], near)
    assert sample.redraws >= len(sample.lines)
    assert all(kept != tuple(word == 0 for word in close) for _, kept in sample.lines)


def test_a_spectrum_that_stays_without_lines_fails_loudly():
    never = (1 << 64) - 1
    with pytest.raises(GuardExhausted, match="lines of galaxy"):
        draw_sample(
            BY_DIFFICULTY["easy"],
            forced(lambda purpose, _i, _a: never if purpose == "lines" else None),
        )


# --- files


def read_table(instance) -> list[dict[str, str]]:
    data = next(each.data for each in instance.brief.assets if each.path == TABLE)
    assert b"\r" not in data
    return list(csv.DictReader(io.StringIO(data.decode("ascii"))))


def test_instances_share_no_identifier_file_or_value_not_even_the_laboratory():
    instances = [instance_of(level, number) for level in ("easy", "medium") for number in (0, 1)]
    assert shared_fingerprints(instances) == frozenset()
    names = [
        {row[key] for row in read_table(each) for key in ("galaxy_ID", "cepheid_ID") if row[key]}
        for each in instances
    ]
    assert len(set.union(*names)) == sum(map(len, names))


# --- truth


@pytest.mark.parametrize("towards", [-math.inf, math.inf], ids=["down", "up"])
def test_the_last_bit_of_a_c_librarys_logarithm_shows_in_no_truth(towards, monkeypatch):
    """R2: or an instance would have another id where the library rounds otherwise."""
    here = [truth_of(level, number) for level in ("easy", "medium") for number in range(4)]
    log10 = math.log10
    monkeypatch.setattr(
        math, "log10", lambda x: math.nextafter(log10(x), towards * (-1) ** (hash(x) % 2))
    )
    there = [
        make_truth(BY_DIFFICULTY[level], draw_sample(BY_DIFFICULTY[level], streams_of(number)))
        for level in ("easy", "medium")
        for number in range(4)
    ]
    assert there == here


@LEVELS
def test_the_fit_agrees_with_scipy_on_what_is_written(difficulty):
    truth, sample = truth_of(difficulty), drawn(difficulty)
    rows = complete(sample)
    distance = 299792 * np.array([each.z for each in rows]) / 67 * 1e6
    absolute = np.array([each.magnitude for each in rows]) + 5 - 5 * np.log10(distance)
    line = stats.linregress(np.log10([each.period for each in rows]) - 1, absolute)
    found = truth.table("results").records()[0]
    assert found["n"] == len(rows)
    expected = (line.slope, line.intercept, line.stderr, line.intercept_stderr)
    assert [found[name] for name in FITTED] == pytest.approx(expected, rel=0.0, abs=6e-10)


def test_the_fit_finds_the_relation_that_was_drawn():
    pulls = []
    for number in range(25):
        found = truth_of("medium", number).table("results").records()[0]
        relation = truth_of("medium", number).table("relation").records()[0]
        pulls.append((found["a"] - relation["a"]) / found["sigma_a"])
        pulls.append((found["b"] - relation["b"]) / found["sigma_b"])
    assert abs(np.mean(pulls)) < 0.5
    assert 0.7 < np.std(pulls) < 1.4


def test_a_line_without_scatter_has_no_error():
    found = fit_line([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
    assert (found.slope, found.offset) == (2.0, 1.0)
    assert (found.slope_error, found.offset_error) == (0.0, 0.0)


@LEVELS
def test_excluded_are_those_that_lack_something(difficulty):
    truth, sample = truth_of(difficulty), drawn(difficulty)
    excluded = dict(truth.table("excluded").rows)
    hosts = {galaxy.cepheid: galaxy for galaxy in sample.galaxies if galaxy.cepheid}
    for name, lacks in excluded.items():
        galaxy = hosts[name]
        assert ("spectrum" in lacks) == (galaxy.z is None)
        assert ("magnitude" in lacks) == (galaxy.magnitude is None)
        assert ("period" in lacks) == (galaxy.period is None)
        assert lacks
    tempting = {each.cepheid for each in hosts.values() if each.z and not each.is_complete}
    assert tempting <= excluded.keys()
    assert len(excluded) - len(tempting) <= DECOYS
    assert excluded.keys().isdisjoint(truth.table("redshifts").column("cepheid_id"))


# --- marks


def test_a_shortcut_earns_less_than_its_bound():
    instances = [instance_of("easy", number) for number in range(as_many(5, 10))]
    assert shortcuts_over_bound(FAMILY, instances) == {}


def test_readers_who_err_more_earn_less():
    means = noisy_means(FAMILY, as_many(5, 10))
    assert means == sorted(means, reverse=True)
    assert means[0] > 0.75
    assert means[-1] < 0.5


# --- the whole
