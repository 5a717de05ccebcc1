"""Admission by provider: a circuit breaker and a rate of requests for each provider key.

A provider key names what models share: an address and a credential. The rate is one for all workers
together, and follows slow start, slow increase and multiplicative decrease, as congestion control
does (RFC 5681). Workers pace their calls by their shares of it (``purchases``), and no more
episodes are at work than keep it busy. Pure bookkeeping; the clock is passed in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from typing import Self

from harness.errors import Boundary
from harness.model import Usage
from harness.models.providers.retry import RETRIED
from harness.sandboxes.sandbox import RESTARTED
from harness.spending.budget import PricedModel, Spend, sum_spend
from harness.sweep.purchases import CallCounts, CallLimit

# Failures that say nothing about the cell: another attempt at it may succeed later.
PROVIDER_FAILURES = frozenset(
    f"{Boundary.PROVIDER}:{kind}" for kind in (*RETRIED, "timeout", "quota")
)
MALFORMED = f"{Boundary.PROVIDER}:malformed"
REFUSED_KEY = f"{Boundary.PROVIDER}:auth"
RATE_LIMIT = f"{Boundary.PROVIDER}:rate_limit"
ENGINE_RESTARTED = f"{Boundary.SANDBOX}:{RESTARTED}"
RATE_WAIT = f"{Boundary.WORKER}:rate_wait"  # no failure: the cell gave its place back
KILLED = f"{Boundary.WORKER}:killed"
PROBE_SECONDS = 60.0
_OPENS_AFTER = 3  # attempts in a row that got no reply
_LONGEST_WAIT = 3600.0  # seconds; a provider that asks for more is asked again in a minute
_ROUND = 5.0  # seconds, at least, between two changes of a rate, and of a limit on episodes
_LOWERED = 0.95  # factor of the rate that a provider was found to allow
_FASTER = 1.5  # factor of the rate, or of its step, for a round without refusals
_FIRST_STEP = 0.01  # share of the rate
_LEAST_RATE = 1 / PROBE_SECONDS  # requests per second
_FIRST_RATE = 1.0  # if a provider refuses all that it is sent first
_SEARCH_RATE = 8.0  # requests per second at which the search for a rate begins
_SEARCH_ROUND = 1.0  # seconds of a round of it
_SHORT = 0.05  # share of their time that episodes wait without need of a higher rate
_WAITING = 0.25  # share of their time that episodes may wait for their requests' turn
_LONGEST_WAIT_IN_PLACE = 10.0  # seconds; longer if an episode's turns take long


class WaitReason(StrEnum):
    """Reason for which the cells of a model are not leased."""

    NOTHING = ""  # they wait for a free worker
    OUTAGE = "outage"  # the breaker is open
    LIMIT = "limit"  # the provider's adaptive limit
    PAUSE = "pause"  # as the provider asked, or after a failure
    BUDGET = "budget"  # it does not pay for them
    STOPPED = "stopped"  # the key was refused: none is leased in this sweep


@dataclass(frozen=True, slots=True)
class Consumption:
    """Replies of attempts, with their tokens and cost. The sums are over the replies for which they
    are known; ``uncounted`` and ``unpriced`` are the numbers of the others."""

    replies: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0  # replies for which the provider reported no tokens
    usd: Decimal = Decimal()
    unpriced: int = 0  # replies of unknown cost

    @classmethod
    def of(cls, usages: Iterable[Usage], model: PricedModel | None) -> Self:
        """Sum up the replies of a model; the cost is unknown without its price."""
        each = tuple(usages)
        priced = model is not None and (model.free or model.price is not None)
        spend = sum_spend(each, model.price) if model and priced else Spend(unknown=len(each))
        counted = [
            (usage.input_tokens, usage.output_tokens)
            for usage in each
            if usage.input_tokens is not None and usage.output_tokens is not None
        ]
        return cls(
            replies=len(each),
            input_tokens=sum(tokens for tokens, _ in counted),
            output_tokens=sum(tokens for _, tokens in counted),
            uncounted=len(each) - len(counted),
            usd=spend.usd,
            unpriced=spend.unknown,
        )

    def __add__(self, other: Consumption) -> Consumption:
        names = (field.name for field in fields(self))
        return Consumption(**{n: getattr(self, n) + getattr(other, n) for n in names})


@dataclass(frozen=True, slots=True)
class LeaseOutcome:
    """Outcome of one lease, without content: ids, counts and an error class only."""

    episode: str
    finished: bool
    error_class: str = ""
    spend: Spend | None = None  # on the cell so far, if there is a budget
    replies: int = 0  # that the attempt got from the provider
    wait: float = 0.0  # seconds that the provider asked for when it failed the attempt
    lost: int = 0  # turns of a failed attempt that the next one pays for again
    used: Consumption = Consumption()  # by the attempt, with its replies from before a crash


@dataclass(frozen=True, slots=True)
class StatedLimit:
    """Rates of a model that its provider is known to allow; None if it is not known."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


