"""Cells of a test's own, numbered as those of a schedule are."""

from __future__ import annotations

from collections.abc import Iterable

from harness.episode import Cell


class ListedCells:
    """A list of cells: those of each model in the order given."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        given = list(cells)
        models = list(dict.fromkeys(cell.model for cell in given))
        self._cells = sorted(given, key=lambda cell: models.index(cell.model))
        self.ranges: dict[str, range] = {}
        for name in models:
            numbers = [n for n, cell in enumerate(self._cells) if cell.model == name]
            self.ranges[name] = range(numbers[0], numbers[-1] + 1)

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, number: int) -> Cell:
        return self._cells[number]

    def find(self, name: str) -> int | None:
        names = [cell.episode for cell in self._cells]
        return names.index(name) if name in names else None
