"""Arithmetic on numbers, which are most often the results of other functions.

Numbers are taken as the decimals that are written, computed with exactly, and rounded once: the
sum of 0.1 and 0.2 is 0.3. A result of whole numbers is a whole number, save for a quotient;
any other is a float in full.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import reduce
from typing import Any, TypeVar

from generators.errors import TemplateError
from generators.templates.functions.base import Function, table_of

# --- Numbers in texts, and aggregates of them ---

T = TypeVar("T")

_INDEX = re.compile(r"[0-9]{1,9}(?: *[+-] *[0-9]{1,9}){0,9}")
_TERM = re.compile(r"[+-]?[0-9]+")


def to_number(text: str) -> float | None:
    """The finite number that a text is, white space around it allowed; None if it is none.

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
    """The number that a JSON or YAML value is, or that its text is; None if it is none.

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


AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": add_up,
    "avg": lambda numbers: add_up(numbers) / len(numbers),
    "max": max,
    "min": min,
}


def aggregate(verb: str, numbers: Sequence[float]) -> str:
    """The sum, average, maximum or minimum as a float in full; ``0`` of none, as the public
    implementation has it."""
    return repr(AGGREGATES[verb](numbers)) if numbers else "0"


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


def find_extreme(numbered: Iterable[tuple[float | None, T]], largest: bool) -> T:
    """What stands with the largest (or smallest) number, the first of equals.

    Raises TemplateError if there is no number: a value that is missing is not zero.
    """
    candidates = [(number, other) for number, other in numbered if number is not None]
    if not candidates:
        raise TemplateError("there is no number among the values")
    return (max if largest else min)(candidates, key=lambda pair: pair[0])[1]


MANY = 16  # arguments at most, where there may be more than two
_LONGEST = 400  # digits of a number
_MOST_DIGITS = 4000  # of a result; Python writes up to 4300
_TOO_LARGE = 10**_MOST_DIGITS
_NUMBER = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_EXACT = Context(prec=2000)
_PLACES = 15

Number = int | Fraction


def read_number(text: str) -> Number:
    """The number that a text is, exactly; an int where it is written as one."""
    text = text.strip()
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        raise TemplateError(f"{text[:40]!r} is not a number")
    return int(text) if _WHOLE.fullmatch(text) else Fraction(text)


def write_number(number: Number) -> str:
    """A whole number in digits, any other as the nearest float in full."""
    if isinstance(number, int):
        if abs(number) >= _TOO_LARGE:
            raise TemplateError(f"the result has more than {_MOST_DIGITS} digits")
        return str(number)
    try:
        return repr(float(number))
    except OverflowError:
        raise TemplateError("the result is too large for a float") from None


def _fold(combine: Callable[[Any, Any], Any]) -> Callable[[Sequence[str], object], str]:
    def compute(arguments: Sequence[str], _: object) -> str:
        result: Number = reduce(combine, map(read_number, arguments))
        return write_number(result)

    return compute


def _not_zero(number: Number) -> Number:
    if number == 0:
        raise TemplateError("division by zero")
    return number


def math_abs(arguments: Sequence[str], _: object) -> str:
    """The number without its sign."""
    number = read_number(arguments[0])
    return write_number(-number if number < 0 else number)


def math_round(arguments: Sequence[str], _: object) -> str:
    """Round to the given places (0, to a whole number, if not given), halves away from zero.

    Spreadsheets and SQL do the same; Python's ``round`` takes halves to the even digit.
    """
    places = _places(arguments[1]) if len(arguments) > 1 else 0
    rounded = _rounded(arguments[0], places)
    return str(int(rounded)) if places == 0 else write_number(Fraction(rounded))


def math_fixed(arguments: Sequence[str], _: object) -> str:
    """Round likewise, and write exactly the given places: 3.1 to 2 places is 3.10."""
    rounded = _rounded(arguments[0], _places(arguments[1]))
    return f"{rounded if rounded else abs(rounded):f}"


def _rounded(text: str, places: int) -> Decimal:
    read_number(text)
    return Decimal(text.strip()).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _EXACT)


def _places(text: str) -> int:
    places = to_index(text.strip(), "the number of places")
    if places > _PLACES:
        raise TemplateError(f"the number of places is {places}; at most {_PLACES} are")
    return places


def _math(name: str, least: int, most: int, compute: Callable[..., str]) -> Function:
    return Function(name, least, most, compute, takes_file=False)


ARITHMETIC = table_of(
    _math("math_add", 2, MANY, _fold(lambda one, other: one + other)),
    _math("math_sub", 2, 2, _fold(lambda one, other: one - other)),
    _math("math_mul", 2, MANY, _fold(lambda one, other: one * other)),
    _math("math_div", 2, 2, _fold(lambda one, other: Fraction(one) / _not_zero(other))),
    _math("math_mod", 2, 2, _fold(lambda one, other: one % _not_zero(other))),
    _math("math_min", 2, MANY, _fold(min)),
    _math("math_max", 2, MANY, _fold(max)),
    _math("math_abs", 1, 1, math_abs),
    _math("math_round", 1, 2, math_round),
    _math("math_fixed", 2, 2, math_fixed),
)
