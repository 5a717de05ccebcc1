"""Reading what a template says of a component: every complaint begins with the key's path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from generators.errors import TemplateError, nearest

MOST_VALUES = 1_000_000
MOST_BYTES = 64 << 20


def refuse(path: str, complaint: str) -> NoReturn:
    """Raises TemplateError about the key at a path."""
    raise TemplateError(f"{path}: {complaint}")


class Problems:
    """Complaints gathered, so that a template's author meets all of them at once."""

    def __init__(self) -> None:
        self._found: list[str] = []

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Keeps the TemplateError that its block raises for later."""
        try:
            yield
        except TemplateError as error:
            self._found.append(str(error))

    def settle(self) -> None:
        """Raises one TemplateError with a line for each that was gathered, if any was."""
        if self._found:
            raise TemplateError("\n".join(self._found))


def mapping(path: str, value: Any, known: Iterable[str] | None = None) -> Mapping[str, Any]:
    """A mapping with text keys, none but the known ones (any where None is given)."""
    if not isinstance(value, Mapping):
        refuse(path, f"a mapping is wanted, not {shown(value)}")
    names = None if known is None else tuple(known)
    problems = Problems()
    for key in value:
        with problems.gathered():
            if not isinstance(key, str):
                refuse(path, f"the key {shown(key)} is not text; put it in quotes")
            if names is not None and key not in names:
                refuse(f"{path}.{key}", f"unknown key; {nearest(key, names)}")
    problems.settle()
    return value


def sequence(path: str, value: Any) -> Sequence[Any]:
    """A list."""
    if not isinstance(value, list | tuple):
        refuse(path, f"a list is wanted, not {shown(value)}")
    return value


def line(path: str, value: Any) -> str:
    """Text, not empty."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        refuse(path, f"a text is wanted, not {shown(value)}")
    return writable(path, value)


def writable(path: str, value: str) -> str:
    """Text that UTF-8 can hold."""
    if any(0xD800 <= ord(character) < 0xE000 for character in value):
        refuse(path, "half a character (a lone surrogate)")
    return value


def whole(path: str, value: Any, least: int = 0) -> int:
    """A whole number not below ``least``; digits in quotes count, for placeholders leave them."""
    if isinstance(value, str) and value.strip().lstrip("+-").isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        refuse(path, f"a whole number is wanted, not {shown(value)}")
    if value < least:
        refuse(path, f"{value} is too small; at least {least} is wanted")
    return value


def number(path: str, value: Any) -> float:
    """A finite number; one in quotes counts."""
    if isinstance(value, str):
        try:
            value = float(value) if len(value) < 40 else None
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        refuse(path, f"a number is wanted, not {shown(value)}")
    if not math.isfinite(value):
        refuse(path, "a finite number is wanted")
    return float(value)


def span(path: str, value: Any, least: int = 0) -> tuple[int, int]:
    """``7`` or ``[5, 9]``: the least and the greatest of a count."""
    if not isinstance(value, list | tuple):
        count = whole(path, value, least)
        return count, count
    if len(value) != 2:
        refuse(path, f"a whole number or [least, greatest] is wanted, not {len(value)} values")
    low, high = whole(f"{path}[0]", value[0], least), whole(f"{path}[1]", value[1], least)
    if high < low:
        refuse(path, f"[{low}, {high}] is empty; write [{high}, {low}]")
    return low, high


def check_size(path: str, values: int, size: int) -> None:
    """Raises TemplateError where a component may grow past what memory should hold."""
    if values > MOST_VALUES:
        refuse(path, f"up to {_count(values)} values; at most {MOST_VALUES:,} are allowed")
    if size > MOST_BYTES:
        refuse(path, f"up to {_count(size)} bytes; at most {MOST_BYTES:,} are allowed")


def shown(value: Any) -> str:
    """A value, short enough for an error."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, int) and value.bit_length() > 100:
        return "a number of many digits"
    written = repr(value)
    return written if len(written) <= 60 else f"{written[:57]}…"


def _count(value: int) -> str:
    return f"{value:,}" if value.bit_length() < 60 else f"2^{value.bit_length() - 1}"
