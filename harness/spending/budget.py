"""The budget of a wave: its limits, what was spent, and what the work in progress may still spend.

The promise: whenever work is started, what was spent, what is reserved for the work in progress,
and what is reserved for this piece together stay within every limit. So a limit is passed only by
what a piece of work costs beyond its reservation. With ``reserve: bound`` a reservation is the most
that it can cost, and no limit is ever passed.

The amount spent is read from the store, where each paid reply is written before it is acted on,
those of failed attempts too; nothing else needs to survive.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal

from harness.errors import HarnessError
from harness.model import Usage
from harness.spending.prices import OWN_PROVIDERS, Price
from harness.spending.team import TeamBudget
from registry.ledger.records import JudgePin, ModelPin

SEEN, BOUND = "seen", "bound"
TEAM = "team"
SPARE = 2  # the reservation of an episode, in times the most expensive one so far
_ZERO = Decimal()
Subject = tuple[str, str]  # the model or judge, and the episode, answer sheet or probe


@dataclass(frozen=True, slots=True)
class SpendingLimits:
    """Limits of one wave, in USD; what is not named has none."""

    run: Decimal | None = None
    models: tuple[tuple[str, Decimal], ...] = ()
    providers: tuple[tuple[str, Decimal], ...] = ()
    reserve: str = SEEN
    judges: tuple[tuple[str, Decimal], ...] = ()
    team: Decimal | None = None  # of all studies whose stores lie together


@dataclass(frozen=True, slots=True)
class PricedModel:
    """A model or judge of a wave with its price. ``bound`` is the most that one attempt can cost,
    in USD, if its settings state one."""

    name: str
    provider: str
    price: Price | None
    bound: Decimal | None = None
    kind: str = "model"  # or "judge"

    @property
    def free(self) -> bool:
        """True if nobody is paid: we run it ourselves, and no price is stated."""
        return self.provider in OWN_PROVIDERS and self.price is None


@dataclass(frozen=True, slots=True)
class Spend:
    """The cost of some paid replies."""

    usd: Decimal = _ZERO
    unknown: int = 0  # replies of unknown cost

    def __add__(self, other: Spend) -> Spend:
        return Spend(self.usd + other.usd, self.unknown + other.unknown)


@dataclass(frozen=True, slots=True)
class Account:
    """The state of one limit, in USD."""

    name: str
    limit: Decimal
    spent: Decimal
    reserved: Decimal
    unknown: int  # replies of unknown cost, which are in none of the sums


def sum_spend(usages: Iterable[Usage], price: Price | None) -> Spend:
    """Return the cost of these replies; nothing if the price is unknown."""
    if price is None:
        return Spend()
    costs = [price.cost(usage.bounded) for usage in usages]
    known = [cost for cost in costs if cost is not None]
    return Spend(sum(known, _ZERO), len(costs) - len(known))


def attempt_bound(pin: ModelPin, price: Price, turns: int) -> Decimal | None:
    """Return the most that an attempt of this many requests can cost, each with a full context and
    the longest reply; None if the model's settings do not state ``context`` and ``max_tokens``."""
    settings = dict(pin.settings)
    if "context" not in settings or "max_tokens" not in settings:
        return None
    return turns * price.highest(int(settings["context"]), int(settings["max_tokens"]))


def price_judge(pin: JudgePin, price: Price | None, limits: SpendingLimits | None) -> PricedModel:
    """Return a judge with its price. Raises HarnessError if the budget reserves bounds and the
    judge's settings state none."""
    bounded = limits is not None and limits.reserve == BOUND
    if bounded and price is not None and "max_tokens" not in dict(pin.settings):
        raise HarnessError(
            f"judge {pin.name!r}: `reserve: {BOUND}` needs the most that a call can cost: state "
            "its `max_tokens`, or reserve by what was seen (`reserve: seen`)"
        )
    return PricedModel(pin.name, pin.provider, price, kind="judge")


