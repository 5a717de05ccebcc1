"""Prices, budget and paid calls of a wave: prices of its models and judges, its spending,
and calls of judges and probes, several at once, within its budget."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import TypeVar

from generators.catalog import Catalog
from generators.family import kept_by_family
from generators.seed import EXAMPLE_SEED
from generators.task import Family, TaskInstance
from harness.episode import Mode
from harness.errors import AttemptFailed, Boundary, HarnessError, name_error
from harness.model import Usage
from harness.spending.budget import (
    Budget,
    PricedModel,
    Spend,
    SpendingLimits,
    attempt_bound,
    price_judge,
    sum_spend,
)
from harness.spending.prices import Price, PriceList, read_prices
from harness.spending.purchases import (
    CallKind,
    Charge,
    Payer,
    ReplyStore,
    read_episode_spends,
    read_usages,
)
from registry.errors import RegistryError
from registry.ledger.records import JudgePin, ModelPin, pin_digest
from registry.sealing import Keys
from study.errors import StudyError
from study.files import exclusive
from study.protocol.protocol import FILE_NAME, Task
from study.protocol.sections import BudgetSection
from study.workspace.snapshot import cells_of
from study.workspace.study import Study, manifest_of

ALLOW = "--allow-unknown-price"
OVER_BUDGET = "not paid for by the budget"
_NOT_TRIED = "not tried after that"
# Failures of a provider that the next call would meet as well.
_PERMANENT = {"auth", "quota", "connection", "tls", "bad_request", "not_found"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pricing:
    """The prices of some models or judges of a wave, and the wave's spending limits."""

    prices: PriceList
    models: tuple[PricedModel, ...]
    limits: SpendingLimits | None
    allow_unknown: bool = False

    def price_of(self, name: str) -> Price | None:
        """Return the price of a model or judge, if known."""
        return next((model.price for model in self.models if model.name == name), None)

    @property
    def unknown(self) -> tuple[PricedModel, ...]:
        """The models that must be paid for and have no known price."""
        return tuple(model for model in self.models if model.price is None and not model.free)


NO_PRICING = Pricing(PriceList("", "", ()), (), None)


def price_pins(
    study: Study,
    pins: Iterable[ModelPin | JudgePin],
    allow_unknown: bool = False,
    turns: int | None = None,
) -> Pricing:
    """Return the prices of these models or judges. With ``turns``, the most requests that an
    attempt may make, also the most that an attempt can cost. Raises HarnessError;
    StudyError if a price is unknown and that is not allowed."""
    named, limits = study.protocol.prices, _limits(study.protocol.budget)
    prices = NO_PRICING.prices if named is None else read_prices(study.folder / named)

    def priced(pin: ModelPin | JudgePin) -> PricedModel:
        price = prices.of(pin.provider, pin.version)
        if isinstance(pin, JudgePin):
            return price_judge(pin, price, limits)
        bound = None
        # Nothing bounds the requests of an external agent's own loop.
        if turns is not None and price is not None and pin.provider != "agent_server":
            bound = attempt_bound(pin, price, turns)
        return PricedModel(pin.name, pin.provider, price, bound)

    pricing = Pricing(prices, tuple(map(priced, pins)), limits, allow_unknown)
    if pricing.unknown and not allow_unknown:
        names = ", ".join(f"{model.name!r} ({model.provider})" for model in pricing.unknown)
        place, lacks = prices.path, "it has no price for these models"
        if named is None:
            place = str(study.folder / FILE_NAME)
            lacks = "no `prices:` file is named, so what these models cost is unknown"
        raise StudyError(
            f"{place}: {lacks}: {names}; state provider, model, input, output (USD per million "
            f"tokens), date and source of each, or go on with {ALLOW}"
        )
    return pricing


def attempt_turns(tasks: Iterable[Task], catalog: Catalog) -> int:
    """Return the most requests that one attempt at one of these tasks may make."""
    return max(
        1 if task.mode is Mode.SINGLE_TURN else 1 + example_of(task, catalog).brief.limits.turns
        for task in tasks
    )  # and a last question


def example_of(task: Task, catalog: Catalog) -> TaskInstance:
    """Return an instance of a task from a seed that no study draws."""
    return _example(catalog.family(task.family, task.version), task.difficulty)


