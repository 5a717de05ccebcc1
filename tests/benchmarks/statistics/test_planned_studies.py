"""Many studies at once get the verdicts that the plan gives to the table of each."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.data.table import check_table
from analysis.plan.standard import run_standard
from analysis.plan.verdict import CONTAMINATED, NO_INFLATION
from analysis.stats.permutation import permutation_seed
from benchmarks.statistics import planned_studies as planned
from benchmarks.statistics.mixed_strata import Model, draw_panel, run_model

GAPS = (0.0, 0.0, 0.25)


@pytest.mark.parametrize("lost", [0.0, 0.03])
def test_many_studies_at_once_get_the_plans_own_verdicts(lost: float) -> None:
    stream = np.random.Generator(np.random.PCG64(11))
    plan, panel = planned.make_plan(60, permutations=399), draw_panel(60, 4, stream)
    controls = planned.draw_controls(panel, stream)
    tested = [run_model(panel, Model("m", gap=gap), stream) for gap in GAPS]
    for runs in tested:
        runs.outcomes[stream.random(runs.failed.shape) < lost] = np.nan
    values = np.stack([runs.means for runs in tested], axis=2)
    seed = permutation_seed("sha256:x", "1")
    control = np.stack([runs.means for runs in controls], axis=2)
    decided = planned.decide_look(plan, panel, values, control, seed)
    bounds = planned.estimate_ends(panel, values, control, 0.025)
    low, high = (ends.reshape(decided.cleared.shape) for ends in bounds)
    seen = set()
    for study in range(4):
        parts = [planned.ModelRuns(1, f"m{place}", runs) for place, runs in enumerate(tested)]
        parts = [*planned.controls_at(0, controls), *parts]
        table = check_table(planned.as_table(panel, study, parts), "study")
        result = run_standard(plan, table, "sha256:x")
        for place, verdict in enumerate(result.verdicts):
            seen.add(verdict.verdict)
            assert (verdict.verdict == CONTAMINATED) == decided.contaminated[study, place]
            if not lost:  # else missing runs may undo a clearing
                assert (verdict.verdict == NO_INFLATION) == decided.cleared[study, place]
                ends = low[study, place], high[study, place]
                assert result.looks[0].results[place].outcomes[0].interval == pytest.approx(ends)
    assert CONTAMINATED in seen
    assert len(seen) > 1
