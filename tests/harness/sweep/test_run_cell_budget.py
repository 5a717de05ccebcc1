"""Budgets over episodes of many turns: what is leased is paid for before a limit is passed, while
every turn costs more than the one before, and some turns fail."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from harness.episodes.result import RESULT_CODEC
from harness.model import Usage
from harness.spending.budget import PricedModel, SpendingLimits, attempt_bound
from harness.spending.prices import Price
from harness.sweep.leases import LeaseBook, LeaseRules, Progress
from harness.sweep.run_cell import count_spend, open_budget, run_cell
from harness.sweep.workbench import Workbench
from registry.ledger.records import ModelPin
from registry.sealing import new_identity
from registry.stores.base import MemoryStore
from registry.stores.folder import FolderStore
from tests.harness import paid_cells
from tests.harness.openai_server import Answer, Json, completion, failure, serve
from tests.harness.script import noon
from tests.ledgers import keys_of

STUDY, RECIPIENT = new_identity()
RUN, _ = new_identity()
PRICE = Price(
    "openai", "asked", Decimal(10), Decimal(1), Decimal(10), Decimal(100), "2026-11-01", "the test"
)
TURNS, CELLS = 3, 6
LIMIT = Decimal("0.9")


class Seller:
    """Sells turns of an agent that looks around and gives up, and keeps the bill."""

    def __init__(self, fails: Callable[[int], bool]) -> None:
        self.bill, self.lock, self.numbers, self.fails = (
            Decimal(),
            threading.Lock(),
            itertools.count(),
            fails,
        )
        self.replies = 0

    def answer(self, request: Json) -> Answer:
        seen = sum(message["role"] == "tool" for message in request["messages"])
        with self.lock:
            number = next(self.numbers)
            if self.fails(number):
                return failure(500)
            usage = Usage(1_000 * (seen + 1) + 100 * (number % 3), 200)
            self.bill += PRICE.cost(usage) or Decimal()
            self.replies += 1
        told = {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
        }
        calls = [("a", "run_command", {"command": "ls"})] if seen < TURNS else None
        return completion(None if calls else "I give up.", calls, usage=told)


def sweep(bench: Workbench, url: str, bill: Callable[[], Decimal], seen: list[Decimal]) -> Progress:
    """A coordinator and a worker with two cells at a time, on a clock that jumps over pauses."""
    cells, context = paid_cells.cells(url, CELLS), bench.context
    budget = open_budget(cells, bytes(CELLS), bench.store, context)
    book = LeaseBook(
        cells,
        bytes(CELLS),
        LeaseRules(1e9),
        budget=budget,
        recount=lambda cell: count_spend(cell, bench.store, context),
    )
    for now in itertools.count():
        leased = book.lease("w", 2, float(now))
        if not leased and book.over():
            return book.progress()
        for account in book.progress().accounts:
            assert account.spent + account.reserved <= account.limit
        with ThreadPoolExecutor(2) as both:
            outcomes = list(both.map(lambda cell: run_cell(cell, bench, noon), leased))
        book.report("w", outcomes, float(now))
        seen.append(bill())
    raise AssertionError("the clock does not end")


def opened(url: str, folder: Path, limits: SpendingLimits) -> Workbench:
    made = paid_cells.bench(url, str(folder), RECIPIENT, RUN)
    stated = ModelPin(
        "paid",
        "openai",
        "asked",
        (("base_url", '"http://h/v1"'), ("context", "6000"), ("max_tokens", "200")),
    )
    bound = attempt_bound(stated, PRICE, 11)
    model = PricedModel("paid", "openai", PRICE, bound if limits.reserve == "bound" else None)
    return replace(made, context=replace(made.context, prices=(model,), limits=limits))


LIMITS = {
    "run": SpendingLimits(run=LIMIT),
    "model": SpendingLimits(models=(("paid", LIMIT),)),
    "provider": SpendingLimits(providers=(("openai", LIMIT),)),
}


@pytest.mark.parametrize(
    ("named", "broken"), [("run", False), ("run", True), ("model", True), ("provider", True)]
)
def test_leasing_stops_before_a_limit_is_passed(tmp_path: Path, named: str, broken: bool) -> None:
    """With broken turns in between, which the next attempt goes on from."""
    seller = Seller(lambda number: broken and number % 7 == 6)
    spent: list[Decimal] = []
    with serve(always=seller.answer) as served:
        bench = opened(served.url, tmp_path, LIMITS[named])
        progress = sweep(bench, served.url, lambda: seller.bill, spent)
        bench.close()
    (account,) = progress.accounts
    assert account.name.startswith(named)
    assert account.spent == seller.bill <= LIMIT
    assert (progress.used.usd, progress.used.unpriced) == (seller.bill, 0), "each reply once"
    assert progress.used.replies == seller.replies
    assert account.reserved == 0
    assert all(amount <= LIMIT for amount in spent)
    assert 2 <= progress.finished < CELLS
    assert progress.finished + progress.held == CELLS
    store = FolderStore(tmp_path)
    results = [RESULT_CODEC.read(store, key, keys_of(STUDY, RUN)) for key in store.list("results/")]
    # The final message is no answer, so it is followed by a reminder.
    assert {(result.turns, result.tool_calls) for result in results} == {(TURNS + 2, TURNS)}
    dearest = max(result.cost_usd or 0 for result in results)
    assert float(LIMIT - account.spent) < 2 * dearest, "and no sooner than it has to"
    assert bool(progress.failures) is broken


def test_bounds_hold_however_long_an_episode_becomes(tmp_path: Path) -> None:
    """By its settings an attempt may cost 0.88: of a budget of 1, one is leased."""
    seller, spent = Seller(lambda number: False), list[Decimal]()
    with serve(always=seller.answer) as served:
        bench = opened(served.url, tmp_path, SpendingLimits(run=Decimal(1), reserve="bound"))
        progress = sweep(bench, served.url, lambda: seller.bill, spent)
        bench.close()
    assert progress.accounts[0].spent == seller.bill <= 1
    assert (progress.finished, len(spent)) == (1, 1), "what is left does not cover another"


class CountingStore(MemoryStore):
    """Counts what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Counter[str]()

    def put(self, key: str, data: bytes) -> bool:
        self.asked["put"] += 1
        return super().put(key, data)

    def get(self, key: str) -> bytes:
        self.asked["get"] += 1
        return super().get(key)

    def exists(self, key: str) -> bool:
        self.asked["exists"] += 1
        return super().exists(key)

    def delete(self, keys: Iterable[str]) -> None:
        self.asked["delete"] += 1
        super().delete(keys)

    def list(self, prefix: str = "") -> Iterator[str]:
        self.asked["list"] += 1
        return super().list(prefix)


@pytest.mark.parametrize("limited", [False, True])
def test_an_episode_asks_its_store_as_often_as_documented(tmp_path: Path, limited: bool) -> None:
    """In docs/scaling.md and docs/cluster.md, which has the price."""
    with serve(always=Seller(lambda number: False).answer) as served:
        bench = opened(served.url, tmp_path, SpendingLimits(run=LIMIT))
        context = bench.context if limited else replace(bench.context, limits=None)
        store = CountingStore()
        (cell,) = paid_cells.cells(served.url, 1)
        assert run_cell(cell, replace(bench, store=store, context=context), noon).finished
        bench.close()
        turns = len(served.requests)
    budget = {"get": 1, "list": 2, "exists": turns + 4} if limited else {}
    usual = {"put": turns + 2, "exists": turns + 2, "list": 1, "delete": 1}
    assert store.asked == usual | budget
