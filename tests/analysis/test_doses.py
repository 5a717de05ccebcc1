"""What models show that were trained at known doses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from statsmodels.stats.contingency_tables import Table

from analysis.doses import DosedModel, DoseResponse, area_under_curve, dose_response
from analysis.plan import CONTAMINATED, basic_plan
from analysis.stats import cochran_armitage

N = 200  # instances an arm
PUBLIC = np.arange(2 * N) < N
BITS = np.tile([7.0, 7.5, 8.0, 8.2, 8.3], 2 * N // 5)
PLAN = basic_plan(("order_statistics/easy",), N, looks=1, permutations=999)


def model(
    name: str, dose: int | None, shares: tuple[float, float], copies: np.ndarray | None = None
) -> DosedModel:
    """A model with these shares of right answers, public and private, spread over key sizes."""
    right = np.zeros(2 * N)
    for arm, share in zip((PUBLIC, ~PUBLIC), shares, strict=True):
        places = np.flatnonzero(arm)
        right[places[: round(share * N)]] = 1
    given = np.where(PUBLIC, dose or 0, 0) if copies is None else copies
    verdict = CONTAMINATED if shares[0] - shares[1] > 0.1 else None
    return DosedModel(name, dose, given, right, verdict, {"answer": right + PUBLIC})


def response(*models: DosedModel) -> DoseResponse:
    return dose_response(PLAN, models, PUBLIC, BITS, 7)


def test_the_trend_is_statsmodels_up_to_its_finite_correction() -> None:
    right, total, dose = [10, 14, 30, 41], [40, 45, 50, 52], [0, 1, 4, 16]
    z, p = cochran_armitage(right, total, dose)
    table = np.array([[t - r for r, t in zip(right, total, strict=True)], right])
    peer = Table(table).test_ordinal_association(np.array([0, 1]), np.array(dose))
    count = sum(total)
    assert z == pytest.approx(peer.zscore * np.sqrt(count / (count - 1)), rel=1e-9)
    assert p == pytest.approx(norm.sf(z), rel=1e-9)


@pytest.mark.parametrize("right", [[0, 0, 0], [5, 5, 5]])
def test_a_trend_of_like_answers_is_none(right: list[int]) -> None:
    assert cochran_armitage(right, [5, 5, 5], [0, 1, 2]) == (0.0, 0.5)


def test_models_are_compared_by_dose() -> None:
    made = response(
        model("a", 0, (0.6, 0.6)), model("b", 0, (0.62, 0.58)), model("c", 4, (0.9, 0.5))
    )
    clean, dosed = made.rows
    assert (clean.dose, clean.public.mean, clean.private.mean) == (0, 0.61, 0.59)
    assert clean.gap == pytest.approx(0.02)
    assert (clean.found, clean.tested, dosed.found, dosed.tested) == (0, 0, 1, 1)
    assert dosed.interval[0] < dosed.gap < dosed.interval[1]
    assert dosed.private_rise == pytest.approx(-0.09)
    assert clean.private_rise is None
    # Two models on the same instances are no two samples: the interval is that of 200.
    low, high = clean.public.interval
    assert 0.12 < high - low < 0.15


def test_limits_are_those_of_the_clean_models_and_are_reached_between_doses() -> None:
    made = response(model("a", 0, (0.5, 0.5)), model("b", 8, (0.9, 0.5)))
    error = (2 * 0.25 / (N - 1)) ** 0.5
    assert made.blank == pytest.approx(1.645 * error)
    assert made.limit == pytest.approx(3.29 * error)
    assert made.dose_at_limit == pytest.approx(8 * made.limit / 0.4)
    assert response(model("b", 8, (0.9, 0.5))).limit is None
    assert response(model("a", 0, (0.5, 0.5)), model("b", 8, (0.6, 0.5))).dose_at_limit is None


def test_power_rises_with_the_instances_and_is_that_of_the_plans_rule() -> None:
    made = response(model("a", 2, (0.75, 0.5)))
    powers = {each.instances: each.found for each in made.rows[0].by_size}
    assert list(powers) == [50, 100, 200]
    assert powers[50] < powers[100] < powers[200] == 1
    # By formula: (0.25 / SE - 1.96), SE with the finite population of 200 left out of account.
    assert 0.5 < powers[50] < 0.95


def test_missing_answers_are_left_out_and_are_not_zero() -> None:
    whole = model("a", 1, (0.8, 0.6))
    right = whole.right.copy()
    right[N - 20 : N] = np.nan  # of wrong public answers
    lost = DosedModel("a", 1, whole.copies, right, None, {})
    (row,) = response(lost).rows
    assert row.public.instances == N - 20
    assert row.public.mean == pytest.approx(160 / 180)
    assert [each.instances for each in row.by_size] == [50, 100]


def test_gaps_stand_by_groups_of_key_size() -> None:
    right = np.where(PUBLIC & (BITS < 7.8), 1.0, 0.0)
    (row,) = response(DosedModel("a", 1, PUBLIC * 1, right, None, {})).rows
    assert [(each.group, each.bits, each.gap) for each in row.by_key] == [
        ("low", pytest.approx(7.25), 1.0),
        ("middle", pytest.approx(8.1), 0.0),
        ("high", pytest.approx(8.3), 0.0),
    ]


def test_probes_have_areas_and_needed_instances() -> None:
    (row,) = response(model("a", 4, (0.9, 0.5))).rows
    by_name = {probe.probe: probe for probe in row.probes}
    assert by_name["right answers"].auc == pytest.approx(0.5 + 0.4 / 2)
    variance = (0.9 * 0.1 + 0.25) * N / (N - 1)
    assert by_name["right answers"].instances == np.ceil(6.1826 * variance / 0.16)
    assert by_name["answer"].auc > by_name["right answers"].auc
    (clean,) = response(model("a", 0, (0.5, 0.6))).rows
    assert clean.probes[0].instances is None


def test_the_area_counts_ties_half() -> None:
    assert area_under_curve(np.array([1.0, 2.0]), np.array([1.0, 0.0])) == 0.875


def test_a_mixed_model_has_a_trend_and_no_row() -> None:
    copies = np.where(PUBLIC, np.resize([0, 2, 8], 2 * N), 0)
    right = np.where(copies == 8, 1.0, np.arange(2 * N) % 2)
    mixed = DosedModel("mixed-1", None, copies, right, CONTAMINATED, {})
    made = response(mixed)
    assert made.rows == ()
    (trend,) = made.trends
    assert trend.doses == (0, 2, 8)
    assert trend.instances == (67, 67, 66)
    assert trend.right[2] == 66
    assert trend.z > 5
    assert trend.private.instances == N
