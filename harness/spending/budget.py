"""What a wave may spend, what it has spent, and what its cells at work may still spend.

The promise: whenever a cell is handed out, what was spent, what is reserved for the cells at
work, and what is reserved for this one together stay within every limit. So a limit is passed
only by what an episode costs beyond its reservation. With ``reserve: bound`` a reservation is
the most that an attempt can cost, and no limit is ever passed.

What was spent is read from the store, where each paid reply lies before it is acted on, of
failed attempts too; nothing else needs to survive.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from harness.codec import decode_episode, decode_judgement, decode_reply
from harness.errors import HarnessError
from harness.model import Usage
from harness.spending.paid_call import Purpose
from harness.spending.prices import OWN_PROVIDERS, Price
from harness.store_keys import ATTEMPTS, JUDGEMENTS, RESPONSES, hex_of
from registry.ledger import JudgePin, ModelPin
from registry.sealing import decrypt
from registry.stores import Store

SEEN, BOUND = "seen", "bound"
SPARE = 2  # an episode may cost so many times the dearest seen, before it passes its reservation
_ZERO = Decimal()
_REPLY = re.compile(r"/(\d+)-\d+\.age$")
_OUTSIDE = "agent_server"  # its conversations may fail with rounds that only the attempt tells


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one wave, in USD; what is not named has none."""

    run: Decimal | None = None
    models: tuple[tuple[str, Decimal], ...] = ()
    providers: tuple[tuple[str, Decimal], ...] = ()
    reserve: str = SEEN
    judges: tuple[tuple[str, Decimal], ...] = ()


@dataclass(frozen=True, slots=True)
class Tariff:
    """What a model of a wave costs, or a judge of it (``kind``). ``bound`` is the most for one
    attempt, in USD, where its settings state one."""

    model: str
    provider: str
    price: Price | None
    bound: Decimal | None = None
    kind: str = "model"

    @property
    def free(self) -> bool:
        """Nothing is bought from anybody."""
        return self.provider in OWN_PROVIDERS and self.price is None


@dataclass(frozen=True, slots=True)
class Spend:
    """What all the paid replies of one cell cost so far."""

    usd: Decimal = _ZERO
    unknown: int = 0  # replies whose cost nobody knows


@dataclass(frozen=True, slots=True)
class Account:
    """One limit as it stands, in USD."""

    name: str
    limit: Decimal
    spent: Decimal
    reserved: Decimal
    unknown: int  # replies of unknown cost, which are in none of the sums


Bought = Mapping[int, tuple[Usage, ...]]
"""The usage of each paid reply, by attempt."""


def read_bought(
    store: Store, identities: tuple[str, ...], episode: str, provider: str
) -> dict[int, tuple[Usage, ...]]:
    """What was bought for an episode, as the store has it. Raises RegistryError."""
    bought: dict[int, list[Usage]] = {}
    for key in store.list(f"{RESPONSES}{hex_of(episode)}/"):
        if (named := _REPLY.search(key)) is None:
            continue  # a try that failed lies here too
        attempt = int(named[1])
        reply = decode_reply(decrypt(store.get(key), identities, key), key)
        bought.setdefault(attempt, []).append(reply.usage)
    if provider == _OUTSIDE:
        for key in store.list(f"{ATTEMPTS}{hex_of(episode)}/"):
            attempt = int(key.rpartition("/")[2].removesuffix(".age"))
            if attempt not in bought:  # it failed, so its conversation was not kept
                made = decode_episode(decrypt(store.get(key), identities, key), key)
                if not made.inherited:
                    bought[attempt] = [step.reply.usage for step in made.steps]
    return {attempt: tuple(usages) for attempt, usages in bought.items()}


def spend_of(bought: Bought, price: Price) -> Spend:
    """What these replies cost."""
    costs = [price.cost(usage) for usages in bought.values() for usage in usages]
    known = [cost for cost in costs if cost is not None]
    return Spend(sum(known, _ZERO), len(costs) - len(known))


def attempt_bound(pin: ModelPin, price: Price, turns: int) -> Decimal | None:
    """The most that an attempt of so many requests can cost: each with a full context and the
    longest reply. None where the model's settings do not state ``context`` and ``max_tokens``."""
    stated = dict(pin.settings)
    if "context" not in stated or "max_tokens" not in stated:
        return None
    # A provider may read none of it from its cache, and a price list may say anything.
    dearest = Usage(int(stated["context"]), int(stated["max_tokens"]))
    cached = Usage(int(stated["context"]), int(stated["max_tokens"]), int(stated["context"]))
    costs = [cost for cost in (price.cost(dearest), price.cost(cached)) if cost is not None]
    return turns * max(costs)