@kept_by_family(16)
def _example(family: Family, difficulty: str) -> TaskInstance:
    return family.generate(difficulty, EXAMPLE_SEED)


def _limits(section: BudgetSection | None) -> SpendingLimits | None:
    if section is None:
        return None

    def usd(limits: dict[str, float]) -> tuple[tuple[str, Decimal], ...]:
        return tuple((name, Decimal(repr(value))) for name, value in limits.items())

    return SpendingLimits(
        run=None if section.run is None else Decimal(repr(section.run)),
        models=usd(section.models),
        providers=usd(section.providers),
        judges=usd(section.judges),
        reserve=section.reserve,
        team=None if section.team is None else Decimal(repr(section.team)),
    )


def read_spends(
    study: Study, wave: int | None, prices: PriceList, kind: CallKind
) -> Iterator[tuple[Charge, PricedModel, Spend]]:
    """Yield the cost of judges or probes to a wave, by answer or probe; or that of the checks of
    judges, if ``wave`` is None. Needs the study's key. Raises RegistryError."""
    usages: dict[Charge, list[Usage]] = defaultdict(list)
    for charge, usage in read_usages(study.store, study.keys(), kind):
        if charge.wave == wave:
            usages[charge].append(usage)
    for charge, charged in usages.items():
        payer = charge.payer
        price = prices.of(payer.provider, payer.version)
        named = "judge" if kind is CallKind.JUDGE else "model"
        model = PricedModel(payer.name, payer.provider, price, kind=named)
        yield charge, model, sum_spend(charged, price)


def sum_spends(
    study: Study, wave: int, prices: PriceList, *kinds: CallKind
) -> tuple[tuple[PricedModel, Spend], ...]:
    """Return the cost of judges or probes to a wave, a sum for each judge or model."""
    sums: dict[PricedModel, Spend] = defaultdict(Spend)
    for kind in kinds:
        for _, model, spend in read_spends(study, wave, prices, kind):
            sums[model] += spend
    return tuple(sums.items())


def open_budget(
    study: Study,
    wave: int | None,
    pricing: Pricing,
    kind: CallKind,
    pins: Sequence[ModelPin | JudgePin],
    is_finished: Callable[[Charge], bool],
    stack: ExitStack,
) -> Budget | None:
    """Return the budget of a wave with all that was spent on it, for more calls of a kind by
    ``pins``; or that of a judge check, if ``wave`` is None; None without limits. Its part of the
    team's budget is given back when ``stack`` is closed.

    Raises HarnessError if the limits cannot be enforced, RegistryError.
    """
    if pricing.limits is None:
        return None
    purpose = f"check-{pins[0].name}" if wave is None else str(wave)
    place = study.store.uri, purpose
    budget = Budget(pricing.limits, pricing.models, pricing.allow_unknown, place)
    stack.callback(budget.close)
    digests: set[str] = {pin_digest(pin) for pin in pins}
    for other in (CallKind.JUDGE, CallKind.PROBE):
        for charge, model, spend in read_spends(study, wave, pricing.prices, other):
            if charge.kind is kind and charge.payer.pin in digests:
                budget.settle(model.name, charge.subject, spend, is_finished(charge))
            elif wave is not None:
                # The check of one judge does not pay for that of another.
                budget.charge(model, spend)
    for model, spend in () if wave is None else wave_spends(study, wave, budget.limits_of):
        budget.charge(model, spend)
    return budget


def lock_budget(study: Study, waves: Iterable[int], stack: ExitStack) -> None:
    """Keep out other commands that might pay for the same calls, or from the budgets of these
    waves, until ``stack`` is closed. Raises StudyError if one is running."""
    other = "another `dosimeter judge grade`, `judge check`, `probe` or `pilot` of this study"
    stack.enter_context(exclusive(study.folder / ".grade.lock", other))
    for wave in waves:
        sweep = f"a sweep of wave {wave}, which shares its budget,"
        stack.enter_context(exclusive(study.folder / f".sweep-{wave}.lock", sweep))


