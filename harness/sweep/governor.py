"""Admission of cells by provider: a circuit breaker and an adaptive limit for each provider key.

A provider key names what models share: an address and a credential. The limit follows additive
increase and multiplicative decrease, as congestion control does (RFC 5681). Pure bookkeeping; the
clock is passed in.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Self

from harness.errors import Boundary
from harness.model import Usage
from harness.spending import PricedModel, Spend

# Failures that say nothing about the cell: another attempt at it may succeed later.
PROVIDER_FAILURES = frozenset(
    f"{Boundary.PROVIDER}:{kind}"
    for kind in ("connection", "overload", "rate_limit", "timeout", "quota")
)
REFUSED_KEY = f"{Boundary.PROVIDER}:auth"
RATE_LIMIT = f"{Boundary.PROVIDER}:rate_limit"
KILLED = f"{Boundary.WORKER}:killed"
OVERLOAD = f"{Boundary.PROVIDER}:overload"
PROBE_SECONDS = 60.0
_OPENS_AFTER = 3  # attempts in a row that got no reply
_LONGEST_WAIT = 3600.0  # seconds; a provider that asks for more is asked again after an hour
_LEAST_ROUND = 8  # successes that raise the limit, however low it is
_REFUSED_SHARE = 0.05  # of an attempt's replies: with more refusals, the limit falls


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
        if model is not None and model.free:
            costs: list[Decimal | None] = [Decimal()] * len(each)
        else:
            price = None if model is None else model.price
            costs = [None if price is None else price.cost(usage) for usage in each]
        counted = [
            (usage.input_tokens, usage.output_tokens)
            for usage in each
            if usage.input_tokens is not None and usage.output_tokens is not None
        ]
        return cls(
            len(each),
            sum(tokens for tokens, _ in counted),
            sum(tokens for _, tokens in counted),
            len(each) - len(counted),
            sum((cost for cost in costs if cost is not None), Decimal()),
            costs.count(None),
        )

    def __add__(self, other: Consumption) -> Consumption:
        return Consumption(
            self.replies + other.replies,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.uncounted + other.uncounted,
            self.usd + other.usd,
            self.unpriced + other.unpriced,
        )


@dataclass(frozen=True, slots=True)
class LeaseOutcome:
    """Outcome of one lease, without content: ids, counts and an error class only."""

    episode: str
    finished: bool
    error_class: str = ""
    spend: Spend | None = None  # on the cell so far, if there is a budget
    replies: int = 0  # that the attempt got from the provider
    refusals: int = 0  # requests of the attempt that a rate limit refused
    wait: float = 0.0  # seconds that the provider asked for when it failed the attempt
    lost: int = 0  # turns of a failed attempt that the next one pays for again
    used: Consumption = Consumption()  # by the attempt, with its replies from before a crash


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
class ModelTally:
    """Counts of one model in a sweep: its cells, its failed attempts, and what they all used."""

    owed: int = 0  # at the start of the run, finished ones included
    finished: int = 0
    exhausted: int = 0
    used: Consumption = Consumption()
    _attempts: Counter[str] = field(default_factory=Counter)  # failed ones, by error class
    _cells: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def record(self, outcome: LeaseOutcome) -> None:
        """Count an outcome of a cell that is owed."""
        self.finished += outcome.finished
        self.used += outcome.used

    def record_failure(self, outcome: LeaseOutcome) -> None:
        """Count a failed attempt."""
        self._attempts[outcome.error_class] += 1
        self._cells[outcome.error_class].add(outcome.episode)

    def failures(self) -> tuple[FailedAttempts, ...]:
        """Return the failed attempts by error class."""
        return tuple(
            FailedAttempts(name, attempts, len(self._cells[name]))
            for name, attempts in sorted(self._attempts.items())
        )


@dataclass(slots=True)
class ProviderGate:
    """State of one provider key during a sweep. Without ``probe_seconds`` its breaker stays closed,
    however often it fails."""

    probe_seconds: float | None = PROBE_SECONDS
    limit: int | None = None  # of cells at work; None before the first congestion
    failure: str = ""  # class of the last failure, if no reply came since
    next_probe: float | None = None  # None while the breaker is closed
    _failed: int = 0  # attempts in a row without a reply
    _probe: str = ""  # episode that is at work as the probe
    _successes: int = 0  # without refusals, since the limit changed
    _decreases: int = 0
    _at_work: dict[str, int] = field(default_factory=dict)  # episode → decreases before its lease

    def admits(self, now: float) -> bool:
        """Return True if one more cell may be leased."""
        if self.next_probe is not None:
            return not self._probe and now >= self.next_probe
        return self.limit is None or len(self._at_work) < self.limit

    def begin(self, episode: str, now: float) -> None:
        """Record a lease. With an open breaker it is the probe."""
        self._at_work[episode] = self._decreases
        if self.next_probe is not None and self.probe_seconds is not None:
            self._probe, self.next_probe = episode, now + self.probe_seconds

    def end(self, episode: str) -> None:
        """Record that a lease has ended, or was lost."""
        self._at_work.pop(episode, None)
        if self._probe == episode:
            self._probe = ""

    def record(self, outcome: LeaseOutcome, now: float) -> None:
        """Draw the conclusions from an outcome, before its lease ends."""
        answered = outcome.finished or outcome.replies + outcome.lost > 0
        if answered:
            self._failed, self.failure, self.next_probe = 0, "", None
        if self.next_probe is None:
            self._adapt(outcome, answered)
        if outcome.error_class in PROVIDER_FAILURES and not answered:
            self._failed += 1
            self.failure, asked = outcome.error_class, now + asked_pause(outcome)
            if self.next_probe is not None:
                self.next_probe = max(self.next_probe, asked)
            elif self.probe_seconds is not None and self._failed >= _OPENS_AFTER:
                self.next_probe = max(now + self.probe_seconds, asked)

    def _adapt(self, outcome: LeaseOutcome, answered: bool) -> None:
        """Adapt the limit. Congestion halves the number of cells at work, refusals that retries got
        over lower it by a tenth, in both cases once for all cells leased before; as many clean
        successes as the limit, at least eight, raise it by one."""
        overloaded = outcome.error_class == OVERLOAD and answered  # without a reply: an outage
        if outcome.error_class == RATE_LIMIT or overloaded:
            self._lower_to(0.5, outcome.episode)
        elif outcome.refusals > _REFUSED_SHARE * outcome.replies:
            self._lower_to(0.9, outcome.episode)
        elif outcome.finished and not outcome.refusals and self.limit is not None:
            self._successes += 1
            if self._successes >= max(self.limit, _LEAST_ROUND):
                self.limit, self._successes = self.limit + 1, 0

    def _lower_to(self, share: float, episode: str) -> None:
        if self._at_work.get(episode) == self._decreases:
            self.limit = max(1, int(share * len(self._at_work)))
            self._decreases, self._successes = self._decreases + 1, 0


def asked_pause(outcome: LeaseOutcome) -> float:
    """Return the seconds for which a failed cell waits as its provider asked, at most an hour."""
    return min(outcome.wait, _LONGEST_WAIT)
