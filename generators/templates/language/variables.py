"""The variables of a template, and the values that they have in one sample.

A value belongs to an index and arguments, and holds everywhere in its sample: question, paths,
content, row counts, SQL, expected answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation
from math import log10
from typing import Any

from generators.errors import TemplateError, nearest
from generators.stream import Stream
from generators.templates.language.data_types import DataType
from generators.templates.language.values import BUILT_IN, ValueSet

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
    source: DataType | tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def log10_values(self) -> float:
        """log10 of how many values it may take."""
        if isinstance(self.source, DataType):
            return self.source.log10_values
        if self.kind == "entity":
            return log10(len(self.source))
        first, last = self._steps()
        return log10(last - first + 1)

    def draw(self, stream: Stream) -> str:
        """Its value in one sample."""
        if isinstance(self.source, DataType):
            return self.of_units(stream.uniforms(1))
        if self.kind == "entity":
            return stream.choice(self.source)
        step, places = NUMBER_KINDS[self.choice]
        value = stream.integer(*self._steps()) * step
        return f"{value:.{places}f}"

    def of_units(self, units: Any) -> str:
        """The value of a data type that one uniform makes, never that of an empty cell."""
        if not isinstance(self.source, DataType):
            raise LookupError(f"{self.key} has no data type")
        return str((self.source.filled or self.source).as_text.make(units)[0])

    @property
    def group(self) -> tuple[str, str] | None:
        """Its number and group, if it has the data type of a group; None for others."""
        if not isinstance(self.source, DataType) or self.source.group is None:
            return None
        return self.key.partition(":")[0], self.source.group

    def _steps(self) -> tuple[int, int]:
        """The first and last multiple of its step within its range."""
        step = NUMBER_KINDS[self.choice][0]
        first = (self.low / step).to_integral_value(ROUND_CEILING)
        last = (self.high / step).to_integral_value(ROUND_FLOOR)
        return int(first), int(last)


def find_variable(
    name: str, arguments: tuple[str, ...], values: ValueSet = BUILT_IN
) -> Variable | None:
    """The variable of a placeholder's name and arguments; None for a name of something else.

    Raises TemplateError for a variable that is not as it should be.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    if match[1] == "number":
        return _number(name, arguments)
    return _named(match[1], name, arguments, values)


def draw_values(variables: Iterable[Variable], stream: Stream) -> dict[str, str]:
    """A value for each variable, by key, drawn in the order given. Of data types that go together
    those of one number are of one row."""
    values: dict[str, str] = {}
    shared: dict[tuple[str, str], Any] = {}
    for variable in variables:
        if variable.key in values:
            continue
        if (group := variable.group) is None:
            values[variable.key] = variable.draw(stream)
            continue
        if group not in shared:
            shared[group] = stream.uniforms(1)
        values[variable.key] = variable.of_units(shared[group])
    return values


def _named(kind: str, name: str, arguments: tuple[str, ...], values: ValueSet) -> Variable:
    """A word of a pool, the usual one if none is named, or a value of a data type."""
    entity = kind == "entity"
    if entity and len(arguments) > 1:
        raise TemplateError(f"{name} takes a pool at the most, as in {{{{{name}:colors}}}}")
    if not entity and len(arguments) != 1:
        raise TemplateError(f"{name} takes one data type, as in {{{{{name}:person_name}}}}")
    choice = arguments[0] if arguments else "default"
    try:
        source = values.pool(choice) if entity else values.type(choice)
    except TemplateError as error:
        raise TemplateError(f"{name}: {error}") from error
    key = name if entity and choice == "default" else f"{name}:{choice}"
    return Variable(key, kind, choice, source=source)


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
