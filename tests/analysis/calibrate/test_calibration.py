"""What a calibration promises: the test's size at dose 0, the specification's limits, a curve that
is fitted as a textbook would fit it, and draws that follow from the registration alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri
from scipy.stats import beta, norm

from analysis.calibrate.calibration import (
    DOSES,
    Calibration,
    CleanScores,
    calibrate,
    calibration_json,
    detection,
    fit_detection,
    inject,
    measure,
)
from analysis.calibrate.figures import plot_calibration
from analysis.errors import AnalysisError
from analysis.plan.presets import basic_plan, look_alpha
from analysis.plan.primary import ModelScores
from analysis.stats.intervals import estimate_gap
from registry.ledger.records import Plan

pytestmark = pytest.mark.filterwarnings("error")

FINE = (0.0, 0.05, 0.1, 0.15, 0.2, 0.5, 1.0)


def _plan(looks: int = 1, outcomes: tuple[str, ...] = ("score",), permutations: int = 999) -> Plan:
    strata = [f"h{number}" for number in range(4)]
    return basic_plan(strata, 64, looks=looks, permutations=permutations, outcomes=outcomes)


def _ground(
    tasks: int = 4, seeds: int = 64, seed: int = 3, *, models: int = 1, shared: float = 0.0
) -> list[CleanScores]:
    """Scores of models on the same instances with a mean of .5 and an SD of .267, as published
    results have; ``shared`` of the variance is the instance's, for these models and the mean of
    four others before exposure, which is the covariate where there is a share."""
    stream = np.random.default_rng(seed)
    n = 2 * tasks * seeds
    stratum, public = np.arange(n) // (2 * seeds), np.arange(n) % (2 * seeds) < seeds
    difficulty = np.sqrt(shared) * stream.standard_normal(n)

    def scores(runs: int) -> NDArray[np.float64]:
        z = difficulty + np.sqrt((1 - shared) / runs) * stream.standard_normal(n)
        return np.asarray(beta(1.25, 1.25).ppf(ndtr(z))[:, None])

    x = scores(4) if shared else None
    return [CleanScores(ModelScores(scores(1)[:, None], x), stratum, public) for _ in range(models)]


@pytest.fixture(scope="module")
def regime_a() -> Calibration:
    return calibrate(
        _plan(), _ground()[0], doses=FINE, replicates=150, registration="sha256:r", place="m|0"
    )


def test_the_specifications_numbers_at_four_tasks_and_64_seeds(regime_a: Calibration) -> None:
    """SE.024, limit of detection 7.8 points, f at 80 % about 13 %."""
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
            _plan(looks), _ground()[0], doses=FINE, replicates=40, registration="r", place="m|0"
        ).enough
        for looks in (1, 8)
    )
    assert one is not None and eight is not None  # noqa: PT018  # for the type checker
    assert eight > 1.15 * one  # alpha .025/8: 1.29 by formula


def test_several_models_in_a_look_make_it_blunter_and_share_its_alpha() -> None:
    alone, *rest = _ground(2, 24, 6, models=6)
    none = np.zeros((96, 5), dtype=np.int64)
    values = np.concatenate([other.scores.values for other in rest], axis=1)
    others = ModelScores(values, None, none, none + 1)
    plan = basic_plan(["h0", "h1"], 24, permutations=499, outcomes=("score",))
    one, six = (
        calibrate(plan, g, doses=(0.2, 0.4), replicates=60, registration="r", place="m|0")
        for g in (alone, replace(alone, companions=others))
    )
    assert (one.family, six.family) == (1, 6)
    assert one.size == look_alpha(plan)
    assert six.size == pytest.approx(1 - (1 - 0.025) ** (1 / 6))
    for a, b in zip(one.doses, six.doses, strict=True):
        assert a.detected >= b.detected
    assert one.doses[1].detected > six.doses[1].detected
    assert one.enough is not None
    assert six.enough is not None
    assert six.enough > one.enough
    assert (one.se, one.limit) == (six.se, six.limit)
    assert calibration_json(six)["models_adjusted_over"] == 6


def test_a_covariate_sharpens_it() -> None:
    adjusted = _ground(2, 24, 5, shared=0.5)[0]
    plain = replace(adjusted, scores=replace(adjusted.scores, covariate=None))
    plan = basic_plan(["h0", "h1"], 24, permutations=999, outcomes=("score",))
    before, after = (
        calibrate(plan, g, doses=(0.5,), replicates=10, registration="r", place="m|0").se or 0.0
        for g in (plain, adjusted)
    )
    assert 0 < after < 0.92 * before  # a third of the variance is saved


def test_it_follows_from_the_registration_alone() -> None:
    ground = _ground(4, 8)[0]
    options = {"doses": (0.2,), "replicates": 5}
    one, same, other = (
        calibrate(_plan(), ground, registration=r, place="m|0", **options)  # type: ignore[arg-type]
        for r in ("r", "r", "s")
    )
    assert one == same != other


def test_only_public_instances_are_known_and_only_scores_move() -> None:
    ground = _ground(2, 8)[0]
    ground.scores.values[3, 0, 0] = np.nan
    studies = inject(ground, [0.0, 1.0], None, np.random.default_rng(1))
    values, public = studies.scores.values[:, :, 0], studies.public
    before = ground.scores.values[:, 0, 0]
    np.testing.assert_array_equal(values[:, 0], before)  # the same, on other labels
    for h in (0, 1):
        own = ground.stratum == h
        assert public[own].sum(axis=0).tolist() == [8, 8]
    assert not np.array_equal(public[:, 0], ground.public)
    assert not np.array_equal(public[:, 0], public[:, 1])
    there, known = ~np.isnan(values[:, 1]), public[:, 1]
    assert (~there).sum() == 1  # what is missing stays missing
    assert (values[known & there, 1] == 1).all()
    np.testing.assert_array_equal(values[~known, 1], before[~known])


def test_what_knowing_brings_may_be_an_agents_scores_in_the_stratum() -> None:
    ground = _ground(2, 8)[0]
    pools = [np.array([[0.9], [0.8]]), np.array([[0.7]])]
    studies = inject(ground, [1.0], pools, np.random.default_rng(1))
    scores, public = studies.scores.values[:, 0, 0], studies.public[:, 0]
    assert set(scores[public & (ground.stratum == 0)].tolist()) == {0.9, 0.8}
    assert (scores[public & (ground.stratum == 1)] == 0.7).all()


def test_agents_that_were_run_are_measured_by_the_same_test() -> None:
    ground = _ground(4, 16)[0]
    doses = (0.0, 0.0, 1.0)
    drawn = inject(ground, doses, None, np.random.default_rng(2))
    labels = np.repeat(ground.public[:, None], 3, axis=1)  # one draw of arms, as of real agents
    studies = replace(drawn, public=labels)
    found = measure(_plan(), studies, doses, 7)
    assert [each.replicates for each in found.doses] == [2, 1]
    scores = studies.scores.values[:, :, 0]
    gaps = [estimate_gap(scores[:, c], ground.stratum, ground.public) for c in range(3)]
    assert found.doses[1].gap == pytest.approx(gaps[2].gap)
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
            _plan(), _ground(4, 4)[0], doses=doses, replicates=replicates,
            registration="r", place="",
        )  # fmt: skip


def test_constant_scores_and_one_arm_are_handled() -> None:
    ground = _ground(2, 4)[0]
    flat = replace(ground, scores=ModelScores(np.full_like(ground.scores.values, 0.5)))
    found = calibrate(_plan(), flat, doses=(1.0,), replicates=3, registration="r", place="")
    assert found.se is None
    assert found.limit is None
    assert found.doses[0].rate == 0
    lone = replace(
        ground,
        scores=ModelScores(np.where(ground.public[:, None, None], ground.scores.values, np.nan)),
    )
    with pytest.raises(AnalysisError, match="one of its arms"):
        calibrate(_plan(), lone, doses=(1.0,), replicates=3, registration="r", place="")


def test_the_picture_says_what_it_shows(regime_a: Calibration) -> None:
    wide, narrow = plot_calibration(regime_a), plot_calibration(regime_a, 3.7)
    assert wide == plot_calibration(regime_a) != narrow
    assert "limit of detection" in wide
    assert "are detected with probability 0.8" in wide
    assert calibration_json(regime_a)["dose_at_80"] == regime_a.enough
