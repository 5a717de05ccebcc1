"""Lists of identified things in an answer: galaxies, events, supplies, machines.

An item stands in a list of the answer block as an object with its identifier under a key, as a pair
[identifier, value], or as plain text. A list ``events`` may also be a CSV file with lines
``identifier,value`` that the block names under ``events_file``. A list of more than MAX_ITEMS, and
one that holds something but no item, are no list."""

from __future__ import annotations

import csv
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from generators.grading.answer import Answer
from generators.grading.checks import as_number, value_at

MAX_ITEMS = 200_000
PAIRS = "[0]"  # as ``key``: items are pairs [identifier, value]
TEXTS = ""  # as ``key``: items are their own identifiers

# Fields of an item, or None if it is listed twice with different values.
Fields = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ItemList:
    """Place of the items: the path of the list, and the key of the identifier in each."""

    path: tuple[str, ...]
    key: str


@dataclass(frozen=True, slots=True)
class _ItemCheck(ABC):
    """A check of a list; an answer without the list meets none."""

    items: ItemList

    def passes(self, answer: Answer) -> bool:
        items = items_at(answer, self.items)
        return items is not None and self.holds(items)

    @abstractmethod
    def holds(self, items: Mapping[str, Fields]) -> bool:
        """Report if these items meet the check."""


@dataclass(frozen=True, slots=True)
class ListsItem(_ItemCheck):
    """The item is in the list."""

    id: str

    def holds(self, items: Mapping[str, Fields]) -> bool:
        """Report if the items meet the check."""
        return self.id in items


@dataclass(frozen=True, slots=True)
class OmitsItem(_ItemCheck):
    """There is a list, and the item is not in it."""

    id: str

    def holds(self, items: Mapping[str, Fields]) -> bool:
        """Report if the items meet the check."""
        return self.id not in items


@dataclass(frozen=True, slots=True)
class ItemNumber(_ItemCheck):
    """The item's field is a number in the closed interval [low, high]. The field of a pair is
    ``value``."""

    id: str
    field: str
    low: float
    high: float

    def holds(self, items: Mapping[str, Fields]) -> bool:
        """Report if the items meet the check."""
        number = as_number(_field(items, self.id, self.field))
        return number is not None and self.low <= number <= self.high


@dataclass(frozen=True, slots=True)
class ItemValue(_ItemCheck):
    """The item's field equals this text or whole number."""

    id: str
    field: str
    value: str | int

    def holds(self, items: Mapping[str, Fields]) -> bool:
        """Report if the items meet the check."""
        given = _field(items, self.id, self.field)
        if isinstance(self.value, str):
            return isinstance(given, str) and given == self.value
        return as_number(given) == self.value


@dataclass(frozen=True, slots=True)
class ItemCount(_ItemCheck):
    """The list holds exactly this number of different items."""

    count: int

    def holds(self, items: Mapping[str, Fields]) -> bool:
        """Report if the items meet the check."""
        return len(items) == self.count


@dataclass(frozen=True, slots=True)
class ItemPrecision(_ItemCheck):
    """At least ``share`` of the listed items are among the true ones (R8a). If there are no
    true ones, the list is there and empty. ``source`` names the truth's column."""

    ids: tuple[str, ...]
    share: float = 0.5
    source: str = ""

    def holds(self, items: Mapping[str, Fields]) -> bool:
        """Report if the items meet the check."""
        right = len(items.keys() & set(self.ids))
        return right >= self.share * len(items) and bool(items) == bool(self.ids)


@dataclass(frozen=True, slots=True)
class ItemRecall(_ItemCheck):
    """There is a list, and at least ``share`` of the true items are in it (R8a)."""

    ids: tuple[str, ...]
    share: float = 0.5
    source: str = ""

    def holds(self, items: Mapping[str, Fields]) -> bool:
        """Report if the items meet the check."""
        return sum(name in items for name in self.ids) >= self.share * len(self.ids)


