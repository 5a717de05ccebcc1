"""Waves before the publication give no verdict; waves that were begun and dropped gain no look."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from analysis.data.table import make_table
from analysis.plan.history import WaveHistory
from analysis.plan.look import analyse, explore
from analysis.plan.presets import basic_plan, standard_plan
from analysis.report.deviations import table_departures
from registry.ledger.records import Plan
from registry.result_row import ResultRow
from tests.analysis.conftest import COUNTED, STRATA, Agent, simulate
from tests.cases import cases

OLD = tuple(Agent(f"old-{n}", 0.6) for n in range(4))
TOLD = Agent("told", 0.6, leak=0.9)
REGISTRATION = "sha256:" + "5e" * 32
WAVES = ((0, (*OLD, TOLD)), (1, (TOLD,)), (3, (TOLD,)), (5, (TOLD,)))


def plans(looks: int) -> tuple[Plan, Plan]:
    given = {"looks": looks, "permutations": 1999, "outcomes": COUNTED}
    pre_exposure = [agent.name for agent in OLD]
    return (
        basic_plan(STRATA, 24, **given),  # type: ignore[arg-type] # a test's shorthand
        standard_plan(STRATA, 24, pre_exposure=pre_exposure, **given),  # type: ignore[arg-type] # a test's shorthand
    )


@pytest.fixture(scope="module")
def rows() -> Sequence[ResultRow]:
    return simulate(WAVES)


@pytest.mark.parametrize(("before", "dropped", "numbers"), cases(__file__, "looks"))
def test_looks_are_numbered_with_dropped_waves_and_without_early_ones(
    before: Sequence[int], dropped: Sequence[int], numbers: dict[int, int]
) -> None:
    history = WaveHistory(None, frozenset(before), frozenset(dropped))
    assert history.number_looks([3, 0, 1]) == numbers


@pytest.mark.parametrize("place", [0, 1], ids=["basic-v1", "standard-v1"])
def test_a_wave_before_the_publication_has_gaps_and_no_verdict(
    rows: Sequence[ResultRow], place: int
) -> None:
    plan, table = plans(3)[place], make_table(rows)
    every = analyse(plan, table, REGISTRATION)
    later = analyse(plan, table, REGISTRATION, history=WaveHistory(before=frozenset({0})))
    assert {v.wave for v in every.verdicts} == {0, 1, 3, 5}
    assert [v.wave for v in later.verdicts if v.model == "told"] == [1, 3, 5]
    assert {v.wave for v in later.verdicts} == {1, 3, 5}
    assert not any(v.exploratory for v in later.verdicts), "the early wave took no look"
    early = {gap.model: gap for gap in later.before}
    assert set(early) == ({"told"} if place else {"told", *(agent.name for agent in OLD)})
    plain = next(v for v in analyse(plans(3)[0], table, REGISTRATION).verdicts if v.model == "told")
    assert early["told"].wave == 0
    assert early["told"].gap == pytest.approx(plain.estimate)
    assert early["told"].interval == pytest.approx(plain.interval)
    assert every.before == ()
    again = explore(plan, table, REGISTRATION, "again", history=WaveHistory(before=frozenset({0})))
    assert 0 not in {v.wave for v in again.verdicts}


@pytest.mark.parametrize("place", [0, 1], ids=["basic-v1", "standard-v1"])
def test_a_dropped_wave_spends_its_look(rows: Sequence[ResultRow], place: int) -> None:
    """Waves 2 and 4 were begun and dropped: of three registered looks, none is left for wave 5."""
    plan = plans(3)[place]
    table = make_table([row for row in rows if row.wave])
    history = WaveHistory(dropped=frozenset({2, 4}))
    verdicts = {
        wave: (verdict.exploratory, verdict.alpha)
        for verdict in analyse(plan, table, REGISTRATION, history=history).verdicts
        for wave in [verdict.wave]
    }
    assert verdicts == {1: (False, 0.025 / 3), 3: (False, 0.025 / 3), 5: (True, 0.025 / 3)}
    (beyond,) = [line for line in table_departures(plan, table, history) if "beyond" in line]
    assert beyond.startswith("Wave 5 is a look beyond the 3 registered")
    assert not [line for line in table_departures(plan, table) if "beyond" in line]


def test_monitoring_does_not_take_up_the_alpha_of_dropped_looks(rows: Sequence[ResultRow]) -> None:
    plan, table = plans(3)[1], make_table(rows)
    history = WaveHistory(before=frozenset({0}), dropped=frozenset({2, 4}))
    whole = analyse(plan, table, REGISTRATION, history=WaveHistory(before=frozenset({0})))
    fewer = analyse(plan, table, REGISTRATION, history=history)
    assert whole.standard is not None
    assert fewer.standard is not None
    assert [look.wave for look in whole.standard.monitored.looks] == [1, 3, 5]
    looks = fewer.standard.monitored.looks
    assert [look.wave for look in looks] == [1, 3]
    first, second, _ = whole.standard.monitored.looks
    assert [look.spent for look in looks] == [first.spent, second.spent]
    assert second.spent == pytest.approx(2 / 3 * 0.025)