@dataclass(frozen=True, slots=True)
class FailedAttempts:
    """Failed attempts of one error class, and the number of cells that had them."""

    error_class: str
    attempts: int
    cells: int


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """Cells of one model by state, what the waiting ones wait for, and what the attempts of this
    sweep had."""

    model: str
    running: int
    waiting: int
    reason: WaitReason = WaitReason.NOTHING
    failure: str = ""  # class of the failure that they wait for
    seconds: float = 0.0  # until a cell may be leased, in an outage or a pause
    owed: int = 0  # at the start of the run, finished ones included
    finished: int = 0
    exhausted: int = 0
    failures: tuple[FailedAttempts, ...] = ()
    used: Consumption = Consumption()


@dataclass(slots=True)
class RequestRate:
    """Rate of requests to a provider, of all workers together. One that is ``searched`` for begins
    low and rises with each second until the first refusal; else there is none before that, unless
    one is ``stated``."""

    stated: float = math.inf  # requests per second that it never exceeds
    searched: bool = False  # and not found yet
    rate: float | None = None
    _allowed: float = math.inf  # rate that the provider was found to allow
    _step: float = _FIRST_STEP  # by which the rate is raised above that one
    _settled: float = -math.inf  # from when on no worker sends at an earlier rate
    _seen: dict[str, float] = field(default_factory=dict)  # worker → time of its last report
    _began: float | None = None  # this round
    _round: CallCounts = field(default_factory=CallCounts)
    _worked: float = 0.0  # seconds of all episodes at work in this round

    def __post_init__(self) -> None:
        if math.isfinite(self.stated):
            self.rate, self._allowed, self.searched = self.stated, self.stated, False
        elif self.searched:
            self.rate = _SEARCH_RATE

    def record(self, worker: str, counts: CallCounts, worked: float, now: float) -> None:
        """Record the counts of a worker since its last report, and the seconds of its episodes at
        work since then. It gets its share of the rate in answer: what it sent at an earlier rate
        does not count for the present one."""
        if self._began is None:
            self._began = now
        if self._seen.get(worker, -math.inf) >= self._settled:
            self._round, self._worked = self._round + counts, self._worked + worked
        self._seen[worker] = now
        elapsed = now - self._began
        lasts = elapsed < (_SEARCH_ROUND if self.searched else _ROUND)
        found = self.rate is None or self.searched
        if lasts and not (found and self._round.refused):
            return
        if self._round.refused:
            self._lower(elapsed)
            self._settled = now + _ROUND
        elif self._round.requests and self._round.waited > _SHORT * self._worked:
            self._raise()
        self._round, self._worked, self._began = CallCounts(), 0.0, now

    def _lower(self, elapsed: float) -> None:
        """Lower the rate to a little less than the provider took, but to no less than half of a
        rate that was found."""
        taken = max(0, self._round.requests - self._round.refused)
        share = taken / max(1, self._round.requests)
        if self.searched:
            self._allowed = min(share * (self.rate or 0.0), taken / max(_SEARCH_ROUND, elapsed))
            self._allowed = self._allowed or _FIRST_RATE
            self.rate, self.searched = _LOWERED * self._allowed, False
        elif self.rate is None:
            self.rate = min(taken / max(_ROUND, elapsed) or _FIRST_RATE, self.stated)
        else:
            self._allowed = share * self.rate or self._allowed
            self.rate = max(_LEAST_RATE, _LOWERED * max(0.5, share) * self.rate)
        self._step = _FIRST_STEP

    def _raise(self) -> None:
        """Raise the rate after a round in which the provider took all, and calls waited: fast up to
        the rate that it was found to allow, then slowly at first."""
        if self.rate is None:
            return
        if self.searched:
            raised = _FASTER * self.rate
        elif self.rate < self._allowed:
            raised = min(_FASTER * self.rate, self._allowed)
        else:
            raised, self._step = (1 + self._step) * self.rate, _FASTER * self._step
        self.rate = min(raised, self.stated)


