"""A look's rule on many studies at once says of each what the plan's own test says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from analysis.calibrate.calibration import one_model_studies
from analysis.data.seed_means import SeedMeans, make_seed_means
from analysis.data.table import ResultTable, make_table
from analysis.plan.presets import standard_plan
from analysis.plan.primary import ModelScores, Studies, family_tests, look_data
from analysis.plan.results import PrimaryResult, look_results
from analysis.plan.rule import Decisions, apply_rule
from analysis.plan.verdict import CONTAMINATED
from analysis.stats.permutation import permutation_seed
from registry.ledger.records import Plan
from registry.result_row import Arm, ResultRow, Status
from tests.analysis.conftest import COUNTED, make_row

pytestmark = pytest.mark.filterwarnings("error")

STRATA = ("h0/easy", "h1/hard")
MODELS = ("m0", "m1", "m2", "m3")
REGISTRATION = "sha256:r"
SEED = permutation_seed(REGISTRATION, "1")
STUDIES = 12


def plan_of(**given: object) -> Plan:
    made = {"pre_exposure": ["old"], "permutations": 199, "looks": 1, "outcomes": COUNTED} | given
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


def columns_of(means: SeedMeans, models: Sequence[str]) -> list[int]:
    return [place for name in models for place in means.where(1, [name])]


def studies_of(plan: Plan, tables: Sequence[ResultTable], others: int, *, instead: bool) -> Studies:
    panels = [make_seed_means(table, plan.outcomes, plan.strata) for table in tables]
    first = panels[0]
    x = look_data(first, columns_of(first, ["m0"]), first.where(0, ["old"])).covariate

    def scores(made: Sequence[SeedMeans], models: Sequence[str]) -> ModelScores:
        parts = [(means, columns_of(means, models)) for means in made]
        values, missing, scored = (
            np.concatenate([getattr(means, name)[:, places] for means, places in parts], axis=1)
            for name in ("values", "missing", "scored")
        )
        return ModelScores(values, x, missing, missing + scored)

    companions = scores(panels[:1], MODELS[1 : 1 + others]) if others else None
    return one_model_studies(
        scores(panels, ["m0"]),
        np.stack([means.public for means in panels], axis=1),
        first.stratum,
        first.tranche,
        companions,
        replaces=instead,
    )


def decide(plan: Plan, studies: Studies) -> Decisions:
    values = studies.scores.adjusted(studies.stratum).residuals
    return apply_rule(plan, studies, values, SEED, first_only=True)


def by_the_plan(plan: Plan, table: ResultTable, models: Sequence[str]) -> PrimaryResult:
    """What `dosimeter report` would say of the first of a look's models."""
    means = make_seed_means(table, plan.outcomes, plan.strata)
    data = look_data(means, columns_of(means, models), means.where(0, ["old"]))
    return look_results(plan, data, REGISTRATION)[0]


@pytest.mark.parametrize(
    ("plan", "others", "instead", "lost", "parts"),
    [
        (plan_of(), 3, False, 0.0, 1),
        (plan_of(multiplicity="holm"), 2, False, 0.0, 1),
        (plan_of(), 3, True, 0.0, 1),
        (plan_of(), 0, False, 0.0, 1),
        (plan_of(multiplicity="holm"), 2, False, 0.05, 1),
        (plan_of(), 3, True, 0.06, 1),
        (plan_of(), 2, False, 0.09, 2),
    ],
    ids=["several", "holm", "instead", "exclusive", "missing, holm", "missing", "tranches"],
)
def test_it_says_what_the_plans_test_says(
    plan: Plan, others: int, instead: bool, lost: float, parts: int
) -> None:
    tables = tables_of(lost, parts)
    studies = studies_of(plan, tables, others, instead=instead)
    found = decide(plan, studies)
    each = [
        by_the_plan(plan, table, ["m0", *(MODELS[1 + c - STUDIES] for c in studies.members[b, 1:])])
        for b, table in enumerate(tables)
    ]
    np.testing.assert_allclose(found.test.adjusted[:, 0], [t.verdict.p_adjusted for t in each])
    said = [t.verdict.verdict == CONTAMINATED for t in each]
    assert found.contaminated[:, 0].tolist() == said
    assert any(said)
    assert not all(said)
    undone = ["contaminated, if missing runs" in t.verdict.note for t in each]
    assert found.undone[:, 0].tolist() == undone
    assert any(undone) == (lost > 0)


def test_the_model_takes_the_place_of_each_in_turn() -> None:
    plan, tables = plan_of(), tables_of(0.0)
    alone, replacing, beside = (
        studies_of(plan, tables, others, instead=instead)
        for others, instead in ((0, False), (3, True), (3, False))
    )
    others = (replacing.members[:4, 1:] - STUDIES).tolist()
    assert others == [[1, 2], [0, 2], [0, 1], [1, 2]]
    assert [each.members.shape[1] for each in (alone, replacing, beside)] == [1, 3, 4]
    p = [decide(plan, each).test.adjusted[:, 0] for each in (alone, replacing, beside)]
    assert (p[0] <= p[1] + 1e-9).all()
    assert (p[1] <= p[2] + 1e-9).all()
    assert (p[0] < p[2]).any()


def test_a_study_among_many_is_tested_as_it_is_alone() -> None:
    """Studies that share columns and permutations, each with labels of its own."""
    plan = plan_of(permutations=199)
    studies = studies_of(plan, tables_of(0.1), 2, instead=False)
    values = studies.scores.adjusted(studies.stratum).residuals
    together = family_tests(plan, values, studies, SEED)
    for b in range(STUDIES):
        alone = family_tests(plan, values, studies.pick(np.array([b])), SEED)
        for name in ("gaps", "z", "p", "adjusted"):
            np.testing.assert_allclose(getattr(together, name)[b], getattr(alone, name)[0])
