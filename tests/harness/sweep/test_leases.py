"""Leases: every owed cell is worked on, none is lost, and a finished one is done once."""

from __future__ import annotations

from decimal import Decimal

import hypothesis.strategies as st
import pytest
from hypothesis import given

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell
from harness.model import Usage
from harness.spending.budget import Budget, PricedModel, Spend, SpendingLimits
from harness.spending.prices import Price
from harness.sweep.governor import Consumption, FailedAttempts, LeaseOutcome
from harness.sweep.leases import LeaseBook, LeaseRules, WorkerEnd
from registry.errors import StoreUnavailable
from tests.harness.listed_cells import ListedCells

SPEC = TaskSpec("count_circles", "1", "easy", ())


def cell(name: str) -> Cell:
    return Cell(name, SPEC, f"instance-{name}", Seed(bytes(32)), "model", 0)


def book(count: int, finished: bytes | None = None, failures: int = 3) -> LeaseBook:
    cells = ListedCells(cell(f"e{n}") for n in range(count))
    return LeaseBook(
        cells,
        bytes(count) if finished is None else finished,
        LeaseRules(60.0, max_failures=failures),
    )


def names(cells: tuple[Cell, ...]) -> list[str]:
    return [each.episode for each in cells]


def test_finished_cells_are_not_owed_again() -> None:
    kept = book(4, bytes([0, 1, 0, 1]))
    assert names(kept.lease("w", 10, 0.0)) == ["e0", "e2"]
    assert kept.progress().finished == 2
    assert kept.progress().owed == 4


def test_no_cell_is_leased_to_two_workers() -> None:
    kept = book(6)
    first = names(kept.lease("a", 4, 0.0))
    second = names(kept.lease("b", 4, 0.0))
    assert first == ["e0", "e1", "e2", "e3"]
    assert second == ["e4", "e5"]
    assert kept.lease("c", 4, 0.0) == ()


def test_a_dead_workers_cells_go_to_another() -> None:
    kept = book(3)
    kept.lease("a", 2, 0.0)
    assert kept.release("a") == 2
    assert names(kept.lease("b", 3, 1.0)) == ["e0", "e1", "e2"]


def test_a_cell_whose_worker_is_killed_three_times_is_given_up() -> None:
    kept = book(1)
    for time in (0.0, 100.0, 200.0):
        assert names(kept.lease("b", 1, time)) == ["e0"]
        assert kept.release("b") == 1, "a lost node is no failure"
        assert names(kept.lease("a", 1, time)) == ["e0"]
        assert kept.release("a", WorkerEnd.KILLED) == 1
        assert kept.lease("c", 1, time) == ()
    progress = kept.progress()
    assert progress.failures == (("worker:killed", 3),)
    assert (progress.exhausted, progress.waiting, progress.lost) == (1, 0, 6)


def test_of_more_cells_than_are_at_work_none_is_blamed_and_a_pause_ends_when_asked() -> None:
    kept = book(3)
    for held, failures in ((3, ()), (2, (("worker:killed", 2),))):
        assert len(kept.lease("a", held, 0.0)) == held
        kept.release("a", WorkerEnd.KILLED, at_once=2)
        assert kept.progress().failures == failures
    assert len(kept.lease("b", 3, 0.0)) == 1, "the others wait"
    kept.try_now()
    assert len(kept.lease("c", 3, 0.0)) == 2


def test_a_cell_that_is_given_up_for_killed_workers_is_stored_first() -> None:
    """A store that is away is asked again, and nothing changes until then."""
    asked: list[str] = []

    def keep(cell: Cell) -> None:
        asked.append(cell.episode)
        if len(asked) == 1:
            raise StoreUnavailable("store", "it is away")

    cells = ListedCells([cell("e0")])
    kept = LeaseBook(cells, bytes(1), LeaseRules(60.0, max_failures=2), keep_killed=keep)
    for time in (0.0, 100.0):
        assert names(kept.lease("a", 1, time)) == ["e0"]
        if time:
            with pytest.raises(StoreUnavailable):
                kept.release("a", WorkerEnd.KILLED)
            assert kept.progress().leased == 1
        kept.release("a", WorkerEnd.KILLED)
        assert kept.progress().exhausted == (time > 0)
    assert asked == ["e0", "e0"]


