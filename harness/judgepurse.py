"""A budget that judges share with what else a wave buys, for threads that grade side by side."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from harness.budget import BOUND, Account, Budget, Purse, Spend, Tariff
from harness.codec import decode_judgement
from harness.errors import HarnessError
from harness.judgement import Purpose
from harness.keys import JUDGEMENTS
from harness.model import Usage
from harness.prices import Price
from registry.records import JudgePin
from registry.seal import decrypt
from registry.store import Store

_REPLY = re.compile(rf"{JUDGEMENTS}([0-9a-f]{{64}})/[0-9a-f]{{64}}-\d\d\.age")
_NOTHING = Spend()


@dataclass(frozen=True, slots=True)
class Bought:
    """One reply of a judge. ``purpose`` is None where it was kept without one."""

    judge: str  # digest of its pin
    purpose: Purpose | None
    usage: Usage


def read_bought_of_judges(store: Store, identities: tuple[str, ...]) -> Iterator[Bought]:
    """Every reply that a judge was paid for, of the whole study. Raises RegistryError."""
    for key in store.list(JUDGEMENTS):
        if (named := _REPLY.fullmatch(key)) is None:
            continue  # a request that failed lies here too
        kept = decode_judgement(decrypt(store.get(key), identities, key), key)
        yield Bought(f"sha256:{named[1]}", kept.purpose, kept.reply.usage)


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
