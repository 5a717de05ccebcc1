"""Prices and budget of a wave: what its models and judges cost, and what was spent on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from harness.model import Usage
from harness.spending import (
    Budget,
    CallKind,
    Charge,
    Price,
    PricedModel,
    PriceList,
    Spend,
    SpendingLimits,
    attempt_bound,
    price_judge,
    read_episode_spends,
    read_paid_calls,
    read_prices,
    sum_spend,
)
from registry.ledger import JudgePin, ModelPin, record_digest
from study.errors import StudyError
from study.protocol import FILE_NAME, BudgetSection, Protocol
from study.tasks import EXAMPLE_SEED
from study.workspace import Study, cells_of, exclusive, manifest_of

ALLOW = "--allow-unknown-price"


@dataclass(frozen=True, slots=True)
class Pricing:
    """The prices of some models or judges of a wave, and the wave's spending limits."""

    prices: PriceList | None
    models: tuple[PricedModel, ...]
    limits: SpendingLimits | None
    allow_unknown: bool = False

    @property
    def digest(self) -> str:
        """Digest of the price file; empty without one."""
        return "" if self.prices is None else self.prices.digest

    def price_of(self, name: str) -> Price | None:
        """Return the price of a model or judge, if known."""
        return next((model.price for model in self.models if model.name == name), None)

    @property
    def unknown(self) -> tuple[PricedModel, ...]:
        """The models that must be paid for and have no known price."""
        return tuple(model for model in self.models if model.price is None and not model.free)


NO_PRICING = Pricing(None, (), None)


def price_models(
    folder: Path,
    protocol: Protocol,
    pins: Iterable[ModelPin],
    allow_unknown: bool = False,
    turns: Callable[[ModelPin], int] | None = None,
) -> Pricing:
    """Return the prices of these models. With ``turns``, the most requests that an attempt of a
    model may make, also the most that an attempt can cost. Raises HarnessError."""
    prices = _read_prices(folder, protocol)

    def priced(pin: ModelPin) -> PricedModel:
        price = find_price(prices, pin.provider, pin.version)
        request = None
        # Nothing bounds the requests of an external agent's own loop.
        if turns is not None and price is not None and pin.provider != "agent_server":
            request = attempt_bound(pin, price, 1)
        bound = None if turns is None or request is None else turns(pin) * request
        return PricedModel(pin.name, pin.provider, price, bound)

    return Pricing(prices, tuple(map(priced, pins)), _limits(protocol.budget), allow_unknown)


def price_judges(
    folder: Path, protocol: Protocol, pins: Iterable[JudgePin], allow_unknown: bool = False
) -> Pricing:
    """Return the prices of these judges. Raises HarnessError."""
    prices, limits = _read_prices(folder, protocol), _limits(protocol.budget)
    models = tuple(
        price_judge(pin, find_price(prices, pin.provider, pin.version), limits) for pin in pins
    )
    return Pricing(prices, models, limits, allow_unknown)


def find_price(prices: PriceList | None, provider: str, version: str) -> Price | None:
    """Return a price from a price file, if there is one."""
    return None if prices is None else prices.of(provider, version)


def _read_prices(folder: Path, protocol: Protocol) -> PriceList | None:
    return None if protocol.prices is None else read_prices(folder / protocol.prices)


def check_prices(pricing: Pricing, folder: Path) -> Pricing:
    """Return the same. Raises StudyError if a model's price is unknown and that is not allowed."""
    if pricing.unknown and not pricing.allow_unknown:
        names = ", ".join(f"{model.name!r} ({model.provider})" for model in pricing.unknown)
        place = str(folder / FILE_NAME) if pricing.prices is None else pricing.prices.path
        lacks = (
            "no `prices:` file is named, so what these models cost is unknown"
            if pricing.prices is None
            else "it has no price for these models"
        )
        raise StudyError(
            f"{place}: {lacks}: {names}; state provider, model, input, output (USD per million "
            f"tokens), date and source of each, or go on with {ALLOW}"
        )
    return pricing


def attempt_turns(protocol: Protocol, pin: ModelPin) -> int:
    """Return the most requests that one attempt of this model may make, over the study's tasks."""
    if dict(pin.settings).get("mode") == '"single_turn"':
        return 1
    examples = (
        protocol.catalog.family(task.family, task.version).generate(task.difficulty, EXAMPLE_SEED)
        for task in protocol.tasks
    )
    return 1 + max(example.brief.limits.turns for example in examples)  # and a last question


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
    )


def read_spends(
    study: Study, wave: int | None, prices: PriceList | None, kind: CallKind
) -> Iterator[tuple[Charge, PricedModel, Spend]]:
    """Yield what judges or probes have cost a wave, by answer or probe; or the checks of judges, if
    ``wave`` is None. Needs the study's key. Raises RegistryError."""
    usages: dict[Charge, list[Usage]] = defaultdict(list)
    for call in read_paid_calls(study.store, study.identities(), kind):
        if call.charge.wave == wave:
            usages[call.charge].append(call.reply.usage)
    for charge, charged in usages.items():
        payer = charge.payer
        price = find_price(prices, payer.provider, payer.version)
        named = "judge" if kind is CallKind.JUDGE else "model"
        model = PricedModel(payer.name, payer.provider, price, kind=named)
        yield charge, model, sum_spend(charged, price)


def sum_spends(
    study: Study, wave: int, prices: PriceList | None, *kinds: CallKind
) -> tuple[tuple[PricedModel, Spend], ...]:
    """Return what judges or probes have cost a wave, a sum for each judge or model."""
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
) -> Budget | None:
    """Return the budget of a wave with all that was spent on it, for more calls of a kind by
    ``pins``; or that of a judge check, if ``wave`` is None; None without limits.

    Raises HarnessError if the limits cannot be kept, RegistryError.
    """
    if pricing.limits is None:
        return None
    budget = Budget.open(pricing.limits, pricing.models, pricing.allow_unknown)
    digests: set[str] = {record_digest(pin) for pin in pins}
    for other in (CallKind.JUDGE, CallKind.PROBE):
        for charge, model, spend in read_spends(study, wave, pricing.prices, other):
            if charge.kind is kind and charge.payer.pin in digests:
                budget.settle(model.name, charge.subject, spend, is_finished(charge))
            elif wave is not None:  # the check of one judge does not pay for that of another
                budget.charge(model, spend)
    for model, spend in () if wave is None else _episode_spends(study, wave, budget):
        budget.charge(model, spend)
    return budget


def lock_budget(study: Study, waves: Iterable[int], stack: ExitStack) -> None:
    """Keep out other commands that might pay for the same calls, or from the budgets of these
    waves, until ``stack`` is closed. Raises StudyError if one is running."""
    other = "another `dosimeter grade`, `judge check` or `probe` of this study"
    stack.enter_context(exclusive(study.folder / ".grade.lock", other))
    for wave in waves:
        sweep = f"a sweep of wave {wave}, which shares its budget,"
        stack.enter_context(exclusive(study.folder / f".sweep-{wave}.lock", sweep))


def _episode_spends(study: Study, wave: int, budget: Budget) -> Iterator[tuple[PricedModel, Spend]]:
    """What the wave's episodes have cost, for the models that have a limit."""
    manifest = manifest_of(study.ledger, wave)
    if manifest is None:
        return
    pricing = price_models(study.folder, study.protocol, manifest.models, True)
    models = {model.name: model for model in pricing.models if budget.limits_of(model)}
    cells = cells_of(study.entries(), manifest)
    for cell, spend in read_episode_spends(study.store, study.identities(), cells, models):
        yield models[cell.model], spend
