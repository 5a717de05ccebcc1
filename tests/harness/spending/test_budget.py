"""The budget of leases: no lease is given that could pass a limit by what is reserved."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import hypothesis.strategies as st
import pytest
from hypothesis import given

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell
from harness.errors import HarnessError
from harness.model import Usage
from harness.spending.budget import (
    Budget,
    PricedModel,
    Spend,
    SpendingLimits,
    attempt_bound,
    sum_spend,
)
from harness.spending.prices import Price
from harness.sweep.governor import LeaseOutcome, WaitReason
from harness.sweep.leases import LeaseBook, LeaseRules
from registry.ledger.records import ModelPin
from tests.harness.listed_cells import ListedCells

PRICE = Price(
    "them", "m", Decimal(1), Decimal("0.1"), Decimal(1), Decimal(10), "2026-11-01", "them"
)
BOUNDED = PricedModel("m", "them", PRICE, Decimal(3))
OPEN = PricedModel("m", "them", PRICE)
SPEC = TaskSpec("count_circles", "1", "easy", ())


def usd(value: str | int) -> Spend:
    return Spend(Decimal(value))


def budget(limit: int, model: PricedModel, reserve: str = "seen") -> Budget:
    return Budget(SpendingLimits(run=Decimal(limit), reserve=reserve), [model])


def book(count: int, kept: Budget, *others: str) -> LeaseBook:
    models = ("m", *others)
    cells = ListedCells(
        Cell(f"{name}{n}", SPEC, "i", Seed(bytes(32)), name, 0)
        for n in range(count)
        for name in models
    )
    return LeaseBook(
        cells, bytes(len(cells)), LeaseRules(1e9), budget=kept, recount=lambda cell: Spend()
    )


def test_a_spend_is_the_sum_of_all_replies_of_all_attempts() -> None:
    usages = [Usage(1_000_000, 0), Usage(1_000_000, 0), Usage(500_000, 0), Usage()]
    assert sum_spend(usages, PRICE) == Spend(Decimal("2.5"), 1)
    assert sum_spend(usages, None) == Spend()


def test_a_bound_takes_full_contexts_and_longest_replies() -> None:
    pin = ModelPin("m", "them", "v", (("context", "100000"), ("max_tokens", "1000")))
    assert attempt_bound(pin, PRICE, 11) == Decimal("1.21")
    assert attempt_bound(replace(pin, settings=pin.settings[:1]), PRICE, 11) is None


def test_with_a_bound_as_many_are_leased_as_are_surely_paid_for() -> None:
    kept = book(9, budget(10, BOUNDED))
    assert len(kept.lease("w", 9, 0.0)) == 3
    assert kept.lease("v", 9, 0.0) == ()
    assert not kept.over(), "what is at work may turn out cheaper"


def test_without_a_bound_one_goes_ahead_alone() -> None:
    kept = book(9, budget(10, OPEN))
    (first,) = kept.lease("w", 9, 0.0)
    assert kept.lease("v", 9, 0.0) == ()
    kept.report("w", [LeaseOutcome(first.episode, True, spend=usd(1))], 1.0)
    assert len(kept.lease("w", 9, 2.0)) == 4, "each at twice the dearest seen, out of nine left"


def test_a_model_at_no_cost_waits_for_no_budget() -> None:
    nothing = replace(PRICE, **dict.fromkeys(("input", "cached_input", "cache_write", "output"), 0))
    kept = book(9, budget(10, replace(OPEN, price=nothing)))
    assert len(kept.lease("w", 9, 0.0)) == 9


def test_a_failed_attempt_costs_and_is_no_measure() -> None:
    kept = book(9, budget(10, OPEN))
    (first,) = kept.lease("w", 1, 0.0)
    kept.report("w", [LeaseOutcome(first.episode, False, "provider:filter", usd("0.1"))], 1.0)
    assert kept.progress().accounts[0].spent == Decimal("0.1")
    assert len(kept.lease("w", 9, 2.0)) == 1, "still nothing is known of a whole episode"


def test_the_budget_is_named_only_where_it_is_what_a_model_waits_for() -> None:
    kept = book(9, budget(10, OPEN))
    (first,) = kept.lease("w", 9, 0.0)
    assert kept.progress().models[0].reason is WaitReason.BUDGET, "all of it is reserved"
    kept.report("w", [LeaseOutcome(first.episode, True, spend=usd(1))], 1.0)
    kept.lease("w", 2, 2.0)
    assert kept.progress().models[0].reason is WaitReason.NOTHING, "for a free worker"
    kept.lease("w", 9, 2.0, frozenset({"m1", "m2"}))
    assert kept.progress().models[0].reason is WaitReason.BUDGET


def test_no_episode_of_a_stopped_model_is_held_by_the_budget() -> None:
    kept = book(9, budget(10, OPEN))
    (first,) = kept.lease("w", 9, 0.0)
    assert kept.progress().held == 8
    kept.report("w", [LeaseOutcome(first.episode, False, "provider:auth")], 1.0)
    assert kept.over()
    assert [each.model for each in kept.progress().stopped] == ["m"]
    assert kept.progress().held == 0


def test_limits_of_a_model_and_a_provider_leave_others_alone() -> None:
    limits = SpendingLimits(None, (("m", Decimal(1)),), (("other", Decimal(2)),))
    models = [
        replace(BOUNDED, bound=Decimal(1)),
        PricedModel("n", "other", PRICE, Decimal(1)),
        PricedModel("home", "scripted", None),
    ]
    kept = book(5, Budget(limits, models), "n", "home")
    names = [cell.model for cell in kept.lease("w", 99, 0.0)]
    assert (names.count("m"), names.count("n"), names.count("home")) == (1, 2, 5)


def test_what_a_lost_worker_bought_is_counted_before_its_cell_is_leased_again() -> None:
    kept = book(1, budget(10, BOUNDED))
    kept.recount = lambda cell: usd(2)
    kept.lease("w", 1, 0.0)
    kept.release("w")
    assert kept.progress().accounts[0].spent == Decimal(2)
    assert kept.progress().accounts[0].reserved == 0


def test_replies_that_tell_no_tokens_are_refused_unless_allowed() -> None:
    unknown = Spend(Decimal(), 1)
    with pytest.raises(HarnessError, match="--allow-unknown-price"):
        budget(10, OPEN).settle("m", "e", unknown)
    allowed = Budget(SpendingLimits(run=Decimal(10)), [OPEN], allow_unknown=True)
    allowed.settle("m", "e", unknown)
    (account,) = allowed.accounts()
    assert (account.spent, account.unknown) == (Decimal(), 1), "and it is told beside the sum"


def test_reserving_bounds_needs_bounds() -> None:
    with pytest.raises(HarnessError, match="`context` and `max_tokens`"):
        budget(10, OPEN, "bound")
    assert budget(10, BOUNDED, "bound").affords("m")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["lease", "finish", "fail", "die"]),
            st.sampled_from("abc"),
            st.integers(0, 300),
        ),
        max_size=80,
    ),
    st.integers(1, 15),
    st.booleans(),
)
def test_within_its_reservations_no_budget_is_ever_passed(
    events: list[tuple[str, str, int]], limit: int, bounded: bool
) -> None:
    """Attempts cost up to their bound. Reserved by bounds, spending stays within the limit; by
    what was seen, it passes it at most by what episodes at work cost beyond reservations."""
    kept = budget(limit, BOUNDED if bounded else OPEN, "bound" if bounded else "seen")
    leases, paid = book(12, kept), dict[str, Decimal]()
    held: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    beyond = Decimal()
    leases.recount = lambda cell: Spend(paid.get(cell.episode, Decimal()))
    for now, (event, worker, cents) in enumerate(events):
        cost = Decimal(cents) / 100
        if event == "lease":
            got = leases.lease(worker, 2, 100.0 * now, frozenset(held[worker]))
            held[worker] += [cell.episode for cell in got]
            account = leases.progress().accounts[0]
            assert not got or account.spent + account.reserved <= limit
        elif held[worker]:
            episode = held[worker].pop()
            reserved = dict(kept._reservations["m", episode])["run"]
            beyond += max(cost - reserved, Decimal())
            paid[episode] = paid.get(episode, Decimal()) + cost
            if event == "die":
                leases.release(worker)
                held[worker] = []
            else:
                spend = Spend(paid[episode])
                leases.report(
                    worker, [LeaseOutcome(episode, event == "finish", "x", spend)], 100.0 * now
                )
        total = sum(paid.values(), Decimal())
        assert leases.progress().accounts[0].spent == total
        assert total <= limit + beyond
        assert not bounded or beyond == 0
