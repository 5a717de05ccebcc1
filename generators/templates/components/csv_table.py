"""``create_csv``: a table of drawn values under a header line."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generators.errors import TemplateError
from generators.stream import Stream
from generators.templates.functions import CsvRows, OpenFile, parse_table
from generators.templates.language import (
    DataType,
    Problems,
    check_size,
    data_type,
    drawn_columns,
    infer_type,
    line,
    mapping,
    refuse,
    sequence,
    sizes_of,
    whole,
)

DEFAULT_HEADERS, DEFAULT_ROWS = ("name", "email", "age"), 10


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A header line, and rows of values of the columns' types. Lines end as RFC 4180 says."""

    header: str
    names: tuple[str, ...] | None  # as they are read from that line; None if they cannot be
    types: tuple[DataType, ...]
    sizes: Any
    rows: int
    log10_space: float

    def content(self, stream: Stream) -> bytes:
        """The bytes of the file."""
        return self.written(stream)[0]

    def written(self, stream: Stream) -> tuple[bytes, CsvRows | None]:
        """The bytes, and what reading them gives."""
        width = len(self.types)
        units = stream.uniforms(self.rows * width).reshape(width, self.rows)
        drawn = drawn_columns(self.types, self.sizes, units)
        columns = [kind.texts_at(part) for kind, part in zip(self.types, drawn, strict=True)]
        # No value of any data type holds what CSV would have in quotes.
        lines = map(",".join, zip(*columns, strict=True))
        data = "\r\n".join((self.header, *lines, "")).encode()
        return data, None if self.names is None else CsvRows.of_columns(self.names, columns)


def compile_csv(content: Mapping[str, Any]) -> CsvTable:
    """The table that a component's ``content`` describes. Raises TemplateError."""
    mapping("content", content, ("headers", "header_types", "rows"))
    rows = whole("content.rows", content.get("rows", DEFAULT_ROWS))
    headers = _headers(content.get("headers", DEFAULT_HEADERS))
    types = _types(headers, content.get("header_types"))
    header = _header_line(headers)
    width = sum(kind.longest + 1 for kind in types) + 1
    check_size("content.rows", rows * len(types), len(header.encode()) + 2 + rows * width)
    space = rows * sum(kind.log10_values for kind in types)
    return CsvTable(header, _names(header), types, sizes_of(types), rows, space)


def _headers(written: Any) -> tuple[str, ...]:
    headers: dict[str, None] = {}
    problems = Problems()
    for index, given in enumerate(sequence("content.headers", written)):
        with problems.gathered():
            path = f"content.headers[{index}]"
            header = line(path, given)
            if header in headers:
                refuse(path, f"{header!r} stands twice; each header needs a name of its own")
            headers[header] = None
    problems.settle()
    if not headers:
        refuse("content.headers", "no header; at least one is wanted")
    return tuple(headers)


def _types(headers: tuple[str, ...], written: Any) -> tuple[DataType, ...]:
    if written is None:
        return tuple(data_type(infer_type(header)) for header in headers)
    path = "content.header_types"
    names = sequence(path, written)
    if len(names) != len(headers):
        refuse(path, f"{len(names)} types for {len(headers)} headers; one for each is wanted")
    problems, types = Problems(), []
    for index, name in enumerate(names):
        with problems.gathered():
            types.append(type_at(f"{path}[{index}]", name))
    problems.settle()
    return tuple(types)


def type_at(path: str, name: Any) -> DataType:
    """The data type that stands at a path. Raises TemplateError with the nearest spelling."""
    try:
        return data_type(line(path, name))
    except TemplateError as error:
        if str(error).startswith(path):
            raise
        raise TemplateError(f"{path}: {error}") from None


def _header_line(headers: tuple[str, ...]) -> str:
    written = io.StringIO()
    csv.writer(written).writerow(headers)
    return written.getvalue().removesuffix("\r\n")


def _names(header: str) -> tuple[str, ...] | None:
    """The headers as whoever reads the file has them: a byte order mark is no part of the first.
    None if the csv module refuses them, or two are the same without that mark."""
    try:
        names = tuple(OpenFile("", f"{header}\r\n".encode()).parsed(parse_table).rows[0])
    except TemplateError:
        return None
    return names if len(set(names)) == len(names) else None
