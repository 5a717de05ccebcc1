"""Power comes from the plan's own test; formulas and the specification's figures check it."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.data.table import make_table
from analysis.errors import AnalysisError
from analysis.plan.look import analyse
from analysis.plan.presets import basic_plan, standard_plan
from analysis.plan.verdict import CONTAMINATED
from analysis.power.power import (
    PowerDesign,
    PowerSetting,
    SimulationSize,
    chance_cleared,
    check_design,
    claims,
    first_rejections,
    formula_gap,
    formula_seeds,
    gaps_curve,
    power_at,
    seeds_curve,
)
from analysis.power.variance_components import (
    ARTICLE,
    Components,
    check_components,
    estimate_components,
    weigh_criteria,
)
from analysis.stats.permutation import permutation_seed
from analysis.stats.sequential import LookScores, monitor
from registry.result_row import Arm, ResultRow
from tests.analysis.conftest import COUNTED, make_row

FOUR = ("a", "b", "c", "d")
ONE = ("score",)
FIVE = PowerSetting(gap=0.05)
SCORE_ONLY = replace(ARTICLE, sd=ARTICLE.sd[:1])


# The specification's figures (section 3): a 5-point gap in regime A


@pytest.mark.parametrize(
    ("strata", "seeds", "runs", "specified"),
    [(4, 112, 1, 0.81), (12, 38, 1, 0.83), (4, 41, 3, 0.83)],
)
def test_seeds_for_five_points_have_the_specified_power(
    strata: int, seeds: int, runs: int, specified: float
) -> None:
    plan = basic_plan([str(h) for h in range(strata)], seeds, replicates=runs, outcomes=ONE)
    found = power_at(PowerDesign(plan, SCORE_ONLY, FIVE), SimulationSize(600, 399), study=False)
    assert found.power == pytest.approx(specified, abs=3 * np.hypot(found.error, 0.012))
    assert found.formula == pytest.approx(0.80, abs=0.012)


def test_formulas_give_the_specified_numbers() -> None:
    plan = basic_plan(FOUR, 64, outcomes=ONE)
    assert formula_seeds(PowerDesign(plan, SCORE_ONLY, FIVE), 0.8) == 112
    assert formula_gap(PowerDesign(plan, SCORE_ONLY, FIVE), 0.8) == pytest.approx(0.066, abs=0.0005)
    assert PowerDesign(plan, SCORE_ONLY, FIVE).standard_error == pytest.approx(0.024, abs=0.0005)
    # "At alpha .025/8 a 5-point per-model claim needs about 729 instances an arm"
    looks = basic_plan(FOUR, 64, looks=8, outcomes=ONE)
    assert 4 * formula_seeds(PowerDesign(looks, SCORE_ONLY, FIVE), 0.8) == pytest.approx(
        729, rel=0.02
    )


@pytest.mark.parametrize(
    ("share", "seeds", "specified"),
    [(0.04, 16, 0.54), (0.04, 64, 0.99), (0.5, 16, 0.80), (0.5, 64, 1.0)],
)
def test_ten_points_are_found_as_often_as_specified(
    share: float, seeds: int, specified: float
) -> None:
    """One look, eight control runs on each instance, regimes A and C."""
    plan = basic_plan(FOUR, seeds, outcomes=ONE)
    setting = PowerSetting(control_models=4, control_runs=2, gap=0.10)
    design = PowerDesign(plan, Components((0.267,), share, 1.0), setting)
    found = power_at(design, SimulationSize(400, 999), study=False)
    assert found.power == pytest.approx(specified, abs=3 * found.error + 0.03)
    assert found.power == pytest.approx(found.formula, abs=3 * found.error + 0.03)


def test_control_models_that_see_what_models_share_give_power() -> None:
    shared = Components((0.267,), 0.5, 0.87)
    plan = basic_plan(FOUR, 64, replicates=3, outcomes=ONE)
    plain, helped = (PowerSetting(control_models=m, control_runs=2, gap=0.05) for m in (0, 4))
    effort = SimulationSize(400, 999)
    without = power_at(PowerDesign(plan, shared, plain), effort, study=False)
    calibrated = power_at(PowerDesign(plan, shared, helped), effort, study=False)
    assert without.power == pytest.approx(0.75, abs=0.08)
    assert calibrated.power == pytest.approx(calibrated.formula, abs=0.06)
    assert calibrated.formula - without.formula > 0.15


def test_a_leak_raises_an_outcome_by_what_it_lacks_of_full_marks() -> None:
    rows = _pilot_rows(Components((0.2, 0.15), 0.5, 0.6), instances=40, models=2, runs=2)
    nearer = [replace(r, passed=500 + r.passed // 2) for r in rows if r.passed is not None]
    found = estimate_components(make_table(nearer), ("score", "fraction"), ("x", "y"))
    assert found.components.raised == pytest.approx((1.0, 0.5), abs=0.02)
    plan = basic_plan(FOUR, 16, outcomes=("score", "fraction"))
    effort = SimulationSize(400, 399)
    sharp = replace(ARTICLE, sd=(0.267, 0.15))
    powers, errors = [], []
    for raised in (1.0, 0.8, 0.4):
        design = PowerDesign(plan, replace(sharp, raised=(1.0, raised)), PowerSetting(gap=0.1))
        powers.append(power_at(design, effort, study=False).power)
        errors.append(design.standard_error)
    assert powers == sorted(powers, reverse=True)
    assert powers[0] > powers[2] + 0.2
    assert errors[1] == pytest.approx(errors[0] / 0.8)
    alone = PowerDesign(plan, replace(sharp, raised=(1.0, 0.0)), PowerSetting())
    assert errors[2] == alone.standard_error, "the score shows the leak best"


def test_guesses_and_full_marks_leave_less_of_a_leak_to_see() -> None:
    plan, effort = basic_plan(FOUR, 32, outcomes=ONE), SimulationSize(300, 199)

    def power(gap: float, **room: float) -> float:
        design = PowerDesign(plan, replace(SCORE_ONLY, **room), PowerSetting(gap=gap))
        return power_at(design, effort, study=False).power

    assert 0.1 < power(0.1) < 0.9
    assert power(0.2, guessed=0.5) == power(0.1) == power(0.4, lacks=0.1)
    design = PowerDesign(plan, replace(SCORE_ONLY, guessed=0.5), PowerSetting(gap=0.1))
    half = PowerDesign(plan, SCORE_ONLY, PowerSetting(gap=0.05))
    assert formula_seeds(design, 0.8) == formula_seeds(half, 0.8)
    with pytest.raises(AnalysisError, match="no leak can show"):
        power(0.1, guessed=1.0)


def test_curves_meet_the_target_near_the_formula() -> None:
    plan, effort = basic_plan(FOUR, 64, outcomes=ONE), SimulationSize(300, 199)
    setting = PowerSetting(gap=0.1)
    seeds = seeds_curve(PowerDesign(plan, SCORE_ONLY, setting), effort, 0.8)
    assert seeds.formula == 28
    assert seeds.value == pytest.approx(28, abs=6)
    assert [p.power for p in seeds.points] == pytest.approx(
        [p.formula for p in seeds.points], abs=0.1
    )
    gaps = gaps_curve(PowerDesign(plan, SCORE_ONLY, setting), effort, 0.8)
    assert gaps.value == pytest.approx(0.066, abs=0.008)


def test_what_cannot_be_reached_is_none() -> None:
    setting = PowerSetting(gap=0.0005)
    found = seeds_curve(
        PowerDesign(basic_plan(FOUR, 8), ARTICLE, setting), SimulationSize(20, 99), 0.8
    )
    assert (found.value, found.points) == (None, ())


# The same verdicts as the plan's own analysis


@pytest.mark.parametrize("multiplicity", ["westfall-young", "holm"])
def test_claims_are_the_verdicts_of_analyse(multiplicity: str) -> None:
    plan = basic_plan(
        ("x", "y"),
        12,
        looks=2,
        permutations=399,
        enumerate_up_to=0,
        multiplicity=multiplicity,
        outcomes=COUNTED,
    )
    values, stratum, public = _study(np.random.default_rng(5), 12, 0.45)
    registration = "sha256:test"
    verdicts = analyse(plan, make_table(_rows(values, stratum, public)), registration).verdicts
    said = [v.verdict == CONTAMINATED for v in verdicts]
    seed = permutation_seed(registration, "0")
    ours = claims(plan, values[:, None], None, stratum, public, seed)[0]
    assert ours.tolist() == said == [True, False, False]


def test_adjusted_claims_are_those_of_standard_v1() -> None:
    plan = standard_plan(
        ("x", "y"), 12, looks=2, permutations=399, enumerate_up_to=0, pre_exposure=("before",),
        sensitivity=(), outcomes=COUNTED,
    )  # fmt: skip
    values, stratum, public = _study(np.random.default_rng(6), 12, 0.45)
    before = _study(np.random.default_rng(7), 12, 0.0)[0][:, :, [0, 1]].mean(axis=1)
    old = [
        replace(_row("xy"[stratum[i]], f"{i:03}", "before", r, bool(public[i]), before[i]),
                passed=round(before[i, 1] * 60), total=60)
        for i in range(len(before)) for r in range(4)
    ]  # fmt: skip
    new = [replace(row, wave=1) for row in _rows(values, stratum, public)]
    found = analyse(plan, make_table([*old, *new]), "sha256:test").standard
    assert found is not None
    look = next(each for each in found.looks if each.results)
    assert look.covered == 1
    theirs = [t.verdict.p_adjusted <= look.alpha for t in look.results]
    seed = permutation_seed("sha256:test", "1")
    ours = claims(plan, values[:, None], before[:, None], stratum, public, seed)[0]
    assert ours.tolist() == theirs == [True, False, False]


def test_first_rejections_are_those_of_monitor() -> None:
    stream = np.random.default_rng(3)
    stratum, public = np.repeat([0, 1], 40), np.tile(np.repeat([True, False], 20), 2)
    scores = stream.standard_normal((80, 30, 4))
    scores[public, :, 1:] += 0.5
    ours = first_rejections(scores, stratum, public, alpha=0.05, permutations=399, seed=7)
    names = np.arange(80)
    theirs = np.array([
        monitor(
            [LookScores(names, stratum, np.zeros(80, dtype=int), public, scores[:, b, k])
             for k in range(4)],
            alpha=0.05, looks_planned=4, permutations=399, seed=7,
        ).rejected_at or 0
        for b in range(30)
    ])  # fmt: skip
    assert (ours > 0).any()
    assert (ours == theirs).mean() >= 0.75  # other permutations: what is on the edge may differ


def test_size_is_kept_by_what_is_simulated() -> None:
    setting = PowerSetting(models=3, gap=1e-9, study_gap=1e-9, control_models=4)
    plan = standard_plan(FOUR, 16, looks=2, pre_exposure=("p",))
    found = power_at(PowerDesign(plan, ARTICLE, setting), SimulationSize(400, 399))
    assert found.power <= 0.0125 / 3 + 4 * 0.0035
    assert found.study_power is not None
    assert found.study_power <= 0.025 + 4 * 0.016


@pytest.mark.parametrize(("outcomes", "looks"), [(("score",), 1), (("score", "fraction"), 8)])
def test_the_chance_to_clear_a_model_is_that_of_the_bounds(
    outcomes: tuple[str, ...], looks: int
) -> None:
    """One outcome, one model: the upper bound of a normal gap at .05 lies below the margin. Two
    correlated ones are both below it less often. Looks do not share this level."""
    plan = basic_plan(FOUR, 60, looks=looks, outcomes=outcomes)
    effort = SimulationSize(1500, 1999)
    design = PowerDesign(plan, replace(ARTICLE, sd=ARTICLE.sd[: len(outcomes)]), PowerSetting())
    found = chance_cleared(design, effort)
    error = 0.267 * math.sqrt(2 / 240)
    one = NormalDist().cdf(0.05 / error - NormalDist().inv_cdf(0.95))
    if outcomes == ("score",):
        assert found == pytest.approx(one, abs=0.04)
        return
    other = NormalDist().cdf(0.05 / error * 0.267 / 0.215 - NormalDist().inv_cdf(0.95))
    assert one * other < found < one
    assert power_at(design, SimulationSize(40, 1999), study=False).cleared_error > 0


def test_few_instances_or_many_models_clear_less() -> None:
    plan, effort = basic_plan(FOUR, 60, outcomes=ONE), SimulationSize(300, 399)
    alone, three = (
        chance_cleared(PowerDesign(plan, SCORE_ONLY, PowerSetting(models=m)), effort)
        for m in (1, 3)
    )
    assert three < alone
    few = PowerDesign(basic_plan(FOUR, 4, outcomes=ONE), SCORE_ONLY, PowerSetting())
    assert chance_cleared(few, effort) == 0  # the two-sided interval is far wider than the margin


# Components from rubrics and rows


def test_weights_of_criteria_make_the_variance() -> None:
    """One criterion is a coin; many in equal shares leave what they have in common."""
    one, many = np.ones((1, 1)), np.full((1, 10_000), 1e-4)
    assert weigh_criteria([one]).sd == pytest.approx((0.5,))
    assert weigh_criteria([many]).sd[0] == pytest.approx(0.5 * math.sqrt(0.17), rel=1e-3)
    found = weigh_criteria([np.array([[0.9, 0.1], [0.5, 0.5]])])
    assert found.sd == pytest.approx(
        [0.5 * math.sqrt(0.17 + 0.83 * 0.82), 0.5 * math.sqrt(0.17 + 0.83 * 0.5)]
    )
    covariance = 0.25 * (0.17 + 0.83 * 0.5)
    assert found.correlation == pytest.approx(covariance / (found.sd[0] * found.sd[1]))
    twice = weigh_criteria([one, one])
    assert (twice.sd, twice.seed_share) == (weigh_criteria([one]).sd, ARTICLE.seed_share)


def test_components_are_found_again_in_rows() -> None:
    truth = Components((0.2, 0.15), 0.5, 0.6, 0.7)
    rows = _pilot_rows(truth, instances=240, models=4, runs=2)
    found = estimate_components(make_table(rows), ("score", "fraction"), ("x", "y"))
    assert found.components.sd == pytest.approx(truth.sd, rel=0.06)
    assert found.components.seed_share == pytest.approx(0.5, abs=0.07)
    assert found.components.shared == pytest.approx(0.6, abs=0.12)
    assert found.components.correlation == pytest.approx(0.7, abs=0.07)
    assert (found.repeats, found.pairs, found.runs) == (960, 1440, 1920)
    assert found.cost_usd == pytest.approx(0.25)
    assert found.notes == ()


def test_a_model_that_runs_again_at_later_waves_is_no_other_model() -> None:
    rows = _pilot_rows(Components((0.2, 0.15), 0.6, 0.0), instances=120, models=2, runs=4)
    waves = [replace(r, wave=r.replicate, replicate=0) if r.model == "m0" else r for r in rows]
    found = estimate_components(make_table(waves), ONE, ("x", "y"))
    assert found.pairs == 120 * 4
    assert found.components.shared < 0.2
    assert found.components.seed_share == pytest.approx(0.6, abs=0.1)


def test_one_run_of_one_model_tells_no_share_and_says_so() -> None:
    rows = _pilot_rows(Components((0.2, 0.15), 0.5, 0.6, 0.7), instances=40, models=1, runs=1)
    found = estimate_components(make_table(rows), ONE, ("x", "y"))
    assert found.components.seed_share == 0
    assert len(found.notes) == 2


def test_components_do_not_look_at_arms() -> None:
    rows = _pilot_rows(Components((0.2, 0.15), 0.5, 0.6), instances=40, models=2, runs=2)
    other = [replace(r, arm=Arm.PRIVATE if r.arm == Arm.PUBLIC else Arm.PUBLIC) for r in rows]
    one, two = (estimate_components(make_table(r), ONE, ("x", "y")) for r in (rows, other))
    assert one == two


def test_a_table_that_tells_nothing_is_refused() -> None:
    rows = _pilot_rows(Components((0.2, 0.15), 0.5, 0.6), instances=8, models=1, runs=1)
    with pytest.raises(AnalysisError, match="no scored rows"):
        estimate_components(make_table(rows), ONE, ("elsewhere",))
    with pytest.raises(AnalysisError, match="alike"):
        estimate_components(make_table([replace(r, score=0.5) for r in rows]), ONE, ("x",))
    with pytest.raises(AnalysisError, match="two runs"):
        estimate_components(make_table(rows[:1]), ONE, ("x",))


@pytest.mark.parametrize(
    ("setting", "effort", "said"),
    [
        (PowerSetting(gap=0), SimulationSize(), "between 0 and 1"),
        (PowerSetting(), SimulationSize(permutations=50), "79 or more"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    setting: PowerSetting, effort: SimulationSize, said: str
) -> None:
    with pytest.raises(AnalysisError, match=said):
        check_design(PowerDesign(basic_plan(FOUR, 8, looks=2), ARTICLE, setting), effort)


@pytest.mark.parametrize(
    "components",
    [Components((0.0,), 0, 0), Components((0.7,), 0, 0), Components((0.2,), 1.2, 0),
     Components((0.2,), 0, -1), Components((0.2,), 0, 0, 2)],
)  # fmt: skip
def test_impossible_components_are_refused(components: Components) -> None:
    with pytest.raises(AnalysisError):
        check_components(components)


def _study(
    stream: np.random.Generator, seeds: int, gap: float
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
    """(n, models, outcomes), the first of three models inflated; n sorted by stratum, then id."""
    stratum = np.repeat([0, 1], 2 * seeds)
    public = np.tile(np.repeat([True, False], seeds), 2)
    passed = stream.binomial(20, 0.4, size=(len(stratum), 3))
    passed[public, 0] = np.minimum(20, passed[public, 0] + round(20 * gap))
    fraction = passed / 20
    score = np.clip(fraction + 0.05 * stream.standard_normal(fraction.shape), 0, 1)
    return np.stack([score, fraction], axis=-1), stratum, public


def _rows(
    values: NDArray[np.float64], stratum: NDArray[np.int64], public: NDArray[np.bool_]
) -> list[ResultRow]:
    return [
        _row("xy"[stratum[i]], f"{i:03}", f"m{m}", 0, bool(public[i]), values[i, m])
        for i in range(len(values))
        for m in range(values.shape[1])
    ]


def _pilot_rows(truth: Components, instances: int, models: int, runs: int) -> list[ResultRow]:
    stream = np.random.default_rng(11)
    everyone, own, run = truth.parts

    def drawn() -> NDArray[np.float64]:
        first, second = stream.standard_normal(2).tolist()
        r = truth.correlation
        other = r * first + math.sqrt(1 - r * r) * second
        return np.array([first * truth.sd[0], other * truth.sd[1]])

    rows = []
    for i in range(instances):
        shared = np.sqrt(everyone) * drawn()
        for m in range(models):
            kept = shared + np.sqrt(own) * drawn()
            for r in range(runs):
                value = np.clip(0.5 + 0.02 * m + kept + np.sqrt(run) * drawn(), 0, 1)
                rows.append(_row("xy"[i % 2], f"{i:03}", f"m{m}", r, i % 4 < 2, value))
    return rows


def _row(
    stratum: str, instance: str, model: str, replicate: int, public: bool,
    value: NDArray[np.float64],
) -> ResultRow:  # fmt: skip
    return make_row(
        model=model, arm=Arm.PUBLIC if public else Arm.PRIVATE, stratum=stratum, instance=instance,
        replicate=replicate, score=float(value[0]), passed=round(float(value[1]) * 1000),
        total=1000, cost_usd=0.25,
    )  # fmt: skip
