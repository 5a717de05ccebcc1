"""Burned private instances leave the primary test, or stay and are told of; and what they hide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.data.table import ResultTable, make_table, read_rows, read_table, write_table
from analysis.errors import AnalysisError
from analysis.plan.burned import LEAST, BurnedSeeds, keep_rows, note_burned
from analysis.plan.look import analyse, explore
from analysis.plan.presets import KEEP, LEAVE_OUT, basic_plan, standard_plan
from analysis.plan.verdict import NO_INFLATION, Evidence, Rule, decide
from analysis.report.report import Report, ReportRequest, build_report
from analysis.stats.clearing import Bound
from analysis.stats.intervals import estimate_gap
from registry.result_row import Arm, ResultRow
from tests.analysis.conftest import COUNTED, STRATA, Agent, instance_id, make_records, make_row
from tests.cases import cases

pytestmark = pytest.mark.filterwarnings("error")
REGISTRATION = "sha256:" + "5e" * 32

Score = Callable[[np.random.Generator, Arm, int, bool], float]  # arm, tranche, burned → score


def fair(rng: np.random.Generator, arm: Arm, tranche: int, burned: bool) -> float:
    return float(rng.binomial(10, 0.6)) / 10


def reader_of_both(rng: np.random.Generator, arm: Arm, tranche: int, burned: bool) -> float:
    """Has read the public arm, and remembers the private instances that it was sent."""
    return float(rng.binomial(10, 0.9 if arm is Arm.PUBLIC or burned else 0.5)) / 10


def rows_of(
    model: str,
    wave: int,
    tranches: Sequence[int],
    burned: Sequence[int] = (),
    score: Score = fair,
    sizes: Sequence[int] = (24, 12, 12),
) -> list[ResultRow]:
    """A model's rows: of some tranches, some of them burned for it."""
    rng = np.random.default_rng([wave, len(model), *map(ord, model)])
    found = []
    for stratum in STRATA:
        for tranche in tranches:
            for number in range(2 * sizes[tranche]):
                arm = Arm.PUBLIC if number % 2 else Arm.PRIVATE
                lost = arm is Arm.PRIVATE and tranche in burned
                value = score(rng, arm, tranche, lost)
                found.append(
                    make_row(
                        wave=wave, model=model, arm=arm, stratum=stratum, tranche=tranche,
                        instance=instance_id(stratum, tranche, number), burned=int(lost),
                        score=value, passed=round(10 * value), total=10,
                    )
                )  # fmt: skip
    return found


def plan_of(**given_: object):
    made = {"pre_exposure": ["old"], "looks": 2, "permutations": 999, "outcomes": COUNTED,
            "sensitivity": ["leave-one-stratum-out"]} | given_  # fmt: skip
    return standard_plan(STRATA, 24, **made)  # type: ignore[arg-type] # a test's shorthand


OLD = rows_of("old", 0, (0, 1, 2))


def test_a_burned_panel_leaves_the_test_where_a_reserve_tranche_stands_in() -> None:
    table = make_table([*OLD, *rows_of("new", 1, (0, 1), burned=(0,))])
    kept = keep_rows(table, LEAVE_OUT, ["old"])
    assert kept.seeds == (BurnedSeeds(1, "new", 48, 24, 48),)
    left = table.where(kept.primary)
    mine = left["model"] == "new"
    assert set(left["tranche"][mine]) == {1}, "with the public ones of the tranche"
    assert Counter(left["arm"][mine]) == {"public": 24, "private": 24}
    assert (left["model"] == "old").sum() == len(OLD)
    assert np.array_equal(kept.primary, kept.monitored)


def test_where_nothing_else_was_run_they_stay_and_the_rule_may_keep_them() -> None:
    lone = make_table([*OLD, *rows_of("new", 1, (0,), burned=(0,))])
    assert keep_rows(lone, LEAVE_OUT, ["old"]).seeds == (BurnedSeeds(1, "new", 48, 0, 0),)
    both = make_table([*OLD, *rows_of("new", 1, (0, 1), burned=(0,))])
    for table, rule in ((lone, LEAVE_OUT), (both, KEEP)):
        kept = keep_rows(table, rule, ["old"])
        assert kept.primary.all()
        assert kept.monitored.all()
        assert kept.seeds[0].staying == 48


def test_controls_lose_nothing() -> None:
    table = make_table(rows_of("old", 1, (0, 1), burned=(0,)))
    assert keep_rows(table, LEAVE_OUT, ["old"]).seeds == ()
    assert keep_rows(table, LEAVE_OUT, ["old"]).primary.all()


def test_single_burned_instances_leave_for_all_models_of_the_look_and_stay_in_the_monitoring() -> (
    None
):
    rows = [*rows_of("one", 1, (0,)), *rows_of("two", 1, (0,))]
    private = [r.instance for r in rows if r.model == "one" and r.arm is Arm.PRIVATE][:3]
    table = make_table(
        [replace(r, burned=int(r.model == "one" and r.instance in private)) for r in rows]
    )
    kept = keep_rows(table, LEAVE_OUT)
    gone = table.where(~kept.primary)
    assert set(gone["instance"]) == set(private)
    assert set(gone["model"]) == {"one", "two"}
    assert kept.monitored.all()
    assert kept.seeds == (BurnedSeeds(1, "one", 3, 45, 3),)


