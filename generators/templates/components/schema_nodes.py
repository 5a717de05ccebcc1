"""What a schema becomes: places that draw all their values at once, however deep they lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Protocol

from generators.stream import Stream
from generators.templates.components.regex_sampler import log10_sum
from generators.templates.language import DataType, indices

MOST_EXTRAS = 3  # additional properties, named extra_0, extra_1, …


class Node(Protocol):
    """A place in a schema."""

    @property
    def log10(self) -> float:
        """Of the number of its values."""
        ...

    @property
    def values(self) -> int:
        """Of single values that one of it holds, at most."""
        ...

    @property
    def size(self) -> int:
        """Characters of one of it when written, at most, indentation apart."""
        ...

    def draw(self, stream: Stream, count: int) -> list[Any]:
        """The input files and the truth of one seed."""
        ...


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value."""

    log10: float
    size: int
    values: int
    draw: Callable[[Stream, int], list[Any]]
    write: Callable[[Any], str] | None = None  # how XML shows it, where not as ``text`` does


@dataclass(frozen=True, slots=True)
class Object:
    keys: tuple[str, ...]
    nodes: tuple[Node, ...]
    extra: Node | None  # up to three more of it

    @property
    def log10(self) -> float:
        """log10 of the number of distinct values."""
        total = sum(node.log10 for node in self.nodes)
        if self.extra is None:
            return total
        return total + log10_sum(count * self.extra.log10 for count in range(MOST_EXTRAS + 1))

    @property
    def values(self) -> int:
        """How many values an object holds at the most, itself included."""
        extra = 0 if self.extra is None else MOST_EXTRAS * self.extra.values
        return 1 + extra + sum(node.values for node in self.nodes)

    @property
    def size(self) -> int:
        """How many bytes an object takes at the most."""
        keys = sum(2 * len(key.encode()) + 12 for key in self.keys)
        extra = 0 if self.extra is None else MOST_EXTRAS * (self.extra.size + 30)
        return 12 + keys + extra + sum(node.size for node in self.nodes)

    def draw(self, stream: Stream, count: int) -> list[Any]:
        """So many objects, drawn."""
        columns = [node.draw(stream, count) for node in self.nodes]
        if not columns:
            made: list[Any] = [{} for _ in range(count)]
        else:
            made = [dict(zip(self.keys, row, strict=True)) for row in zip(*columns, strict=True)]
        if self.extra is not None:
            parts = _split(self.extra, stream, count, 0, MOST_EXTRAS)
            for record, part in zip(made, parts, strict=True):
                record.update((f"extra_{index}", value) for index, value in enumerate(part))
        return made


@dataclass(frozen=True, slots=True)
class Array:
    items: Node
    least: int
    most: int
    element: str  # the name of an item in XML

    @property
    def log10(self) -> float:
        """log10 of the number of distinct values."""
        if self.least == self.most:
            return self.most * self.items.log10
        if self.most > 10_000:  # what is shorter hardly shows
            return self.most * self.items.log10
        return log10_sum(count * self.items.log10 for count in range(self.least, self.most + 1))

    @property
    def values(self) -> int:
        """How many values an array holds at the most, itself included."""
        return 1 + self.most * self.items.values

    @property
    def size(self) -> int:
        """How many bytes an array takes at the most."""
        return 12 + self.most * (self.items.size + 2 * len(self.element) + 12)

    def draw(self, stream: Stream, count: int) -> list[Any]:
        """So many arrays, drawn."""
        return _split(self.items, stream, count, self.least, self.most)


def _split(node: Node, stream: Stream, count: int, least: int, most: int) -> list[Any]:
    """``count`` lists of ``least`` to ``most`` values of a node."""
    if least == most:
        lengths = [least] * count
    else:
        drawn = indices(stream.uniforms(count), most - least + 1)
        lengths = [least + extra for extra in drawn]
    ends = list(accumulate(lengths, initial=0))
    values = node.draw(stream, ends[-1])
    return [values[start:end] for start, end in pairwise(ends)]


def leaf(kind: DataType) -> Leaf:
    """A single value of a data type."""
    return Leaf(kind.log10_values, kind.longest * 2 + 2, 1, kind.draw, kind.write)
