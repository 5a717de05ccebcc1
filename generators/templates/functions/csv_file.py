"""Cells, columns and filtered columns of a CSV file.

The file is read by the csv module's default dialect; a line that is empty is a row without
cells. Rows count from 0, with the header as row 0 in ``csv_cell`` and ``csv_row``, and without
it elsewhere. A row shorter than its header has empty cells at its end; of two headers of one
name the first counts. A cell of white space is empty.

Where the public implementation decides, so do we: ``csv_sum`` and ``csv_sum_where`` of no
number are ``0``, of numbers a float in full; averages of none are errors (as our maxima and
minima are); texts are compared as they stand, white space and case included. We depart from it
in these: an operator is checked even where no row is left to compare, ``nan`` and ``inf`` are
texts (see ``to_number``), and a byte order mark is no part of the first header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from generators.errors import TemplateError, nearest
from generators.templates.functions.base import ORDERS, WORDS, Function, Match, OpenFile, table_of
from generators.templates.functions.matches import match_comparison, match_numbers
from generators.templates.functions.numbers import (
    AGGREGATES,
    aggregate,
    numbers_in,
    to_index,
    to_number,
)

Cells = list[str]
_VERBS = ("count", *AGGREGATES)
_SHOWN = 20  # headers in an error

OPERATORS = (*ORDERS, *WORDS)


class CsvRows:
    """Rows of cells, the header first; of two headers of one name the first counts."""

    def __init__(self, rows: list[Cells]) -> None:
        self.rows = rows
        header = rows[0] if rows else []
        self._places = {header[i]: i for i in reversed(range(len(header)))}

    def column(self, header: str) -> Cells:
        """The cells below a header. Raises TemplateError with the nearest that is there."""
        place = self.place(header)
        return [row[place] if place < len(row) else "" for row in self.rows[1:]]

    def place(self, header: str) -> int:
        """Index of the column with this header, from 0."""
        if not self.rows:
            raise TemplateError("the file has no rows, not even a header")
        if header not in self._places:
            known = list(self._places)[:_SHOWN]
            raise TemplateError(f"there is no column {header[:80]!r}; {nearest(header, known)}")
        return self._places[header]


def parse_table(file: OpenFile) -> CsvRows:
    """The rows of a CSV file. Raises TemplateError for one that the csv module refuses."""
    import csv
    import io

    try:
        return CsvRows(list(csv.reader(io.StringIO(file.text, newline=""))))
    except csv.Error as error:
        raise TemplateError(f"the file is not CSV: {error}") from None


def csv_cell(arguments: Sequence[str], file: OpenFile) -> str:
    """The cell at a row and a column, both from 0, the header being row 0."""
    row = _row(file.parsed(parse_table).rows, arguments[0], "rows")
    return _at(row, to_index(arguments[1], "the column"), "column", f"row {arguments[0]} has")


def csv_row(arguments: Sequence[str], file: OpenFile) -> str:
    """A row's cells joined by commas, the header being row 0; nothing is quoted."""
    return ",".join(_row(file.parsed(parse_table).rows, arguments[0], "rows"))


def csv_value(arguments: Sequence[str], file: OpenFile) -> str:
    """The cell below a header, data rows counted from 0."""
    column = file.parsed(parse_table).column(arguments[1])
    return _at(column, to_index(arguments[0], "the row"), "row", "the file has data rows")


def csv_column(arguments: Sequence[str], file: OpenFile) -> str:
    """All cells below a header joined by commas, empty ones too; nothing is quoted."""
    return ",".join(file.parsed(parse_table).column(arguments[0]))


def _aggregate(verb: str, cells: Cells) -> str:
    if verb == "count":
        return str(sum(1 for cell in cells if cell.strip()))
    numbers = numbers_in(cells)
    if not numbers and verb != "sum":
        raise TemplateError("there is no number among the cells")
    return aggregate(verb, numbers)


