"""The keys that the contents of components may have."""

from __future__ import annotations

from collections.abc import Mapping

# Component type → the keys of its content.
_SCHEMA = ("schema",)
CONTENT_KEYS: Mapping[str, tuple[str, ...]] = {
    "create_files": ("type", "count", "content"),
    "create_csv": ("headers", "header_types", "rows"),
    "create_sqlite": ("table_name", "columns", "rows", "tables"),
    "create_json": _SCHEMA,
    "create_yaml": _SCHEMA,
    "create_xml": ("schema", "root_element", "namespace"),
    "create_tree": ("depth", "breadth", "files"),
}
# Kind of a place → the keys that it may have.
DOCUMENT_KEYS: Mapping[str, tuple[str, ...]] = {
    "array": ("type", "count", "items", "element_name"),  # the last in XML only
    "object": ("type", "properties", "additional_properties"),
    "string": ("type", "min_length", "max_length", "pattern"),
    "number": ("type", "minimum", "maximum"),
    "integer": ("type", "minimum", "maximum"),
    "boolean": ("type",),
    "null": ("type",),
    "literal": ("type", "value"),
}
ENUM = "enum"  # the only key beside ``type``, of text and numbers
ENUMERATED = ("string", "number", "integer")
TABLE_KEYS = ("name", "columns", "rows")  # of a database
COLUMN_KEYS = ("name", "type", "data_type", "foreign_key")
# Of text files.
TEXT_KINDS = ("lorem_lines", "lorem_sentences", "lorem_paragraphs", "lorem_words", "custom")