def wave_spends(
    study: Study, wave: int, counts: Callable[[PricedModel], object] = bool
) -> Iterator[tuple[PricedModel, Spend]]:
    """Yield the cost of a wave's episodes, for the models that count. Needs the study's key."""
    if (manifest := manifest_of(study.ledger, wave)) is None:
        return
    pricing = price_pins(study, manifest.models, allow_unknown=True)
    models = {model.name: model for model in pricing.models if counts(model)}
    cells, keys = cells_of(study, manifest), study.keys()
    for cell, spend in read_episode_spends(study.store, lambda _: keys, cells, models):
        yield models[cell.model], spend


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of the calls for one answer or probe: ``failure`` is "" if they are done."""

    failure: str = ""
    failed: tuple[str, ...] = ()  # requests, by class
    spend: Spend = field(default_factory=Spend)
    error: str = ""  # the failure in full


@dataclass(frozen=True)
class Caller:
    """Makes the calls of one judge or model for a wave, or for a judge's check if that is None;
    stops when the provider fails for good."""

    study: Study
    kind: CallKind
    pin: ModelPin | JudgePin
    wave: int | None  # that pays
    price: Price | None
    budget: Budget | None
    stop: threading.Event = field(default_factory=threading.Event)
    over_budget: threading.Event = field(default_factory=threading.Event)

    def call_each(self, work: Callable[[T], CallResult], owed: Sequence[T]) -> Iterator[CallResult]:
        """Yield the result of each piece of work as it comes, until something stops the calls or
        the budget is spent. A bug is a failure that is named and not quoted, since it may quote an
        instance or a transcript. If harness or registry raise an error, or the caller stops
        listening, work that has not begun is dropped. As many run at once as study.yaml says of
        episodes in a worker."""
        parallel = self.study.protocol.sweep.parallel
        with ThreadPoolExecutor(parallel, thread_name_prefix=self.kind) as pool:
            jobs = [pool.submit(self._try, work, item) for item in owed]
            try:
                for job in as_completed(jobs):
                    yield job.result()
            except BaseException:
                self.stop.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _try(self, work: Callable[[T], CallResult], item: T) -> CallResult:
        if self.stop.is_set():
            return CallResult(_NOT_TRIED)
        if self.over_budget.is_set():
            return CallResult(OVER_BUDGET)
        try:
            return work(item)
        except (HarnessError, RegistryError):
            raise
        except Exception as bug:
            return CallResult(f"{Boundary.WORKER}:{name_error(bug)}")

    def pay(
        self, subject: str, bound: Decimal | None, call: Callable[[ReplyStore], object]
    ) -> CallResult:
        """Make the calls about an episode, answer sheet or probe, if the budget pays for them;
        ``call`` keeps the replies in the store that it is given. ``bound`` is the most that they
        can cost, if known."""
        replies = self.replies(subject)
        name = self.pin.name
        if self.budget and not self.budget.wait_to_reserve(name, subject, bound):
            self.over_budget.set()
            return CallResult(OVER_BUDGET)
        failure, error = f"{Boundary.WORKER}:stopped", ""
        try:
            call(replies)
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

    def replies(self, subject: str) -> ReplyStore:
        """The replies about an episode, answer sheet or probe, in the store."""
        charge = Charge(self.kind, Payer.of(self.pin), subject, self.wave)
        return ReplyStore(self.study.store, charge, self._keys)

    @cached_property
    def _keys(self) -> Keys:
        return self.study.keys()


@dataclass(frozen=True, slots=True)
class CallTotals:
    """The results of many calls, counted."""

    fresh: int  # answers or probes that are done now
    failures: tuple[tuple[str, int], ...]  # why others are still owed, and how often
    failed_tries: tuple[tuple[str, int], ...]  # requests that failed now, by class
    cost_usd: float | None  # of the replies paid for now; None if unknown

    @property
    def over_budget(self) -> bool:
        """True if the budget does not pay for all that is still owed."""
        return OVER_BUDGET in dict(self.failures)


def sum_calls(results: Sequence[CallResult], unknown: bool) -> CallTotals:
    """Count the results of calls; the cost is None if ``unknown`` or if that of a reply is."""
    failures = Counter(result.failure for result in results if result.failure)
    failed = Counter(kind for result in results for kind in result.failed)
    spend = sum((result.spend for result in results), Spend())
    return CallTotals(
        fresh=len(results) - failures.total(),
        failures=tuple(sorted(failures.items())),
        failed_tries=tuple(sorted(failed.items())),
        cost_usd=None if unknown or spend.unknown else float(spend.usd),
    )
