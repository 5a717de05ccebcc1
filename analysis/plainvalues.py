"""Values as plain JSON, the way reports and their parts are written."""

from __future__ import annotations

from typing import Any

DECIMALS = 9  # of every number: beyond it lies the order of summation


def plain_values(value: Any) -> Any:
    """JSON values: floats rounded, tuples to lists, text enums to text."""
    if isinstance(value, dict):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain_values(item) for item in value]
    if isinstance(value, float):
        return round(value, DECIMALS) + 0.0  # no negative zero
    return str(value) if isinstance(value, str) else value