_BURNED = st.lists(st.sets(st.integers(0, 3)), min_size=2, max_size=2)


@settings(max_examples=60, deadline=None)
@given(
    ran=st.lists(st.sets(st.integers(0, 2), min_size=1), min_size=2, max_size=2),
    whole=_BURNED,
    single=st.lists(st.sets(st.integers(0, 7)), min_size=2, max_size=2),
)
def test_what_is_left_is_made_of_blocks_that_all_models_share(
    ran: list[set[int]], whole: list[set[int]], single: list[set[int]]
) -> None:
    """Of every stratum and tranche a model has all that any model has, or nothing; and enough."""
    rows = []
    for m, model in enumerate(("one", "two")):
        for row in rows_of(model, 1, sorted(ran[m]), sizes=(4, 3, 2)):
            number = int(row.instance[-4:], 16) % 8
            burned = row.arm is Arm.PRIVATE and (row.tranche in whole[m] or number in single[m])
            rows.append(replace(row, burned=int(burned)))
    table = make_table(rows)
    kept = keep_rows(table, LEAVE_OUT)
    left = table.where(kept.primary)
    units: dict[tuple[str, str, int], set[str]] = {}
    for row in read_rows(left):
        units.setdefault((row.model, row.stratum, row.tranche), set()).add(row.instance)
    for (model, stratum, tranche), own in units.items():
        for other in ("one", "two"):
            assert units.get((other, stratum, tranche), own) == own, (model, other)
    for seeds in kept.seeds:
        mine = [r for r in read_rows(left) if r.model == seeds.model]
        assert sum(r.burned for r in mine) == seeds.staying
        assert seeds.burned == sum(r.burned for r in rows if r.model == seeds.model)
    for model in ("one", "two"):
        counts = Counter((r.stratum, r.arm) for r in read_rows(left) if r.model == model)
        assert all(counts[stratum, arm] >= LEAST for stratum in STRATA for arm in Arm)


def verdicts(plan, rows: Sequence[ResultRow]) -> dict[str, object]:
    return {v.model: v for v in analyse(plan, make_table(rows), REGISTRATION).verdicts}


def test_what_was_learnt_of_the_private_arm_hides_a_gap_and_a_reserve_tranche_shows_it() -> None:
    rows = [*OLD, *rows_of("new", 1, (0, 1), burned=(0,), score=reader_of_both)]
    clean = verdicts(plan_of(), rows)["new"]
    hidden = verdicts(plan_of(burned=KEEP), rows)["new"]
    assert clean.verdict == "contaminated"
    assert clean.n_private == 24
    assert "48 of 72 private instances are burned and left out of the test" in clean.note
    assert hidden.estimate < clean.estimate - 0.1
    assert hidden.n_private == 72
    assert "stay in the test, where they may hide a gap and make none" in hidden.note


def test_burned_against_unexposed_shows_that_the_private_arm_has_leaked() -> None:
    told = [*OLD, *rows_of("new", 1, (0, 1), burned=(0,), score=reader_of_both)]
    not_told = [*OLD, *rows_of("new", 1, (0, 1), burned=(0,))]
    for rows, leaked in ((told, True), (not_told, False)):
        found = analyse(plan_of(), make_table(rows), REGISTRATION).standard
        (row,) = [a for a in found.sensitivity if a.analysis == "burned-versus-virgin"]
        assert (row.wave, row.model, row.detail) == (1, "new", "48 burned, 24 unexposed")
        assert (row.p < 0.01) is leaked
        assert bool(row.note) is leaked
        assert found.burned == (BurnedSeeds(1, "new", 48, 24, 48),)
    lone = [*OLD, *rows_of("new", 1, (0,), burned=(0,))]
    assert not [
        a for a in analyse(plan_of(), make_table(lone), REGISTRATION).standard.sensitivity
        if a.analysis == "burned-versus-virgin"
    ]  # fmt: skip


def test_models_of_which_other_seeds_are_burned_are_compared_apart_and_adjusted_together() -> None:
    rows = [
        *OLD,
        *rows_of("one", 1, (0, 1), burned=(0,), score=reader_of_both),
        *rows_of("two", 1, (0, 1), burned=(1,)),
        *rows_of("all", 1, (0, 1)),
    ]
    found = analyse(plan_of(), make_table(rows), REGISTRATION).standard
    by_model = {a.model: a for a in found.sensitivity if a.analysis == "burned-versus-virgin"}
    assert by_model.keys() == {"one", "two"}
    assert by_model["one"].p_adjusted == pytest.approx(2 * by_model["one"].p)
    assert by_model["two"].p_adjusted >= by_model["two"].p
    assert [v.model for v in found.verdicts] == ["all", "one", "two"]


