"""The variables of a template, and the values that they have in one sample.

A value belongs to an index and arguments, and holds everywhere in its sample: question, paths,
content, row counts, SQL, expected answer (spec/templates.md, "Placeholders").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation
from math import log10

from generators.errors import TemplateError, nearest
from generators.stream import Stream
from generators.templates.language.data_types import DATA_TYPES, POOLS

# Kind of a number → the step between the values that it takes, and the decimals it is written with.
NUMBER_KINDS: Mapping[str, tuple[Decimal, int]] = {
    "integer": (Decimal(1), 0),
    "currency": (Decimal(1), 0),
    "decimal": (Decimal("0.01"), 2),
    "percentage": (Decimal("0.1"), 1),
    "round_ten_thousands": (Decimal(10_000), 0),
    "round_thousands": (Decimal(1_000), 0),
    "round_hundreds": (Decimal(100), 0),
    "round_500": (Decimal(500), 0),
    "round_250": (Decimal(250), 0),
}
_NAME = re.compile(r"(entity|semantic|number)([0-9]{1,6})")
_LARGEST = Decimal(10) ** 15  # beyond it, a float no longer holds two decimals


@dataclass(frozen=True, slots=True)
class Variable:
    """One placeholder for a drawn value. ``key`` is its name in a precheck file."""

    key: str
    kind: str  # entity, semantic, number
    choice: str = ""  # pool, data type, number kind
    low: Decimal = Decimal(0)
    high: Decimal = Decimal(0)

    @property
    def log10_values(self) -> float:
        """log10 of how many values it may take."""
        if self.kind == "entity":
            return log10(len(POOLS[self.choice]))
        if self.kind == "semantic":
            return DATA_TYPES[self.choice].log10_values
        first, last = self._steps()
        return log10(last - first + 1)

    def draw(self, stream: Stream) -> str:
        """Its value in one sample."""
        if self.kind == "entity":
            return stream.choice(POOLS[self.choice])
        if self.kind == "semantic":
            kind = DATA_TYPES[self.choice]
            return kind.write(kind.draw(stream, 1)[0])
        step, places = NUMBER_KINDS[self.choice]
        value = stream.integer(*self._steps()) * step
        return f"{value:.{places}f}"

    def _steps(self) -> tuple[int, int]:
        """The first and last multiple of its step within its range."""
        step = NUMBER_KINDS[self.choice][0]
        first = (self.low / step).to_integral_value(ROUND_CEILING)
        last = (self.high / step).to_integral_value(ROUND_FLOOR)
        return int(first), int(last)


def find_variable(name: str, arguments: tuple[str, ...]) -> Variable | None:
    """The variable of a placeholder's name and arguments; None for a name of something else.

    Raises TemplateError for a variable that is not as it should be.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    kind = match[1]
    if kind == "entity":
        return _entity(name, arguments)
    if kind == "semantic":
        return _semantic(name, arguments)
    return _number(name, arguments)


def draw_values(variables: Iterable[Variable], stream: Stream) -> dict[str, str]:
    """A value for each variable, by key, drawn in the order given."""
    values: dict[str, str] = {}
    for variable in variables:
        if variable.key not in values:
            values[variable.key] = variable.draw(stream)
    return values


def _entity(name: str, arguments: tuple[str, ...]) -> Variable:
    if len(arguments) > 1:
        raise TemplateError(f"{name} takes a pool at the most, as in {{{{{name}:colors}}}}")
    pool = arguments[0] if arguments else "default"
    if pool not in POOLS:
        raise TemplateError(f"{name}: unknown pool {pool!r}; {nearest(pool, POOLS)}")
    return Variable(name if pool == "default" else f"{name}:{pool}", "entity", pool)


def _semantic(name: str, arguments: tuple[str, ...]) -> Variable:
    if len(arguments) != 1:
        raise TemplateError(f"{name} takes one data type, as in {{{{{name}:person_name}}}}")
    if arguments[0] not in DATA_TYPES:
        raise TemplateError(
            f"{name}: unknown data type {arguments[0]!r}; {nearest(arguments[0], DATA_TYPES)}"
        )
    return Variable(f"{name}:{arguments[0]}", "semantic", arguments[0])


def _number(name: str, arguments: tuple[str, ...]) -> Variable:
    if len(arguments) not in (2, 3):
        raise TemplateError(f"{name} takes MIN:MAX[:KIND], as in {{{{{name}:10:99}}}}")
    kind = arguments[2] if len(arguments) == 3 else "integer"
    if kind not in NUMBER_KINDS:
        raise TemplateError(f"{name}: unknown kind {kind!r}; {nearest(kind, NUMBER_KINDS)}")
    low, high = (_bound(name, text) for text in arguments[:2])
    variable = Variable(f"{name}:{arguments[0]}:{arguments[1]}:{kind}", "number", kind, low, high)
    first, last = variable._steps()
    if last < first:
        step = NUMBER_KINDS[kind][0]
        raise TemplateError(
            f"{name}: no {kind} lies between {arguments[0]} and {arguments[1]} (they are "
            f"multiples of {step})"
        )
    return variable


def _bound(name: str, text: str) -> Decimal:
    try:
        bound = Decimal(text)
    except InvalidOperation:
        bound = Decimal("NaN")
    if not (bound.is_finite() and abs(bound) <= _LARGEST):
        raise TemplateError(f"{name}: {text[:40]!r} is no number; write it in plain digits")
    return bound
