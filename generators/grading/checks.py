"""Deterministic checks: pure comparisons of an answer with what is true.

A check is a frozen value that decides itself. Paths name keys of the answer block, from the
outside in. A value of the wrong type fails; it never raises and never earns a point.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from generators.grading.answer import Answer

KeyPath = tuple[str, ...]

_LISTED = ("values", "ids", "texts", "schema")  # fields that a source of the check repeats


class Check(Protocol):
    """A yes-or-no question about an answer: a frozen dataclass of plain fields and checks, since
    ``check_as_json`` writes them."""

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check. Never raises."""


def passes(check: Check, answer: Answer | None) -> bool:
    """Report if the answer meets the check. No answer meets none."""
    return answer is not None and check.passes(answer)


@dataclass(frozen=True, slots=True)
class NumberWithin:
    """The number at the path lies in the closed interval [low, high]."""

    path: KeyPath
    low: float
    high: float

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check."""
        number = number_at(answer, self.path)
        return number is not None and self.low <= number <= self.high


@dataclass(frozen=True, slots=True)
class ValueEquals:
    """The value at the path equals this one, of the same JSON type."""

    path: KeyPath
    value: str | int | bool

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check."""
        given = value_at(answer, self.path)
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            return type(given) is type(self.value) and given == self.value
        return as_number(given) == self.value


@dataclass(frozen=True, slots=True)
class ListsNumber:
    """The list at the path holds the value at least ``copies`` times, within ``tolerance``."""

    path: KeyPath
    value: float
    copies: int = 1
    tolerance: float = 0.0

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check."""
        listed = numbers_at(answer, self.path)
        first = bisect_left(listed, self.value - self.tolerance)
        return bisect_right(listed, self.value + self.tolerance) - first >= self.copies


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A list of numbers, and the true ones, as multisets. ``source`` names the column of the truth
    ("<table>.<column>") that ``values`` repeats; if it is given, ``check_as_json`` writes it
    instead of them."""

    path: KeyPath
    values: tuple[float, ...]
    share: float = 0.5
    tolerance: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class NumberPrecision(_Numbers):
    """At least ``share`` of the list's numbers are among the true ones (R8a)."""

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check."""
        given = value_at(answer, self.path)
        # No list this long can be precise: refused before its numbers are read.
        if not isinstance(given, list) or len(given) * self.share > len(self.values):
            return False
        listed = numbers_at(answer, self.path)
        right = _matches(listed, self.values, self.tolerance)
        return bool(listed) and right >= self.share * len(listed)


@dataclass(frozen=True, slots=True)
class NumberRecall(_Numbers):
    """At least ``share`` of the true numbers are in the list (R8a, R8e)."""

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check."""
        right = _matches(numbers_at(answer, self.path), self.values, self.tolerance)
        return bool(self.values) and right >= self.share * len(self.values)


@dataclass(frozen=True, slots=True)
class ShareOf:
    """At least ``share`` of the given checks pass (R8e)."""

    checks: tuple[Check, ...]
    share: float = 0.5

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check."""
        passed = sum(check.passes(answer) for check in self.checks)
        return bool(self.checks) and passed >= self.share * len(self.checks)


@dataclass(frozen=True, slots=True)
class MeanAgrees:
    """The number at the path is the mean of the integers listed under another, ± tolerance."""

    path: KeyPath
    counts: KeyPath
    size: int
    tolerance: float

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check."""
        number = number_at(answer, self.path)
        mean = _mean_of(value_at(answer, self.counts), self.size)
        return number is not None and mean is not None and abs(number - mean) <= self.tolerance


@dataclass(frozen=True, slots=True)
class Gated:
    """The check passes, and so does the gate that keeps a guess from earning it (R8)."""

    check: Check
    gate: Check

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check."""
        return self.gate.passes(answer) and self.check.passes(answer)


def ungated(check: Check) -> Check:
    """The check without the gates around it."""
    return ungated(check.check) if isinstance(check, Gated) else check


def gates_of(check: Check | None) -> tuple[Check, ...]:
    """The gates around a check."""
    return (check.gate, *gates_of(check.check)) if isinstance(check, Gated) else ()


@dataclass(frozen=True, slots=True)
class Unrepaired:
    """The check passes, and the answer could be read without any of the REPAIRS."""

    check: Check

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check."""
        return not answer.repairs and self.check.passes(answer)


@dataclass(frozen=True, slots=True)
class FitsSchema:
    """The answer block fits the brief's JSON Schema. ``source`` as in _Numbers: the schema
    stands in the brief."""

    schema: str
    source: str = "answer_schema"

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check."""
        return not answer.violations(self.schema)


def is_number(value: Any) -> bool:
    """Report if a value is a JSON number: booleans and numbers written as text are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_number(value: Any) -> float | None:
    """A JSON number as a float; None for any other value and for one that overflows."""
    try:
        return float(value) if is_number(value) else None
    except OverflowError:
        return None


def value_at(answer: Answer, path: KeyPath) -> Any:
    """The value at the path, or None."""
    value: Any = answer.block
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def number_at(answer: Answer, path: KeyPath) -> float | None:
    """The number at the path, or None."""
    return as_number(value_at(answer, path))


def numbers_at(answer: Answer, path: KeyPath) -> tuple[float, ...]:
    """The numbers of a list in rising order, read once an answer; a list that holds anything else
    counts as empty."""

    def read() -> tuple[float, ...]:
        value = value_at(answer, path)
        if not isinstance(value, list) or not set(map(type, value)) <= {int, float}:
            return ()
        try:
            return tuple(sorted(map(float, value)))
        except OverflowError:
            return ()

    numbers: tuple[float, ...] = answer.remember(("numbers", path), read)
    return numbers


def _mean_of(counts: Any, size: int) -> float | None:
    """The mean of the numbers of an object that holds exactly ``size`` of them."""
    if not isinstance(counts, dict) or len(counts) != size:
        return None
    if size == 0 or not all(is_number(count) for count in counts.values()):
        return None
    try:
        return math.fsum(counts.values()) / size
    except OverflowError:
        return None


def _matches(listed: Sequence[float], values: Sequence[float], tolerance: float) -> int:
    """Count the listed numbers that pair off with a true one each."""
    if tolerance == 0:
        return sum((Counter(listed) & Counter(values)).values())
    ordered = sorted(values)
    at = matched = 0
    for number in sorted(listed):
        while at < len(ordered) and ordered[at] < number - tolerance:
            at += 1
        if at < len(ordered) and ordered[at] <= number + tolerance:
            at += 1
            matched += 1
    return matched


_PLAIN = frozenset((str, float, int, bool, type(None)))


def check_as_json(check: Check, shared: dict[int, dict[str, Any]] | None = None) -> dict[str, Any]:
    """The check as plain JSON, its kind named, for releases and digests. ``shared`` gets what was
    made of each check, by the ids of checks that live on: hundreds of parts share their gates."""
    made = {} if shared is None else shared

    def plain(value: Any) -> Any:
        if type(value) in _PLAIN:
            return value
        if isinstance(value, tuple):
            return [plain(item) for item in value]
        if not hasattr(value, "__dataclass_fields__"):
            return value
        if id(value) not in made:
            # Hundreds of parts share one list of values: they refer to the column that has it.
            source = getattr(value, "source", None)
            hidden = () if source is None else _LISTED if source else ("source",)
            names = [name for name in value.__dataclass_fields__ if name not in hidden]
            fields = {name: plain(getattr(value, name)) for name in names}
            made[id(value)] = {"kind": type(value).__name__, **fields}
        return made[id(value)]

    result: dict[str, Any] = plain(check)
    return result
