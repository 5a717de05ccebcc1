"""Numbers in texts, and what is made of many of them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from generators.errors import TemplateError

_INDEX = re.compile(r"[0-9]{1,9}(?: *[+-] *[0-9]{1,9}){0,9}")
_TERM = re.compile(r"[+-]?[0-9]+")


def to_number(text: str) -> float | None:
    """The finite number that a text is, white space around it allowed; None where it is none.

    As Python's ``float`` reads it, but ``nan``, ``inf`` and ``1_000`` are words here: the
    public implementation takes a person called Nan for a number, and spoils the sum.
    Raises TemplateError for a number beyond the largest float.
    """
    try:
        number = float(text)
    except ValueError:
        return None
    if "_" in text:
        return None
    if math.isfinite(number):
        return number
    if any(letter.isdigit() for letter in text):
        raise TemplateError("a number in the file is too large for a float")
    return None


def number_of(value: Any) -> float | None:
    """The number that a JSON or YAML value is, or that its text is; None where it is none.

    True and false are no numbers; texts of numbers are, as in the public implementation.
    """
    if isinstance(value, str):
        return to_number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        raise TemplateError("a number in the file is too large for a float") from None
    return number if math.isfinite(number) else None


def numbers_in(texts: Sequence[str]) -> list[float]:
    """The numbers among texts, in their order; the rest is skipped."""
    try:
        numbers = list(map(float, texts))
    except ValueError:
        numbers = [math.nan]
    if all(map(math.isfinite, numbers)) and "_" not in "".join(texts):
        return numbers  # most columns are numbers and nothing else
    return [number for number in map(to_number, texts) if number is not None]


def add_up(numbers: Sequence[float]) -> float:
    """The sum from left to right, rounded at each step.

    Not ``sum``, which compensates for rounding from Python 3.12 on: the same file must give
    the same key under every version.
    """
    total = 0.0
    for number in numbers:
        total += number
    if math.isinf(total):
        raise TemplateError("the sum is too large for a float")
    return total


def sum_text(numbers: Sequence[float]) -> str:
    """The sum as a float in full; ``0`` of none, as the public implementation has it."""
    return repr(add_up(numbers)) if numbers else "0"


def average_text(numbers: Sequence[float]) -> str:
    """The average as a float in full; ``0`` of none."""
    return repr(add_up(numbers) / len(numbers)) if numbers else "0"


def max_text(numbers: Sequence[float]) -> str:
    """The largest as a float in full; ``0`` of none."""
    return repr(max(numbers)) if numbers else "0"


def min_text(numbers: Sequence[float]) -> str:
    """The smallest as a float in full; ``0`` of none."""
    return repr(min(numbers)) if numbers else "0"


def to_index(text: str, what: str) -> int:
    """A whole number from 0 on. ``7-1`` is 6, for what is counted from another call's result.

    Raises TemplateError that names ``what``.
    """
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    if not _INDEX.fullmatch(text.strip()):
        raise TemplateError(f"{what} is a whole number such as 3, not {text[:40]!r}")
    index = sum(int(term) for term in _TERM.findall(text.replace(" ", "")))
    if index < 0:
        raise TemplateError(f"{what} is {index}, below 0")
    return index


def find_extreme(texts: Sequence[str], numbers: Sequence[float | None], largest: bool) -> str:
    """The text whose number is the largest (or smallest), the first of equals.

    Raises TemplateError where there is no number: a value that is missing is not zero.
    """
    found = [
        (number, text) for number, text in zip(numbers, texts, strict=True) if number is not None
    ]
    if not found:
        raise TemplateError("there is no number among the values")
    choose = max if largest else min
    return choose(found, key=lambda pair: pair[0])[1]
