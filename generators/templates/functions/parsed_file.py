"""A file that keys are computed from, parsed once in each form that is asked for."""

from __future__ import annotations

from codecs import BOM_UTF8
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

from generators.errors import TemplateError, TemplateLimitError

if TYPE_CHECKING:
    from generators.templates.functions.csv_file import Table
    from generators.templates.functions.sqlite_file import Database
    from generators.templates.functions.xml_file import Document

MAX_BYTES = 16_000_000


class OpenFile:
    """The bytes at a path, and what they are as text, table, database, JSON, YAML and XML.

    Each form is made when it is first asked for and kept. All raise TemplateError for bytes
    that are not of that form, or more than may be. ``close`` ends the database connection.
    """

    def __init__(self, path: str, data: bytes, table: Table | None = None) -> None:
        """``table`` is what reading the bytes as CSV gives, where that is known."""
        self.path = path
        self.data = data
        if table is not None and len(data) <= MAX_BYTES:
            self.table = table

    @cached_property
    def text(self) -> str:
        """UTF-8, a byte order mark left out, line ends as they are."""
        self.check_size(MAX_BYTES)
        try:
            if not self.data.startswith(BOM_UTF8):
                return self.data.decode()
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise TemplateError(f"the file is not UTF-8 text (byte {error.start})") from None

    @cached_property
    def lines(self) -> list[str]:
        """Its lines without their ends; what follows the last line end is a line if not empty."""
        text = self.text
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        return lines

    @cached_property
    def words(self) -> list[str]:
        """What stands between white space."""
        return self.text.split()

    @cached_property
    def table(self) -> Table:
        """Its rows as CSV."""
        from generators.templates.functions.csv_file import read_table

        return read_table(self.text)

    @cached_property
    def json(self) -> Any:
        """Its value as JSON."""
        from generators.templates.functions.json_yaml_reader import read_json

        return read_json(self.text)

    @cached_property
    def yaml(self) -> Any:
        """Its value as YAML."""
        from generators.templates.functions.json_yaml_reader import read_yaml

        return read_yaml(self.text)

    @cached_property
    def xml(self) -> Document:
        """Its elements as XML."""
        from generators.templates.functions.xml_file import read_document

        return read_document(self.text)

    @cached_property
    def database(self) -> Database:
        """Its tables as SQLite, in memory and to be read only."""
        from generators.templates.functions.sqlite_file import open_database

        self.check_size(MAX_BYTES)
        return open_database(self.data)

    def check_size(self, most: int) -> None:
        """Raise TemplateLimitError where there are more bytes than that."""
        if len(self.data) > most:
            raise TemplateLimitError(
                f"the file has {len(self.data)} bytes; at most {most} are read"
            )

    def close(self) -> None:
        """End the database connection, if there is one. May be called again."""
        database = self.__dict__.pop("database", None)
        if database is not None:
            database.close()

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
