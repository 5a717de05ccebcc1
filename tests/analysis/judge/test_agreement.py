"""Agreement and error rates against numbers of textbooks, and of statsmodels."""

from __future__ import annotations

import pytest

from analysis.errors import AnalysisError
from analysis.judge.error_rates import Judged, cohen_kappa, measure_judge


def table(yes_yes: int, yes_no: int, no_yes: int, no_no: int) -> tuple[list[bool], list[bool]]:
    first = [True] * (yes_yes + yes_no) + [False] * (no_yes + no_no)
    second = [True] * yes_yes + [False] * yes_no + [True] * no_yes + [False] * no_no
    return first, second


@pytest.mark.parametrize(
    ("cells", "kappa"),
    [((20, 5, 10, 15), 0.4), ((45, 15, 25, 15), 0.1304), ((25, 35, 5, 35), 0.2593)],
)
def test_kappa_is_that_of_textbooks(cells: tuple[int, int, int, int], kappa: float) -> None:
    assert cohen_kappa(*table(*cells)) == pytest.approx(kappa, abs=5e-5)


def test_kappa_is_that_of_statsmodels() -> None:
    from statsmodels.stats.inter_rater import cohens_kappa

    other = cohens_kappa([[31, 7], [12, 50]], return_results=False)
    assert cohen_kappa(*table(31, 7, 12, 50)) == pytest.approx(other, abs=1e-12)


def test_agreement_of_nothing_or_of_one_value_is_unknown() -> None:
    assert cohen_kappa([None, True], [True, None]) is None
    assert cohen_kappa([True, True], [True, True]) is None
    assert cohen_kappa([True, False, None], [True, False, True]) == 1
    with pytest.raises(AnalysisError):
        cohen_kappa([True], [True, False])


def test_rates_are_of_what_was_graded_and_wider_where_criteria_share_a_sheet() -> None:
    def judged(sheets: int, each: int) -> list[Judged]:
        return [
            Judged(f"s{sheet}", "t", "SR", "correct", sheet % 2 == 0, sheet % 4 < 2)
            for sheet in range(sheets)
            for _ in range(each)
        ]

    alone, shared = (measure_judge(judged(*form))[0] for form in ((400, 1), (40, 10)))
    assert alone.sensitivity.mean == shared.sensitivity.mean == 0.5
    assert alone.sensitivity.answers == shared.sensitivity.answers == 200
    low, high = alone.sensitivity.interval or (0, 0)
    assert (low, high) == pytest.approx((0.4314, 0.5686), abs=2e-3)
    wide = shared.sensitivity.interval or (0, 0)
    assert wide[1] - wide[0] > 2.5 * (high - low)


def test_a_verdict_that_cannot_be_read_is_right_in_no_rate() -> None:
    judged = [
        Judged("s", "t", "SR", "correct", True, True),
        Judged("s", "t", "SR", "correct", True, None),
        Judged("u", "t", "DH", "injected", False, True),
    ]
    found = {(each.by, each.group): each for each in measure_judge(judged)}
    assert (found["", ""].sensitivity.mean, found["", ""].parsed.mean) == (0.5, 2 / 3)
    assert found["style", "injected"].parsed.mean == 1.0
    assert found["style", "injected"].specificity.mean == 0.0
    assert found["style", "injected"].sensitivity.mean is None
    assert set(found) == {
        ("", ""), ("task", "t"), ("dimension", "SR"), ("dimension", "DH"),
        ("style", "correct"), ("style", "injected"),
    }  # fmt: skip
