"""How many samples a question needs, by a curve and by a width."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from analysis.errors import AnalysisError
from analysis.stats.proportions import rate_of
from analysis.templates.breakdown import AnswerRow, Answers, QuestionFacts
from analysis.templates.sample_size import (
    CurvePoint,
    find_elbow,
    guide,
    progressive_curve,
    samples_for_width,
)
from tests.cases import cases

FACTS = {"1": QuestionFacts("1", "stringmatch", "direct", "string")}


def asked(right, of, replicates=1):
    return [
        AnswerRow("m", "1", f"s{i}", i < right, i < right, replicate=k)
        for i in range(of)
        for k in range(replicates)
    ]


def stream():
    return np.random.Generator(np.random.PCG64(7))


def curve_of(widths, samples=None):
    samples = samples or range(5, 5 * len(widths) + 5, 5)
    return [CurvePoint(n, 0.5, 0.4, 0.6, w) for n, w in zip(samples, widths, strict=True)]


def test_the_curve_goes_by_fives_to_all_samples():
    points = progressive_curve(asked(12, 23), stream())
    assert [point.samples for point in points] == [5, 10, 15, 20, 23]
    widths = [point.width for point in points]
    assert widths == sorted(widths, reverse=True)


def test_the_curve_ends_at_what_all_samples_say():
    last = progressive_curve(asked(12, 20), stream())[-1]
    low, high = proportion_confint(12, 20, method="wilson")
    assert last.width == pytest.approx(high - low)
    assert (last.mean, last.low, last.high) == pytest.approx((0.6, 0.6, 0.6))


def test_subsets_say_on_average_what_all_samples_say():
    for point in progressive_curve(asked(12, 40), stream(), subsets=4000):
        assert point.mean == pytest.approx(0.3, abs=0.01)  # three standard errors at n = 5
        assert point.low - 1e-9 <= point.mean <= point.high + 1e-9  # all alike at the end


def test_few_samples_make_a_point_and_none_make_no_curve():
    assert [point.samples for point in progressive_curve(asked(1, 3), stream())] == [3]
    assert progressive_curve([replace(asked(1, 1)[0], strict=None)], stream()) == ()


def test_the_elbow_lies_farthest_below_the_chord():
    # A bend at 15: before it the width falls by 10 a step, after it by 1.
    assert find_elbow(curve_of([0.50, 0.40, 0.30, 0.29, 0.28, 0.27])) == 15
    # 1/√n between 5 and 100: its tangent is as steep as the chord at n = 26.5.
    samples = range(5, 101, 5)
    assert find_elbow(curve_of([n**-0.5 for n in samples], samples)) == 25


@pytest.mark.parametrize(
    "widths",
    cases(__file__, "straight"),
    ids=["two points", "straight", "flat", "bent the other way", "rising", "none"],
)
def test_what_does_not_bend_has_no_elbow(widths):
    assert find_elbow(curve_of(widths)) is None


def test_of_two_elbows_the_smaller_counts():
    assert find_elbow(curve_of([1.0, 0.5, 0.25, 0.0])) == 10  # both 1/6 below


@pytest.mark.parametrize("width", [0.4, 0.2, 0.1, 0.01])
@pytest.mark.parametrize("right", [0, 3, 10, 20])
def test_the_number_of_samples_is_the_least_that_does(right, width):
    need, cautious = samples_for_width(rate_of((a.instance, a.strict) for a in asked(right, 20)),
                                       width)  # fmt: skip

    def got(n, share):
        low, high = proportion_confint(n * share, n, method="wilson")
        return high - low

    assert got(need, right / 20) <= width * (1 + 1e-9) < got(need - 1, right / 20) * (1 + 2e-9)
    assert cautious >= need


def test_caution_takes_the_rate_nearest_a_half():
    seen = rate_of((a.instance, a.strict) for a in asked(11, 20))  # its interval holds ½
    _, cautious = samples_for_width(seen, 0.2)
    low, high = proportion_confint(cautious / 2, cautious, method="wilson")
    assert high - low <= 0.2
    low, high = proportion_confint((cautious - 1) / 2, cautious - 1, method="wilson")
    assert high - low > 0.2


def test_replicates_that_always_agree_save_no_samples():
    one, three = (
        rate_of((a.instance, a.strict) for a in asked(12, 20, replicates=k)) for k in (1, 3)
    )
    assert samples_for_width(one, 0.1) == samples_for_width(three, 0.1)


def test_no_answers_say_nothing():
    with pytest.raises(AnalysisError, match="no answers"):
        samples_for_width(rate_of([]), 0.1)


def test_guidance_is_the_same_for_the_same_seed_whatever_the_order():
    rows = asked(12, 20)
    mixed = random.Random(1).sample(rows, len(rows))
    first, again, other = (
        guide(Answers(tuple(each), FACTS), seed)
        for each, seed in ((rows, "a"), (mixed, "a"), (rows, "b"))
    )
    assert first == again
    assert [curve.needs for curve in first] == [curve.needs for curve in other]
    assert first != other
    assert first[0].elbow in {10, 15}
