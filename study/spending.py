"""What a study says of money: the prices of its models, and what a wave may spend."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from harness.codec import decode_judgement
from harness.episode import Cell
from harness.model import Usage
from harness.spending import (
    Budget,
    JudgePurse,
    JudgepurseBought,
    Price,
    PriceList,
    Purpose,
    Purse,
    Spend,
    Tariff,
    attempt_bound,
    judge_tariff,
    read_bought,
    read_bought_of_judges,
    read_prices,
    spend_of,
    spend_on,
)
from harness.store_keys import PROBES
from registry.ledger import JudgePin, ModelPin, record_digest
from registry.sealing import decrypt
from study.errors import StudyError
from study.protocol import FILE_NAME, BudgetSection, Protocol
from study.tasks import EXAMPLE_SEED
from study.workspace import Study, cells_of, manifest_of

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


NO_MONEY: Money = Money(None, (), None)


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
        protocol.catalog.family(task.family, task.version).generate(task.difficulty, EXAMPLE_SEED)
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


# --- What a study's exposure probes have cost, read from the replies that lie in the store ---


def bought_probes(study: Study, wave: int) -> Iterator[tuple[ModelPin, str, Usage]]:
    """Every reply to a probe of a wave: who was asked, the probe's name, the tokens. Needs the
    study's key. Raises RegistryError."""
    identities = study.identities()
    for key in study.store.list(PROBES):
        if not key.endswith("-reply.age"):
            continue
        kept = decode_judgement(decrypt(study.store.get(key), identities, key), key)
        if kept.purpose is not None and kept.purpose.wave == wave:
            of = kept.purpose
            yield ModelPin(of.judge, of.provider, of.version), of.episode, kept.reply.usage


def probe_tariff(prices: PriceList | None, pin: ModelPin) -> Tariff:
    """What a model costs by a price file."""
    return Tariff(pin.name, pin.provider, None if prices is None else prices.of(pin))


def spent_on_probes(
    study: Study, wave: int, prices: PriceList | None
) -> tuple[tuple[Tariff, Spend], ...]:
    """What a wave's probes have cost, a sum for each model."""
    usages: dict[ModelPin, list[Usage]] = defaultdict(list)
    for pin, _, usage in bought_probes(study, wave):
        usages[pin].append(usage)
    tariffs = {pin: probe_tariff(prices, pin) for pin in usages}
    return tuple((tariffs[pin], spend_on(held, tariffs[pin].price)) for pin, held in usages.items())


@dataclass(frozen=True, slots=True)
class JudgeSpend:
    """What a judge's replies on one episode, or on one answer sheet, have cost."""

    digest: str  # of the judge's pin
    tariff: Tariff
    episode: str  # "" where that was not kept
    spend: Spend


def read_spent(study: Study, wave: int | None, prices: PriceList | None) -> Iterator[JudgeSpend]:
    """What each judge has cost a wave, episode by episode; or the checks of judges, where ``wave``
    is None. Replies that do not tell what they were bought for count for every wave, and for the
    checks: rather twice than not at all. Needs the study's key."""
    own: dict[str, JudgePin] = {record_digest(pin): pin for pin in study.protocol.judges}
    groups: dict[tuple[str, Purpose], list[Usage]] = defaultdict(list)
    for bought in read_bought_of_judges(study.store, study.identities()):
        purpose = _purpose(bought, own)
        if purpose is not None and (bought.purpose is None or purpose.wave == wave):
            groups[bought.judge, purpose].append(bought.usage)
    for (digest, purpose), usages in groups.items():
        pin = JudgePin(purpose.judge, purpose.provider, purpose.version, "")
        tariff = Tariff(pin.name, pin.provider, price_of(prices, pin), kind="judge")
        yield JudgeSpend(digest, tariff, purpose.episode, spend_on(usages, tariff.price))


def _purpose(bought: JudgepurseBought, own: dict[str, JudgePin]) -> Purpose | None:
    """What a reply was bought for; of older ones who gave it, where study.yaml still tells."""
    if bought.purpose is not None:
        return bought.purpose
    pin = own.get(bought.judge)
    return None if pin is None else Purpose(pin.name, pin.provider, pin.version)


def spent_by_judges(
    study: Study, wave: int, prices: PriceList | None
) -> tuple[tuple[Tariff, Spend], ...]:
    """What judges have cost a wave, a sum each."""
    sums: dict[Tariff, Spend] = {}
    for each in read_spent(study, wave, prices):
        before = sums.get(each.tariff, Spend(Decimal()))
        sums[each.tariff] = Spend(before.usd + each.spend.usd, before.unknown + each.spend.unknown)
    return tuple(sums.items())


_READERS = 8  # of the store at once


def open_judge_purse(
    study: Study,
    wave: int | None,
    money: Money,
    judges: Sequence[JudgePin],
    graded: Mapping[str, Collection[str]],
) -> JudgePurse | None:
    """The purse of a wave for its judges, or of the check of one, where ``wave`` is None; None
    without a budget. ``graded`` tells of each judge's digest what it is done with.

    Raises HarnessError where the budget cannot be kept, RegistryError.
    """
    if money.budget is None:
        return None
    purse = Purse.open(money.budget, money.tariffs, money.allow_unknown)
    own: dict[str, str] = {record_digest(pin): pin.name for pin in judges}
    prior: dict[tuple[str, str], Spend] = {}
    for each in read_spent(study, wave, money.prices):
        name = own.get(each.digest)
        if name is not None:
            done = each.episode in graded[each.digest]
            purse.settle(f"{name}/{each.episode}", name, each.spend, done)
            prior[name, each.episode] = each.spend
        elif wave is not None:  # the check of another judge is none of this one's
            purse.charge(each.tariff, each.spend)
    for tariff, spend in _spent_by_models(study, wave, money, purse) if wave is not None else ():
        purse.charge(tariff, spend)
    return JudgePurse(purse, prior)


def _spent_by_models(
    study: Study, wave: int, money: Money, purse: Purse
) -> Iterator[tuple[Tariff, Spend]]:
    """What the wave's episodes and exposure probes have cost."""
    yield from spent_on_probes(study, wave, money.prices)
    yield from _swept(study, wave, money, purse)


def _swept(study: Study, wave: int, money: Money, purse: Purse) -> Iterator[tuple[Tariff, Spend]]:
    """What the wave's models have cost, episode by episode, where a limit asks."""
    manifest = manifest_of(study.ledger, wave)
    if manifest is None:
        return
    priced = money_of(study.folder, study.protocol, manifest.models, True, bounds=False)
    tariffs = {
        each.model: each
        for each in priced.tariffs
        if each.price is not None and purse.limits_of(each)
    }
    identities = study.identities()

    def spent(cell: Cell) -> tuple[Tariff, Spend]:
        tariff = tariffs[cell.model]
        bought = read_bought(study.store, identities, cell.episode, tariff.provider)
        return tariff, spend_of(bought, tariff.price) if tariff.price else Spend()

    cells = [cell for cell in cells_of(study.entries(), manifest) if cell.model in tariffs]
    with ThreadPoolExecutor(_READERS, thread_name_prefix="spent") as pool:
        yield from pool.map(spent, cells)
