"""What a study says of money: the prices of its models, and what a wave may spend."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from generators.catalog import family
from harness.budget import Budget, Tariff, attempt_bound
from harness.judgepurse import judge_tariff
from harness.prices import Price, PriceList, read_prices
from registry.records import JudgePin, ModelPin
from study.catalogue import EXAMPLE_SEED
from study.errors import StudyError
from study.protocol import FILE_NAME, BudgetSection, Protocol

ALLOW = "--allow-unknown-price"


@dataclass(frozen=True, slots=True)
class Money:
    """The prices of a wave's models, and its budget."""

    prices: PriceList | None
    tariffs: tuple[Tariff, ...]
    budget: Budget | None
    allow_unknown: bool = False

    @property
    def digest(self) -> str:
        """Of the price file; empty without one."""
        return "" if self.prices is None else self.prices.digest

    def price_of(self, model: str) -> Price | None:
        """What a model, or a judge, costs, where that is known."""
        return next((each.price for each in self.tariffs if each.model == model), None)

    @property
    def unknown(self) -> tuple[Tariff, ...]:
        """The models that are paid for at a price that nobody states."""
        return tuple(each for each in self.tariffs if each.price is None and not each.free)


NO_MONEY = Money(None, (), None)


def money_of(
    folder: Path,
    protocol: Protocol,
    models: Iterable[ModelPin],
    allow_unknown: bool = False,
    bounds: bool | None = None,
) -> Money:
    """What these models cost and may cost. ``bounds`` tells whether the most that an attempt can
    cost is asked for; by default where there is a budget. Raises HarnessError."""
    prices = None if protocol.prices is None else read_prices(folder / protocol.prices)
    budget = None if protocol.budget is None else _budget(protocol.budget)
    bounds = budget is not None if bounds is None else bounds
    tariffs = tuple(_tariff(protocol, prices, pin, bounds) for pin in models)
    return Money(prices, tariffs, budget, allow_unknown)


def judge_money(
    folder: Path, protocol: Protocol, judges: Iterable[JudgePin], allow_unknown: bool = False
) -> Money:
    """What these judges cost, and the budget that they count in. Raises HarnessError."""
    prices = None if protocol.prices is None else read_prices(folder / protocol.prices)
    budget = None if protocol.budget is None else _budget(protocol.budget)
    tariffs = tuple(judge_tariff(pin, price_of(prices, pin), budget) for pin in judges)
    return Money(prices, tariffs, budget, allow_unknown)


def price_of(prices: PriceList | None, pin: JudgePin) -> Price | None:
    """What a judge costs by a price file, where that is known."""
    return None if prices is None else prices.of(ModelPin(pin.name, pin.provider, pin.version))


def check_prices(money: Money, folder: Path) -> Money:
    """The same. Raises StudyError where a model's price is unknown and that is not allowed."""
    if money.unknown and not money.allow_unknown:
        names = ", ".join(f"{each.model!r} ({each.provider})" for each in money.unknown)
        place = str(folder / FILE_NAME) if money.prices is None else money.prices.path
        lacks = (
            "no `prices:` file is named, so what these models cost is unknown"
            if money.prices is None
            else "it has no price for these models"
        )
        raise StudyError(
            f"{place}: {lacks}: {names}; state provider, model, input, output (USD per million "
            f"tokens), date and source of each, or go on with {ALLOW}"
        )
    return money


def attempt_turns(protocol: Protocol, pin: ModelPin) -> int:
    """The most requests that one attempt of this model may make, over the study's tasks."""
    if dict(pin.settings).get("mode") == '"single_turn"':
        return 1
    made = (
        family(task.family, task.version).generate(task.difficulty, EXAMPLE_SEED)
        for task in protocol.tasks
    )
    return 1 + max(instance.brief.limits.turns for instance in made)  # one more to be asked last


def _tariff(protocol: Protocol, prices: PriceList | None, pin: ModelPin, bounds: bool) -> Tariff:
    price = None if prices is None else prices.of(pin)
    bound = _bound(protocol, pin, price) if bounds and price is not None else None
    return Tariff(pin.name, pin.provider, price, bound)


def _bound(protocol: Protocol, pin: ModelPin, price: Price) -> Decimal | None:
    if pin.provider == "agent_server" or attempt_bound(pin, price, 1) is None:
        return None  # what a loop that is not ours asks for, nobody here bounds
    return attempt_bound(pin, price, attempt_turns(protocol, pin))


def _budget(section: BudgetSection) -> Budget:
    def usd(value: float) -> Decimal:
        return Decimal(repr(value))

    return Budget(
        run=None if section.run is None else usd(section.run),
        models=tuple((name, usd(value)) for name, value in section.models.items()),
        providers=tuple((name, usd(value)) for name, value in section.providers.items()),
        judges=tuple((name, usd(value)) for name, value in section.judges.items()),
        reserve=section.reserve,
    )
