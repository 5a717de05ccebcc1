"""What a calibration promises: the test's size at dose 0, the specification's limits, a curve that
is fitted as a textbook would fit it, and draws that follow from the registration alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import ndtri
from scipy.stats import norm

from analysis.calibration import (
    DOSES,
    Calibration,
    Ground,
    calibrate,
    calibration_json,
    detection,
    fit_detection,
    inject,
    measure,
)
from analysis.calibrationfigure import plot_calibration
from analysis.errors import AnalysisError
from analysis.estimators import estimate_gap
from analysis.plan import basic_plan, look_alpha
from analysis.simulate import REGIMES, Design, Effect, simulate
from registry.records import Plan

FINE = (0.0, 0.05, 0.1, 0.15, 0.2, 0.5, 1.0)


def _plan(looks: int = 1, outcomes: tuple[str, ...] = ("score",), permutations: int = 999) -> Plan:
    strata = [f"h{number}" for number in range(4)]
    return basic_plan(strata, 64, looks=looks, permutations=permutations, outcomes=outcomes)


def _ground(tasks: int = 4, seeds: int = 64) -> Ground:
    stream = np.random.default_rng(3)
    made = simulate(Design(tasks, seeds), REGIMES["A"], Effect(), 1, stream)
    return Ground(made.means[0][:, :1], None, made.stratum, made.public)


@pytest.fixture(scope="module")
def regime_a() -> Calibration:
    return calibrate(
        _plan(), _ground(), doses=FINE, replicates=150, registration="sha256:r", place="m|0"
    )


def test_the_specifications_numbers_at_four_tasks_and_64_seeds(regime_a: Calibration) -> None:
    """spec/statistics.md, C2: SE .024, limit of detection 7.8 points, f at 80 % about 13 %."""
    assert regime_a.se == pytest.approx(0.024, abs=0.0015)
    assert regime_a.spread == pytest.approx(0.024, abs=0.003)
    assert regime_a.limit == pytest.approx(0.078, abs=0.004)
    assert regime_a.blank == pytest.approx(0.5 * 0.078, abs=0.002)
    assert regime_a.enough == pytest.approx(0.13, abs=0.02)
    low, high = regime_a.enough_interval
    assert low is not None
    assert high is not None
    assert low < regime_a.enough < high


def test_the_blank_is_found_as_often_as_alpha_allows(regime_a: Calibration) -> None:
    blank = regime_a.doses[0]
    assert blank.dose == 0
    assert blank.interval[0] <= 0.025 <= blank.interval[1]
    assert blank.gap == pytest.approx(0, abs=0.006)
    rates = [each.rate for each in regime_a.doses]
    assert rates[-1] == 1
    assert rates == sorted(rates)
    for each in regime_a.doses:  # the curve goes through what was seen
        assert each.fitted == pytest.approx(each.rate, abs=0.08)


def test_more_looks_make_the_instrument_blunter() -> None:
    one, eight = (
        calibrate(
            _plan(looks), _ground(), doses=FINE, replicates=40, registration="r", place="m|0"
        ).enough
        for looks in (1, 8)
    )
    assert one is not None and eight is not None  # noqa: PT018  # for the type checker
    assert eight > 1.15 * one  # alpha .025/8: 1.29 by formula


def test_a_covariate_sharpens_it() -> None:
    made = simulate(Design(2, 24, 1, 4), REGIMES["C"], Effect(), 1, np.random.default_rng(5))
    plain = Ground(made.means[0][:, :1], None, made.stratum, made.public)
    assert made.covariate is not None
    adjusted = replace(plain, covariate=made.covariate[0][:, :1])
    plan = basic_plan(["h0", "h1"], 24, permutations=999, outcomes=("score",))
    before, after = (
        calibrate(plan, g, doses=(0.5,), replicates=10, registration="r", place="m|0").se or 0.0
        for g in (plain, adjusted)
    )
    assert 0 < after < 0.92 * before  # regime C saves a third of the variance


def test_it_follows_from_the_registration_alone() -> None:
    ground = _ground(4, 8)
    options = {"doses": (0.2,), "replicates": 5}
    one, same, other = (
        calibrate(_plan(), ground, registration=r, place="m|0", **options)  # type: ignore[arg-type]
        for r in ("r", "r", "s")
    )
    assert one == same != other


def test_only_public_instances_are_known_and_only_scores_move() -> None:
    ground = _ground(2, 8)
    ground.values[3, 0] = np.nan
    trials = inject(ground, [0.0, 1.0], None, np.random.default_rng(1))
    blank, full = trials.values[:, 0, 0], trials.values[:, 1, 0]
    for h in (0, 1):  # the blank is the same scores on other labels
        own = ground.stratum == h
        np.testing.assert_array_equal(np.sort(blank[own]), np.sort(ground.values[own, 0]))
    assert not np.array_equal(blank, ground.values[:, 0], equal_nan=True)
    there = ~np.isnan(full)
    assert (~there).sum() == 1  # what is missing stays missing
    assert (full[ground.public & there] == 1).all()
    assert (full[~ground.public & there] < 1).all()


def test_what_knowing_brings_may_be_an_agents_scores_in_the_stratum() -> None:
    ground = _ground(2, 8)
    pools = [np.array([[0.9], [0.8]]), np.array([[0.7]])]
    trials = inject(ground, [1.0], pools, np.random.default_rng(1))
    first = trials.values[ground.public & (ground.stratum == 0), 0, 0]
    assert set(first.tolist()) == {0.9, 0.8}
    assert (trials.values[ground.public & (ground.stratum == 1), 0, 0] == 0.7).all()


def test_agents_that_were_run_are_measured_by_the_same_test() -> None:
    ground = _ground(4, 16)
    trials = inject(ground, [0.0, 0.0, 1.0], None, np.random.default_rng(2))
    found = measure(_plan(), trials, ground.stratum, ground.public, 7)
    assert [each.replicates for each in found.doses] == [2, 1]
    assert found.doses[1].detected == 1
    gaps = [estimate_gap(trials.values[:, c, 0], ground.stratum, ground.public) for c in range(3)]
    assert found.doses[0].gap == pytest.approx((gaps[0].gap + gaps[1].gap) / 2)
    assert found.se == pytest.approx(((gaps[0].se or 0) + (gaps[1].se or 0)) / 2)
    assert found.alpha == look_alpha(_plan())


def test_the_fit_is_that_of_maximum_likelihood() -> None:
    doses, alpha = np.array(DOSES), 0.025
    hits, tried = np.array([0, 3, 8, 18, 20, 20]), np.full(6, 20)

    def lost(b: float) -> float:
        p = np.clip(norm.cdf(b * doses - ndtri(1 - alpha)), 1e-12, 1 - 1e-12)
        return -float((hits * np.log(p) + (tried - hits) * np.log(1 - p)).sum())

    b = minimize_scalar(lost, bounds=(0.1, 200), method="bounded").x
    enough, (low, high) = fit_detection(doses, hits, tried, alpha)
    assert enough is not None
    assert enough == pytest.approx((ndtri(1 - alpha) + ndtri(0.8)) / b, rel=2e-3)
    assert low is not None
    assert high is not None
    assert low < enough < high
    assert detection(enough, enough, alpha) == pytest.approx(0.8)
    assert detection(0.0, enough, alpha) == pytest.approx(alpha)


@pytest.mark.parametrize(
    ("hits", "low", "high"),
    [((0, 20, 20), False, True), ((0, 0, 0), True, False), ((0, 0, 2), True, False)],
)
def test_what_the_rates_do_not_bound_is_not_told(
    hits: tuple[int, ...], low: bool, high: bool
) -> None:
    enough, interval = fit_detection(
        np.array([0.0, 0.1, 0.2]), np.array(hits), np.full(3, 20), 0.025
    )
    assert enough is None or enough > 0.2
    assert [end is not None for end in interval] == [low, high]


@pytest.mark.parametrize(
    ("doses", "replicates", "said"),
    [((1.5,), 2, "dose 1.5"), ((0.0,), 2, "above 0"), ((float("nan"),), 2, "dose nan"),
     ((0.5,), 0, "0 replicates")],
)  # fmt: skip
def test_doses_that_are_none(doses: tuple[float, ...], replicates: int, said: str) -> None:
    with pytest.raises(AnalysisError, match=said):
        calibrate(
            _plan(), _ground(4, 4), doses=doses, replicates=replicates,
            registration="r", place="",
        )  # fmt: skip


def test_constant_scores_and_one_arm_are_handled() -> None:
    ground = _ground(2, 4)
    flat = replace(ground, values=np.full_like(ground.values, 0.5))
    found = calibrate(_plan(), flat, doses=(1.0,), replicates=3, registration="r", place="")
    assert found.se is None
    assert found.limit is None
    assert found.doses[0].rate == 0
    lone = replace(ground, values=np.where(ground.public[:, None], ground.values, np.nan))
    with pytest.raises(AnalysisError, match="one of its arms"):
        calibrate(_plan(), lone, doses=(1.0,), replicates=3, registration="r", place="")


def test_the_picture_says_what_it_shows(regime_a: Calibration) -> None:
    wide, narrow = plot_calibration(regime_a), plot_calibration(regime_a, 3.7)
    assert wide == plot_calibration(regime_a) != narrow
    assert "limit of detection" in wide
    assert "are detected with probability 0.8" in wide
    body = calibration_json(regime_a)
    assert body["dose_at_80"] == regime_a.enough
