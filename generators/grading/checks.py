"""Deterministic checks: pure comparisons of an answer with what is true.

A check is a frozen value; ``passes`` decides it. Paths name keys of the answer block, from
the outside in. A value of the wrong type fails; it never raises and never earns a point.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from generators.grading.answer import Answer
from generators.grading.item_lists import ItemCheck, passes_item

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """There is a valid answer block that holds something."""


@dataclass(frozen=True, slots=True)
class NumberWithin:
    """The number at the path lies in the closed interval [low, high]."""

    path: Path
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ValueEquals:
    """The value at the path equals this one, of the same JSON type."""

    path: Path
    value: str | int | bool


@dataclass(frozen=True, slots=True)
class ListsNumber:
    """The list at the path holds the value at least ``copies`` times, within ``tolerance``."""

    path: Path
    value: float
    copies: int = 1
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class NumberPrecision:
    """At least ``share`` of the list's numbers are, as a multiset, among the true ones (R8a).

    ``source`` names the column of the truth ("<table>.<column>") that ``values`` repeats;
    where it is given, ``check_as_json`` writes it instead of them.
    """

    path: Path
    values: tuple[float, ...]
    share: float = 0.5
    tolerance: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class NumberRecall:
    """At least ``share`` of the true numbers are, as a multiset, in the list (R8a, R8e).

    ``source`` as in NumberPrecision.
    """

    path: Path
    values: tuple[float, ...]
    share: float = 0.5
    tolerance: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class ShareOf:
    """At least ``share`` of the given checks pass (R8e)."""

    checks: tuple[Check, ...]
    share: float = 0.5


@dataclass(frozen=True, slots=True)
class MeanAgrees:
    """The number at the path is the mean of the integers listed under another, ± tolerance."""

    path: Path
    counts: Path
    size: int
    tolerance: float


@dataclass(frozen=True, slots=True)
class Scored:
    """The final message and the collected files are right by a scoring type of the templates
    (generators/templates/scoring/score.py); ``lenient`` forgives how the answer is packed."""

    scoring_type: str
    expected: str
    file: str
    paths: tuple[str, ...]
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Gated:
    """The check passes, and so does the gate that keeps a guess from earning it (R8)."""

    check: Check
    gate: Check


Check = (
    Answered
    | NumberWithin
    | ValueEquals
    | ListsNumber
    | NumberPrecision
    | NumberRecall
    | ShareOf
    | MeanAgrees
    | Scored
    | Gated
    | ItemCheck
)


def passes(check: Check, answer: Answer | None) -> bool:
    """Whether the answer meets the check. No answer meets none."""
    if answer is None:
        return False
    match check:
        case Answered():
            return len(answer.block) > 0
        case NumberWithin(path, low, high):
            number = number_at(answer, path)
            return number is not None and low <= number <= high
        case ValueEquals(path, value):
            found = value_at(answer, path)
            if isinstance(value, bool) or not isinstance(value, int):
                return type(found) is type(value) and found == value
            return number_at(answer, path) == value
        case ListsNumber(path, value, copies, tolerance):
            listed = numbers_at(answer, path)
            return sum(abs(number - value) <= tolerance for number in listed) >= copies
        case NumberPrecision(path, values, share, tolerance):
            found = value_at(answer, path)
            # No list this long can be precise: refused before its numbers are read.
            if not isinstance(found, list) or len(found) * share > len(values):
                return False
            listed = numbers_at(answer, path)
            return bool(listed) and _matches(listed, values, tolerance) >= share * len(listed)
        case NumberRecall(path, values, share, tolerance):
            listed = numbers_at(answer, path)
            return bool(values) and _matches(listed, values, tolerance) >= share * len(values)
        case ShareOf(checks, share):
            passed = sum(passes(each, answer) for each in checks)
            return bool(checks) and passed >= share * len(checks)
        case MeanAgrees(path, counts, size, tolerance):
            number, mean = number_at(answer, path), _mean_of(value_at(answer, counts), size)
            return number is not None and mean is not None and abs(number - mean) <= tolerance
        case Scored(scoring_type, expected, file, paths, lenient):
            from generators.templates.language import Key
            from generators.templates.scoring import score, score_leniently

            judge = score_leniently if lenient else score
            key = Key(scoring_type, expected, file, paths)
            return judge(key, answer.text, answer).correct
        case Gated(inner, gate):
            return passes(gate, answer) and passes(inner, answer)
        case _:
            return passes_item(check, answer)


def is_number(value: Any) -> bool:
    """A JSON number: booleans and numbers written as text are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def value_at(answer: Answer, path: Path) -> Any:
    """The value at the path, or None."""
    value: Any = answer.block
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def number_at(answer: Answer, path: Path) -> float | None:
    value = value_at(answer, path)
    if not is_number(value):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def numbers_at(answer: Answer, path: Path) -> tuple[float, ...]:
    """The numbers of a list; a list that holds anything else counts as empty."""
    value = value_at(answer, path)
    if not isinstance(value, list) or not set(map(type, value)) <= {int, float}:
        return ()
    try:
        return tuple(map(float, value))
    except OverflowError:
        return ()


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
    """How many listed numbers pair off with a true one each."""
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


def check_as_json(check: Check) -> dict[str, Any]:
    """The check as plain JSON, its kind named, for releases and digests."""

    def hides(value: Any, name: str) -> bool:
        # Hundreds of criteria share one list of values: they refer to the truth's column.
        source = getattr(value, "source", None)
        return source is not None and name in (("values", "ids") if source else ("source",))

    def plain(value: Any) -> Any:
        if hasattr(value, "__dataclass_fields__"):
            names = [name for name in value.__dataclass_fields__ if not hides(value, name)]
            fields = {name: plain(getattr(value, name)) for name in names}
            return {"kind": type(value).__name__, **fields}
        return [plain(each) for each in value] if isinstance(value, tuple) else value

    result: dict[str, Any] = plain(check)
    return result


__all__ = [
    "Answered",
    "Check",
    "Gated",
    "ListsNumber",
    "MeanAgrees",
    "NumberPrecision",
    "NumberRecall",
    "NumberWithin",
    "Scored",
    "ShareOf",
    "ValueEquals",
    "check_as_json",
    "passes",
]
