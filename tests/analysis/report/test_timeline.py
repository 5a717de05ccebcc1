"""The axis of the figure over time."""

from __future__ import annotations

import warnings

import pytest
from matplotlib.figure import Figure

from analysis.report.figures.timeline import _time_axis


@pytest.mark.parametrize("days", [41, 200, 700, 915, 1300, 1900, 4000])
def test_an_axis_of_dates_has_a_few_without_a_warning(days: int) -> None:
    axes = Figure().add_axes((0, 0, 1, 1))
    axes.set_xlim(20_000, 20_000 + days)
    _time_axis(axes, dated=True)
    with warnings.catch_warnings(action="error"):
        assert 1 <= sum(20_000 <= tick <= 20_000 + days for tick in axes.get_xticks()) <= 6
