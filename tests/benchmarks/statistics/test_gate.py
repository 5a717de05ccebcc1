"""The quick gate: on scores that the plan was not written against it keeps its promises and finds
a leak; analyses that break its rules do not keep theirs. docs/statistics.md has the tables."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.statistics.borders import (
    count_clearing,
    count_placebos,
    count_tables,
    count_unequal,
    count_units,
)
from benchmarks.statistics.jobs import CLEARING, NOTHING_LOST, UNEVENLY_LOST
from benchmarks.statistics.trials import (
    Look,
    count_control_loss,
    count_coverage,
    count_looks,
    count_one_model,
    count_selective_loss,
    count_verdicts,
    count_wrong_units,
)

STUDIES = 200
WIDE = 1e-4  # of each tail that a right rate leaves


def _stream(name: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([ord(letter) for letter in name]))


def _most(rate: float, of: int = STUDIES) -> float:
    """The largest count that a rate makes."""
    return float(binom.ppf(1 - WIDE, of, rate))


def test_a_claim_holds_its_level_and_its_interval_the_truth() -> None:
    clean = count_one_model(16, 0.0, NOTHING_LOST, STUDIES, _stream("clean"))
    assert binom.ppf(WIDE, STUDIES, 0.025) <= clean["plan"] <= _most(0.025)
    ends = count_coverage(16, 0.0, NOTHING_LOST, STUDIES, _stream("clean"))
    assert max(STUDIES - ends["coverage"], ends["above the bound"]) <= _most(0.05)
    lost = count_one_model(16, 0.0, UNEVENLY_LOST, STUDIES, _stream("lost"))
    assert lost["contaminated"] <= lost["plan"] <= _most(0.025)


def test_a_leak_of_ten_points_is_found_about_as_often_as_by_an_oracle() -> None:
    leak = count_one_model(64, 0.10, NOTHING_LOST, 100, _stream("leak"))
    assert leak["contaminated"] >= 75
    assert leak["plan"] >= leak["oracle"] - 10
    eight = count_verdicts(Look(64, 8, (0.10, 0.0, 0.0)), 100, _stream("eight"))
    assert 30 <= eight["contaminated"] < leak["contaminated"]


def test_a_fault_that_models_share_makes_no_claim_but_without_calibration() -> None:
    rates = {
        kind: count_looks(16, 0.05, kind, 50, _stream("fault"))
        for kind in ("plan", "fitted slope", "uncalibrated")
    }
    most = _most(0.025, 50)
    assert max(rates["plan"]["models"], rates["plan"]["study"]) <= most
    assert rates["uncalibrated"]["study"] > rates["fitted slope"]["study"] > most


def test_lost_runs_and_a_gap_above_the_margin_are_not_taken_lightly() -> None:
    for count, studies in ((count_selective_loss, 100), (count_control_loss, 12)):
        lost = count(64, studies, _stream("selective"))
        assert lost["contaminated"] <= _most(0.05, studies) < lost["at random"]
    for look in CLEARING[:2]:
        assert count_verdicts(look, 100, _stream("above"))["any cleared"] <= _most(0.05, 100)


def test_units_that_are_none_raise_false_alarms() -> None:
    hits = count_wrong_units(STUDIES, _stream("units"))
    assert hits["plan"] <= _most(0.025) < hits["runs"]
    assert hits["criteria"] > 0.1 * STUDIES


ALL, ONE, NONE = (0.2,) * 5, (0.6, 0.0, 0.0, 0.0, 0.2), (0.0,) * 5


@pytest.mark.parametrize(
    ("count", "of", "most"),
    [
        (partial(count_clearing, ALL, 0.0, 4, 128), 100, 0.003),
        (partial(count_clearing, ONE, 0.0, 4, 128), 100, 0.003),
        (partial(count_clearing, NONE, 0.9, 12, 64), 100, 0.003),
        (partial(count_unequal, (20, 1), (200, 5)), 100, 0.03),
        (partial(count_units, 20, 1.5), 60, 0.03),
        (partial(count_placebos, 8, 3.0), 100, 0.03),
        *((partial(count_tables, case), 3, 0.003) for case in ("absent, clean", "tiny stratum")),
        *((partial(count_tables, case), 2, 0.003) for case in ("no answers", "by time")),
    ],
)
def test_a_word_that_the_data_do_not_carry_is_not_said(count, of: int, most: float) -> None:
    hits = count(of, _stream("word"))
    assert hits["with"] <= _most(most, of)
    assert hits["without"] > hits["with"] or of == 2


def test_what_guards_a_word_costs_little_where_it_is_true() -> None:
    clean = count_clearing(NONE, 0.0, 4, 128, 200, _stream("true"))
    assert clean["with"] >= clean["without"] - 0.05 * 200 > 50
    assert count_tables("by time, leaking", 2, _stream("time"))["with"] == 2
