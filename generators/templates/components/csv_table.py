"""``create_csv``: a table of drawn values under a header line."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from generators.errors import TemplateError
from generators.stream import Stream
from generators.templates.language.data_types import (
    DataType,
    drawn_columns,
    infer_type,
    partners,
    sizes_of,
)
from generators.templates.language.diagnostics import (
    check_size,
    gathered,
    line,
    mapping,
    refuse,
    sequence,
    whole,
)
from generators.templates.language.keys import CONTENT_KEYS
from generators.templates.language.values import ValueSet

DEFAULT_HEADERS, DEFAULT_ROWS = ("name", "email", "age"), 10


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A header line, and rows of values of the columns' types. Lines end as RFC 4180 says."""

    header: str
    types: tuple[DataType, ...]
    sizes: Any
    together: tuple[tuple[int, int], ...]  # columns that go with an earlier one
    rows: int
    log10_space: float

    def content(self, stream: Stream) -> bytes:
        """The bytes of the file."""
        width = len(self.types)
        units = stream.uniforms(self.rows * width).reshape(width, self.rows)
        for later, earlier in self.together:
            units[later] = units[earlier]
        drawn = drawn_columns(self.types, self.sizes, units)
        columns = [kind.texts_at(part) for kind, part in zip(self.types, drawn, strict=True)]
        # No value of a built-in data type holds what CSV would have in quotes.
        cells = [
            [_quoted(cell, width == 1) for cell in column] if kind.custom else column
            for kind, column in zip(self.types, columns, strict=True)
        ]
        lines = map(",".join, zip(*cells, strict=True))
        return "\r\n".join((self.header, *lines, "")).encode()


def compile_csv(content: Mapping[str, Any], values: ValueSet) -> CsvTable:
    """The table that a component's ``content`` describes. Raises TemplateError."""
    mapping("content", content, CONTENT_KEYS["create_csv"])
    rows = whole("content.rows", content.get("rows", DEFAULT_ROWS))
    headers = _headers(content.get("headers", DEFAULT_HEADERS))
    types = _types(headers, content.get("header_types"), values)
    together = partners(types)
    header = _header_line(headers)
    width = sum(kind.longest + 1 for kind in types) + 1
    if any(kind.custom for kind in types):
        width = 2 * width + 2 * len(types)  # in quotes, and each quote doubled
    check_size("content.rows", rows * len(types), len(header.encode()) + 2 + rows * width)
    after = {later for later, _ in together}
    free = [kind for place, kind in enumerate(types) if place not in after]
    space = rows * sum(kind.log10_values for kind in free)
    return CsvTable(header, types, sizes_of(types), together, rows, log10_space=space)


def _headers(written: Any) -> tuple[str, ...]:
    headers: dict[str, None] = {}

    def read(index: int, given: Any) -> None:
        path = f"content.headers[{index}]"
        header = line(path, given)
        if header in headers:
            refuse(path, f"{header!r} stands twice; each header needs a name of its own")
        headers[header] = None

    gathered(partial(read, *given) for given in enumerate(sequence("content.headers", written)))
    if not headers:
        refuse("content.headers", "no header; at least one is wanted")
    return tuple(headers)


def _types(headers: tuple[str, ...], written: Any, values: ValueSet) -> tuple[DataType, ...]:
    if written is None:
        return tuple(values.type(infer_type(header)) for header in headers)
    path = "content.header_types"
    names = sequence(path, written)
    if len(names) != len(headers):
        refuse(path, f"{len(names)} types for {len(headers)} headers; one for each is wanted")
    places = enumerate(names)
    return tuple(gathered(partial(type_at, f"{path}[{i}]", name, values) for i, name in places))


def type_at(path: str, name: Any, values: ValueSet) -> DataType:
    """The data type that stands at a path. Raises TemplateError with the nearest spelling."""
    try:
        return values.type(line(path, name))
    except TemplateError as error:
        if str(error).startswith(path):
            raise
        raise TemplateError(f"{path}: {error}") from None


def _quoted(cell: str, alone: bool) -> str:
    """The cell as CSV holds it. An empty one that is alone is quoted: an empty line is no row."""
    if (cell or not alone) and "," not in cell and '"' not in cell:
        return cell
    return '"' + cell.replace('"', '""') + '"'


def _header_line(headers: tuple[str, ...]) -> str:
    written = io.StringIO()
    csv.writer(written).writerow(headers)
    return written.getvalue().removesuffix("\r\n")