class Budget:
    """The limits of a wave and everything that counts against them. Threads may share it.

    A subject is an episode, answer sheet or probe together with the model or judge that is paid.
    """

    def __init__(
        self,
        limits: SpendingLimits,
        models: Iterable[PricedModel],
        allow_unknown: bool = False,
        place: tuple[str, str] | None = None,
    ) -> None:
        """Open an unspent budget. Its part of the team's is kept beside the store that ``place``
        has first, for the purpose that it has second. Raises HarnessError if its limits cannot be
        enforced."""
        self.limits, self.allow_unknown = limits, allow_unknown
        self._team = TeamBudget(limits.team, *place) if limits.team and place else None
        self.models = {model.name: model for model in models}
        self._changed = threading.Condition()
        self._limits = {} if limits.run is None else {"run": limits.run}
        self._limits |= {f"model {name}": limit for name, limit in limits.models}
        self._limits |= {f"provider {name}": limit for name, limit in limits.providers}
        self._limits |= {f"judge {name}": limit for name, limit in limits.judges}
        self._limits |= {TEAM: _ZERO} if self._team else {}
        self._spent: defaultdict[str, Decimal] = defaultdict(Decimal)
        self._reserved: defaultdict[str, Decimal] = defaultdict(Decimal)
        self._unknown: Counter[str] = Counter()
        self._highest: dict[str, Decimal] = {}  # cost of one subject, by model
        self._subjects: dict[Subject, Spend] = {}
        self._reservations: dict[Subject, tuple[tuple[str, Decimal], ...]] = {}
        for model in self.models.values():
            if model.kind == "judge":
                continue  # its bound differs between answers
            if limits.reserve == BOUND and model.price is not None and model.bound is None:
                raise HarnessError(
                    f"model {model.name!r}: `reserve: {BOUND}` needs the most that an attempt "
                    "can cost: state `context` and `max_tokens` of the model, or reserve by what "
                    f"was seen (`reserve: {SEEN}`)"
                )

    def limits_of(self, model: PricedModel) -> tuple[str, ...]:
        """Return the names of the limits that a model's or judge's cost counts against."""
        if model.free:
            return ()
        named = ("run", f"{model.kind} {model.name}", f"provider {model.provider}", TEAM)
        return tuple(name for name in named if name in self._limits)

    def charge(self, model: PricedModel, spend: Spend) -> None:
        """Count what a model or judge has cost that spends nothing more from this budget. Raises
        HarnessError as ``settle`` does."""
        with self._changed:
            for name in self.limits_of(model):
                self._spent[name] += spend.usd
                self._unknown[name] += spend.unknown
        self._check_known(model, spend)

    def settle(self, model: str, subject: str, total: Spend, finished: bool = False) -> None:
        """Record what a subject has cost so far in all. Recording it again changes nothing.

        Raises HarnessError for replies of unknown cost, unless those are allowed.
        """
        with self._changed:
            before = self._subjects.get((model, subject), Spend())
            if total.usd < before.usd:  # an old message: what is spent stays spent
                total = before
            for name in self.limits_of(self.models[model]):
                self._spent[name] += total.usd - before.usd
                self._unknown[name] += max(total.unknown - before.unknown, 0)
            if finished or model in self._highest:  # a part says nothing about the whole
                self._highest[model] = max(self._highest.get(model, _ZERO), total.usd)
            self._subjects[model, subject] = total
        self._check_known(self.models[model], total)

    def settle_reserved(self, model: str, subject: str, more: Spend, finished: bool) -> None:
        """Record what the work that was reserved has cost beyond what its subject cost before, and
        release the reservation. Raises HarnessError as ``settle`` does."""
        with self._changed:
            try:
                before = self._subjects.get((model, subject), Spend())
                self.settle(model, subject, before + more, finished)
            finally:
                self.release(model, subject)

    def reserve(self, model: str, subject: str, bound: Decimal | None = None) -> bool:
        """Reserve what work on a subject may cost; False if a limit might be passed. ``bound`` is
        the most that this work can cost, if that is known better than the model's bound."""
        with self._changed:
            if (amounts := self._amounts(model, bound)) is None:
                return False
            self.release(model, subject)
            for name, amount in amounts:
                self._reserved[name] += amount
            self._reservations[model, subject] = amounts
            return True

    def wait_to_reserve(self, model: str, subject: str, bound: Decimal | None) -> bool:
        """Reserve as ``reserve`` does, but wait while work in progress may still leave enough;
        False if nothing is in progress. Whatever is reserved must be settled."""
        with self._changed:
            while True:
                self._draw([self._estimate(model, bound)])
                if self.reserve(model, subject, bound):
                    return True
                if not self._reservations:
                    return False
                self._changed.wait()

    def draw(self, episodes: int) -> None:
        """Hold as much of the team's budget as this many more episodes may cost, or what is left of
        it. Raises RegistryError."""
        with self._changed:
            paid = (model.name for model in self.models.values() if TEAM in self.limits_of(model))
            costs = [self._estimate(name, None) for name in paid]
            self._draw([None if cost is None else episodes * cost for cost in costs])

    def close(self) -> None:
        """Give back what is left of the team's budget. Raises RegistryError."""
        with self._changed:
            if self._team is not None:
                spent = self._spent[TEAM]
                self._team.hold(spent, spent + self._reserved[TEAM])

    def _draw(self, costs: Iterable[Decimal | None]) -> None:
        """Hold the highest of these costs of the team's budget; for an unknown one a tenth of its
        limit, and nothing more until that is known."""
        if (team := self._team) is None:
            return
        if not any(self._estimate(model, None) is None for model, _ in self._reservations):
            more = max((team.limit / 10 if cost is None else cost for cost in costs), default=_ZERO)
            spent = self._spent[TEAM]
            team.cover(spent, spent + self._reserved[TEAM], more)
            self._limits[TEAM] = team.held

    def release(self, model: str, subject: str) -> None:
        """Give back what was reserved for a subject, since its cost has been recorded."""
        with self._changed:
            for name, amount in self._reservations.pop((model, subject), ()):
                self._reserved[name] -= amount
            self._changed.notify_all()

    def affords(self, model: str) -> bool:
        """Return True if an attempt of this model could be paid for now."""
        with self._changed:
            return self._amounts(model) is not None

    def accounts(self) -> tuple[Account, ...]:
        """Return the state of every limit."""
        with self._changed:
            accounts = [
                Account(name, limit, self._spent[name], self._reserved[name], self._unknown[name])
                for name, limit in self._limits.items()
            ]
            if (team := self._team) is not None:  # the last one: with what other waves hold
                own = accounts.pop()
                accounts.append(replace(own, limit=team.limit, spent=team.others + own.spent))
            return tuple(accounts)

    def _check_known(self, model: PricedModel, spend: Spend) -> None:
        if spend.unknown and not self.allow_unknown and self.limits_of(model):
            raise HarnessError(
                f"{model.kind} {model.name!r}: its provider reports no token counts, so what its "
                "replies cost is unknown and the budget cannot be kept: take it out of the "
                "budget, or go on with --allow-unknown-price"
            )

    def _amounts(
        self, model: str, bound: Decimal | None = None
    ) -> tuple[tuple[str, Decimal], ...] | None:
        """Return the amount to reserve of each limit; None if one has less left."""
        names = self.limits_of(self.models[model])
        left = [(n, self._limits[n] - self._spent[n] - self._reserved[n]) for n in names]
        if (amount := self._estimate(model, bound)) is None:
            # Nothing is known of this model: one attempt, and until its cost is known, no other
            # that its limits would have to pay for.
            return tuple(left) if all(rest > 0 for _, rest in left) else None
        if any(amount > rest for _, rest in left):
            return None
        return tuple((name, amount) for name in names)

    def _estimate(self, model: str, bound: Decimal | None) -> Decimal | None:
        priced = self.models[model]
        if priced.price is None or not priced.price.highest(1, 1):
            return _ZERO
        highest = priced.bound if bound is None else bound
        if self.limits.reserve == BOUND or model not in self._highest:
            return highest
        likely = SPARE * self._highest[model]
        return likely if highest is None else min(likely, highest)