def test_a_cell_that_failed_is_held_by_a_budget_that_does_not_pay_for_it() -> None:
    budget = Budget(SpendingLimits(run=Decimal(1)), (PricedModel("model", "openai", PRICE),))
    kept = LeaseBook(ListedCells([cell("e0")]), bytes(1), LeaseRules(60.0), budget=budget)
    assert names(kept.lease("a", 1, 0.0)) == ["e0"]
    failed = LeaseOutcome("e0", False, "sandbox:lost", Spend(Decimal(1)))
    kept.report("a", [failed], 0.0)
    assert kept.lease("a", 1, 0.5) == (), "it waits after its failure"
    assert kept.over()
    progress = kept.progress()
    assert (progress.held, progress.waiting, progress.exhausted) == (1, 1, 0)


def test_a_book_goes_on_with_leases_of_the_one_before_it() -> None:
    kept = book(4, bytes([0, 1, 0, 0]))
    kept.adopt("a", ["e0", "e1", "e3"])
    assert names(kept.lease("b", 3, 1.0)) == ["e2"]
    kept.report("a", [LeaseOutcome("e3", finished=False, error_class="sandbox:lost")], 2.0)
    assert kept.lease("b", 3, 2.0, frozenset({"e2"})) == (), "e3 waits before its next attempt"
    kept.report("a", [LeaseOutcome("e0", finished=True)], 2.0)
    assert (kept.progress().finished, kept.progress().leased) == (2, 1)


def test_what_a_worker_left_in_order_is_not_lost() -> None:
    kept = book(2)
    kept.lease("a", 2, 0.0)
    assert kept.release("a", WorkerEnd.LEFT) == 2
    assert kept.progress().lost == 0
    assert names(kept.lease("b", 2, 0.0)) == ["e0", "e1"]


def test_a_silent_worker_is_named_once_and_its_late_result_still_counts_once() -> None:
    kept = book(1)
    kept.lease("a", 1, 0.0)
    assert kept.lease("b", 1, 59.0) == ()
    assert kept.silent(60.0) == ()
    assert (kept.silent(61.0), kept.silent(61.0)) == (("a",), ())
    assert kept.lease("b", 1, 61.0) == (), "a reply may be on its way"
    kept.release("a")
    assert names(kept.lease("b", 1, 61.0)) == ["e0"]
    kept.report("a", [LeaseOutcome("e0", finished=True)], 62.0)
    kept.report("b", [LeaseOutcome("e0", finished=True)], 63.0)
    assert kept.progress().finished == 1
    assert kept.progress().done


def test_a_worker_that_is_heard_of_keeps_its_leases() -> None:
    kept = book(1)
    kept.lease("a", 1, 0.0)
    kept.hear("a", 50.0)
    assert kept.silent(100.0) == ()


def test_a_lease_whose_answer_went_lost_is_handed_out_again() -> None:
    kept = book(2)
    kept.lease("a", 1, 0.0)  # the answer never arrives: the worker holds nothing
    assert names(kept.lease("a", 2, 1.0, holding=frozenset())) == ["e0", "e1"]


def test_an_outcome_of_a_lease_of_a_lost_book_counts_once() -> None:
    kept = book(3)
    outcomes = [LeaseOutcome("e1", True), LeaseOutcome("e2", False, "sandbox:lost")]
    kept.report("a", [*outcomes, LeaseOutcome("of another run", True)], 0.0)
    kept.report("a", outcomes, 1.0)
    assert kept.progress().finished == 1
    assert names(kept.lease("b", 9, 1.0)) == ["e0", "e2"]


def test_cells_are_computed_when_they_are_leased() -> None:
    class Watched(ListedCells):
        computed = 0

        def __getitem__(self, number: int) -> Cell:
            self.computed += 1
            return super().__getitem__(number)

    cells = Watched(cell(f"e{n}") for n in range(50))
    kept = LeaseBook(cells, bytes([1] * 10 + [0] * 40), LeaseRules(60.0))
    assert (kept.progress().owed, kept.progress().waiting, cells.computed) == (50, 40, 0)
    first = names(kept.lease("a", 3, 0.0))
    kept.report("a", [LeaseOutcome(each, True) for each in first], 1.0)
    assert (first, cells.computed) == (["e10", "e11", "e12"], 3)
    assert (kept.progress().finished, kept.progress().waiting) == (13, 37)