@dataclass(slots=True)
class _WorkerShare:
    """Episodes that a worker has at work at a provider."""

    at_work: Counter[str] = field(default_factory=Counter)  # by model
    worked: float = 0.0  # seconds of all, since the last report
    counted: float = 0.0  # until when
    reported: float = 0.0  # when
    busy: float = 0.0  # number of them, on average, whose calls did not wait for their turn

    def count(self, now: float) -> float:
        """Count the work until now, and return it."""
        self.worked += self.at_work.total() * (now - self.counted)
        self.counted = now
        return self.worked

    def report(self, waited: float, now: float) -> None:
        """Record for how long the calls waited since the last report."""
        if (seconds := now - self.reported) > 0:
            self.busy = max(0.0, self.worked - waited) / seconds
        self.worked, self.reported = 0.0, now


@dataclass(slots=True, eq=False)
class ProviderGate:
    """State of one provider key during a sweep, or of a model with a stated limit. Without
    ``probe_seconds`` its breaker stays closed, however often it fails."""

    probe_seconds: float | None = PROBE_SECONDS
    models: list[str] = field(default_factory=list)
    requests: RequestRate = field(default_factory=RequestRate)
    tokens: float | None = None  # per second, if that is stated
    limit: int | None = None  # of episodes at work; None while the rate has none
    failure: str = ""  # class of the last failure, if no reply came since
    next_probe: float | None = None  # None while the breaker is closed
    _failed: int = 0  # attempts in a row without a reply
    _garbled: set[str] = field(default_factory=set)  # episodes of those with malformed ones
    _probe: str = ""  # episode that is at work as the probe
    _at_work: dict[str, tuple[str, str]] = field(default_factory=dict)  # episode → worker, model
    _shares: dict[str, _WorkerShare] = field(default_factory=dict)  # by worker

    def admits(self, now: float) -> bool:
        """Return True if one more cell may be leased."""
        if self.next_probe is not None:
            return not self._probe and now >= self.next_probe
        return self.limit is None or len(self._at_work) < self.limit

    def begin(self, episode: str, worker: str, model: str, now: float) -> None:
        """Record a lease. With an open breaker it is the probe."""
        share = self._share(worker, now)
        share.at_work[model] += 1
        self._at_work[episode] = worker, model
        if self.next_probe is not None and self.probe_seconds is not None:
            self._probe, self.next_probe = episode, now + self.probe_seconds

    def end(self, episode: str, now: float) -> None:
        """Record that a lease has ended, or was lost."""
        worker, model = self._at_work.pop(episode)
        self._share(worker, now).at_work[model] -= 1
        if self._probe == episode:
            self._probe = ""

    def record(self, outcome: LeaseOutcome, now: float) -> None:
        """Draw the conclusions from an outcome, before its lease ends."""
        if outcome.finished or outcome.replies + outcome.lost > 0:
            self._failed, self.failure, self.next_probe = 0, "", None
            self._garbled.clear()
        elif is_provider_failure(outcome.error_class) or outcome.error_class == MALFORMED:
            # An episode whose replies are always malformed is no sign of an outage.
            self._failed += outcome.episode not in self._garbled
            if outcome.error_class == MALFORMED:
                self._garbled.add(outcome.episode)
            self.failure, asked = outcome.error_class, now + asked_pause(outcome)
            if self.next_probe is not None:
                self.next_probe = max(self.next_probe, asked)
            elif self.probe_seconds is not None and self._failed >= _OPENS_AFTER:
                self.next_probe = max(now + self.probe_seconds, asked)

    def excuses(self, error_class: str) -> bool:
        """Return True for a failure that counts against no cell: of the provider, a malformed reply
        while the provider sends nobody another, or with an engine that was restarted."""
        garbled = error_class == MALFORMED and self.next_probe is not None
        return garbled or error_class == ENGINE_RESTARTED or is_provider_failure(error_class)

    def limit_calls(
        self, worker: str, calls: Mapping[str, CallCounts], now: float
    ) -> dict[str, CallLimit]:
        """Record the calls of a worker by model since its last report. Return what it may send each
        model: its share of the rate by episodes at work; none if there is no limit. Once a rate is
        found, the episodes at work are limited to as many as wait for their calls' turn a quarter
        of the time."""
        counts = sum((calls.get(name, CallCounts()) for name in self.models), CallCounts())
        share = self._share(worker, now)
        self.requests.record(worker, counts, share.worked, now)
        share.report(counts.waited, now)
        rate = self.requests.rate
        if rate is None and self.tokens is None:
            return {}
        longest_wait = math.inf
        if not self.requests.searched:
            self.limit = self._places()
            longest_wait = max(_LONGEST_WAIT_IN_PLACE, 0.5 * self.limit / (rate or math.inf))
        parts = {name: share.at_work[name] / max(1, len(self._at_work)) for name in self.models}
        return {
            name: CallLimit(
                math.inf if rate is None else rate * part,
                longest_wait,
                None if self.tokens is None else self.tokens * part,
            )
            for name, part in parts.items()
        }

    def places(self) -> float:
        """Return how many episodes are of use at once: the probe alone in an outage, else as many
        as the rate keeps at work."""
        if self.next_probe is not None:
            return 1
        limited = self.requests.rate is not None or self.tokens is not None
        return self._places() if limited else math.inf

    def _places(self) -> int:
        return int(sum(each.busy for each in self._shares.values()) / (1 - _WAITING)) + 2

    def leave(self, worker: str) -> None:
        """Record that a worker has ended."""
        self._shares.pop(worker, None)

    def _share(self, worker: str, now: float) -> _WorkerShare:
        """Return the share of a worker, counted until now."""
        if (share := self._shares.get(worker)) is None:
            share = self._shares[worker] = _WorkerShare(counted=now, reported=now)
        share.count(now)
        return share