def _of_column(verb: str) -> Function:
    """An aggregate of all cells below a header."""

    def compute(arguments: Sequence[str], file: OpenFile) -> str:
        return _aggregate(verb, file.parsed(parse_table).column(arguments[0]))

    def matches(arguments: Sequence[str], file: OpenFile) -> Iterator[Match]:
        if verb != "count":
            yield match_numbers(arguments[0], file.parsed(parse_table).column(arguments[0]))

    return Function(f"csv_{verb}", 1, 1, compute, matches=matches)


def _of_filtered(verb: str) -> Function:
    """An aggregate of the cells below a header in the rows that pass a filter."""

    def compute(arguments: Sequence[str], file: OpenFile) -> str:
        return _aggregate(verb, select_cells(file.parsed(parse_table), *arguments))

    def matches(arguments: Sequence[str], file: OpenFile) -> Iterator[Match]:
        header, filtered, sign, value = arguments
        table = file.parsed(parse_table)
        cells = [cell for cell in table.column(filtered) if cell.strip()]
        sign = sign or "=="
        yield match_comparison(f"{filtered} {sign} {value}", sign, value, cells, make_filter)
        if verb != "count":
            yield match_numbers(header, table.column(header))

    def check(arguments: Sequence[str]) -> None:
        make_filter(*arguments[2:])

    return Function(f"csv_{verb}_where", 4, 4, compute, check, matches=matches)


def select_cells(table: CsvRows, header: str, filtered: str, sign: str, value: str) -> Cells:
    """The cells below ``header`` in rows that pass the filter on ``filtered``; none is empty."""
    passes = make_filter(sign, value)
    cells, filter_cells = table.column(header), table.column(filtered)
    pairs = [(cell, other) for cell, other in zip(cells, filter_cells, strict=True) if cell.strip()]
    # A filter column often has few values, such as departments: each is tested once.
    kept = {other for other in {other for _, other in pairs} if other.strip() and passes(other)}
    return [cell for cell, other in pairs if other in kept]


def make_filter(sign: str, value: str) -> Callable[[str], bool]:
    """Return a test of cells: compares numbers if both are numbers, else texts.

    No operator at all means ``==`` (the paper's form, ``DEPT_CD::Engineering``).
    """
    sign = sign or "=="
    if sign in WORDS:
        word = WORDS[sign]
        return lambda cell: word(cell, value)
    if sign not in ORDERS:
        raise TemplateError(f"there is no operator {sign[:40]!r}; {nearest(sign, OPERATORS)}")
    order, number = ORDERS[sign], to_number(value)
    if number is None:
        return lambda cell: order(cell, value)

    def passes(cell: str) -> bool:
        other = to_number(cell)
        return order(cell, value) if other is None else order(other, number)

    return passes


def _row(rows: list[Cells], number: str, what: str) -> Cells:
    index = to_index(number, "the row")
    if index >= len(rows):
        raise TemplateError(f"there is no row {index}: {_extent('the file has ' + what, rows)}")
    return rows[index]


def _at(cells: Cells, index: int, what: str, holder: str) -> str:
    if index >= len(cells):
        raise TemplateError(f"there is no {what} {index}: {_extent(holder, cells)}")
    return cells[index]


def _extent(holder: str, items: Sequence[object]) -> str:
    return f"{holder} 0 to {len(items) - 1}" if items else f"{holder} none"


def _check_index(*places: int) -> Callable[[Sequence[str]], None]:
    def check(arguments: Sequence[str]) -> None:
        for place in places:
            to_index(arguments[place], "the row" if place == 0 else "the column")

    return check


CSV = table_of(
    Function("csv_cell", 2, 2, csv_cell, _check_index(0, 1)),
    Function("csv_row", 1, 1, csv_row, _check_index(0)),
    Function("csv_value", 2, 2, csv_value, _check_index(0)),
    Function("csv_column", 1, 1, csv_column),
    *map(_of_column, _VERBS),
    *map(_of_filtered, _VERBS),
)
