"""Parts of a report that extras contribute, and the tables that parts and the report consist of.

The report shows a part without knowing its maker: its section stands after a section of the report,
its summary is part of the Markdown, and its data and tables are added to the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any, ClassVar

from analysis.plan.verdict import Verdict

NONE = "–"
OPEN_ROWS = 24  # a longer table is folded


@dataclass(frozen=True, slots=True)
class StatusCell:
    """A verdict's word as a cell."""

    word: str


Cell = str | StatusCell


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """A column's label; ``number`` columns are aligned to the right."""

    label: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of the page; the first cell of a row names it. A ``folded`` one is opened by its
    reader; ``tables/`` has its numbers too."""

    name: str
    caption: str
    columns: tuple[ColumnHead, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: str = ""  # the label of the table while it is closed
    kind: ClassVar[str] = "table"


# The value of a column in a row: an attribute (a path with dots), a place, or a function's result.
Columns = Mapping[str, str | int | Callable[[Any], object]]


def tabulate(
    name: str, caption: str, rows: Iterable[Any], columns: Columns, fold: str = ""
) -> ReportTable:
    """A table with a row for each item: ``columns`` maps a label to its values.

    ``#`` before a label marks numbers; ``fold`` names a table that is folded when it is long.
    """
    getters = [_getter(column) for column in columns.values()]
    cells = tuple(tuple(_cell(value(row)) for value in getters) for row in rows)
    heads = tuple(ColumnHead(label.removeprefix("#"), label.startswith("#")) for label in columns)
    folded = f"{fold}: {len(cells)} rows" if fold and len(cells) > OPEN_ROWS else ""
    return ReportTable(name, caption, heads, cells, folded)


def _getter(column: str | int | Callable[[Any], object]) -> Callable[[Any], object]:
    if isinstance(column, str):
        return attrgetter(column)
    return itemgetter(column) if isinstance(column, int) else column


def _cell(value: object) -> Cell:
    return value if isinstance(value, StatusCell) else str(value)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a part; in the summary, the heading of its section."""

    text: str
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; a ``note`` is set smaller."""

    text: str
    note: bool = False
    kind: ClassVar[str] = "paragraph"


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences."""

    lines: tuple[str, ...]
    kind: ClassVar[str] = "bullets"


@dataclass(frozen=True, slots=True)
class PartFigure:
    """A figure: ``draw`` returns it as an ``<svg>`` element of a width in inches."""

    name: str
    caption: str
    draw: Callable[[float], str] = field(compare=False)
    kind: ClassVar[str] = "figure"


Block = Heading | Paragraph | Bullets | PartFigure | ReportTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """All that one extra adds to a report; ``name`` is the id of its section on the page."""

    name: str
    title: str
    after: str  # the id of the section of the page that it follows
    body: tuple[Block, ...] = ()  # no section without any
    summary: tuple[Block, ...] = ()  # in the Markdown, which has no figures
    data: Mapping[str, Any] = field(default_factory=dict)  # keys of report.json
    files: Mapping[str, str] = field(default_factory=dict)  # beside the page, by path: its tables
    deviations: tuple[str, ...] = ()  # from the plan, a sentence each
    exploratory: tuple[Verdict, ...] = ()  # of tests that the plan does not name
    leak_found: str = ""  # how a leak of known size was found: ends a sentence of the limits
    headline: str = ""  # a sentence below the report's

    @property
    def figures(self) -> tuple[PartFigure, ...]:
        """The figures of the section."""
        return tuple(block for block in self.body if isinstance(block, PartFigure))
