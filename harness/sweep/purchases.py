"""Permission to send requests, on a worker's side: while its lease is renewed, and as often as the
providers' rates allow.

``ModelCalls`` is pure bookkeeping, with the clock passed in; ``Purchases`` has threads wait.
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import RateWait, WorkStopped

RENEWED_SECONDS = 30.0  # half a lease
_HELD_SECONDS = 2.0  # after a refusal, without an answer of the coordinator
_BURST_SECONDS = 1.0  # of a rate: what may be sent at once after a time without requests


@dataclass(frozen=True, slots=True)
class CallLimit:
    """What one worker may send one model."""

    rate: float  # requests per second; 0 until the coordinator knows that it has such episodes
    longest_wait: float = math.inf  # seconds; a call that would wait longer gives its place back
    tokens: float | None = None  # input and output, per second; None: no limit


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Calls of one model by one worker since its last report."""

    requests: int = 0
    refused: int = 0  # of them, by a rate limit or for overload
    waited: float = 0.0  # seconds that calls waited for their turn, of all calls together

    def __add__(self, other: CallCounts) -> CallCounts:
        return CallCounts(
            self.requests + other.requests, self.refused + other.refused, self.waited + other.waited
        )


@dataclass(slots=True)
class TokenBucket:
    """A token bucket. It may be overdrawn, when the size of a reply is known only afterwards."""

    rate: float = math.inf  # tokens per second
    level: float = 1.0
    _at: float = 0.0  # time of the level

    def set_rate(self, rate: float, now: float) -> None:
        """Refill it at another rate from now on. It begins empty after a time without one."""
        self.level = self._level(now) if math.isfinite(self.rate) else 0.0
        self.rate, self._at = rate, now

    def seconds_until(self, level: float, now: float) -> float:
        """Return the seconds after which it has this level."""
        missing = level - self._level(now)
        if missing <= 0 or math.isinf(self.rate):
            return 0.0
        return missing / self.rate if self.rate else math.inf

    def take(self, tokens: float, now: float) -> None:
        """Take tokens out."""
        self.level, self._at = self._level(now) - tokens, now

    def _level(self, now: float) -> float:
        if math.isinf(self.rate):
            return 1.0
        capacity = max(1.0, _BURST_SECONDS * self.rate)
        return min(capacity, self.level + self.rate * (now - self._at))


@dataclass(slots=True)
class ModelCalls:
    """Calls of one model by one worker: a queue for its token buckets, and counts for the next
    report. A refusal before there is a limit holds further calls until one comes, for two seconds
    at most."""

    limit: CallLimit | None = None
    queue: deque[Any] = field(default_factory=deque)
    hopeless: tuple[Any, ...] = ()  # calls that would have waited too long, by that limit
    _requests: TokenBucket = field(default_factory=TokenBucket)
    _tokens: TokenBucket = field(default_factory=TokenBucket)
    _held_until: float = -math.inf
    _counts: CallCounts = CallCounts()
    _at: float = 0.0  # until when the waiting is counted

    def set_limit(self, limit: CallLimit | None, now: float) -> None:
        """Set the limit of the coordinator's last answer."""
        tokens = None if limit is None else limit.tokens
        self._requests.set_rate(math.inf if limit is None else limit.rate, now)
        self._tokens.set_rate(math.inf if tokens is None else tokens, now)
        self.limit, self._held_until = limit, -math.inf
        self.hopeless = ()
        sent = math.inf if limit is None else (limit.rate or math.inf) * limit.longest_wait
        if math.isfinite(sent):
            self.hopeless = tuple(self.queue)[1 + int(sent) :]

    def join(self, call: Any, now: float) -> None:
        """Add a call to the end of the queue."""
        self._count(now)
        self.queue.append(call)

    def leave(self, call: Any, now: float) -> None:
        """Take a call out of the queue."""
        self._count(now)
        self.queue.remove(call)

    def seconds_left(self, call: Any, now: float) -> float:
        """Return the seconds after which a call may be sent; infinite if that is not known."""
        if self.queue[0] != call:
            return math.inf
        buckets = self._requests.seconds_until(1, now), self._tokens.seconds_until(0, now)
        return max(*buckets, self._held_until - now)

    def send(self, now: float) -> None:
        """Count a request, which is sent now."""
        self._requests.take(1, now)
        self._counts += CallCounts(requests=1)

    def refuse(self, now: float) -> None:
        """Count a refusal of a request."""
        self._counts += CallCounts(refused=1)
        if self.limit is None:
            self._held_until = now + _HELD_SECONDS

    def use(self, tokens: int, now: float) -> None:
        """Count the tokens of a reply."""
        self._tokens.take(tokens, now)

    @property
    def urgent(self) -> bool:
        """True if the coordinator should hear of these calls soon: of a refusal, and while calls
        wait at a rate, as the shares of it change."""
        return self._counts.refused > 0 or (self.limit is not None and bool(self.queue))

    def report(self, now: float) -> CallCounts:
        """Return the counts since the last report."""
        self._count(now)
        counts, self._counts = self._counts, CallCounts()
        return counts

    def _count(self, now: float) -> None:
        self._counts += CallCounts(waited=len(self.queue) * (now - self._at))
        self._at = now


