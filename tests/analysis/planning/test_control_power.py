"""What C1 withholds of clean studies: by the plan's own rule, as often as a formula says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.data.table import make_table
from analysis.plan.look import analyse
from analysis.plan.negative_controls import control_settings
from analysis.plan.presets import standard_plan
from analysis.plan.verdict import WITHHELD
from analysis.planning.control_power import (
    TARGET,
    NegativeControls,
    Remedy,
    apply_controls,
    find_models,
    find_seeds,
    withheld_by_formula,
    withheld_rate,
)
from analysis.planning.power import PowerDesign, PowerSetting, SimulationSize, power_at
from analysis.planning.variance_components import (
    ARTICLE,
    Components,
    allocation,
    draw_columns,
    draw_shared,
)
from registry.ledger.records import Plan
from registry.result_row import Arm, ResultRow, Status

BEFORE = ("b1", "b2", "b3", "b4")
FOUR = NegativeControls(BEFORE)
RERUN = NegativeControls(BEFORE, ("b1",))


def _plan(seeds: int, strata: int = 4, margin: float = 0.05) -> Plan:
    names = [f"s{h}" for h in range(strata)]
    return standard_plan(
        names, seeds, pre_exposure=BEFORE, frozen=("b1",), permutations=999, enumerate_up_to=0,
        sensitivity=(), control_margin=margin,
    )  # fmt: skip


def test_withheld_is_what_the_analysis_withholds() -> None:
    """The same scores as rows of a baseline wave and a look."""
    plan = _plan(8, strata=2, margin=0.062)
    stratum, public = allocation(plan)
    stream = np.random.default_rng(9)
    components = replace(ARTICLE, sd=(0.15, 0.12))
    shared = draw_shared(components, 2, (len(stratum), 6), stream)
    values = 0.5 + draw_columns(components, shared, RERUN.columns, 1, stream)
    values = np.round(values, 3).clip(0, 1)
    ours = apply_controls(RERUN, values, stratum, public, control_settings(plan, 1))
    theirs, widths = [], []
    for b in range(values.shape[1]):
        found = analyse(plan, make_table(_rows(values[:, b], stratum, public)), "sha256:x")
        assert found.standard is not None
        theirs.append({v.verdict for v in found.standard.verdicts} == {WITHHELD})
        intervals = [c.interval90 for c in found.standard.controls if c.kind == "C1"]
        widths.append(max((high - low) / 2 for low, high in filter(None, intervals)))
    assert ours.withheld.tolist() == theirs
    assert 0 < sum(theirs) < 6
    assert ours.half_width == pytest.approx(widths)


@pytest.mark.parametrize(
    ("controls", "seeds", "components"),
    [
        (FOUR, 16, ARTICLE), (NegativeControls((), ("f",)), 96, ARTICLE),
        (RERUN, 48, Components(ARTICLE.sd, 0.5, 0.87, 0.79)),
    ],
)  # fmt: skip
def test_the_formula_says_what_is_simulated(
    controls: NegativeControls, seeds: int, components: Components
) -> None:
    plan = _plan(seeds)
    rate, error = _rate(plan, components, controls)
    formula = withheld_by_formula(plan, components, controls)
    assert rate == pytest.approx(formula, abs=3.5 * error + 0.01)
    assert 0.1 < formula < 0.9


def test_one_control_of_a_small_study_never_passes() -> None:
    rate, _ = _rate(_plan(16), ARTICLE, NegativeControls(("b1",)))
    assert rate == 1


def test_power_tells_what_is_left() -> None:
    """Nothing is lost but what is withheld, whether a covariate is made of the controls or not."""
    for runs in (0, RERUN.runs(1)):
        setting = PowerSetting(gap=0.2, covariate_runs=runs, controls=RERUN)
        found = power_at(
            PowerDesign(_plan(16), ARTICLE, setting), SimulationSize(100, 319), study=False
        )
        assert found.withheld is not None
        assert found.issued is not None
        assert found.withheld == pytest.approx(0.77, abs=0.13)
        assert found.power > 0.6
        assert found.issued == pytest.approx(found.power * (1 - found.withheld), abs=0.08)
        assert 0.038 < (found.half_width or 0) < 0.043


def test_more_seeds_or_more_models_are_found_that_help() -> None:
    seeds = _find(find_seeds, _plan(16), ARTICLE)
    models = _find(find_models, _plan(16), ARTICLE)
    assert seeds is not None
    assert models is not None
    assert 45 <= seeds.count <= 65
    assert 14 <= models.count <= 25
    for each in (seeds, models):
        assert each.withheld <= TARGET + 2 * each.error


def test_what_no_number_helps_is_none() -> None:
    hard = _plan(16, margin=0.0005)
    assert _find(find_seeds, hard, ARTICLE) is None
    shared = Components(ARTICLE.sd, 0.9, 1.0, 0.79)  # what models share, more of them do not free
    assert _find(find_models, _plan(16), shared) is None


def test_a_frozen_model_adds_to_the_covariate_if_it_is_from_before() -> None:
    assert (RERUN.runs(2), RERUN.covariate) == (10, (0, 1, 2, 3, 4))
    assert NegativeControls(BEFORE, ("other",)).runs(1) == 4
    assert RERUN.models == pytest.approx(25 / 7)


def _rate(plan: Plan, components: Components, controls: NegativeControls) -> tuple[float, float]:
    return withheld_rate(plan, components, controls, SimulationSize(160, 99, 3))


def _find(find: Callable[..., Remedy | None], plan: Plan, components: Components) -> Remedy | None:
    return find(plan, components, RERUN, SimulationSize(100, 99, 3))


def _rows(
    values: NDArray[np.float64], stratum: NDArray[np.int64], public: NDArray[np.bool_]
) -> list[ResultRow]:
    """The controls' scores, the last one's at the look, beside a new model's."""
    rows = []
    for i in range(len(values)):
        for place, name in enumerate(RERUN.columns):
            rows.append(_row(int(place == 4), name, i, stratum, public, values[i, place]))
        rows.append(_row(1, "new", i, stratum, public, np.array([0.5 + (i % 3) / 9, 0.5])))
    return rows


def _row(
    wave: int, model: str, i: int, stratum: NDArray[np.int64], public: NDArray[np.bool_],
    value: NDArray[np.float64],
) -> ResultRow:  # fmt: skip
    return ResultRow(
        wave=wave, model=model, arm=Arm.PUBLIC if public[i] else Arm.PRIVATE,
        stratum=f"s{stratum[i]}", family="s", difficulty="", instance=f"{i:03}", replicate=0,
        grader="deterministic", status=Status.SCORED, score=float(value[0]),
        passed=round(float(value[1]) * 1000), total=1000, score_sr=None, score_dh=None,
        score_im=None, score_if=None, stop_reason="final", error_class="", limits_hit="",
        turns=1, tool_calls=0, input_tokens=None, output_tokens=None, cost_usd=None, seconds=1.0,
        attempts=1, served_version="v",
    )  # fmt: skip
