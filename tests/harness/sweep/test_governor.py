"""Providers that fail, throttle or refuse a key: their models wait and lose no cell, and others go
on. A simulated worker on a simulated clock works on a real lease book."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, pairwise

import pytest

from generators.seed import Seed
from generators.task import TaskSpec
from harness.build_model import provider_key
from harness.episode import Cell
from harness.models.providers.retry import pause, try_again
from harness.sweep.governor import LeaseOutcome, WaitReason
from harness.sweep.leases import LeaseBook
from registry.ledger import ModelPin
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


def book(*models: str, each: int = 400, shared: bool = False, failures: int = 3) -> LeaseBook:
    keys = dict.fromkeys(models, "one") if shared else {}
    owed = ListedCells(cells(*models, each=each))
    return LeaseBook(owed, bytes(len(owed)), 60.0, failures, providers=keys)


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


@dataclass
class Attempt:
    """What an attempt had so far, and the failed tries of its next turn."""

    replies: int = 0
    refusals: int = 0
    failed: list[str] = field(default_factory=list)


@pytest.mark.parametrize("kind", ["connection", "overload", "rate_limit", "timeout", "quota"])
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


def test_a_rate_limit_halves_what_is_at_work_once_and_a_round_of_successes_adds_one() -> None:
    kept = book("m")
    first = kept.lease("w", 16, 0)
    kept.report("w", [failed(cell, "rate_limit") for cell in first[:2]], 1)
    assert kept.lease("v", 9, 1) == (), "eight are allowed, fourteen at work"
    (state,) = kept.progress().models
    assert (state.reason, state.running) == (WaitReason.LIMIT, 14)
    kept.report("w", [done(cell) for cell in first[2:9]], 2)
    assert len(kept.lease("v", 9, 2)) == 1, "still eight"
    kept.report("w", [done(first[9])], 3)
    assert len(kept.lease("u", 9, 3)) == 2, "nine, with seven at work"


def test_a_low_limit_rises_after_eight_successes() -> None:
    kept = book("m")
    kept.report("w", [failed(cell, "rate_limit") for cell in kept.lease("w", 2, 0)], 1)
    for now in range(2, 10):
        (cell,) = kept.lease("w", 9, now)
        kept.report("w", [done(cell)], now)
    assert len(kept.lease("w", 9, 10)) == 2


@pytest.mark.parametrize(("refusals", "leased"), [(0, 9), (1, 9), (2, 3)])
def test_refusals_that_retries_got_over_lower_the_limit_once_if_they_were_many(
    refusals: int, leased: int
) -> None:
    kept = book("m")
    first = kept.lease("w", 8, 0)
    outcomes = [replace(done(cell), replies=20, refusals=refusals) for cell in first[:4]]
    kept.report("w", outcomes, 1)
    assert len(kept.lease("v", 9, 1)) == leased, "seven are allowed, four at work"


def test_a_server_of_six_requests_a_second_refuses_few_and_is_kept_busy() -> None:
    """Episodes of ten turns of 1.5 s, 64 slots, and the retries and pauses of our models."""
    kept, bucket, filled = book("m", each=600), 6.0, 0.0  # requests left at that time
    had, refusals = Counter[str](), 0  # turns of each episode; refused after the first burst
    attempts: dict[str, Attempt] = {}
    numbers = count()
    events: list[tuple[float, int, str]] = [(0.0, next(numbers), "")]
    while events:
        now, _, episode = heapq.heappop(events)
        if not episode:  # the worker polls
            for cell in kept.lease("w", 64 - len(attempts), now, frozenset(attempts)):
                attempts[cell.episode] = Attempt()
                heapq.heappush(events, (now, next(numbers), cell.episode))
            if not kept.over():
                heapq.heappush(events, (now + 0.25, next(numbers), ""))
            continue
        attempt = attempts[episode]
        bucket, filled = min(6.0, bucket + 6 * (now - filled)), now
        if had[episode] == 10:
            after = None
        elif bucket >= 1:
            bucket -= 1
            had[episode] += 1
            attempt.replies, attempt.failed, after = attempt.replies + 1, [], 1.5
        else:
            refusals += now > 60
            attempt.refusals += 1
            attempt.failed.append("rate_limit")
            again, tried = try_again(attempt.failed, 3), len(attempt.failed) - 1
            jitter = Seed(bytes(32)).child("pause", next(numbers))
            after = pause(1.0, tried, None, jitter) if again else None
        if after is not None:
            heapq.heappush(events, (now + after, next(numbers), episode))
            continue
        del attempts[episode]
        error = "provider:rate_limit" if attempt.failed else ""
        counts = attempt.replies, attempt.refusals
        kept.report("w", [LeaseOutcome(episode, not error, error, None, *counts)], now)
    assert (kept.progress().finished, kept.progress().exhausted) == (600, 0)
    assert now <= 1.2 * 600 * 10 / 6
    assert refusals <= 0.06 * 600 * 10


def test_a_cell_waits_as_long_as_the_provider_asks_up_to_an_hour() -> None:
    kept = book("m", each=1)
    for wait, expected in ((40, 40), (10**8, HOUR)):
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
    leased = work(kept, lambda cell, now: replace(failed(cell, "connection"), lost=2), 200)
    assert len(leased) == 3
    assert kept.progress().exhausted == 1


def test_to_give_up_failures_of_the_provider_count() -> None:
    owed = ListedCells(cells("dead", "revoked", each=4))
    kept = LeaseBook(owed, bytes(8), 60.0, 3, give_up=True)
    kinds = {"dead": "connection", "revoked": "auth"}
    leased = work(kept, lambda cell, now: failed(cell, kinds[cell.model]), 200)
    assert len(leased) == 3 * 8
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
    yield pin("openai")
    yield pin("anthropic")
    yield from (pin("bedrock", region="a"), pin("bedrock", region="b"))
    yield from (pin("scripted"), pin("scripted"))


def test_a_provider_key_is_an_address_and_a_credential() -> None:
    first, second, *others = map(provider_key, pins())
    assert first == second
    assert len({first, *others}) == 1 + len(others)
