"""Limits of an episode on tokens and cost.

A request carries the whole conversation, so the next one costs at least as much as the last one.
The cost of the last one is reserved for a last question, without tools, before a limit is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from harness.episode import StopReason
from harness.errors import HarnessError
from harness.model import Usage
from harness.models.settings import settings_of
from registry.ledger.records import ModelPin


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most tokens (input and output of all turns) and USD of an episode; None for no limit.
    ``spent`` returns the cost of one reply, None if it is unknown."""

    tokens: int | None = None
    usd: Decimal | None = None
    spent: Callable[[Usage], Decimal | None] | None = None

    def met(self, usages: Sequence[Usage]) -> tuple[StopReason, bool] | None:
        """The limit that the next turn would exceed, and whether a last question fits within it;
        None if both fit. Raises HarnessError if a count is unknown."""
        if not usages or (self.tokens is None and self.usd is None):
            return None
        counts = self._counts(usages)
        for reason, limit, amounts in counts:
            if sum(amounts) + 2 * amounts[-1] > limit:
                return reason, all(sum(made) + made[-1] <= most for _, most, made in counts)
        return None

    def _counts(self, usages: Sequence[Usage]) -> list[tuple[StopReason, Decimal, list[Decimal]]]:
        counts, usages = [], [usage.bounded for usage in usages]
        if self.tokens is not None:
            tokens = [_known(_tokens(usage), "tokens", "episode_tokens") for usage in usages]
            counts.append((StopReason.TOKEN_LIMIT, Decimal(self.tokens), tokens))
        if self.usd is not None:
            price = self.spent or (lambda usage: None)
            costs = [_known(price(usage), "cost", "episode_usd") for usage in usages]
            counts.append((StopReason.COST_LIMIT, self.usd, costs))
        return counts


def read_ceiling(pin: ModelPin, spent: Callable[[Usage], Decimal | None] | None = None) -> Ceiling:
    """Read the limits from a model's settings. Raises HarnessError."""
    settings = settings_of(pin)
    tokens = getattr(settings, "episode_tokens", None)
    usd = getattr(settings, "episode_usd", None)
    if usd is not None and spent is None:
        raise HarnessError(
            f"model {pin.name!r}: episode_usd: its price is unknown; give a price file that has it"
        )
    return Ceiling(tokens, None if usd is None else Decimal(str(usd)), spent)


def _tokens(usage: Usage) -> Decimal | None:
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    return Decimal(usage.input_tokens + usage.output_tokens)


def _known(amount: Decimal | None, what: str, setting: str) -> Decimal:
    if amount is None:
        raise HarnessError(
            f"the {what} of a reply is unknown, so `{setting}` cannot be enforced: "
            "leave it out for this model"
        )
    return amount
