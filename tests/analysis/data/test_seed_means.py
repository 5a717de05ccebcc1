"""The seed is the unit; a failure is zero, and what is missing is not."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.data.seed_means import count_arms, make_seed_means
from analysis.data.table import make_table
from analysis.errors import AnalysisError
from registry.result_row import Arm, Status
from tests.cases import cases

pytestmark = pytest.mark.filterwarnings("error")

STRATUM = "count_circles/easy"


def test_replicates_are_averaged_failures_count_zero_and_missing_is_left_out(row):
    lost = {"status": Status.MISSING, "score": None, "passed": None, "total": None}
    failed = {"status": Status.MODEL_FAILURE, "score": 0.0, "passed": None, "total": None}
    table = make_table(
        [
            row(instance="a", score=0.8, passed=9),
            row(instance="a", replicate=1, **failed),
            row(instance="b", arm=Arm.PRIVATE, score=0.6, passed=3),
            row(instance="b", arm=Arm.PRIVATE, replicate=1, **lost),
            row(instance="c", arm=Arm.PRIVATE, **lost),
            row(instance="c", arm=Arm.PRIVATE, replicate=1, **lost),
        ]
    )
    means = make_seed_means(table, ("score", "fraction"), (STRATUM,), wave=0)
    assert means.public.tolist() == [True, False, False]
    np.testing.assert_allclose(means.values[:, 0], [[0.4, 0.45], [0.6, 0.3], [np.nan, np.nan]])
    public, private = sorted(count_arms(table), key=lambda count: count.arm, reverse=True)
    assert (public.scored, public.model_failure, public.missing) == (1, 1, 0)
    assert (private.scored, private.missing, private.seeds, private.seeds_dropped) == (1, 3, 1, 1)


def test_the_funnel_is_counted_row_by_row(lossy_rows):
    counts = count_arms(make_table(lossy_rows))
    cells = {(r.wave, r.model, r.arm) for r in lossy_rows}
    assert [(c.wave, c.model, c.arm) for c in counts] == sorted(cells)
    for c in counts:
        own = [r for r in lossy_rows if (r.wave, r.model, r.arm) == (c.wave, c.model, c.arm)]
        seen = {r.instance for r in own if r.status != Status.MISSING}
        by = [sum(r.status == s for r in own) for s in Status]
        assert [c.scored, c.model_failure, c.missing] == by
        assert (c.seeds, c.seeds_dropped) == (len(seen), len({r.instance for r in own} - seen))


def test_no_rows_have_no_funnel(study_rows):
    table = make_table(study_rows)
    assert count_arms(table.where(table["wave"] > 9)) == ()


def test_the_order_of_rows_does_not_matter(study_rows):
    forward = make_seed_means(make_table(study_rows), ("score",), (STRATUM,), wave=1)
    backward = make_seed_means(make_table(study_rows[::-1]), ("score",), (STRATUM,), wave=1)
    np.testing.assert_array_equal(forward.values, backward.values)
    np.testing.assert_array_equal(forward.public, backward.public)


def test_a_stratum_with_one_arm_is_refused(row):
    table = make_table([row(instance="a"), row(instance="b")])
    with pytest.raises(AnalysisError, match=r"wave 0, stratum 'count_circles/easy': .*public arm"):
        make_seed_means(table, ("score",), (STRATUM,), wave=0)


@pytest.mark.parametrize(("outcome", "columns", "bare"), cases(__file__, "outcomes"))
def test_a_registered_outcome_is_in_every_scored_row_or_refused(row, outcome, columns, bare):
    full = {"key_fraction": 0.25, "gate_free": 0.75}
    rows = [row(**full, **bare), row(instance="b", arm=Arm.PRIVATE, **full)]
    if outcome != "fraction":
        held = make_seed_means(make_table(rows), ("score", outcome), (STRATUM,), wave=0)
        assert set(held.values[:, 0, 1]) == {full[columns]}
        rows[0] = row()
    said = f"'{outcome}' needs {columns} in every scored row, and 1 lack it, .*{STRATUM}"
    with pytest.raises(AnalysisError, match=said):
        make_seed_means(make_table(rows), ("score", outcome), (STRATUM,), wave=0)
