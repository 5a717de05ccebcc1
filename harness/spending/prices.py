"""Prices of models from a file, each with its date and source.

The file's digest goes into the run's manifest. A price that is not in it is unknown, and so is
the cost of a reply without token counts: neither is ever taken for zero.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.yaml_lines import Place, YamlDocument, YamlError, YamlLimits, parse_yaml
from harness.errors import HarnessError
from registry.canonical import digest_bytes

if TYPE_CHECKING:
    from harness.model import Usage

OWN_PROVIDERS = frozenset(("scripted", "local"))  # run by us: their tokens are free
_MILLION = Decimal(1_000_000)
_MAX_BYTES = 1_000_000
_LEAST = 0.001  # USD per million tokens; a hundredth of the cheapest model's
_MOST = 1_000_000  # USD per million tokens; beyond it somebody mistook the unit
_KEYS = ("provider", "model", "input", "cached_input", "cache_write", "output", "date", "source")
_USD = dict.fromkeys(("input", "cached_input", "cache_write", "output"), "USD per million tokens")
_USD["usd_per_hour"] = "USD an hour"
_NODE_KEYS = ("usd_per_hour", "date", "source")
_OPTIONAL = ("cached_input", "cache_write")
# Of the price of input: what writing to a cache of 5 minutes costs at Anthropic and on Bedrock, and
# to one of 30 minutes at OpenAI (their price lists, November 2026). Who reports no writes has none.
_CACHE_WRITE = Decimal("1.25")


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens of the model versions that match a pattern."""

    provider: str
    model: str  # a pattern with * and ?
    input: Decimal
    cached_input: Decimal  # the part of the input that the provider read from its cache
    cache_write: Decimal  # the part of the input that it wrote there
    output: Decimal
    date: str  # day on which this was the price
    source: str

    def cost(self, usage: Usage) -> Decimal | None:
        """USD for these tokens; None where their number is unknown."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached = min(usage.cached_tokens or 0, usage.input_tokens)
        written = min(usage.cache_write_tokens or 0, usage.input_tokens - cached)
        fresh = usage.input_tokens - cached - written
        paid = fresh * self.input + cached * self.cached_input + written * self.cache_write
        return (paid + usage.output_tokens * self.output) / _MILLION

    def highest(self, input_tokens: int, output_tokens: int) -> Decimal:
        """USD for these tokens if none of the input meets a cache, or all of it is read from one or
        written to one, whichever is most: a price list may say anything."""
        dearest = max(self.input, self.cached_input, self.cache_write)
        return (input_tokens * dearest + output_tokens * self.output) / _MILLION


@dataclass(frozen=True, slots=True)
class NodePrice:
    """USD an hour of a machine that runs a worker."""

    usd_per_hour: Decimal
    date: str
    source: str


@dataclass(frozen=True, slots=True)
class PriceList:
    """The content of a price file."""

    path: str
    digest: str
    prices: tuple[Price, ...]
    node: NodePrice | None = None

    def of(self, provider: str, version: str) -> Price | None:
        """Return the first price of this provider that matches the version, if any."""
        for price in self.prices:
            if price.provider == provider and fnmatchcase(version, price.model.replace("[", "[[]")):
                return price
        return None


def total_cost(price: Price | None, usages: Iterable[Usage]) -> Decimal | None:
    """Return USD for all of these; None if the price or a token count is unknown, or if there is
    nothing to price."""
    if price is None:
        return None
    costs = [price.cost(usage) for usage in usages]
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal()) if costs and len(known) == len(costs) else None


def read_prices(path: Path) -> PriceList:
    """The prices of a file. Raises HarnessError, which names file, line and key."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}; it is the file that `prices:` names") from (
            error
        )
    try:
        document = parse_yaml(data, str(path), YamlLimits("a price file", _MAX_BYTES))
    except YamlError as error:
        raise HarnessError(str(error)) from error
    for fault in document.faults:
        raise HarnessError(f"{path}:{fault.line}: {fault.what}")
    entries = document.value.get("prices") if isinstance(document.value, dict) else None
    if not isinstance(entries, list) or not set(document.value) <= {"prices", "node"}:
        raise HarnessError(
            f"{path}:1: a price file is a mapping with the keys `prices:`, a list, and `node:`, "
            "which may be left out"
        )
    prices = []
    for index in range(len(entries)):
        values = _read_entry(document, ("prices", index), entries[index], _KEYS)
        usual = {"cached_input": values["input"], "cache_write": _CACHE_WRITE * values["input"]}
        prices.append(Price(**{**usual, **values}))
    node = None
    if "node" in document.value:
        node = NodePrice(**_read_entry(document, ("node",), document.value["node"], _NODE_KEYS))
    return PriceList(str(path), digest_bytes(data), tuple(prices), node)


def _read_entry(
    document: YamlDocument, path: Place, entry: Any, known: tuple[str, ...]
) -> dict[str, Any]:
    place = document.place(path)
    if not isinstance(entry, dict):
        raise HarnessError(f"{place}: a price is a mapping with the keys {', '.join(known)}")
    for key in entry:
        if key not in known:
            where = document.place((*path, key))
            raise HarnessError(f"{where}: unknown key; known are {', '.join(known)}")
    for key in known:
        if key not in entry and key not in _OPTIONAL:
            raise HarnessError(f"{place}: the key {key!r} is missing")
    return {
        key: _read_value(document.place((*path, key)), key, value) for key, value in entry.items()
    }


def _read_value(place: str, key: str, value: Any) -> Any:
    if key in _USD:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and 0 < value < _LEAST and key in _KEYS:
            raise HarnessError(
                f"{place}: USD per million tokens; {value:g} looks like the price of one token: "
                f"write {Decimal(repr(value)) * _MILLION:f}"
            )
        if number and 0 <= value <= _MOST:
            return Decimal(repr(value))
        raise HarnessError(f"{place}: {_USD[key]}, from 0 to {_MOST:,} (found {value!r})")
    if key == "date":
        if not _is_day(str(value)):
            raise HarnessError(f"{place}: a day as YYYY-MM-DD (found {str(value)!r})")
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise HarnessError(f"{place}: a text that says something")
    return value


def _is_day(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
