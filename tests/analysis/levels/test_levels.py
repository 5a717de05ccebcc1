"""Levels on tables of a process of our own: units that differ for each model, instances, runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.data.import_file import read_result_file
from analysis.data.table import make_table
from analysis.errors import AnalysisError
from analysis.levels.levels import LevelLook, LevelVerdict, level_verdicts, measured_tau
from analysis.levels.part import levels_part
from analysis.levels.power import LevelDesign, level_power
from analysis.plan.history import NO_HISTORY, WaveHistory
from analysis.plan.presets import standard_plan
from registry.ledger.draw_records import FAMILY, VARIANT, Unit
from registry.ledger.records import Plan
from registry.result_row import Arm
from tests.analysis.conftest import make_row
from tests.cases import cases

EARLY = tuple(f"early-{n}" for n in range(4))
PLAN = replace(
    standard_plan(("a",), 8, pre_exposure=EARLY, looks=1, permutations=999, sensitivity=()),
    level_alpha=0.025,
)
PAIRS = [f"p{n:02}{side}" for n in range(9) for side in "ab"]
ALONE = [f"u{n:02}" for n in range(11)]
UNITS = (
    *(Unit(name, VARIANT, name[:-1], (f"{name}/easy",)) for name in PAIRS),
    *(Unit(name, FAMILY, "all", (f"{name}/easy",)) for name in ALONE),
)
OUT = {*PAIRS[::2], *ALONE[::2]}  # published


def look_at(seed: int, gap: float = 0.0, tau: float = 0.05, fresh: int = 1) -> LevelLook:
    """Nine pairs and eleven units, of which the published ones raise the models under test by a
    gap; each unit has an effect of its own on each model, with heavy tails."""
    random, rows = np.random.default_rng(seed), []
    for unit in UNITS:
        for model in (*EARLY, *(f"new-{n}" for n in range(fresh))):
            new = not model.startswith("early")
            effect = tau * random.standard_t(5) * np.sqrt(3 / 5)
            level = 0.5 + effect + gap * (new and unit.name in OUT)
            for n in range(random.integers(6, 12)):
                score = float(np.clip(random.normal(level, 0.1), 0, 1))
                named = {"stratum": unit.strata[0], "instance": f"{unit.name}/{n}", "model": model}
                rows.append(make_row(**named, wave=int(new), score=score, arm=Arm.PRIVATE))
    return LevelLook(make_table(rows), UNITS, OUT, f"sha256:{seed}", NO_HISTORY)


def found(look: LevelLook, plan: Plan = PLAN) -> dict[str, LevelVerdict]:
    return {each.level: each for each in level_verdicts(plan, look)}


def test_published_units_that_raise_scores_are_found_and_named() -> None:
    verdicts = level_verdicts(PLAN, look_at(1, gap=0.3, fresh=2))
    assert all(0.2 < (each.verdict.estimate or 0) < 0.4 for each in verdicts)
    assert levels_part(verdicts, (), 0.05, {}).headline == cases(__file__, "headline")


def test_too_few_units_and_models_that_differ_too_much_are_not_tested() -> None:
    look = look_at(2, gap=0.3)
    few = found(replace(look, units=[*UNITS[:8], *UNITS[-6:]]))
    whys = [each.why for each in few.values()]
    assert whys[0].startswith("the least p of 4 is 0.062, and a claim needs 0.025")
    assert whys[1].startswith("the least p of 6 is 0.05")
    apart = found(look_at(2, gap=0.3, tau=0.4))
    assert {each.finding for each in apart.values()} == {"cannot be tested"}
    assert "the control models differ over them by 0." in apart[FAMILY].why


def test_what_a_provider_kept_or_was_revealed_excludes_nothing_and_may_still_be_found() -> None:
    quiet, wide = look_at(3, tau=0.005), replace(PLAN, margin=0.1)
    assert found(quiet, wide)[VARIANT].finding == "excluded"
    sent = {(1, "new-0"): {0}}
    assert found(replace(quiet, kept=sent), wide)[VARIANT].finding == "not shown"
    later = replace(quiet, kept=sent, units=[replace(unit, tranche=1) for unit in UNITS])
    assert found(later, wide)[VARIANT].finding == "excluded"
    assert found(replace(look_at(1, gap=0.3), kept=sent))[VARIANT].finding == "shown"
    assert found(replace(quiet, revealed={1: UNITS[:1]}), wide)[VARIANT].finding == "not shown"


def test_looks_beyond_the_plan_lacking_units_and_withheld_verdicts_are_not_tested() -> None:
    look, history = look_at(1, gap=0.3), WaveHistory(dropped=frozenset({0}))
    assert "is beyond the 1 reg" in found(replace(look, history=history))[FAMILY].why
    kept = (look.table["model"] != "new-0") | (look.table["stratum"] != "p00a/easy")
    each = found(replace(look, table=look.table.where(kept)))[VARIANT]
    assert (each.finding, each.verdict.estimate) == ("cannot be tested", None)
    withheld = replace(look, withheld={(1, "new-0"): "a control failed"})
    assert {each.why for each in found(withheld).values()} == {"a control failed"}


PAIRED = "model,arm,stratum,unit,pair,instance,score\n"


def test_a_table_with_pairs_is_tested_within_them(tmp_path: Path) -> None:
    arms = ((f"p{n}", side, arm) for n in range(8) for side, arm in zip("ab", Arm, strict=True))
    rows = [f"m,{a},s,{p}{side},{p},{p}{side}{i},0.{i}" for p, side, a in arms for i in (4, 6)]
    (path := tmp_path / "table.csv").write_text(PAIRED + "\n".join(rows))
    assert {*read_result_file(path)["stratum"]} == {f"p{n}" for n in range(8)}
    for old, new, why in cases(__file__, "refused"):
        path.write_text((PAIRED + "\n".join(rows)).replace(old, new))
        with pytest.raises(AnalysisError, match=why):
            read_result_file(path)


def test_tau_is_measured_without_sampling_noise() -> None:
    looks = [measured_tau(look_at(seed, tau=0.03).table, UNITS, EARLY) for seed in range(12)]
    squares = [(tau or 0.0) ** 2 for look in looks for tau in look.values()]
    # Beside three others; the noise would make it 0.052.
    assert np.sqrt(np.mean(squares)) == pytest.approx(0.03 * np.sqrt(4 / 3), rel=0.2)


@pytest.mark.slow
def test_clean_models_are_called_at_the_level_over_the_models_of_a_look() -> None:
    studies = [found(look_at(seed, fresh=3)) for seed in range(200)]
    for level in (VARIANT, FAMILY):
        called = np.mean([study[level].verdict.p_adjusted <= 0.025 for study in studies])
        assert called <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / 200)


@pytest.mark.parametrize(("level", "units", "tau"), [(VARIANT, 48, 0.10), (FAMILY, 35, 0.10)])
def test_power_is_that_of_the_formula(level: str, units: int, tau: float) -> None:
    areas = tuple(f"a{n // 2}" if level == VARIANT else "all" for n in range(units))
    design = LevelDesign(0.267, 15, 4, 2, level=level, areas=areas, tau=tau)
    power = level_power(PLAN, design, 0.1)
    assert power.formula == pytest.approx(0.80 if level == VARIANT else 0.66, abs=0.05)
    assert power.power == pytest.approx(power.formula, abs=3 * power.error + 0.04)
