"""Places of findings in the figure."""

from __future__ import annotations

from itertools import pairwise

import pytest

from analysis.plan.verdict import Verdict, Word
from study.extras.site.chart import FOOT, HIGH, TOP, Chart, draw_chart
from study.extras.site.rows import INSTANCE, Row


def row(released: str = "", gap: float | None = 0.1, spread: float = 0.05, name: str = "m") -> Row:
    found = Verdict(
        model=name,
        wave=1,
        verdict=Word("contaminated"),
        estimate=gap,
        interval=((gap or 0.0) - spread, (gap or 0.0) + spread),
        n_public=9,
        n_private=9,
        alpha=0.01,
        upper=(gap or 0.0) + spread,
        se=0.02,
    )
    about = {"study": "s", "maker": "", "label": "", "since": "", "words": "", "margin": 0.05}
    return Row(**about, level=INSTANCE, kind="unsure", released=released, found=found)


def drawn(*rows: Row) -> Chart:
    chart = draw_chart(rows, 0.05, lambda row: row.found.model)
    assert chart is not None
    return chart


def test_a_larger_gap_stands_higher_and_all_stand_inside() -> None:
    chart = drawn(row(gap=-0.9, spread=0.4), row(gap=0.0), row(gap=0.95, spread=0.4))
    low, middle, high = (mark.y for mark in chart.marks)
    assert high < middle == chart.zero < low
    ends = [end for mark in chart.marks for end in mark.ends]
    assert all(TOP <= end <= HIGH - FOOT for end in ends)
    assert chart.margin < chart.zero
    assert len(chart.lines) <= 8


def test_dates_run_from_left_to_right_and_none_stands_at_the_end() -> None:
    chart = drawn(row("2029-12-01"), row("2029-01-01"), row(), row("2029-06-15"))
    late, early, undated, middle = (mark.x for mark in chart.marks)
    assert early < middle < late < chart.undated < undated
    assert [text for _, text in chart.ticks] == ["Jan 2029", "Jul 2029"]


def test_without_dates_they_stand_in_their_order() -> None:
    chart = drawn(*(row(name=f"m-{number}") for number in range(5)))
    places = [mark.x for mark in chart.marks]
    assert places == sorted(places)
    assert (chart.ticks, chart.undated) == ((), None)


@pytest.mark.parametrize("count", [2, 30, 200])
def test_models_of_one_day_do_not_hide_each_other(count: int) -> None:
    places = sorted(mark.x for mark in drawn(*[row("2029-01-01")] * count).marks)
    assert all(later - sooner > 0.3 for sooner, later in pairwise(places))
    assert 0 <= places[0] <= places[-1] <= 100


def test_labels_stand_only_where_there_is_room() -> None:
    crowd = drawn(*(row("2029-01-01", name=f"model-{number}") for number in range(30)))
    assert 0 < sum(bool(mark.label) for mark in crowd.marks) < 5
    alone = drawn(row("2029-01-01", name="one"), row("2029-02-01", name="two"))
    assert [mark.label for mark in alone.marks] == ["one", "two"]


def test_a_finding_without_a_gap_is_not_drawn() -> None:
    assert len(drawn(row(), row(gap=None)).marks) == 1
    assert draw_chart([row(gap=None)], 0.05, str) is None


def test_limits_of_a_finding_follow_from_its_spread() -> None:
    found = row(gap=0.0, spread=0.1)
    assert found.significant == pytest.approx(2.3263 * 0.02, abs=1e-5)
    assert found.detectable == pytest.approx((2.3263 + 0.8416) * 0.02, abs=1e-5)
    assert found.size_to_clear == 40  # of 9, at half the spread: four times as many
    assert row(spread=0.04).size_to_clear is None
