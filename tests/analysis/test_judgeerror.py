"""Corrections for a judge's errors: by hand, by simulated coverage, and by what they must admit."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.agreement import correct_gap
from analysis.errors import AnalysisError
from analysis.judgeerror import (
    Errors,
    ErrorsByArm,
    compare_errors,
    correct_alike,
    correct_by_arm,
    measure_errors,
)
from analysis.rates import NOTHING, Rate, wilson

pytestmark = pytest.mark.filterwarnings("error")

DRAWN = {"permutations": 999, "enumerate_up_to": 0, "seed": 5}


def rate(right, of):
    """Each label of a sheet of its own."""
    return Rate(right / of, wilson(right / of, of), right, of, 0, of, float(of))


GOOD = Errors(rate(380, 400), rate(340, 400))


def test_the_correction_is_rogan_and_gladens():
    found = correct_alike(0.08, 0.02, 500, GOOD)
    assert found.skill == pytest.approx(0.80)
    assert found.gap == pytest.approx(0.1) == correct_gap(0.08, 0.95, 0.85)
    low, high = found.interval
    assert low < 0.1 < high
    assert high - low > 2 * 1.96 * 0.02 / 0.8  # more than with the judge's rates known


def test_a_judge_known_for_sure_only_scales_the_interval():
    sure = Errors(rate(950_000, 1_000_000), rate(850_000, 1_000_000))
    found = correct_alike(0.08, 0.02, 1e9, sure)
    np.testing.assert_allclose(
        found.interval, np.array([0.08 - 0.0392, 0.08 + 0.0392]) / 0.8, rtol=1e-3
    )


def test_a_judge_that_knows_nothing_corrects_nothing():
    assert correct_alike(0.08, 0.02, 500, Errors(rate(20, 40), rate(19, 40))) is None
    assert correct_alike(0.08, 0.02, 500, Errors(NOTHING, rate(19, 40))) is None
    weak = correct_alike(0.08, 0.02, 500, Errors(rate(11, 20), rate(11, 20)))
    assert weak.interval is None  # no better than chance, as far as is known
    assert correct_alike(0.08, None, None, GOOD).interval is None


def test_coverage_of_the_correction():
    """A true gap of 10 points, a judge of .9 and .8, 400 labels: 95 % intervals cover it."""
    rng, covered = np.random.default_rng(4), 0
    for _ in range(1000):
        seen = 0.7 * 0.10 + rng.normal(0, 0.02)
        errors = Errors(rate(rng.binomial(200, 0.9), 200), rate(rng.binomial(200, 0.8), 200))
        low, high = correct_alike(seen, 0.02, 500, errors).interval
        covered += low <= 0.10 <= high
    assert 0.93 <= covered / 1000 <= 0.97


def test_errors_that_differ_make_a_gap_that_the_correction_takes_off():
    """No true gap; a specificity of .80 against .90 in the arms, and half of criteria met."""
    by_arm = ErrorsByArm(
        Errors(rate(900, 1000), rate(800, 1000)),
        Errors(rate(900, 1000), rate(900, 1000)),
        1,
        0,
        True,
    )
    public, private = 0.5 * 0.9 + 0.5 * 0.2, 0.5 * 0.9 + 0.5 * 0.1
    found = correct_by_arm((public, 0.01), (private, 0.01), by_arm)
    assert public - private == pytest.approx(0.05)
    assert found.gap == pytest.approx(0, abs=1e-12)
    assert found.skill == pytest.approx(0.7)
    assert found.interval[0] < 0 < found.interval[1]
    none = ErrorsByArm(Errors(NOTHING, NOTHING), by_arm.private, 1, 1, False)
    assert correct_by_arm((public, 0.01), (private, 0.01), none) is None


def test_coverage_by_arm():
    rng, covered = np.random.default_rng(6), 0
    rates = {True: (0.95, 0.8), False: (0.9, 0.9)}
    truth = {True: 0.6, False: 0.5}
    for _ in range(800):
        arms, errors = {}, {}
        for arm, (se, sp) in rates.items():
            p = se * truth[arm] + (1 - sp) * (1 - truth[arm])
            arms[arm] = (p + rng.normal(0, 0.015), 0.015)
            errors[arm] = Errors(rate(rng.binomial(200, se), 200), rate(rng.binomial(200, sp), 200))
        by_arm = ErrorsByArm(errors[True], errors[False], 1, 1, True)
        low, high = correct_by_arm(arms[True], arms[False], by_arm).interval
        covered += low <= 0.1 <= high
    assert 0.93 <= covered / 800 <= 0.975


def labelled(seed, sheets=80, criteria=10, false_pass=(0.1, 0.1), sheet_sd=0.0):
    """Sheets of criteria, half of them met, by a judge of sensitivity .9."""
    rng = np.random.default_rng(seed)
    sheet = np.repeat(np.arange(sheets), criteria)
    public = sheet % 2 == 0
    truth = rng.random(len(sheet)) < 0.5
    slip = np.where(public, *false_pass) + rng.normal(0, sheet_sd, sheets)[sheet]
    passed = np.where(truth, rng.random(len(sheet)) < 0.9, rng.random(len(sheet)) < slip)
    return truth, passed.astype(float), sheet, public


def test_errors_by_arm():
    truth, verdict, sheet, public = labelled(1, false_pass=(0.35, 0.1))
    verdict[:7] = np.nan
    found = compare_errors(truth, verdict, sheet, public, **DRAWN)
    assert found.p_specificity == 0.001
    assert found.p_sensitivity > 0.05
    assert found.differ
    assert found.enough
    assert found.public.labels + found.private.labels == 793
    assert found.public.specificity.missing + found.public.sensitivity.missing == 7
    own = public & ~truth & ~np.isnan(verdict)
    assert found.public.specificity.mean == pytest.approx((verdict[own] == 0).mean())
    few = labelled(1, sheets=20)
    assert not compare_errors(*few, **DRAWN).enough
    assert measure_errors(*few[:3]).labels == 200


def test_sheets_that_the_judge_likes_are_not_a_difference_of_arms():
    """Errors that go by sheet: the test still holds its size, where counting criteria would not."""
    hits = 0
    for seed in range(200):
        case = labelled(seed, sheets=40, false_pass=(0.4, 0.4), sheet_sd=0.4)
        found = compare_errors(*case, permutations=99, enumerate_up_to=0, seed=seed)
        hits += found.p_specificity <= 0.05
    assert 0.015 <= hits / 200 <= 0.09


def test_labels_must_be_of_both_arms_and_a_sheet_of_one():
    truth, verdict, sheet, public = labelled(2)
    with pytest.raises(AnalysisError, match="one arm only"):
        compare_errors(truth, verdict, sheet, np.ones_like(public), **DRAWN)
    with pytest.raises(AnalysisError, match="both arms"):
        compare_errors(truth, verdict, sheet // 2, public, **DRAWN)
