"""Admission of cells by provider: a circuit breaker and an adaptive limit for each provider key.

A provider key names what models share: an address and a credential. The limit follows additive
increase and multiplicative decrease, as congestion control does (RFC 5681). Pure bookkeeping; the
clock is passed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from harness.errors import Boundary
from harness.spending import Spend

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


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """Cells of one model at work and waiting, and what those wait for."""

    model: str
    running: int
    waiting: int
    reason: WaitReason = WaitReason.NOTHING
    failure: str = ""  # class of the failure that they wait for
    seconds: float = 0.0  # until a cell may be leased, in an outage or a pause


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
        successes as the limit raise it by one."""
        overloaded = outcome.error_class == OVERLOAD and answered  # without a reply: an outage
        if outcome.error_class == RATE_LIMIT or overloaded:
            self._lower_to(0.5, outcome.episode)
        elif outcome.refusals > _REFUSED_SHARE * outcome.replies:
            self._lower_to(0.9, outcome.episode)
        elif outcome.finished and not outcome.refusals and self.limit is not None:
            self._successes += 1
            if self._successes >= self.limit:
                self.limit, self._successes = self.limit + 1, 0

    def _lower_to(self, share: float, episode: str) -> None:
        if self._at_work.get(episode) == self._decreases:
            self.limit = max(1, int(share * len(self._at_work)))
            self._decreases, self._successes = self._decreases + 1, 0


def asked_pause(outcome: LeaseOutcome) -> float:
    """Return the seconds for which a failed cell waits as its provider asked, at most an hour."""
    return min(outcome.wait, _LONGEST_WAIT)
