"""Many studies at once get the verdicts that the plan gives to the table of each."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.data.table import check_table
from analysis.plan import CONTAMINATED, NO_INFLATION
from analysis.plan.standard import run_standard
from analysis.stats import permutation_seed
from benchmarks.statistics.mixed_strata import Model, draw_panel, run_model
from benchmarks.statistics.planned_studies import (
    ModelRuns,
    as_table,
    controls_at,
    decide_look,
    draw_controls,
    make_plan,
    pool_controls,
)

GAPS = (0.0, 0.0, 0.25)


@pytest.mark.parametrize("lost", [0.0, 0.03])
def test_many_studies_at_once_get_the_plans_own_verdicts(lost: float) -> None:
    stream = np.random.Generator(np.random.PCG64(11))
    plan, panel = make_plan(60, permutations=399), draw_panel(60, 4, stream)
    controls = draw_controls(panel, stream)
    tested = [run_model(panel, Model("m", gap=gap), stream) for gap in GAPS]
    for runs in tested:
        runs.outcomes[stream.random(runs.failed.shape) < lost] = np.nan
    values = np.stack([runs.means for runs in tested], axis=2)
    seed = permutation_seed("sha256:x", "1")
    decided = decide_look(plan, panel, values, pool_controls(controls), seed)
    seen = set()
    for study in range(4):
        parts = [ModelRuns(1, f"m{place}", runs) for place, runs in enumerate(tested)]
        table = check_table(as_table(panel, study, [*controls_at(0, controls), *parts]), "study")
        result = run_standard(plan, table, "sha256:x")
        for place, verdict in enumerate(result.verdicts):
            seen.add(verdict.verdict)
            assert (verdict.verdict == CONTAMINATED) == decided.contaminated[study, place]
            if not lost:  # else missing runs may undo a clearing
                assert (verdict.verdict == NO_INFLATION) == decided.cleared[study, place]
                ends = decided.low[study, place], decided.high[study, place]
                assert result.looks[0].results[place].outcomes[0].interval == pytest.approx(ends)
    assert CONTAMINATED in seen
    assert len(seen) > 1
