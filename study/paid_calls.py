"""Paid calls outside of a sweep, several at once, within a budget."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TypeVar

from harness.errors import AttemptFailed, Boundary, HarnessError, name_error
from harness.spending import Budget, Price, ReplyStore, Spend, sum_spend
from registry.errors import RegistryError

T = TypeVar("T")

OVER_BUDGET = "not paid for by the budget"
_NOT_TRIED = "not tried after that"
# Failures of a provider that the next call would meet as well.
_PERMANENT = frozenset(("auth", "quota", "connection", "bad_request", "not_told"))


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of the calls for one answer or probe: ``failure`` is "" if they are done."""

    failure: str = ""
    failed: tuple[str, ...] = ()  # requests, by class
    spend: Spend = field(default_factory=Spend)
    error: str = ""  # the failure in full


@dataclass(frozen=True, slots=True)
class Caller:
    """Makes the calls of one judge or model, and stops when the provider fails for good."""

    name: str  # of the threads
    price: Price | None
    budget: Budget | None
    stop: threading.Event = field(default_factory=threading.Event)
    over_budget: threading.Event = field(default_factory=threading.Event)

    def call_each(
        self, work: Callable[[T], CallResult], owed: Sequence[T], parallel: int
    ) -> Iterator[CallResult]:
        """Yield the result of each piece of work as it comes, until something stops the calls or
        the budget is spent. A bug is a failure that is named and not quoted, since it may quote an
        instance or a transcript. If harness or registry raise an error, or the caller stops
        listening, work that has not begun is dropped."""
        with ThreadPoolExecutor(parallel, thread_name_prefix=self.name) as pool:
            jobs = [pool.submit(self._try, partial(work, item)) for item in owed]
            try:
                for job in as_completed(jobs):
                    yield job.result()
            except BaseException:
                self.stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _try(self, work: Callable[[], CallResult]) -> CallResult:
        if self.stop.is_set():
            return CallResult(_NOT_TRIED)
        if self.over_budget.is_set():
            return CallResult(OVER_BUDGET)
        try:
            return work()
        except (HarnessError, RegistryError):
            raise
        except Exception as bug:
            return CallResult(f"{Boundary.WORKER}:{name_error(bug)}")

    def pay(
        self, replies: ReplyStore, bound: Decimal | None, call: Callable[[], object]
    ) -> CallResult:
        """Make calls whose replies go into ``replies``, if the budget pays for them; ``bound`` is
        the most that they can cost, if known."""
        name, subject = replies.charge.payer.name, replies.charge.subject
        if self.budget and not self.budget.wait_to_reserve(name, subject, bound):
            self.over_budget.set()
            return CallResult(OVER_BUDGET)
        failure, error = f"{Boundary.WORKER}:stopped", ""
        try:
            call()
            failure = ""
        except AttemptFailed as failed:
            if failed.error_class in _PERMANENT:
                self.stop.set()
            failure, error = f"{failed.boundary}:{failed.error_class}", str(failed)
        finally:
            spend = sum_spend(replies.usages, self.price)
            if self.budget:
                self.budget.settle_reserved(name, subject, spend, not failure)
        return CallResult(failure, tuple(replies.failed.elements()), spend, error)


def count_failures(results: Iterable[CallResult]) -> tuple[tuple[str, int], ...]:
    """Return why calls are still owed, and how often."""
    return _counted(result.failure for result in results if result.failure)


def count_failed_requests(results: Iterable[CallResult]) -> tuple[tuple[str, int], ...]:
    """Return the failed requests by class."""
    return _counted(kind for result in results for kind in result.failed)


def _counted(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(names).items()))


def cost_usd(results: Iterable[CallResult], unknown: bool) -> float | None:
    """Return the cost of all calls, None if ``unknown`` or if that of a reply is."""
    total = sum((result.spend for result in results), Spend())
    return None if unknown or total.unknown else float(total.usd)
