"""Data types of values that an author gives: lists with weights, ranges, shares of empty cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from generators.templates.language.data_types import (
    TRUTH_VALUES,
    DataType,
    distinct_identifiers,
    lookup,
    taken,
    text,
)

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Units = NDArray[float64]

_BELOW_ONE = 1.0 - 2.0**-53
_PART = 1 << 17  # values of one of up to three parts that a uniform is split into
_TRUE = TRUTH_VALUES[::2]


def listed(
    name: str, values: Sequence[str | int | float], weights: Sequence[float] | None = None
) -> DataType:
    """The type of some values, texts or numbers, each as likely as its weight; a value that stands
    there twice counts twice."""
    kind, given = _stored(name, values)
    written = tuple(map(text, values))
    table = cache(lambda: lookup(given))
    texts = cache(lambda: lookup(written))
    longest = max(map(len, written))
    positive = values if weights is None else [v for v, w in zip(values, weights, strict=True) if w]
    log10 = math.log10(len(set(positive)))
    at = partial(taken, table)
    bare = DataType(name, kind, len(values), at, longest, log10=log10, custom=True, listed=written)
    if weights is None:
        return replace(bare, texts=texts)
    pick = _picker(weights)

    def spell(units: Units) -> list[str]:
        return taken(texts, pick(units))

    return replace(bare, size=0, at=lambda units: at(pick(units)), spell=spell)


def _stored(name: str, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The type by which a database knows the values, and the values as JSON has them."""
    if name == "boolean" and set(values) <= set(TRUTH_VALUES):
        return "BOOLEAN", [value in _TRUE for value in values]
    if isinstance(values[0], str):
        return "TEXT", values
    if all(isinstance(value, int) for value in values):
        return "INTEGER", values
    return "REAL", [float(value) for value in values]


def _picker(weights: Sequence[float]) -> Callable[[Units], Any]:
    """Return the function from uniforms to the indices of values of these weights."""

    @cache
    def edges() -> Any:
        import numpy as np

        sums = np.cumsum(np.array(weights, dtype=np.float64))
        # So that no uniform lies beyond the last value that has a weight.
        sums[max(i for i, weight in enumerate(weights) if weight) :] = 1.0
        return sums

    return lambda units: edges().searchsorted(units, side="right")


def identifiers(name: str, low: int, high: int) -> DataType:
    """The whole numbers of a range, none of them twice before all were drawn."""
    size = high - low + 1
    at = partial(distinct_identifiers, low=low, size=size)
    longest = max(len(str(low)), len(str(high)))
    return DataType(name, "INTEGER", size, at, longest, write=str)


def with_empty_cells(kind: DataType, share: float) -> DataType:
    """The type with a share of cells in which nothing stands: null in JSON, YAML and SQL."""

    def split(units: Units) -> tuple[Any, Any]:
        import numpy as np

        empty = units < share
        rest = np.minimum((units - share) / (1 - share), _BELOW_ONE)
        return empty.tolist(), np.where(empty, 0.5, rest)

    def at(units: Units) -> list[Any]:
        empty, rest = split(units)
        values = kind.make(rest)
        return [None if none else value for none, value in zip(empty, values, strict=True)]

    def spell(units: Units) -> list[str]:
        empty, rest = split(units)
        texts = kind.as_text.make(rest)
        return ["" if none else value for none, value in zip(empty, texts, strict=True)]

    def write(value: Any) -> str:
        return "" if value is None else kind.write(value)

    log10 = kind.log10_values
    some = replace(kind, size=0, log10=log10, at=at, write=write, texts=None, spell=spell)
    return replace(some, custom=True, filled=kind)


def composed(
    name: str, kinds: Sequence[DataType], write: Callable[[Sequence[str]], str]
) -> DataType:
    """The type of texts that are made of up to three others, empty cells let be."""
    parts = [(kind.filled or kind).as_text for kind in kinds]

    def at(units: Units) -> list[Any]:
        import numpy as np

        columns = []
        for part in parts:
            scaled = units * _PART
            whole = np.floor(scaled)
            columns.append(part.make((whole + 0.5) / _PART))
            units = scaled - whole
        return [write(row) for row in zip(*columns, strict=True)]

    log10 = sum(part.log10_values for part in parts)
    longest = sum(part.longest + 1 for part in parts)
    return DataType(name, "TEXT", 0, at, longest, log10=log10, custom=True)
