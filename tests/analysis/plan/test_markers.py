"""The exact test of markers: against scipy and statsmodels, and by its simulated size."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, binomtest
from statsmodels.stats.proportion import proportion_confint

from analysis.plan.markers import (
    CHANCE,
    MarkerCounts,
    MarkerFinding,
    exact_interval,
    marker_power,
    marker_rates,
    tail,
    test_markers,
)
from analysis.plan.presets import basic_plan, standard_plan
from analysis.probe.part import marker_words
from generators.title import MARKERS
from tests.cases import cases

PLAN = basic_plan(["a"], 64)


def counts(public: int, private: int = 32) -> tuple[MarkerCounts, MarkerCounts]:
    return MarkerCounts(256, public), MarkerCounts(256, private)


def test_chance_is_that_of_the_markers() -> None:
    assert len(MARKERS) * CHANCE == 1


@pytest.mark.parametrize(("right", "asked"), [(0, 9), (1, 9), (9, 9), (51, 256), (400, 1000)])
def test_p_and_interval_are_the_exact_ones(right: int, asked: int) -> None:
    assert tail(right, asked) == pytest.approx(
        binomtest(right, asked, 1 / 8, alternative="greater").pvalue, rel=1e-10
    )
    outside = proportion_confint(right, asked, method="beta")
    assert exact_interval(right, asked) == pytest.approx(outside, abs=1e-9)


@pytest.mark.parametrize(("recalled", "power"), [(0.10, 0.77), (0.15, 0.99)])
def test_power_with_256_instances_is_that_of_the_specification(
    recalled: float, power: float
) -> None:
    assert marker_power(256, recalled, 0.001) == pytest.approx(power, abs=0.01)


def test_power_is_that_of_the_binomial_distribution() -> None:
    for asked, recalled, alpha in cases(__file__, "powers"):
        rejected = [k for k in range(asked + 1) if binom.sf(k - 1, asked, 1 / 8) <= alpha]
        rate = recalled + (1 - recalled) / 8
        expected = float(binom.pmf(rejected, asked, rate).sum())
        assert marker_power(asked, recalled, alpha) == pytest.approx(expected)


def test_a_reader_is_exposed_and_one_that_knows_private_markers_is_invalid() -> None:
    rows = test_markers(
        PLAN, [("reader", *counts(70)), ("guesser", *counts(35)), ("fault", *counts(70, 70))], 3
    )
    assert [row.finding for row in rows] == [
        MarkerFinding.EXPOSED,
        MarkerFinding.NOT_SHOWN,
        MarkerFinding.INVALID,
    ]
    reader = rows[0]
    assert (reader.wave, reader.rate, reader.alpha) == (3, 70 / 256, 0.001)
    assert reader.recalled == pytest.approx((70 / 256 - 1 / 8) * 8 / 7)
    assert reader.p_adjusted == pytest.approx(3 * reader.p)
    words = [marker_words(row) for row in rows]
    assert "70 of 256 public instances (27.3 %" in words[0]
    assert "no inflation" in words[0]
    assert "Exposure is not shown" in words[1]
    assert "Invalid" in words[2]
    assert test_markers(PLAN, [], 3) == ()


def test_models_of_before_the_publication_are_controls() -> None:
    """They take no part of alpha, and one that knows public markers is a fault of the study."""
    plan = standard_plan(["a"], 64, looks=1, pre_exposure=["old", "older"], frozen=["old"])
    rows = test_markers(
        plan, [("old", *counts(70)), ("older", *counts(32)), ("new", *counts(70))], 0
    )
    assert [row.finding for row in rows] == ["invalid", "not shown", "exposed"]
    assert [row.p_adjusted for row in rows] == [None, None, tail(70, 256)]
    assert "released before the publication" in marker_words(rows[0])


def test_looks_and_models_share_the_registered_alpha() -> None:
    eight = replace(PLAN, looks=8)
    found = MarkerCounts(256, 50), MarkerCounts(256, 32)
    assert 0.001 / 8 < tail(50, 256) <= 0.001
    assert test_markers(PLAN, [("m", *found)], 0)[0].finding is MarkerFinding.EXPOSED
    assert test_markers(eight, [("m", *found)], 0)[0].finding is MarkerFinding.NOT_SHOWN
    beside = test_markers(PLAN, [("m", *found), *[(str(n), *counts(32)) for n in range(9)]], 0)
    assert beside[0].finding is MarkerFinding.NOT_SHOWN


@pytest.mark.parametrize("named", [1.0, 0.6])
def test_false_alarms_stay_within_alpha(named: float) -> None:
    """Studies of 3 looks of 2 models that have read nothing, and name a marker or decline."""
    plan = replace(PLAN, looks=3, marker_alpha=0.05)
    stream = np.random.default_rng(14)
    studies = 4000
    right = stream.binomial(64, named / 8, (studies, 3, 2, 2))
    false = 0
    for study in right.tolist():
        rows = [
            row
            for wave, look in enumerate(study)
            for row in test_markers(
                plan,
                [
                    (str(m), MarkerCounts(64, public), MarkerCounts(64, private))
                    for m, (public, private) in enumerate(look)
                ],
                wave,
            )
        ]
        false += any(row.finding is MarkerFinding.EXPOSED for row in rows)
    assert false / studies <= 0.05
    assert false > 0 or named < 1
    if named == 1:  # the exact rate; the control may call a false alarm invalid instead, 1 in 100
        exact = marker_rates(plan, 2).false_alarms
        assert false / studies == pytest.approx(exact, abs=3 * (exact / studies) ** 0.5)


def test_the_rates_of_a_plan_are_exact() -> None:
    """Against scipy: a look calls a model if the smaller p of its two is at most half of its
    level, whatever the models of other looks do."""
    plan = replace(PLAN, seeds_per_arm=256, looks=8)
    rates = marker_rates(plan, 2)
    size = max(p for p in binom.sf(np.arange(257) - 1, 256, 1 / 8) if p <= 0.001 / 8 / 2)
    assert rates.false_alarms == pytest.approx(1 - (1 - size) ** 16)
    assert rates.false_alarms <= rates.alpha == 0.001
    assert (rates.asked, rates.looks, rates.models) == (256, 8, 2)
    assert dict(marker_rates(replace(plan, looks=1), 1).found) == pytest.approx(
        {0.10: 0.77, 0.15: 0.99}, abs=0.01
    )


def test_a_finding_is_plain_json() -> None:
    (row,) = test_markers(PLAN, [("m", *counts(70))], 0)
    assert json.dumps(row.finding) == '"exposed"'
