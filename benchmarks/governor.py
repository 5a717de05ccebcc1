"""Providers that are down or limit requests, simulated: prints one JSON line.

    python -m benchmarks.governor

Leases, limits and breakers are real, as are retries and their pauses; a worker, the clock and the
servers are simulated. No time passes, and nothing is sent. An episode has ten turns. A worker has
64 slots (``parallel``) unless said, and polls four times a second.

``outage``: a server answers nothing for an hour, then all. ``leases`` are those in that hour: first
the cells at work when it began, then a probe a minute. ``limited``: a server refuses what is over
six requests a second, in a wave of 3,000 episodes; replies take that many seconds on average, half
of it either way. ``refusals_per_reply_later`` leaves out the first ten minutes, in which the limit
is found; ``rate`` is relative to what six a second and 64 slots allow. ``beside``: replies of a
healthy model in ten minutes beside a failing one, relative to those it has alone.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from generators.seed import Seed
from harness.errors import Boundary
from harness.models.providers.retry import RETRIED, pause, try_again
from harness.sweep.governor import LeaseOutcome
from harness.sweep.leases import LeaseBook
from harness.sweep.run_cell import _LONGEST_PAUSE
from tests.harness.sweep.test_governor import book

HOUR, SLOTS, TURNS, RATE = 3600.0, 64, 10, 6.0
RETRIES, BACKOFF, POLL = 3, 1.0, 0.25
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
    replies: int = 0
    refusals: int = 0
    failed: list[str] = field(default_factory=list)


@dataclass
class Sweep:
    """A simulated sweep: a lease book, the servers of its models, and what was counted."""

    book: LeaseBook
    servers: Mapping[str, Server]
    slots: int = SLOTS
    replies: Counter[str] = field(default_factory=Counter)  # by model
    leases: list[tuple[float, str]] = field(default_factory=list)  # time, model
    replied: list[float] = field(default_factory=list)  # times of requests that got a reply
    refused: list[float] = field(default_factory=list)  # times of the others

    def run(self, until: float = math.inf) -> float:
        """Sweep until all is done or a time has come; return the time of the last event."""
        turns = Counter[str]()  # that an episode has had, in all its attempts
        attempts: dict[str, Attempt] = {}
        numbers, now = count(), 0.0
        events: list[tuple[float, int, str]] = [(0.0, next(numbers), "")]
        while events and events[0][0] < until:
            now, number, episode = heapq.heappop(events)
            if not episode:  # the worker polls
                free, holding = self.slots - len(attempts), frozenset(attempts)
                for cell in self.book.lease("w", free, now, holding):
                    attempts[cell.episode] = Attempt(cell.model)
                    self.leases.append((now, cell.model))
                    heapq.heappush(events, (now, next(numbers), cell.episode))
                if attempts or not self.book.over():
                    heapq.heappush(events, (now + POLL, next(numbers), ""))
                continue
            attempt, error, wait = attempts[episode], "", 0.0
            after: float | None = None
            if turns[episode] < TURNS:
                error, wait = self._ask(attempt, now)
                if not error:
                    turns[episode] += 1
                    spread = Seed(bytes(32)).child("latency", number).rng().uniform(0.5, 1.5)
                    after = self.servers[attempt.model].latency * spread
                elif not (error in RETRIED and wait > _LONGEST_PAUSE) and try_again(
                    attempt.failed, RETRIES, wait
                ):
                    seed = Seed(bytes(32)).child("pause", number)
                    after = pause(BACKOFF, len(attempt.failed) - 1, wait, seed)
            if after is None:
                del attempts[episode]
                self.book.report("w", [_outcome(episode, attempt, error, wait)], now)
            else:
                heapq.heappush(events, (now + after, next(numbers), episode))
        return now

    def _ask(self, attempt: Attempt, now: float) -> Refusal:
        """Send a request; the error class is "" if it is answered."""
        refusal = self.servers[attempt.model].refuse(now)
        if refusal is None:
            attempt.replies, attempt.failed = attempt.replies + 1, []
            self.replies[attempt.model] += 1
            self.replied.append(now)
            return "", 0.0
        attempt.refusals += refusal[0] == "rate_limit"
        attempt.failed.append(refusal[0])
        self.refused.append(now)
        return refusal


def _outcome(episode: str, attempt: Attempt, error: str, wait: float) -> LeaseOutcome:
    return LeaseOutcome(
        episode,
        finished=not error,
        error_class=f"{Boundary.PROVIDER}:{error}" if error else "",
        replies=attempt.replies,
        refusals=attempt.refusals,
        wait=wait,
    )


def main() -> None:
    kinds = ("connection", "overload", "rate_limit")
    line = {
        "benchmark": "governor",
        "simulated": "worker, clock and servers",
        "outage": [outage(kind, slots) for kind in kinds for slots in (6, SLOTS)],
        "limited": [limited(latency) for latency in LATENCIES],
        "beside": [beside(kind, wait) for kind, wait in zip(kinds, (0, 0, 20), strict=True)],
    }
    print(json.dumps(line))


def outage(kind: str, slots: int) -> dict[str, object]:
    """An hour without a reply, which begins with the sweep."""
    server = Server(refuse=lambda now: (kind, 0.0) if now < HOUR else None)
    sweep = Sweep(book("m", each=2 * SLOTS), {"m": server}, slots)
    sweep.run()
    leased = [now for now, _ in sweep.leases if now < HOUR]
    first = sum(now < 60 for now in leased)
    return {
        "failure": kind,
        "parallel": slots,
        "leases": len(leased),
        "probes": len(leased) - first,
        "requests": len(sweep.refused),
        "given_up": sweep.book.progress().exhausted,
        "seconds_to_the_next_reply": round(min(sweep.replied) - HOUR, 1),
    }


def limited(latency: float, episodes: int = 3_000) -> dict[str, object]:
    """A bucket of six requests, which fills at six a second."""
    bucket, filled = RATE, 0.0

    def refuse(now: float) -> Refusal | None:
        nonlocal bucket, filled
        bucket, filled = min(RATE, bucket + RATE * (now - filled)), now
        if bucket < 1:
            return "rate_limit", 0.0
        bucket -= 1
        return None

    def later(times: list[float]) -> int:
        return sum(now >= FOUND for now in times)

    sweep = Sweep(book("m", each=episodes), {"m": Server(latency, refuse)})
    seconds = sweep.run()
    possible = min(RATE, SLOTS / latency)
    return {
        "seconds_a_reply": latency,
        "refusals_per_reply": round(len(sweep.refused) / len(sweep.replied), 3),
        "refusals_per_reply_later": round(later(sweep.refused) / later(sweep.replied), 3),
        "rate": round(len(sweep.replied) / seconds / possible, 3),
        "failed_attempts": len(sweep.leases) - episodes,
        "given_up": sweep.book.progress().exhausted,
    }


def beside(kind: str, wait: float) -> dict[str, object]:
    """A healthy model beside one of which every request fails."""
    servers = {"healthy": Server(), "ill": Server(refuse=lambda now: (kind, wait))}
    alone = Sweep(book("healthy", each=8_000), servers)
    both = Sweep(book("ill", "healthy", each=8_000), servers)
    alone.run(600.0)
    both.run(600.0)
    return {
        "failure": kind,
        "retry_after": wait,
        "rate": round(both.replies["healthy"] / alone.replies["healthy"], 3),
        "requests_to_the_failing": len(both.refused),
        "given_up": both.book.progress().exhausted,
    }


if __name__ == "__main__":
    main()
