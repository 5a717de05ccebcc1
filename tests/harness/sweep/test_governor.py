"""Providers that fail, throttle or refuse a key: their models wait and lose no cell, and others go
on. A simulated worker on a simulated clock works on a real lease book."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, pairwise

import pytest

from generators.seed import Seed
from generators.task import TaskSpec
from harness.build_model import provider_key
from harness.episode import Cell
from harness.sweep.governor import RATE_WAIT, LeaseOutcome, StatedLimit, WaitReason
from harness.sweep.leases import LeaseBook, LeaseRules
from harness.sweep.purchases import CallCounts, CallLimit
from registry.ledger.records import ModelPin
from tests.harness.listed_cells import ListedCells

HOUR, SLOTS = 3600, 6
SPEC = TaskSpec("count_circles", "1", "easy", ())
Answer = Callable[[Cell, int], LeaseOutcome]


def cells(*models: str, each: int) -> list[Cell]:
    return [
        Cell(f"{model}-{n}", SPEC, "i", Seed(bytes(32)), model, 0)
        for n in range(each)
        for model in models
    ]


def book(
    *models: str, each: int = 400, shared: bool = False, searched: bool = False, failures: int = 3
) -> LeaseBook:
    """Models of this machine, or those of one key or of several if they are ``shared`` or
    ``searched``."""
    keys = dict.fromkeys(models, "one") if shared else {m: m for m in models if searched}
    owed = ListedCells(cells(*models, each=each))
    return LeaseBook(
        owed, bytes(len(owed)), LeaseRules(60.0, max_failures=failures, providers=keys)
    )


def done(cell: Cell) -> LeaseOutcome:
    return LeaseOutcome(cell.episode, True, replies=9)


def failed(cell: Cell, kind: str, wait: float = 0.0) -> LeaseOutcome:
    return LeaseOutcome(cell.episode, False, f"provider:{kind}", wait=wait)


def work(
    kept: LeaseBook, answer: Answer, until: int, slots: int = SLOTS, seconds: int = 5
) -> list[tuple[int, str]]:
    """A worker with ``slots``, which polls once a second; an attempt takes ``seconds``. Return time
    and model of every lease."""
    leased: list[tuple[int, str]] = []
    pending: dict[Cell, int] = {}
    for now in range(until):
        over = [cell for cell, end in pending.items() if end <= now]
        kept.report("w", [answer(cell, now) for cell in over], now)
        for cell in over:
            del pending[cell]
        holding = frozenset(cell.episode for cell in pending)
        for cell in kept.lease("w", slots - len(pending), now, holding):
            pending[cell] = now + seconds
            leased.append((now, cell.model))
    return leased


@pytest.mark.parametrize("kind", ["connection", "overload", "rate_limit", "timeout", "malformed"])
def test_an_outage_of_an_hour_costs_a_probe_a_minute_and_no_cell(kind: str) -> None:
    kept = book("dead", each=10)

    def answer(cell: Cell, now: int) -> LeaseOutcome:
        return failed(cell, kind) if now < HOUR else done(cell)

    leased = work(kept, answer, HOUR + 600)
    before = [now for now, _ in leased if now < 10]
    probes = [now for now, _ in leased if 10 <= now < HOUR]
    assert len(before) <= 2 * SLOTS
    assert 55 <= len(probes) <= 60
    assert all(later - now >= 60 for now, later in pairwise(probes))
    progress = kept.progress()
    assert (progress.finished, progress.exhausted) == (10, 0), "the first success closes it"
    assert kept.over()


@pytest.mark.parametrize(("kind", "wait"), [("connection", 0), ("rate_limit", 20), ("quota", 0)])
def test_a_healthy_model_keeps_its_rate_beside_one_that_fails(kind: str, wait: int) -> None:
    alone, beside = book("healthy", each=900), book("ill", "healthy", each=900)
    work(alone, lambda cell, now: done(cell), 600)

    def answer(cell: Cell, now: int) -> LeaseOutcome:
        return failed(cell, kind, wait) if cell.model == "ill" else done(cell)

    work(beside, answer, 600)
    assert alone.progress().finished > 600
    assert beside.progress().finished >= 0.95 * alone.progress().finished
    assert beside.progress().exhausted == 0
    ill = beside.progress().models[1]
    assert (ill.model, ill.reason) == ("ill", WaitReason.OUTAGE)
    assert ill.failure == f"provider:{kind}"
    assert 0 <= ill.seconds <= 60


def test_models_of_one_key_share_a_breaker() -> None:
    kept = book("one", "two", shared=True)
    leased = work(kept, lambda cell, now: failed(cell, "connection"), HOUR)
    probes = Counter(model for now, model in leased if now >= 10)
    assert probes.total() <= 60
    assert min(probes.values()) >= 25, "in turn"


def test_a_refused_key_stops_its_model_alone() -> None:
    kept = book("revoked", "healthy", each=50, shared=True)

    def answer(cell: Cell, now: int) -> LeaseOutcome:
        return failed(cell, "auth") if cell.model == "revoked" else done(cell)

    leased = work(kept, answer, 200)
    assert Counter(model for _, model in leased) == {"revoked": SLOTS // 2, "healthy": 50}
    progress = kept.progress()
    (stopped,) = progress.stopped
    assert (stopped.model, stopped.waiting, progress.exhausted) == ("revoked", 50, 0)
    assert kept.over()
    assert not progress.done, "its cells stay owed"


def test_free_workers_are_shared_among_the_models_that_may_run() -> None:
    kept = book("a", "b", "c")
    assert Counter(cell.model for cell in kept.lease("w", 6, 0)) == {"a": 2, "b": 2, "c": 2}
    one = work(book("a", "b", "c"), lambda cell, now: done(cell), 60, slots=1)
    assert [model for _, model in one[:6]] == ["a", "b", "c"] * 2


def test_a_slow_model_does_not_take_every_slot() -> None:
    kept = book("slow", "quick")
    first = kept.lease("w", 6, 0)
    quick = [cell for cell in first if cell.model == "quick"]
    kept.report("w", [done(cell) for cell in quick], 1)
    holding = frozenset(cell.episode for cell in first if cell.model == "slow")
    assert {cell.model for cell in kept.lease("w", 3, 1, holding)} == {"quick"}


def heard(kept: LeaseBook, now: float, worker: str = "w", **calls: CallCounts) -> CallLimit | None:
    """The limit of model ``m`` after a report of a worker's calls."""
    return kept.limit_calls(worker, calls, now).get("m")


