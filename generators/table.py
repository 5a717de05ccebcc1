"""Small frozen tables of truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns over rows; each cell keeps its own type (spec/physics.md, R5)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row does not have the {len(self.columns)} columns")

    def column(self, name: str) -> tuple[Scalar, ...]:
        index = self.columns.index(name)
        return tuple(row[index] for row in self.rows)

    def records(self) -> list[dict[str, Scalar]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def as_json(self) -> dict[str, Any]:
        return {"columns": list(self.columns), "rows": [list(row) for row in self.rows]}