class Purchases:
    """Which requests the episodes of a worker may send: for half a lease after each renewal, at the
    rates of its answers, until they are stopped. May be shared by threads."""

    def __init__(self) -> None:
        """Allow all, until the first renewal: without a coordinator there is none."""
        self._lock = threading.Lock()
        self._until = math.inf
        self._stopped = self._draining = False
        self._calls: defaultdict[str, ModelCalls] = defaultdict(ModelCalls)

    def renew(self, asked: float, limits: Mapping[str, CallLimit] | None = None) -> None:
        """Allow requests, by the answer to what was ``asked`` at a time of the monotonic clock. The
        answer may have ``limits`` by model, and none for other models."""
        with self._lock:
            self._until = asked + RENEWED_SECONDS
            if limits is not None:
                for name in {*self._calls, *limits}:
                    self._calls[name].set_limit(limits.get(name), time.monotonic())
            self._wake()

    def stop(self, draining: bool = False) -> None:
        """Allow none any more. Of a process that is ``draining``, what was bought is stored first,
        however long its store is away."""
        with self._lock:
            self._stopped, self._draining = True, draining
            self._wake()

    def stopped(self) -> bool:
        """Return True if none is allowed any more."""
        return self._stopped

    def ended(self) -> bool:
        """Return True if what was bought need not be stored by this process either."""
        return self._stopped and not self._draining

    def admit(self, model: str, may_wait: bool = True) -> None:
        """Wait until a request to a model may be sent. Raises WorkStopped if none may be any more,
        and RateWait rather than to wait long, unless it ``may_wait``."""
        with self._lock:
            calls, call = self._calls[model], threading.Condition(self._lock)
            calls.join(call, time.monotonic())
            try:
                while True:
                    now = time.monotonic()
                    if self._stopped:
                        raise WorkStopped("the sweep has ended")
                    if not may_wait and call in calls.hopeless:
                        raise RateWait(f"model {model!r}: too many calls wait")
                    left = calls.seconds_left(call, now) if now < self._until else math.inf
                    if left <= 0:
                        return calls.send(now)
                    call.wait(None if math.isinf(left) else left)
            finally:
                calls.leave(call, time.monotonic())
                if calls.queue:
                    calls.queue[0].notify()

    def refuse(self, model: str) -> None:
        """Count a request that its provider refused for its rate, or for overload."""
        with self._lock:
            self._calls[model].refuse(time.monotonic())

    def use(self, model: str, tokens: int) -> None:
        """Count the tokens of a reply."""
        with self._lock:
            self._calls[model].use(tokens, time.monotonic())

    def urgent(self) -> bool:
        """Return True if a report should be made soon."""
        with self._lock:
            return any(calls.urgent for calls in self._calls.values())

    def report(self) -> dict[str, CallCounts]:
        """Return the counts of each model since the last report."""
        with self._lock:
            return {name: calls.report(time.monotonic()) for name, calls in self._calls.items()}

    def _wake(self) -> None:
        for calls in self._calls.values():
            for call in calls.queue:
                call.notify()