def rates(kept: LeaseBook, *reports: CallCounts, begin: float = 0.0) -> list[float]:
    """The rate after each report of the one worker, which come every five seconds."""
    limits = [heard(kept, begin + 5.0 * n, m=calls) for n, calls in enumerate(reports)]
    return [math.inf if limit is None else round(limit.rate, 3) for limit in limits]


TAKEN, REFUSED = CallCounts(50, 0, 30.0), CallCounts(50, 10, 30.0)


def test_there_is_no_rate_before_the_first_refusal_and_then_what_was_taken() -> None:
    kept = book("m")
    kept.lease("w", 6, 0)
    assert rates(kept, CallCounts(), TAKEN, TAKEN, REFUSED) == [math.inf] * 3 + [8.0]


def test_the_rate_doubles_in_two_rounds_until_it_is_refused_and_then_stays_near_that() -> None:
    kept = book("m")
    kept.lease("w", 6, 0)
    assert heard(kept, 0.0, m=CallCounts(6, 6)) == CallLimit(1.0, 10.0), "all were refused"
    start = [TAKEN] * 4  # the first is of the earlier rate
    assert rates(kept, *start, begin=5.0) == [1.0, 1.5, 2.25, 3.375]
    assert rates(kept, REFUSED, begin=25.0) == [round(3.375 * 0.8 * 0.95, 3)]
    again = rates(kept, *start, begin=30.0)[1:]
    assert again == [2.7, round(2.7 * 1.01, 3), round(2.7 * 1.01 * 1.015, 3)]


def test_refusals_of_what_was_sent_at_an_earlier_rate_do_not_count() -> None:
    kept = book("m")
    for worker in ("v", "w"):
        kept.lease(worker, 6, 0)
        assert heard(kept, 0.0, worker) is None
    first = heard(kept, 5.0, "v", m=CallCounts(60, 30))
    assert first == CallLimit(3.0, 10.0), "half of six, for half of the episodes"
    assert heard(kept, 6.0, "w", m=CallCounts(60, 60)) == first
    assert heard(kept, 9.0, "w", m=CallCounts(10, 5)) == first, "of v, which did not know yet"
    assert heard(kept, 11.0, "v", m=CallCounts(15, 0, 30.0)) == first
    assert heard(kept, 14.0, "w", m=CallCounts(15, 5)) == first


