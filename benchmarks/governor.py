"""Providers that are down or limit requests, simulated: prints one JSON line.

    python -m benchmarks.governor

Leases, rates, buckets and breakers are real, as are retries and their pauses; workers, the clock
and the servers are simulated. No time passes, and nothing is sent. An episode has ten turns. There
are 64 slots (``parallel``) unless said, of one worker or shared by eight; a worker polls four times
a second.

``outage``: a server answers nothing for an hour, then all. ``leases`` are those in that hour of
which a request was sent: first the cells at work when it began, then ``probes``. ``limited``: a
server refuses what is over six requests a second, in a wave of 3,000 episodes; replies take that
many seconds on average, half of it either way. ``refusals_per_reply_later`` leaves out the first
ten minutes; ``rate`` is relative to what six a second and 64 slots allow; ``given_back`` are cells
that would have waited for long. ``beside``: replies of a healthy model in ten minutes beside one of
which requests are refused, relative to those it has alone. ``shared``: two models of one provider
key that allows six requests a second, with replies of 0.5 and 5 s.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from generators.seed import Seed
from harness.errors import Boundary
from harness.models.providers.retry import RETRIED, pause, try_again
from harness.sweep.governor import RATE_WAIT, LeaseOutcome
from harness.sweep.leases import LeaseBook
from harness.sweep.purchases import ModelCalls, TokenBucket
from harness.sweep.run_cell import _LONGEST_PAUSE, CONGESTION
from harness.sweep.worker_process import HEARTBEAT_SECONDS, URGENT_SECONDS
from tests.harness.sweep.test_governor import book

HOUR, SLOTS, TURNS, RATE = 3600.0, 64, 10, 6.0
RETRIES, BACKOFF, POLL = 3, 1.0, 0.25
REFUSAL_SECONDS = 0.1  # from a request to its refusal
FOUND = 600.0  # seconds
LATENCIES = (0.5, 1.5, 5.0, 15.0)
Refusal = tuple[str, float]  # error class, and the pause that is asked for


@dataclass
class Server:
    """A model's server. ``refuse`` gives its answer to a request at a time; None is a reply, which
    takes ``latency`` seconds on average."""

    latency: float = 1.5
    refuse: Callable[[float], Refusal | None] = lambda now: None


@dataclass
class Attempt:
    """What an attempt had so far, and the failed tries of its next turn."""

    model: str
    worker: str
    leased: float
    replies: int = 0
    failed: list[str] = field(default_factory=list)


@dataclass
class Worker:
    """A simulated worker: its calls by model, and the time of its last heartbeat."""

    calls: dict[str, ModelCalls]
    heard: float = -math.inf
    wakes: dict[str, float] = field(default_factory=dict)  # model → when it may send again


@dataclass
class Sweep:
    """A simulated sweep: a lease book, the servers of its models, and what was counted. Its workers
    share the slots."""

    book: LeaseBook
    servers: Mapping[str, Server]
    slots: int = SLOTS
    workers: int = 1
    replies: Counter[str] = field(default_factory=Counter)  # by model
    leases: int = 0
    tried: set[tuple[float, str]] = field(default_factory=set)  # leases that sent a request
    replied: list[float] = field(default_factory=list)  # times of requests that got a reply
    refused: list[float] = field(default_factory=list)  # times of the others
    given_back: int = 0  # leases of cells that would have waited for long
    _turns: Counter[str] = field(default_factory=Counter)  # that an episode has had
    _attempts: dict[str, Attempt] = field(default_factory=dict)
    _by_name: dict[str, Worker] = field(default_factory=dict)
    _events: list[tuple[float, int, Callable[[float], None]]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def run(self, until: float = math.inf) -> float:
        """Sweep until all is done or a time has come; return the time of the last event."""
        for number in range(self.workers):
            name = f"w{number}"
            self._by_name[name] = Worker({model: ModelCalls() for model in self.servers})
            self._at(POLL * number / self.workers, partial(self._poll, name))
        now = 0.0
        while self._events and self._events[0][0] < until:
            now, _, event = heapq.heappop(self._events)
            event(now)
        return now

    def _at(self, time: float, event: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (time, next(self._numbers), event))

    def _poll(self, name: str, now: float) -> None:
        """Report a worker's calls, and lease cells."""
        worker = self._by_name[name]
        urgent = any(calls.urgent for calls in worker.calls.values())
        if now - worker.heard >= (URGENT_SECONDS if urgent else HEARTBEAT_SECONDS):
            worker.heard = now
            counts = {model: calls.report(now) for model, calls in worker.calls.items()}
            limits = self.book.limit_calls(name, counts, now)
            for model, calls in worker.calls.items():
                calls.set_limit(limits.get(model), now)
                for episode in calls.hopeless:
                    calls.leave(episode, now)
                    self.given_back += 1
                    del self._attempts[episode]
                    self.book.report(name, [LeaseOutcome(episode, False, RATE_WAIT)], now)
                self._send(name, model, now)
        own = frozenset(each for each, attempt in self._attempts.items() if attempt.worker == name)
        for cell in self.book.lease(name, self.slots // self.workers - len(own), now, own):
            self._attempts[cell.episode] = Attempt(cell.model, name, now)
            self.leases += 1
            self._ask(cell.episode, now)
        if self._attempts or not self.book.over():
            self._at(now + POLL, partial(self._poll, name))

    def _ask(self, episode: str, now: float) -> None:
        """Have an episode go on: with its next request, or to its end."""
        attempt = self._attempts[episode]
        if self._turns[episode] == TURNS:
            return self._end(episode, "", 0.0, now)
        self._by_name[attempt.worker].calls[attempt.model].join(episode, now)
        self._send(attempt.worker, attempt.model, now)

    def _send(self, worker: str, model: str, now: float) -> None:
        """Send what a worker may send a model, and come again for the rest."""
        calls, wakes = self._by_name[worker].calls[model], self._by_name[worker].wakes
        while calls.queue and (left := calls.seconds_left(calls.queue[0], now)) < math.inf:
            if left > 1e-9:
                if wakes.get(model, -1.0) <= now or now + left < wakes[model]:
                    wakes[model] = now + left
                    self._at(now + left, partial(self._send, worker, model))
                return
            episode = calls.queue[0]
            calls.leave(episode, now)
            calls.send(now)
            self._get(episode, calls, now)

    def _get(self, episode: str, calls: ModelCalls, now: float) -> None:
        """Send a request. Its episode goes on with the reply, or after the refusal."""
        attempt, number = self._attempts[episode], next(self._numbers)
        self.tried.add((attempt.leased, episode))
        server = self.servers[attempt.model]
        refusal = server.refuse(now)
        if refusal is not None:
            refused = partial(self._refused, episode, calls, number, *refusal)
            return self._at(now + REFUSAL_SECONDS, refused)
        self._turns[episode] += 1
        attempt.replies, attempt.failed = attempt.replies + 1, []
        self.replies[attempt.model] += 1
        self.replied.append(now)
        spread = Seed(bytes(32)).child("latency", number).rng().uniform(0.5, 1.5)
        return self._at(now + server.latency * spread, partial(self._ask, episode))

    def _refused(
        self, episode: str, calls: ModelCalls, number: int, error: str, wait: float, now: float
    ) -> None:
        attempt = self._attempts[episode]
        self.refused.append(now)
        if error in CONGESTION:
            calls.refuse(now)
        attempt.failed.append(error)
        long = error in RETRIED and wait > _LONGEST_PAUSE
        if long or not try_again(attempt.failed, RETRIES, wait):
            return self._end(episode, error, wait, now)
        seed = Seed(bytes(32)).child("pause", number)
        after = pause(BACKOFF, len(attempt.failed) - 1, wait, seed)
        return self._at(now + after, partial(self._ask, episode))

    def _end(self, episode: str, error: str, wait: float, now: float) -> None:
        attempt = self._attempts.pop(episode)
        outcome = LeaseOutcome(
            episode,
            finished=not error,
            error_class=f"{Boundary.PROVIDER}:{error}" if error else "",
            replies=attempt.replies,
            wait=wait,
        )
        self.book.report(attempt.worker, [outcome], now)


def main() -> None:
    kinds = ("connection", "overload", "rate_limit")
    line = {
        "benchmark": "governor",
        "simulated": "worker, clock and servers",
        "outage": [outage(kind, slots) for kind in kinds for slots in (6, SLOTS)],
        "limited": [limited(latency, workers) for workers in (1, 8) for latency in LATENCIES],
        "beside": [
            beside("connection", lambda now: ("connection", 0.0)),
            beside("overload", lambda now: ("overload", 0.0)),
            beside("rate_limit, Retry-After: 20", lambda now: ("rate_limit", 20.0)),
            beside("more than one request a second", refuse_above(1.0)),
        ],
        "shared": shared(),
    }
    print(json.dumps(line))


def outage(kind: str, slots: int) -> dict[str, Any]:
    """An hour without a reply, which begins with the sweep."""
    server = Server(refuse=lambda now: (kind, 0.0) if now < HOUR else None)
    sweep = Sweep(book("m", each=2 * SLOTS, searched=True), {"m": server}, slots)
    sweep.run()
    leased = [at for at, _ in sweep.tried if at < HOUR]
    return {
        "failure": kind,
        "parallel": slots,
        "leases": len(leased),
        "probes": sum(at >= 60 for at in leased),
        "requests": len(sweep.refused),
        "given_up": sweep.book.progress().exhausted,
        "seconds_to_the_next_reply": round(min(sweep.replied) - HOUR, 1),
    }


def refuse_above(rate: float) -> Callable[[float], Refusal | None]:
    """Requests are refused beyond a rate, by a bucket that holds a second of it."""
    bucket = TokenBucket()
    bucket.set_rate(rate, -1.0)

    def refuse(now: float) -> Refusal | None:
        if bucket.seconds_until(1, now) > 0:
            return "rate_limit", 0.0
        bucket.take(1, now)
        return None

    return refuse


def limited(latency: float, workers: int, episodes: int = 3_000) -> dict[str, Any]:
    """A server that refuses what is above a rate."""

    def later(times: list[float]) -> int:
        return sum(now >= FOUND for now in times)

    sweep = Sweep(
        book("m", each=episodes, searched=True),
        {"m": Server(latency, refuse_above(RATE))},
        workers=workers,
    )
    seconds = sweep.run()
    possible = min(RATE, SLOTS / latency)
    return {
        "workers": workers,
        "seconds_a_reply": latency,
        "refusals_per_reply": round(len(sweep.refused) / len(sweep.replied), 3),
        "refusals_per_reply_later": round(later(sweep.refused) / later(sweep.replied), 3),
        "rate": round(len(sweep.replied) / seconds / possible, 3),
        "failed_attempts": sweep.leases - sweep.given_back - episodes,
        "given_back": sweep.given_back,
        "given_up": sweep.book.progress().exhausted,
    }


def beside(refused: str, refuse: Callable[[float], Refusal | None]) -> dict[str, Any]:
    """A healthy model beside one of which requests fail."""
    servers = {"healthy": Server(), "ill": Server(refuse=refuse)}
    alone = Sweep(book("healthy", each=8_000, searched=True), servers)
    both = Sweep(book("ill", "healthy", each=8_000, searched=True), servers)
    alone.run(600.0)
    both.run(600.0)
    return {
        "refused": refused,
        "rate": round(both.replies["healthy"] / alone.replies["healthy"], 3),
        "refusals": len(both.refused),
        "given_up": both.book.progress().exhausted,
    }


def shared() -> dict[str, Any]:
    """Two models of one provider key, one of them ten times as slow, in half an hour."""
    refuse = refuse_above(RATE)
    servers = {"quick": Server(0.5, refuse), "slow": Server(5.0, refuse)}
    sweep = Sweep(book(*servers, each=8_000, shared=True), servers)
    sweep.run(1800.0)
    return {
        "replies": dict(sweep.replies),
        "refusals_per_reply": round(len(sweep.refused) / len(sweep.replied), 3),
        "rate": round(len(sweep.replied) / 1800 / RATE, 3),
    }


if __name__ == "__main__":
    main()
