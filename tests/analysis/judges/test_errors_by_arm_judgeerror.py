"""Corrections for a judge's errors: by hand, by simulated coverage, and by what they must admit."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.errors import AnalysisError
from analysis.judges.agreement import correct_gap
from analysis.judges.errors_by_arm import (
    Errors,
    ErrorsByArm,
    compare_errors,
    correct_by_arm,
    measure_errors,
)
from analysis.stats.proportions import NOTHING, Rate, wilson

pytestmark = pytest.mark.filterwarnings("error")

DRAWN = {"permutations": 999, "enumerate_up_to": 0, "seed": 5}


def rate(right, of):
    """Each label of a sheet of its own."""
    return Rate(right / of, wilson(right / of, of), right, of, 0, of, float(of))


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
    assert found.skill == pytest.approx((0.7, 0.8))
    assert found.interval[0] < 0 < found.interval[1]
    none = ErrorsByArm(Errors(NOTHING, NOTHING), by_arm.private, 1, 1, False)
    assert correct_by_arm((public, 0.01), (private, 0.01), none) is None
    weak = Errors(rate(11, 20), rate(11, 20))  # no better than chance, as far as is known
    either = ErrorsByArm(weak, by_arm.private, 1, 1, False)
    assert correct_by_arm((public, 0.01), (private, 0.01), either) is None


def test_errors_that_are_alike_only_shrink_the_gap():
    errors = Errors(rate(950, 1000), rate(850, 1000))
    alike = ErrorsByArm(errors, errors, 1, 1, True)
    found = correct_by_arm((0.58, 0.0), (0.50, 0.0), alike)
    assert found.gap == pytest.approx(0.1) == correct_gap(0.08, 0.95, 0.85)
    assert found.interval == pytest.approx((0.1 - 1.96 * found.se, 0.1 + 1.96 * found.se), abs=1e-5)


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