SECOND = CallCounts(8, 0, 5.0)


def test_the_search_for_a_rate_begins_low_and_ends_with_a_refusal() -> None:
    kept = book("m", searched=True)
    assert heard(kept, 0.0) == CallLimit(0.0), "until it has episodes"
    kept.lease("w", 6, 0)
    first = [heard(kept, 1.0 + n, m=SECOND) for n in range(4)]
    assert first == [CallLimit(8.0 * 1.5**n) for n in range(1, 5)], "each second faster"
    kept.lease("v", 30, 4.0)
    assert kept.progress().models[0].running == 36, "and no limit on the episodes"
    found = CallLimit(0.95 * 30 * (6 / 36), 10.0)
    assert heard(kept, 4.5, m=CallCounts(40, 10)) == found, "as it took, for six of 36"
    assert heard(kept, 5.5, m=CallCounts(40, 10)) == found, "an earlier rate's"


def test_the_search_ends_with_what_was_taken_if_that_was_less_than_the_rate() -> None:
    kept = book("m", searched=True)
    kept.lease("w", 6, 0)
    assert heard(kept, 0.0) == CallLimit(8.0)
    assert heard(kept, 4.0, m=CallCounts(6, 2)) == CallLimit(0.95, 10.0), "four in four seconds"
    kept = book("m", searched=True)
    kept.lease("w", 6, 0)
    assert heard(kept, 1.0, m=CallCounts(6, 6)) == CallLimit(0.95, 10.0), "or one, if nothing was"


def test_calls_that_need_not_wait_raise_no_search() -> None:
    kept = book("m", searched=True)
    kept.lease("w", 6, 0)
    assert [heard(kept, 1.0 * n, m=CallCounts(4, 0)) for n in range(9)] == [CallLimit(8.0)] * 9


def test_a_rate_that_no_call_waits_for_stays() -> None:
    kept = book("m")
    kept.lease("w", 6, 0)
    idle = CallCounts(20, 0, 0.5)
    assert rates(kept, REFUSED, idle, idle, idle, idle) == [8.0] * 5


def test_a_rate_is_shared_by_the_episodes_at_work() -> None:
    kept = book("m", "other", shared=True)
    for worker, free in (("v", 2), ("w", 6)):
        kept.lease(worker, free, 0)
    limits = kept.limit_calls("v", {"m": CallCounts(40, 0), "other": CallCounts(40, 40)}, 5.0)
    assert {name: limit.rate for name, limit in limits.items()} == {"m": 0.475, "other": 0.475}
    found = 0.95 * 4  # half of the first rate of eight
    assert heard(kept, 6.0, "w") == CallLimit(found * 3 / 8, 10.0), "three of the eight"
    assert heard(kept, 6.0, "new") == CallLimit(0.0, 10.0), "until it has episodes"
    kept.release("v")
    assert heard(kept, 7.0, "w") == CallLimit(found / 2, 10.0)


def test_episodes_at_work_wait_for_a_quarter_of_their_time() -> None:
    kept = book("m")
    first = kept.lease("w", 40, 0)
    heard(kept, 0.0)
    heard(kept, 5.0, m=CallCounts(60, 30, waited=170.0))  # of 200 s: six need no more
    kept.report("w", [done(cell) for cell in first[:30]], 5.0)
    (state,) = kept.progress().models
    assert (state.reason, state.running) == (WaitReason.LIMIT, 10)
    assert kept.lease("v", 9, 5.0) == (), "ten are allowed"
    heard(kept, 10.0, m=CallCounts(30, 0, waited=2.0))
    assert len(kept.lease("v", 9, 10.0)) == 4, "nearly ten that do not wait, so fourteen"


def test_a_stated_rate_holds_from_the_start_and_is_never_exceeded() -> None:
    owed = ListedCells(cells("m", "other", each=400))
    limits = {"m": StatedLimit(120.0), "other": StatedLimit(tokens_per_minute=6000.0)}
    kept = LeaseBook(
        owed, bytes(800), LeaseRules(60.0, providers=dict.fromkeys(limits, "one"), limits=limits)
    )
    kept.lease("w", 4, 0)
    kept.lease("v", 4, 0)
    given = kept.limit_calls("w", {}, 0.0)
    assert given == {"m": CallLimit(1.0, 10.0), "other": CallLimit(math.inf, 10.0, 50.0)}
    assert heard(kept, 0.0, "v") == CallLimit(1.0, 10.0), "each has half"
    assert rates(kept, TAKEN, TAKEN, begin=5.0) == [1.0, 1.0], "though calls wait"
    assert rates(kept, REFUSED, begin=15.0) == [round(0.8 * 0.95, 3)], "another one uses it too"
    assert rates(kept, TAKEN, TAKEN, TAKEN, TAKEN, begin=20.0) == [0.76, 0.8, 0.808, 0.82]


