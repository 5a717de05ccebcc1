"""Values as they are written to JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import PlainSerializer, TypeAdapter

DECIMALS = 9  # of every number: beyond it lies the order of summation

TextOrNull = Annotated[str, PlainSerializer(lambda text: text or None)]  # "" is null
Pairs = Annotated[tuple[tuple[str, str], ...], PlainSerializer(dict)]  # a mapping by first item


def plain_values(value: Any) -> Any:
    """JSON values: floats rounded to 9 decimals, tuples as lists, text enums as text."""
    if isinstance(value, dict):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain_values(item) for item in value]
    if isinstance(value, float):
        return round(value, DECIMALS) + 0.0  # no negative zero
    return str(value) if isinstance(value, str) else value


def json_rows(rows: Iterable[Any]) -> list[Any]:
    """The fields of dataclasses of one type as JSON values, by their names for readers."""
    listed = list(rows)
    if not listed:
        return []
    form: TypeAdapter[Any] = TypeAdapter(type(listed[0]))
    return [form.dump_python(row, mode="json", by_alias=True) for row in listed]
