"""Cells of a test's own, numbered as those of a schedule are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.episode import Cell
from harness.sweep.schedule import Schedule


class ListedCells(Schedule):
    """A list of cells: those of each model in the order given."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        super().__init__(())
        given = list(cells)
        models = list(dict.fromkeys(cell.model for cell in given))
        self._cells = sorted(given, key=lambda cell: models.index(cell.model))
        self._ranges: dict[str, range] = {}
        for name in models:
            numbers = [n for n, cell in enumerate(self._cells) if cell.model == name]
            self._ranges[name] = range(numbers[0], numbers[-1] + 1)

    @property
    def ranges(self) -> dict[str, range]:
        return self._ranges

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, number: Any) -> Any:
        return self._cells[number]

    def find(self, name: str) -> int | None:
        names = [cell.episode for cell in self._cells]
        return names.index(name) if name in names else None