@dataclass(slots=True)
class Purse:
    """The limits of a wave and what counts against them. Pure: it is told what was spent."""

    budget: Budget
    tariffs: Mapping[str, Tariff]
    allow_unknown: bool = False
    _limits: dict[str, Decimal] = field(default_factory=dict)
    _spent: dict[str, Decimal] = field(default_factory=dict)
    _reserved: dict[str, Decimal] = field(default_factory=dict)
    _unknown: dict[str, int] = field(default_factory=dict)
    _dearest: dict[str, Decimal] = field(default_factory=dict)  # by model
    _cells: dict[str, Spend] = field(default_factory=dict)  # what is not finished
    _held: dict[str, tuple[tuple[str, Decimal], ...]] = field(default_factory=dict)  # by episode

    @classmethod
    def open(cls, budget: Budget, tariffs: Iterable[Tariff], allow_unknown: bool = False) -> Purse:
        """An untouched purse. Raises HarnessError where the budget cannot be kept."""
        made = cls(budget, {each.model: each for each in tariffs}, allow_unknown)
        if budget.run is not None:
            made._limits["run"] = budget.run
        made._limits |= {f"model {name}": limit for name, limit in budget.models}
        made._limits |= {f"provider {name}": limit for name, limit in budget.providers}
        made._limits |= {f"judge {name}": limit for name, limit in budget.judges}
        for tariff in made.tariffs.values():
            if tariff.kind == "judge":
                continue  # its bound is another for each answer
            if budget.reserve == BOUND and tariff.price is not None and tariff.bound is None:
                raise HarnessError(
                    f"model {tariff.model!r}: `reserve: {BOUND}` needs the most that an attempt "
                    "can cost: state `context` and `max_tokens` of the model, or reserve by what "
                    f"was seen (`reserve: {SEEN}`)"
                )
        return made

    def charge(self, tariff: Tariff, spend: Spend) -> None:
        """Count what somebody spent who buys nothing more from this purse. Raises as ``settle``
        does."""
        for name in self.limits_of(tariff):
            self._spent[name] = self._spent.get(name, _ZERO) + spend.usd
            self._unknown[name] = self._unknown.get(name, 0) + spend.unknown
        self._check_known(tariff, spend)

    def settle(self, episode: str, model: str, spend: Spend, finished: bool = False) -> None:
        """What an episode has cost so far, all in all. Being told again changes nothing.

        Raises HarnessError for replies of unknown cost, unless those are allowed.
        """
        before = self._cells.get(episode, Spend())
        if spend.usd < before.usd:  # an old message: what is spent stays spent
            spend = before
        for name in self._names(model):
            self._spent[name] = self._spent.get(name, _ZERO) + spend.usd - before.usd
            more = max(spend.unknown - before.unknown, 0)
            self._unknown[name] = self._unknown.get(name, 0) + more
        if finished or model in self._dearest:  # what is half-way tells nothing of the whole
            self._dearest[model] = max(self._dearest.get(model, _ZERO), spend.usd)
        if finished:
            self._cells.pop(episode, None)
        else:
            self._cells[episode] = spend
        self._check_known(self.tariffs[model], spend)

    def _check_known(self, tariff: Tariff, spend: Spend) -> None:
        if spend.unknown and not self.allow_unknown and self.limits_of(tariff):
            raise HarnessError(
                f"{tariff.kind} {tariff.model!r}: its provider tells no token counts, so what its "
                "replies cost is unknown and the budget cannot be kept: take it out of the "
                "budget, or go on with --allow-unknown-price"
            )

    def reserve(self, episode: str, model: str, bound: Decimal | None = None) -> bool:
        """Set aside what an attempt at this episode may cost; False where no limit may be
        passed and one might be. ``bound`` is the most that this attempt can cost, where it is
        known better than of the model's others."""
        wanted = self._wanted(model, bound)
        if wanted is None:
            return False
        self.release(episode)
        for name, amount in wanted:
            self._reserved[name] = self._reserved.get(name, _ZERO) + amount
        self._held[episode] = wanted
        return True

    def affords(self, model: str) -> bool:
        """Whether an attempt of this model could be paid for now."""
        return self._wanted(model) is not None

    def release(self, episode: str) -> None:
        """Give back what was set aside: what it really cost has been told."""
        for name, amount in self._held.pop(episode, ()):
            self._reserved[name] -= amount

    def accounts(self) -> tuple[Account, ...]:
        """Every limit as it stands."""
        return tuple(
            Account(
                name,
                limit,
                self._spent.get(name, _ZERO),
                self._reserved.get(name, _ZERO),
                self._unknown.get(name, 0),
            )
            for name, limit in self._limits.items()
        )

    def _wanted(
        self, model: str, bound: Decimal | None = None
    ) -> tuple[tuple[str, Decimal], ...] | None:
        """What to set aside of each limit; None where one has not that much left."""
        left = [(name, self._left(name)) for name in self._names(model)]
        amount = self._estimate(model, bound)
        if amount is None:
            # Nothing is known of this model: one attempt, and until it is known what that cost,
            # no other that its limits would have to pay for.
            return tuple(left) if all(room > 0 for _, room in left) else None
        if any(amount > room for _, room in left):
            return None
        return tuple((name, amount) for name, _ in left)

    def _estimate(self, model: str, bound: Decimal | None) -> Decimal | None:
        tariff = self.tariffs[model]
        if tariff.price is None:
            return _ZERO
        most = tariff.bound if bound is None else bound
        if self.budget.reserve == BOUND or model not in self._dearest:
            return most
        seen = SPARE * self._dearest[model]
        return seen if most is None else min(seen, most)

    def _left(self, name: str) -> Decimal:
        spent, reserved = self._spent.get(name, _ZERO), self._reserved.get(name, _ZERO)
        return self._limits[name] - spent - reserved

    def _names(self, model: str) -> tuple[str, ...]:
        """The limits that a model's cost counts against."""
        return self.limits_of(self.tariffs[model])

    def limits_of(self, tariff: Tariff) -> tuple[str, ...]:
        """The limits that what a tariff tells the price of counts against."""
        if tariff.free:
            return ()
        named = ("run", f"{tariff.kind} {tariff.model}", f"provider {tariff.provider}")
        return tuple(name for name in named if name in self._limits)