def open_gates(
    models: Iterable[str],
    providers: Mapping[str, str],
    limits: Mapping[str, StatedLimit],
    probe_seconds: float | None,
) -> dict[str, ProviderGate]:
    """Return the gate of each model: one for models of the same provider key, whose rate is
    searched for, and one of its own for each model with a stated limit or without such a key."""
    shared: dict[str, ProviderGate] = {}
    gates: dict[str, ProviderGate] = {}
    for name in models:
        stated, key = limits.get(name), providers.get(name)
        if stated is None and key is None:
            gate = ProviderGate(probe_seconds)
        elif stated is None:
            rate = RequestRate(searched=True)
            gate = shared.setdefault(str(key), ProviderGate(probe_seconds, [], rate))
        else:
            tokens = stated.tokens_per_minute
            requests = RequestRate((stated.requests_per_minute or math.inf) / 60)
            gate = ProviderGate(probe_seconds, [], requests, tokens and tokens / 60)
        gate.models.append(name)
        gates[name] = gate
    return gates


def is_provider_failure(error_class: str) -> bool:
    """Return True for a failure of a provider that another attempt may not meet."""
    return error_class.partition(" ")[0] in PROVIDER_FAILURES


def asked_pause(outcome: LeaseOutcome) -> float:
    """Return the seconds for which a failed cell waits as its provider asked; if it asked for more
    than an hour, a minute."""
    return outcome.wait if outcome.wait <= _LONGEST_WAIT else PROBE_SECONDS