def test_no_claim_of_a_small_gap_rests_on_burned_instances() -> None:
    rng = np.random.default_rng(1)
    public, stratum = np.arange(800) % 2 > 0, np.zeros(800, dtype=int)
    gap = estimate_gap(rng.normal(0.6, 0.05, 800), stratum, public)
    bound = Bound(gap.upper, "score", None, 0.001, cleared=True)
    small, found = (
        decide("m", 1, Evidence("score", gap, p, p, 0.0, bound), Rule(0.01, 0.05))
        for p in (0.5, 0.001)
    )
    assert (small.verdict, found.verdict) == (NO_INFLATION, "contaminated")
    stay, gone = BurnedSeeds(1, "m", 9, 1, 0), BurnedSeeds(1, "m", 9, 1, 9)
    assert note_burned(small, stay).verdict == "inconclusive"
    assert note_burned(small, gone).verdict == NO_INFLATION
    assert note_burned(found, stay).verdict == "contaminated", "leakage makes no false alarm"
    assert note_burned(found, stay).note.startswith("detectable but below the margin; 9 of 10")
    assert note_burned(small, None) is small


def test_the_basic_plan_keeps_them_and_says_so() -> None:
    rows = rows_of("new", 0, (0, 1), burned=(0,))
    (verdict,) = analyse(
        basic_plan(STRATA, 24, permutations=999, outcomes=COUNTED), make_table(rows), "r"
    ).verdicts
    assert verdict.n_private == 72
    assert "48 of 72 private instances are burned and stay in the test" in verdict.note
    (other,) = [
        v for v in explore(plan_of(), make_table([*OLD, *rows]), "r", "again").verdicts
        if v.model == "new"
    ]  # fmt: skip
    assert other.n_private == 24, "the registered rule holds for exploratory tests as well"


def test_one_reserve_tranche_a_look_is_monitored_over_the_looks() -> None:
    """Each look brings units of its own: what was said of the first stands."""
    first = [*OLD, *rows_of("new", 1, (1,), score=reader_of_both)]
    later = [*first, *rows_of("newer", 2, (2,), score=reader_of_both)]
    one = analyse(plan_of(), make_table(first), REGISTRATION).standard.monitored
    two = analyse(plan_of(), make_table(later), REGISTRATION).standard.monitored
    assert two.looks[0].gap == pytest.approx(one.looks[0].gap)  # summed in another order
    assert two.looks[0].statistic == pytest.approx(one.looks[0].statistic)
    assert two.looks[0].crossed == one.looks[0].crossed
    assert two.looks[1].gap > 0.2


@pytest.mark.parametrize(("changes", "said"), cases(__file__, "refused"))
def test_columns_that_cannot_be_are_refused(changes: dict[str, int], said: str) -> None:
    rows = [make_row(), make_row(model="n", **changes)]
    with pytest.raises(AnalysisError, match=f"row 2: {said}"):
        make_table(rows)


def test_a_file_of_before_has_one_tranche_and_nothing_burned(tmp_path) -> None:
    import pyarrow.parquet as pq

    rows = rows_of("new", 1, (0, 1), burned=(0,))
    write_table(tmp_path / "now.parquet", rows)
    assert read_rows(read_table(tmp_path / "now.parquet")) == rows
    arrow = pq.read_table(tmp_path / "now.parquet").drop_columns(["tranche", "burned"])
    pq.write_table(arrow, tmp_path / "before.parquet")
    old: ResultTable = read_table(tmp_path / "before.parquet")
    assert not old["tranche"].any()
    assert not old["burned"].any()


def test_what_was_owed_follows_the_tranches_of_the_manifest() -> None:
    rows = [*OLD, *rows_of("new", 1, (1,)), *rows_of("both", 1, (0, 1))]
    records = make_records([(0, [Agent("old", 0.6)]), (1, [Agent("new", 1), Agent("both", 1)])])
    sealed = replace(records.sealed, reserve=(12, 12))
    runs = (
        replace(records.runs[0], tranches=((0, 1, 2),)),
        replace(records.runs[1], tranches=((1,), (0, 1)), retention=(("new", "kept"),)),
    )
    plan = plan_of(permutations=199)

    def report_of(rows: Sequence[ResultRow]) -> Report:
        table = make_table(rows)
        return build_report(
            ReportRequest(
                registered=replace(records.registered, plan=plan), sealed=sealed, runs=runs,
                table=table, analysis=analyse(plan, table, records.registration),
                issued="2026-01-02T03:04:05Z",
            )
        )  # fmt: skip

    report = report_of(rows)
    owed = {(row.model, str(row.arm)): (row.owed, row.absent) for row in report.funnel}
    assert owed == {
        (model, arm): (2 * n, 0)
        for model, n in (("old", 48), ("new", 12), ("both", 36))
        for arm in ("public", "private")
    }
    assert not [line for line in report.deviations if "instances" in line]
    assert report.reserve == (12, 12)
    assert {s.model: (s.tranches, s.retention) for s in report.served}["new"] == ((1,), "kept")
    fewer = report_of([r for r in rows if r.instance != rows[-1].instance])
    told = [line for line in fewer.deviations if "tranche 1" in line]
    assert told[0].startswith(f"Wave 0, {STRATA[1]}, tranche 1: unequal arms, 11 public and 12")
    assert any(line.endswith("11 public instances; 12 were registered.") for line in told)
