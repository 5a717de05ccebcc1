"""A look's rule on many studies at once says of each what the plan's own test says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from analysis.data.seed_means import SeedMeans, make_seed_means
from analysis.data.table import ResultTable, make_table
from analysis.plan.presets import standard_plan
from analysis.plan.primary import ModelScores, Studies, detect, look_data, primary_rule, run_tests
from analysis.plan.verdict import CONTAMINATED
from analysis.stats.permutation import permutation_seed
from registry.ledger.records import Plan
from registry.result_row import Arm, ResultRow, Status
from tests.analysis.conftest import make_row

if TYPE_CHECKING:
    from analysis.plan.primary import PrimaryResult  # its name begins as a test's would

pytestmark = pytest.mark.filterwarnings("error")

STRATA = ("h0/easy", "h1/hard")
MODELS = ("m0", "m1", "m2", "m3")
REGISTRATION = "sha256:r"
SEED = permutation_seed(REGISTRATION, "1")
STUDIES = 12


def plan_of(**given: object) -> Plan:
    made = {"pre_exposure": ["old"], "permutations": 199, "looks": 1, "missing_share": 0.1} | given
    return standard_plan(STRATA, 10, **made)  # type: ignore[arg-type]


def tables_of(lost: float, parts: int = 1) -> list[ResultTable]:
    """A model whose leak grows from study to study, beside three others and one of before the
    publication on the same instances; two runs each, four of the latter. So many tranches, the
    first one larger."""
    rng = np.random.default_rng(8)
    base = np.tile([Arm.PUBLIC, Arm.PRIVATE], 10)
    hard = rng.uniform(0, 0.3, (2, 20))
    runs = [("old", 0, r) for r in range(4)] + [(m, 1, r) for m in MODELS for r in range(2)]
    kept = [
        (h, i, model, wave, run, float(rng.uniform(0.1, 0.4) + hard[h, i]), rng.random() < lost)
        for h in range(2) for i in range(20) for model, wave, run in runs
    ]  # fmt: skip
    return [
        make_table(_rows(kept, [_dealt(rng, base, parts) for _ in STRATA], leak, parts))
        for leak in np.linspace(0, 0.25, STUDIES)
    ]


def _dealt(rng: np.random.Generator, base: Any, parts: int) -> Any:
    first = 20 if parts == 1 else 14
    return np.concatenate([rng.permutation(base[:first]), rng.permutation(base[first:])])


def _rows(
    kept: list[tuple[int, int, str, int, int, float, bool]],
    arms: list[Any],
    leak: float,
    parts: int,
) -> Iterator[ResultRow]:
    for h, i, model, wave, run, score, gone in kept:
        arm = arms[h][i]
        known = leak if model == "m0" and arm == Arm.PUBLIC else 0.0
        right = None if gone and wave else round(1000 * (score + known))
        yield make_row(
            wave=wave, model=model, arm=arm, stratum=STRATA[h], instance=f"{h}-{i:02d}",
            replicate=run, tranche=int(parts > 1 and i >= 14),
            status=Status.SCORED if right is not None else Status.MISSING,
            score=None if right is None else (right / 1000) ** 2,
            passed=right, total=None if right is None else 1000,
        )  # fmt: skip


def columns_of(cube: SeedMeans, models: Sequence[str]) -> list[int]:
    return [place for name in models for place in cube.where(1, [name])]


def studies_of(plan: Plan, tables: Sequence[ResultTable], others: int, *, instead: bool) -> Studies:
    cubes = [make_seed_means(table, plan.outcomes, plan.strata) for table in tables]
    first = cubes[0]
    x = look_data(first, columns_of(first, ["m0"]), first.where(0, ["old"]), 4).covariate

    def scores(made: Sequence[SeedMeans], models: Sequence[str]) -> ModelScores:
        parts = [(cube, columns_of(cube, models)) for cube in made]
        values, missing, scored = (
            np.concatenate([getattr(cube, name)[:, places] for cube, places in parts], axis=1)
            for name in ("values", "missing", "scored")
        )
        return ModelScores(values, x, missing, missing + scored)

    beside = scores(cubes[:1], MODELS[1 : 1 + others]) if others else None
    labels = np.stack([cube.public for cube in cubes], axis=1)
    return Studies(scores(cubes, ["m0"]), labels, first.stratum, first.tranche, beside, instead)


def by_the_plan(plan: Plan, table: ResultTable, models: Sequence[str]) -> PrimaryResult:
    """What `dosimeter report` would say of the first of a look's models."""
    cube = make_seed_means(table, plan.outcomes, plan.strata)
    data = look_data(cube, columns_of(cube, models), cube.where(0, ["old"]), 4)
    rule = primary_rule(plan, beyond=False)
    assert plan.standard is not None
    return run_tests(plan, plan.standard, data, REGISTRATION, rule, wave=1)[0]


@pytest.mark.parametrize(
    ("plan", "others", "instead", "lost", "parts"),
    [
        (plan_of(), 3, False, 0.0, 1),
        (plan_of(multiplicity="holm"), 2, False, 0.0, 1),
        (plan_of(), 3, True, 0.0, 1),
        (plan_of(), 0, False, 0.0, 1),
        (plan_of(), 2, False, 0.15, 1),
        (plan_of(missing_share=0.9, missing_alpha=0.6), 3, True, 0.12, 1),
        (plan_of(missing_alpha=0.4), 2, False, 0.1, 2),
    ],
    ids=[
        "several",
        "holm",
        "in the place of one",
        "alone",
        "much missing",
        "missing by arm",
        "tranches",
    ],
)
def test_it_says_what_the_plans_test_says(
    plan: Plan, others: int, instead: bool, lost: float, parts: int
) -> None:
    tables = tables_of(lost, parts)
    studies = studies_of(plan, tables, others, instead=instead)
    found = detect(plan, studies, SEED)
    each = [
        by_the_plan(plan, table, ["m0", *(MODELS[1 + o] for o in studies.others(column))])
        for column, table in enumerate(tables)
    ]
    np.testing.assert_allclose(found.p, [t.verdict.p_adjusted for t in each])
    said = [t.verdict.verdict == CONTAMINATED for t in each]
    assert found.found.tolist() == said
    assert any(said)
    assert not all(said)
    unbound = ["adverse bound" in t.verdict.note for t in each]
    assert found.unbound.tolist() == unbound
    assert any(unbound) == (lost > 0)


def test_the_model_takes_the_place_of_each_in_turn() -> None:
    plan, tables = plan_of(), tables_of(0.0)
    studies = studies_of(plan, tables, 3, instead=True)
    assert [studies.others(column) for column in range(4)] == [[1, 2], [0, 2], [0, 1], [1, 2]]
    assert [studies.family, replace(studies, instead=False).family] == [3, 4]
    alone = replace(studies, beside=None)
    assert alone.family == 1
    p = [detect(plan, each, SEED).p for each in (alone, studies, replace(studies, instead=False))]
    assert (p[0] <= p[1] + 1e-9).all()
    assert (p[1] <= p[2] + 1e-9).all()
    assert (p[0] < p[2]).any()