@dataclass(frozen=True, slots=True)
class _ItemNumbers(_ItemCheck):
    """For at least ``share`` of the items, the field is a number within the tolerance of the true
    value (R8e). ``source`` names the truth's table."""

    ids: tuple[str, ...]
    field: str
    values: tuple[float, ...]
    tolerance: float
    share: float = 0.5
    source: str = ""

    relative = False  # no field, since it is of the class

    def holds(self, items: Mapping[str, Fields]) -> bool:
        """Report if the items meet the check."""
        return bool(self.ids) and len(self.near(items)) >= self.share * len(self.ids)

    def near(self, items: Mapping[str, Fields]) -> tuple[int, ...]:
        """The places in ``ids`` of the items within the tolerance."""
        numbers = (as_number(_field(items, name, self.field)) for name in self.ids)
        return tuple(
            at
            for at, (number, value) in enumerate(zip(numbers, self.values, strict=True))
            if number is not None
            and abs(number - value) <= self.tolerance * (abs(value) if self.relative else 1.0)
        )


@dataclass(frozen=True, slots=True)
class ItemsNear(_ItemNumbers):
    """The tolerance is relative to the true value."""

    relative = True


@dataclass(frozen=True, slots=True)
class ItemsWithin(_ItemNumbers):
    """The tolerance is in the field's own unit."""


@dataclass(frozen=True, slots=True)
class TextsOfRead:
    """Of the items that ``read`` finds near, at least ``share`` have their true text in the field,
    and one at least is near: a step that follows a reading was done on what was read. ``source``
    names the truth's column of the texts."""

    read: ItemsWithin
    field: str
    texts: tuple[str, ...]
    share: float = 0.5
    source: str = ""

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check."""
        items = items_at(answer, self.read.items) or {}
        near = self.read.near(items)
        right = sum(_field(items, self.read.ids[at], self.field) == self.texts[at] for at in near)
        return bool(near) and right >= self.share * len(near)


def _field(items: Mapping[str, Fields], name: str, field: str) -> Any:
    return (items.get(name) or {}).get(field)


def items_at(answer: Answer, where: ItemList) -> Mapping[str, Fields] | None:
    """The items of a list by identifier, read once an answer; None if there is no list."""

    def read() -> Mapping[str, Fields] | None:
        *outer, name = where.path
        holder = value_at(answer, tuple(outer))
        if not isinstance(holder, dict):
            return None
        listed = holder.get(name)
        if isinstance(listed, list):
            # Only what is empty counts as empty: a list in which nothing is an item is none.
            return _collect(_read_items(listed, where.key)) or (None if listed else {})
        file = holder.get(f"{name}_file")
        if isinstance(file, str) and file in answer.files:
            return _collect(_read_csv(answer.files[file]))
        return None

    items: Mapping[str, Fields] | None = answer.remember(where, read)
    return items


def _read_items(listed: list[Any], key: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for item in listed[: MAX_ITEMS + 1]:
        if key == TEXTS:
            if isinstance(item, str):
                yield item, {}
        elif key == PAIRS:
            if isinstance(item, list) and len(item) == 2 and (name := _name(item[0])):
                yield name, {"value": item[1]}
        elif isinstance(item, dict) and (name := _name(item.get(key))):
            yield name, {field: value for field, value in item.items() if field != key}


def _read_csv(data: bytes) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Lines ``identifier,value``; a header, and lines of another form, are passed over. A value
    that is NaN or infinite is none: the item is listed and not read, as with null in a block."""
    lines = data.decode("utf-8-sig", "replace").splitlines()[: MAX_ITEMS + 1]
    try:
        for row in csv.reader(lines):
            if len(row) == 2 and (number := _parse(row[1])) is not None:
                yield row[0].strip(), {"value": number if math.isfinite(number) else None}
    except csv.Error:
        return


def _collect(items: Iterable[tuple[str, Mapping[str, Any]]]) -> Mapping[str, Fields] | None:
    """None if there are more than MAX_ITEMS: no honest answer is as long."""
    by_name: dict[str, Fields] = {}
    for count, (name, fields) in enumerate(items, 1):
        if count > MAX_ITEMS:
            return None
        by_name[name] = fields if name not in by_name or _same(by_name[name], fields) else None
    return by_name


def _same(one: Fields, other: Fields) -> bool:
    try:
        return one == other
    except RecursionError:  # nested to the very depth that the parser bears
        return False


def _name(value: Any) -> str:
    """An identifier as text: text itself, or a whole number's digits."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _parse(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
