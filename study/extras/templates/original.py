"""The names that PICARD knows, for ``dosimeter template export``: facts about its newest public
version. Where its pages promise more than its code does, the code counts.
"""

from __future__ import annotations

COMPONENTS = frozenset(
    ("create_files", "create_csv", "create_sqlite", "create_json", "create_yaml", "create_xml")
)
POOLS = frozenset(("default", "colors", "nature", "metals", "gems"))
DATA_TYPES = frozenset(
    (
        *("person_name", "first_name", "last_name", "entity_pool", "email", "age", "city"),
        *("city_name", "company", "company_name", "product", "product_name", "currency"),
        *("salary", "price", "phone", "date", "status", "department", "region", "id"),
        *("experience", "score", "course", "semester", "category", "boolean", "lorem_word"),
        "lorem_words",
    )
)
COLUMN_TYPES = ("TEXT", "INTEGER", "REAL", "BOOLEAN", "DATE", "DATETIME", "auto_id")

# Functions by the language of their first argument.
PLAIN_PATHS = ("path", "value", "count", "keys")
WILDCARD_PATHS = ("sum", "avg", "max", "min", "collect")
FILTERS = ("count_where", "filter")
_XPATHS = ("value", "attr", "count", "exists", "collect", "sum", "avg", "max", "min")
TREES = {
    f"{kind}_{verb}": verb
    for kind in ("json", "yaml")
    for verb in (*PLAIN_PATHS, *WILDCARD_PATHS, *FILTERS)
}
XPATHS = frozenset(f"xpath_{verb}" for verb in _XPATHS)
CSV_FILTERS = frozenset(("csv_count_where", "csv_sum_where", "csv_avg_where"))
FUNCTIONS = frozenset(
    (
        *("file_line", "file_word", "file_line_count", "file_word_count"),
        *("csv_cell", "csv_row", "csv_value", "csv_column", "csv_count", "csv_sum", "csv_avg"),
        *CSV_FILTERS,
        *("sqlite_query", "sqlite_value"),
        *TREES,
        *XPATHS,
    )
)