def test_a_failed_cell_waits_and_is_tried_three_times_in_all() -> None:
    kept = book(1)
    now = 0.0
    for _ in range(3):
        now += 100.0
        assert names(kept.lease("a", 1, now)) == ["e0"]
        kept.report("a", [LeaseOutcome("e0", finished=False, error_class="sandbox:lost")], now)
        assert kept.lease("a", 1, now) == ()
    progress = kept.progress()
    assert progress.exhausted == 1
    assert progress.failures == (("sandbox:lost", 3),)
    assert progress.done
    assert progress.finished == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["lease", "finish", "fail", "die", "lose"]),
            st.sampled_from(["a", "b", "c"]),
        ),
        max_size=60,
    )
)
def test_whatever_happens_every_cell_ends_up_finished_or_exhausted(
    events: list[tuple[str, str]],
) -> None:
    kept, now = book(5), 0.0
    held: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    for event, worker in events:
        now += 1.0
        if event == "lease":
            got = kept.lease(worker, 2, now, frozenset(held[worker]))
            held[worker] += names(got)
        elif event == "lose":
            kept.lease(worker, 2, now, frozenset(held[worker]))
        elif event == "die":
            kept.release(worker)
            held[worker] = []
        elif held[worker]:
            done = held[worker].pop()
            kept.report(worker, [LeaseOutcome(done, event == "finish", "provider:timeout")], now)
    for worker in held:
        kept.release(worker)
    for _ in range(40):
        now += 100.0
        for each in kept.lease("last", 10, now, frozenset()):
            kept.report("last", [LeaseOutcome(each.episode, finished=True)], now)
    progress = kept.progress()
    assert progress.done
    assert progress.finished + progress.exhausted == 5
    assert progress.leased == progress.waiting == 0


def of(model: str, name: str) -> Cell:
    return Cell(name, SPEC, f"instance-{name}", Seed(bytes(32)), model, 0)


def test_progress_of_each_model_counts_cells_failures_and_consumption() -> None:
    cells = [*(of("one", f"a{n}") for n in range(4)), of("two", "b0"), of("three", "c0")]
    kept = LeaseBook(
        ListedCells(cells), bytes([1, 0, 0, 0, 0, 1]), LeaseRules(60.0, max_failures=2)
    )
    used = Consumption.of([Usage(100, 10), Usage(None, 5)], None)
    for now in (0.0, 100.0):  # a1 fails twice and is given up, the others are finished
        leased = kept.lease("w", 9, now)
        failed = {"a1", "a2"} if now == 0 else {"a1"}
        outcomes = [
            LeaseOutcome(
                each.episode,
                each.episode not in failed,
                "sandbox:no room" if each.episode in failed else "",
                used=used,
            )
            for each in leased
        ]
        kept.report("w", outcomes, now)
    one, three, two = kept.progress().models
    assert (one.model, one.owed, one.finished, one.exhausted) == ("one", 4, 3, 1)
    assert (one.running, one.waiting) == (0, 0)
    assert one.failures == (FailedAttempts("sandbox:no room", attempts=3, cells=2),)
    assert one.used == Consumption(10, 500, 50, uncounted=5, usd=Decimal(), unpriced=10)
    assert (two.owed, two.finished, two.failures) == (1, 1, ())
    assert (three.owed, three.finished, three.used) == (1, 1, Consumption()), "done before"
    assert kept.progress().used == one.used + two.used
    assert kept.progress().failures == (("sandbox:no room", 3),)


PRICE = Price("p", "m", Decimal(10), Decimal(1), Decimal(10), Decimal(100), "2026-11-01", "a test")


@pytest.mark.parametrize(
    ("model", "usd", "unpriced"),
    [
        (PricedModel("m", "openai", PRICE), Decimal("0.002"), 1),
        (PricedModel("m", "openai", None), Decimal(), 2),
        (PricedModel("m", "scripted", None), Decimal(), 0),
        (None, Decimal(), 2),
    ],
)
def test_unknown_cost_is_counted_apart_from_none(
    model: PricedModel | None, usd: Decimal, unpriced: int
) -> None:
    made = Consumption.of([Usage(100, 10), Usage(None, 5)], model)
    assert made == Consumption(2, 100, 10, uncounted=1, usd=usd, unpriced=unpriced)