_REPLY_JUDGEPURSE = re.compile(rf"{JUDGEMENTS}([0-9a-f]{{64}})/[0-9a-f]{{64}}-\d\d\.age")
_NOTHING = Spend()


@dataclass(frozen=True, slots=True)
class JudgepurseBought:
    """One reply of a judge. ``purpose`` is None where it was kept without one."""

    judge: str  # digest of its pin
    purpose: Purpose | None
    usage: Usage


def read_bought_of_judges(store: Store, identities: tuple[str, ...]) -> Iterator[JudgepurseBought]:
    """Every reply that a judge was paid for, of the whole study. Raises RegistryError."""
    for key in store.list(JUDGEMENTS):
        if (named := _REPLY_JUDGEPURSE.fullmatch(key)) is None:
            continue  # a request that failed lies here too
        kept = decode_judgement(decrypt(store.get(key), identities, key), key)
        yield JudgepurseBought(f"sha256:{named[1]}", kept.purpose, kept.reply.usage)


def spend_on(usages: Iterable[Usage], price: Price | None) -> Spend:
    """What these replies cost; nothing that is known, where the price is not."""
    if price is None:
        return _NOTHING
    costs = [price.cost(usage) for usage in usages]
    known = [cost for cost in costs if cost is not None]
    return Spend(sum(known, Decimal()), len(costs) - len(known))


def judge_tariff(pin: JudgePin, price: Price | None, budget: Budget | None) -> Tariff:
    """What a judge costs. Raises HarnessError where the budget reserves bounds and its settings
    state none."""
    if (
        budget is not None
        and budget.reserve == BOUND
        and price is not None
        and "max_tokens" not in dict(pin.settings)
    ):
        raise HarnessError(
            f"judge {pin.name!r}: `reserve: {BOUND}` needs the most that a call can cost: state "
            "its `max_tokens`, or reserve by what was seen (`reserve: seen`)"
        )
    return Tariff(pin.name, pin.provider, price, kind="judge")


@dataclass(slots=True)
class JudgePurse:
    """A purse that threads take from: who cannot pay waits until others have told what they
    spent, and is refused when nobody is at work."""

    purse: Purse
    prior: Mapping[tuple[str, str], Spend]  # by judge and episode: what it has cost before
    _changed: threading.Condition = field(default_factory=threading.Condition, repr=False)
    _at_work: set[tuple[str, str]] = field(default_factory=set)

    def take(self, judge: str, episode: str, bound: Decimal | None) -> bool:
        """Set aside what the judge may take for the episode; False where the budget does not pay
        for it. What is taken must be settled."""
        with self._changed:
            while not self.purse.reserve(f"{judge}/{episode}", judge, bound):
                if not self._at_work:
                    return False
                self._changed.wait()
            self._at_work.add((judge, episode))
            return True

    def settle(self, judge: str, episode: str, more: Spend, finished: bool) -> None:
        """What it took, beside what it had before, and whether the episode is graded now."""
        before = self.prior.get((judge, episode), _NOTHING)
        total = Spend(before.usd + more.usd, before.unknown + more.unknown)
        with self._changed:
            try:
                self.purse.settle(f"{judge}/{episode}", judge, total, finished)
            finally:
                self.purse.release(f"{judge}/{episode}")
                self._at_work.discard((judge, episode))
                self._changed.notify_all()

    def accounts(self) -> tuple[Account, ...]:
        """Every limit as it stands."""
        with self._changed:
            return self.purse.accounts()
