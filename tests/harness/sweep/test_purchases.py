"""Requests of a worker: sent at the rate of its limits, in their order, and none after a stop."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace

import pytest

from generators.seed import Seed
from harness.build_model import build_model
from harness.errors import RateWait, WorkStopped
from harness.model import Message, ModelRequest, Role, Try
from harness.sweep.purchases import CallCounts, CallLimit, ModelCalls, Purchases, TokenBucket
from tests.harness import paid_cells
from tests.harness.openai_server import completion, failure, serve


def sent(calls: ModelCalls, until: float) -> list[float]:
    """The times at which queued calls are sent, up to a time."""
    times, now = [], 0.0
    while calls.queue and (left := calls.seconds_left(calls.queue[0], now)) + now <= until:
        now += left
        calls.leave(calls.queue[0], now)
        calls.send(now)
        times.append(now)
    return times


def queued(count: int, limit: CallLimit | None = None) -> ModelCalls:
    calls = ModelCalls()
    calls.set_limit(limit, 0.0)
    for call in range(count):
        calls.join(call, 0.0)
    return calls


def test_a_bucket_has_a_second_of_its_rate_at_most() -> None:
    bucket = TokenBucket()
    assert bucket.seconds_until(1, 0.0) == 0
    bucket.set_rate(4.0, 10.0)
    assert bucket.seconds_until(1, 10.0) == 0.25, "it begins empty"
    bucket.take(4, 100.0)
    assert bucket.seconds_until(1, 100.0) == 0.25, "it held four after a long time"
    bucket.take(8, 100.0)
    assert bucket.seconds_until(0, 100.0) == 2.0, "it may be overdrawn"
    bucket.set_rate(0.5, 101.0)
    assert bucket.seconds_until(1, 101.0) == 10.0
    bucket.set_rate(0.0, 101.0)
    assert bucket.seconds_until(1, 1000.0) == math.inf
    bucket.set_rate(math.inf, 1000.0)
    assert bucket.seconds_until(1, 1000.0) == 0


def test_calls_are_sent_in_their_order_at_the_rate() -> None:
    assert sent(queued(5), 100.0) == [0.0] * 5, "without a limit at once"
    calls = queued(5, CallLimit(2.0))
    assert calls.seconds_left(1, 0.0) == math.inf, "it waits for the one before"
    assert sent(calls, 2.0) == [0.5, 1.0, 1.5, 2.0]
    assert list(calls.queue) == [4]
    assert calls.report(2.0) == CallCounts(4, 0, 0.5 * (5 + 4 + 3 + 2))
    assert calls.report(3.0) == CallCounts(waited=1.0), "a call that waits still is counted"


def test_a_first_refusal_holds_all_calls_until_the_next_limit() -> None:
    calls = queued(3)
    calls.refuse(0.0)
    assert calls.urgent
    assert calls.seconds_left(0, 0.5) == 1.5, "for two seconds, if none comes"
    assert calls.report(0.0) == CallCounts(refused=1)
    assert not calls.urgent
    calls.set_limit(CallLimit(1.0), 0.0)
    assert sent(calls, 100.0) == [1.0, 2.0, 3.0]
    calls.refuse(100.0)
    calls.join(9, 100.0)
    assert calls.seconds_left(9, 100.0) == 0, "with a limit they go on at its rate"


def test_a_share_that_is_not_known_yet_is_asked_for() -> None:
    calls = queued(1, CallLimit(0.0))
    assert calls.urgent
    assert sent(calls, 1000.0) == []


def test_shares_are_asked_for_often_while_calls_wait() -> None:
    assert queued(1, CallLimit(1.0)).urgent
    assert not queued(0, CallLimit(1.0)).urgent


def test_calls_that_would_wait_long_are_hopeless_but_never_the_first() -> None:
    assert queued(5, CallLimit(0.1)).hopeless == ()
    calls = queued(0)
    for call in range(5):
        calls.join(call, 0.0)
    calls.set_limit(CallLimit(0.1, longest_wait=25.0), 0.0)
    assert calls.hopeless == (3, 4)
    calls.set_limit(CallLimit(0.001, longest_wait=25.0), 0.0)
    assert calls.hopeless == (1, 2, 3, 4)


def test_tokens_of_replies_hold_back_the_calls_after_them() -> None:
    calls = queued(3, CallLimit(1000.0, tokens=50.0))
    calls.use(200, 1.0)
    assert sent(calls, 100.0)[0] == pytest.approx(1 + (200 - 50) / 50)


def test_nothing_is_sent_half_a_lease_after_the_last_renewal() -> None:
    purchases, waited = Purchases(), list[bool]()
    purchases.admit("m")
    purchases.renew(time.monotonic() - 3600)  # an hour without an answer

    def buy() -> None:
        purchases.admit("m")
        waited.append(True)

    buyer = threading.Thread(target=buy)
    buyer.start()
    buyer.join(0.1)
    assert buyer.is_alive(), "it waits"
    purchases.renew(time.monotonic())
    buyer.join(60)
    assert waited == [True]
    purchases.stop()
    with pytest.raises(WorkStopped):
        purchases.admit("m")


def test_threads_take_turns_and_end_when_the_work_stops() -> None:
    purchases, ends, limit = Purchases(), list[str](), {"m": CallLimit(0.0)}
    purchases.renew(time.monotonic(), limit)
    purchases.admit("other")

    def buy() -> None:
        try:
            purchases.admit("m")
            ends.append("sent")
        except WorkStopped as error:
            ends.append(type(error).__name__)

    threads = [threading.Thread(target=buy) for _ in range(6)]
    for thread in threads:
        thread.start()
    while purchases.report()["m"].waited == 0:
        time.sleep(0.01)
    purchases.renew(time.monotonic(), {"m": CallLimit(1e9)})
    for thread in threads:
        thread.join(60)
    assert ends == ["sent"] * 6
    assert purchases.report()["m"].requests == 6
    purchases.renew(time.monotonic(), limit)
    purchases.admit("m")  # a token was left
    waiting = threading.Thread(target=buy)
    waiting.start()
    purchases.stop()
    waiting.join(60)
    assert ends[6:] == ["WorkStopped"]


def test_a_call_gives_its_place_back_if_it_may(request: pytest.FixtureRequest) -> None:
    purchases, ends = Purchases(), list[str]()
    request.addfinalizer(purchases.stop)
    purchases.renew(time.monotonic(), {"m": CallLimit(0.0)})

    def buy(may_wait: bool) -> None:
        try:
            purchases.admit("m", may_wait)
        except WorkStopped as error:
            ends.append(type(error).__name__)

    def wait_for(count: int) -> None:
        while len(purchases._calls["m"].queue) < count:
            time.sleep(0.01)

    threads = [threading.Thread(target=buy, args=(may_wait,)) for may_wait in (True, True, False)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        wait_for(number)
    purchases.renew(time.monotonic(), {"m": CallLimit(1e-6, longest_wait=10.0)})
    threads[2].join(60)
    assert ends == [RateWait.__name__], "the others wait"
    purchases.stop()
    for thread in threads:
        thread.join(60)
    assert ends[1:] == [WorkStopped.__name__] * 2


def test_a_request_that_failed_is_not_retried_after_a_stop() -> None:
    purchases = Purchases()

    def stop(failed: Try) -> None:
        purchases.refuse("m")
        purchases.stop()

    with serve(always=lambda asked: failure(429)) as served:
        pin = paid_cells.pin_at(served.url)
        settings = dict(pin.settings) | {"retries": "3", "backoff_seconds": "0.01"}
        model = build_model(replace(pin, settings=tuple(settings.items())), {})
        asked = (Message(Role.USER, "Hello?"),)
        sends = ModelRequest(asked, (), Seed(bytes(32)), stop, lambda: purchases.admit("m"))
        with pytest.raises(WorkStopped):
            model.respond(sends)  # type: ignore[union-attr]
        assert len(served.requests) == 1
    assert purchases.report()["m"].refused == 1


def test_a_first_connection_is_opened_before_the_request_waits_for_its_turn() -> None:
    connected = []
    with serve(completion("None.")) as served:
        model = build_model(paid_cells.pin_at(served.url), {})
        asked = (Message(Role.USER, "Hello?"),)
        admit = lambda: connected.append("_client_thread" in vars(model))  # noqa: E731
        model.respond(ModelRequest(asked, (), Seed(bytes(32)), None, admit))  # type: ignore[union-attr]
    assert connected == [True], "libraries take seconds to load, in which a rate's turns pile up"