def test_a_cell_that_gave_its_place_back_is_the_next() -> None:
    kept = book("m", failures=1)
    first = kept.lease("w", 3, 0)
    kept.report("w", [LeaseOutcome(first[1].episode, False, RATE_WAIT)], 1)
    assert kept.progress().failures == ()
    holding = frozenset((first[0].episode, first[2].episode))
    assert kept.lease("w", 1, 1, holding) == (first[1],)


def test_an_episode_whose_replies_are_always_malformed_is_given_up() -> None:
    kept = book("m", each=1)
    assert len(work(kept, lambda cell, now: failed(cell, "malformed"), 200)) == 3
    assert kept.progress().exhausted == 1


def test_a_cell_waits_as_long_as_the_provider_asks_up_to_an_hour() -> None:
    kept = book("m", each=1)
    for wait, expected in ((40, 40), (HOUR, HOUR), (HOUR + 1, 60)):
        (cell,) = kept.lease("w", 1, 0)
        kept.report("w", [replace(failed(cell, "rate_limit", wait), replies=3)], 0)
        assert kept.progress().models[0].reason is WaitReason.PAUSE
        assert kept.lease("w", 1, expected - 1) == ()
        assert not kept.over()
        (again,) = kept.lease("w", 1, expected)
        kept.report("w", [replace(failed(again, "overload"), replies=3)], expected)


def test_a_probe_that_is_lost_with_its_worker_is_followed_by_another() -> None:
    kept = book("m")
    kept.report("w", [failed(cell, "connection") for cell in kept.lease("w", 6, 0)], 1)
    assert len(kept.lease("w", 6, 61)) == 1
    kept.hear("w", 120)
    assert kept.lease("v", 6, 130) == (), "one at a time"
    kept.release("w")
    assert len(kept.lease("v", 6, 130)) == 1


def test_a_failure_after_replies_opens_no_breaker() -> None:
    kept = book("m")
    for now in range(10):
        (cell,) = kept.lease("w", 1, now)
        kept.report("w", [replace(failed(cell, "timeout"), replies=1)], now)
    assert kept.progress().models[0].reason is WaitReason.NOTHING


def test_an_attempt_that_lost_paid_turns_counts() -> None:
    """As one of an agent server, which begins anew."""
    kept = book("m", each=1)
    assert len(work(kept, lambda cell, now: replace(failed(cell, "connection"), lost=2), 200)) == 3
    assert kept.progress().exhausted == 1


def test_to_give_up_failures_of_the_provider_count() -> None:
    owed = ListedCells(cells("dead", "revoked", each=4))
    kept = LeaseBook(owed, bytes(8), LeaseRules(60.0, max_failures=3, give_up=True))
    kinds = {"dead": "connection", "revoked": "auth"}
    assert len(work(kept, lambda cell, now: failed(cell, kinds[cell.model]), 200)) == 3 * 8
    assert kept.progress().exhausted == 8
    assert kept.over()


def pins() -> Iterator[ModelPin]:
    at = {"base_url": "https://h/v1", "api_key_env": "K"}
    numbers = count()

    def pin(provider: str, **settings: str) -> ModelPin:
        stated = tuple((name, json.dumps(value)) for name, value in settings.items())
        return ModelPin(f"m{next(numbers)}", provider, "v", stated)

    yield from (pin("openai", **at), pin("openai", **at))
    yield pin("openai", **at | {"api_key_env": "OTHER"})
    yield pin("openai", base_url="https://other/v1")
    yield pin("anthropic")
    yield from (pin("bedrock", region="a"), pin("bedrock", region="b"))
    yield from (pin("scripted"), pin("scripted"))


def test_a_provider_key_is_an_address_and_a_credential() -> None:
    first, second, *others, one, two = map(provider_key, pins())
    assert first == second
    assert len({first, *others}) == 1 + len(others)
    assert (one, two) == (None, None), "models of this machine"
