"""Contents of components as PICARD reads them: what it would guess otherwise is written out, and
what it has no form for is refused."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from graphlib import CycleError
from typing import Any

from generators.templates.components.schema import bounds
from generators.templates.language.components_section import in_order
from generators.templates.language.data_types import infer_type
from generators.templates.language.template import Component
from generators.templates.language.values import BUILT_IN
from generators.yaml_lines import Place
from study.extras.templates.export_texts import COLUMN_TYPES, COMPONENTS, DATA_TYPES, Refuse

_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_BOUNDS = {"number": (0.0, 1000.0), "integer": (1, 1000)}  # if neither end is given
_SIZES = ("min_length", "max_length")
_USUAL_LENGTH = 50  # the longest text, if nothing is given


@dataclass(frozen=True, slots=True)
class ContentWriter:
    """The contents of one question's components. ``numbers`` are free for new placeholders."""

    refuse: Refuse
    numbers: Iterator[int]

    def written(self, component: Component) -> dict[str, Any]:
        """The content; its texts are as they were."""
        place, content = (*component.place, "content"), dict(component.content)
        match component.type:
            case "create_csv":
                return self._csv(place, content)
            case "create_sqlite":
                return self._sqlite(place, content)
            case "create_json" | "create_yaml" | "create_xml" if "schema" in content:
                xml = component.type == "create_xml"
                schema = _SchemaWriter(self, xml).top((*place, "schema"), content["schema"])
                return {**content, "schema": schema}
            case kind if kind not in COMPONENTS:
                self.refuse((*component.place, "type"), f"PICARD has no component {kind}")
        return content

    def type(self, place: Place, name: Any) -> None:
        """Check the name of a data type."""
        if isinstance(name, str) and "{{" in name:
            self.refuse(place, "PICARD takes the text that a placeholder makes for a data type")
        elif name in BUILT_IN.types.keys() - DATA_TYPES:  # of others, the values are refused
            self.refuse(place, f"PICARD has no data type {name}")

    def _csv(self, place: Place, content: dict[str, Any]) -> dict[str, Any]:
        """Types are written out: PICARD guesses those of some headers otherwise."""
        if "header_types" in content:
            for index, name in enumerate(content["header_types"]):
                self.type((*place, "header_types", index), name)
            return content
        headers = [str(header) for header in content.get("headers", ())]
        if not headers or any("{{" in header for header in headers):
            return content
        return {**content, "header_types": [infer_type(header) for header in headers]}

    # -- databases ------------------------------------------------------------------------------

    def _sqlite(self, place: Place, content: dict[str, Any]) -> dict[str, Any]:
        if "tables" not in content:
            self._table_name((*place, "table_name"), content.get("table_name", "data"))
            columns = self._columns(place, content.get("columns", ()), {})
            return {**content, "columns": columns}
        names = [str(table["name"]) for table in content["tables"]]
        known = dict(zip(names, content["tables"], strict=True))
        tables = []
        for index, table in enumerate(content["tables"]):
            within = (*place, "tables", index)
            self._table_name((*within, "name"), table["name"])
            tables.append({**table, "columns": self._columns(within, table["columns"], known)})
        return {**content, "tables": self._in_order(place, tables)}

    def _table_name(self, place: Place, name: Any) -> None:
        if not _is_bare(str(name)):
            self.refuse(place, f"{name!r}: PICARD does not quote names in SQL; choose another")

    def _columns(
        self, place: Place, columns: Sequence[Any], tables: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        written = []
        for index, given in enumerate(columns):
            within = (*place, "columns", index)
            column = dict(given) if isinstance(given, Mapping) else {"name": given, "type": "TEXT"}
            self._table_name((*within, "name"), column["name"])
            same = [kind for kind in COLUMN_TYPES if kind.lower() == str(column["type"]).lower()]
            column["type"] = same[0] if same else column["type"]
            if column.get("foreign_key") is not None:
                column.pop("data_type", None)  # which PICARD would prefer
                column["foreign_key"] = self._key((*within, "foreign_key"), column, tables)
            elif column.get("data_type") is not None:
                self.type((*within, "data_type"), column["data_type"])
            elif column["type"] == "TEXT" and "{{" not in str(column["name"]):
                column["data_type"] = infer_type(str(column["name"]))
            written.append(column)
        return written

    def _key(self, place: Place, column: Mapping[str, Any], tables: Mapping[str, Any]) -> Any:
        """A foreign key, its column named as it is written there."""
        asked = column["foreign_key"]
        if isinstance(asked, Mapping):
            table, key = str(asked.get("table")), asked.get("column")
        else:
            table, _, key = str(asked).partition(".")
        parent = next((name for name in tables if name.lower() == table.lower()), None)
        if parent is None:
            self.refuse(place, f"PICARD knows no key in {table} here")
            return asked
        names = {
            str(each["name"] if isinstance(each, Mapping) else each).lower(): each
            for each in tables[parent]["columns"]
        }
        numbered = (
            name
            for name, each in names.items()
            if isinstance(each, Mapping) and str(each.get("type")).lower() == "auto_id"
        )
        chosen = names.get(str(key or ("id" if "id" in names else next(numbered, ""))).lower())
        name = chosen["name"] if isinstance(chosen, Mapping) else chosen
        return {"table": parent, "column": name}

    def _in_order(self, place: Place, tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The tables, each after those that it refers to: PICARD makes them as they are listed."""
        by_name = {table["name"]: table for table in tables}
        try:
            order = in_order({name: _parents(by_name[name]) & by_name.keys() for name in by_name})
        except CycleError as error:
            name = error.args[1][0]
            self.refuse((*place, "tables"), f"PICARD has no keys into their own table: {name}")
            return tables
        return [by_name[name] for name in order]


def _parents(table: Mapping[str, Any]) -> set[str]:
    keys = [column.get("foreign_key") for column in table["columns"]]
    return {key["table"] for key in keys if isinstance(key, Mapping)}


def _is_bare(name: str) -> bool:
    """Return True if SQL reads a name that is not quoted."""
    name = _PLACEHOLDER.sub("x", name)
    with closing(sqlite3.connect(":memory:")) as database:
        try:
            database.execute(f"CREATE TABLE {name} ({name} TEXT)")
        except sqlite3.Error:
            return False
    return _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class _SchemaWriter:
    """A schema. In PICARD's XML there is less than in its JSON and YAML."""

    content: ContentWriter
    xml: bool

    def refuse(self, place: Place, what: str) -> None:
        self.content.refuse(place, what)

    def top(self, place: Place, written: Any) -> Any:
        """The whole; in PICARD's XML it is a mapping of elements."""
        if written == {}:
            self.refuse(place, "PICARD takes an empty schema for one of three fields")
        if not self.xml:
            return self.node(place, written, False)
        if isinstance(written, Mapping) and written.get("type") == "object":
            place, written = (*place, "properties"), written.get("properties") or {}
        elif not isinstance(written, Mapping) or isinstance(written.get("type"), str):
            self.refuse(place, "the top of PICARD's XML is a mapping of elements")
            return written
        return {key: self.node((*place, key), inner, False) for key, inner in written.items()}

    def node(self, place: Place, written: Any, repeated: bool) -> Any:
        """A place in a schema; ``repeated``: in the items of a list."""
        if isinstance(written, str):
            self.content.type(place, written)
            return written
        if isinstance(written, Mapping):
            if isinstance(written.get("type"), str):
                return self.typed(place, written, repeated)
            inner = {key: self.node((*place, key), x, repeated) for key, x in written.items()}
            return {"type": "object", "properties": inner} if "type" in inner else inner
        if self.xml and (written is None or isinstance(written, bool | list)):
            self.refuse(place, f"PICARD writes {written!r} as Python does")
        return written

    def typed(self, place: Place, written: Mapping[str, Any], repeated: bool) -> Any:
        """A mapping with the name of a kind or of a data type."""
        kind = str(written["type"])
        if "enum" in written:
            self.refuse((*place, "enum"), "PICARD draws words instead of an enum's values")
            return dict(written)
        match kind:
            case "array":
                return self.array(place, written, repeated)
            case "object":
                return self.object(place, written, repeated)
            case "literal":
                return self.literal(place, written)
            case "string":
                return self.string(place, written)
            case "number" | "integer":
                return self.number(place, written, kind)
            case "boolean" if self.xml:
                return "boolean"  # true and false as text; PICARD would write True and False
            case "boolean" | "null":
                return self.node(place, None, repeated) if kind == "null" else dict(written)
        self.content.type((*place, "type"), kind)
        return dict(written)

    def array(self, place: Place, written: Mapping[str, Any], repeated: bool) -> dict[str, Any]:
        """A list. ``[least, greatest]`` becomes a placeholder, which has one value in a file."""
        count, items = written.get("count", 5), written.get("items", "lorem_words")
        if isinstance(count, list | tuple):
            if any(isinstance(end, str) for end in count):
                self.refuse((*place, "count"), "PICARD has no placeholder in a placeholder")
            elif repeated:
                what = "PICARD draws one count for all lists here; write one number"
                self.refuse((*place, "count"), what)
            else:
                count = f"{{{{number{next(self.content.numbers)}:{count[0]}:{count[-1]}}}}}"
        if self.xml and isinstance(items, Mapping) and items.get("type") == "array":
            self.refuse((*place, "items"), "PICARD's XML has no list directly in a list")
        inner = self.node((*place, "items"), items, True)
        return {**written, "count": count, "items": inner}

    def object(self, place: Place, written: Mapping[str, Any], repeated: bool) -> dict[str, Any]:
        inner = written.get("properties") or {}
        within = (*place, "properties")
        made: dict[str, Any] = {
            "type": "object",
            "properties": {key: self.node((*within, key), x, repeated) for key, x in inner.items()},
        }
        extra = written.get("additional_properties")
        if extra is None or extra is False:
            return made
        within = (*place, "additional_properties")
        if self.xml:
            self.refuse(within, "PICARD's XML has none")
        schema = self.node(within, "lorem_words" if extra is True else extra, repeated)
        return {**made, "additional_properties": schema}

    def literal(self, place: Place, written: Mapping[str, Any]) -> Any:
        value = written.get("value")
        if isinstance(value, str | Mapping):
            self.refuse(place, "PICARD has no literal text: it takes text for a data type")
            return value
        return self.node(place, value, False)

    def string(self, place: Place, written: Mapping[str, Any]) -> dict[str, Any]:
        pattern = written.get("pattern")
        if pattern is not None and pattern not in DATA_TYPES:
            self.refuse((*place, "pattern"), "PICARD takes a pattern for the name of a data type")
        least = written.get("min_length")
        if not self.plain(place, written, _SIZES) or "max_length" in written or not least:
            return dict(written)
        return {**written, "max_length": max(_USUAL_LENGTH, least)}  # which PICARD would cut off

    def number(self, place: Place, written: Mapping[str, Any], kind: str) -> dict[str, Any]:
        """Both ends are written out: PICARD does not move the other one."""
        ends = ("minimum", "maximum")
        if not self.plain(place, written, ends):
            return dict(written)
        low, high = bounds("", written, *_BOUNDS[kind])
        if kind == "integer":
            low, high = -(-low // 1), high // 1
        cast = int if kind == "integer" else float
        return {**written, "minimum": cast(low), "maximum": cast(high)}

    def plain(self, place: Place, written: Mapping[str, Any], keys: Sequence[str]) -> bool:
        """Check that bounds are numbers."""
        texts = [key for key in keys if isinstance(written.get(key), str)]
        for key in texts:
            self.refuse((*place, key), "PICARD takes a number here, not a placeholder or text")
        return not texts
