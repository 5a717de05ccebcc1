"""One of each component, and the digests that pin what it makes of a seed.

Add those of new samples with

    python tests/generators/templates/component_samples.py --record

It refuses where a recorded digest no longer holds: drawn files may not change by a byte.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from generators.seed import Seed
from generators.templates.components import ComponentMaker, compile_component
from generators.templates.language.data_types import DATA_TYPES
from generators.templates.language.template import Component, MadeFile

GOLDEN = Path(__file__).with_name("component_digests.json")
SEED = Seed.from_hex("5e" * 32)

SCHEMA: dict[str, Any] = {
    "company": "company",
    "floor": {"type": "integer", "minimum": -3, "maximum": 40},
    "rate": {"type": "number", "minimum": 0.5, "maximum": 2},
    "motto": {"type": "string", "min_length": 8, "max_length": 30},
    "code": {"type": "string", "pattern": r"[A-Z]{2}-\d{3,5}(?:a|bc)?"},
    "open": {"type": "boolean"},
    "nothing": {"type": "null"},
    "fixed": [1, "a: b", None, True, 2.5],
    "named": {"type": "literal", "value": "no data type"},
    "kind": {"type": "string", "enum": ["api", "batch"]},
    "type": {"type": "status"},
    "teams": {
        "type": "array",
        "count": [2, 6],
        "items": {
            "id": "id",
            "lead": {"name": "person_name", "since": "date"},
            "budgets": {"type": "array", "count": 2, "items": "currency"},
        },
    },
    "more": {"type": "object", "properties": {"price": "price"}, "additional_properties": "city"},
}

SHOP: dict[str, Any] = {
    "tables": [
        {
            "name": "orders",
            "columns": [
                {"name": "ORD_ID", "type": "auto_id"},
                {"name": "CUST_REF", "type": "INTEGER", "foreign_key": "customers.CUST_ID"},
                {"name": "ORD_AMT", "type": "INTEGER", "data_type": "currency"},
                {"name": "PRICE", "type": "REAL", "data_type": "price"},
                {"name": "PAID", "type": "BOOLEAN"},
                {"name": "SENT", "type": "DATETIME"},
            ],
            "rows": 75,
        },
        {
            "name": "customers",
            "columns": [
                {"name": "CUST_ID", "type": "auto_id"},
                {"name": "CUST_NM", "type": "TEXT", "data_type": "person_name"},
                {"name": "DEPT_CD", "type": "TEXT", "data_type": "department"},
                {"name": "BOSS", "type": "INTEGER", "foreign_key": {"table": "customers"}},
            ],
            "rows": 20,
        },
    ]
}

EVERY_TYPE = {"headers": list(DATA_TYPES), "header_types": list(DATA_TYPES), "rows": 40}

SAMPLES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "lines": ("create_files", {"type": "lorem_lines", "count": 100}, {}),
    "sentences": ("create_files", {"type": "lorem_sentences", "count": 7}, {}),
    "paragraphs": ("create_files", {"type": "lorem_paragraphs", "count": 3}, {}),
    "words": ("create_files", {"type": "lorem_words", "count": 50}, {}),
    "custom": (
        "create_files",
        {"type": "custom", "content": "Top\n{{lorem:3l}}\n\n{{lorem:2s}} {{lorem:2p}}\nEnd\n"},
        {},
    ),
    "csv": ("create_csv", EVERY_TYPE, {}),
    "inferred": ("create_csv", {"headers": ["order_id", "name", "price", "x"], "rows": 20}, {}),
    "sqlite": ("create_sqlite", SHOP, {}),
    "json": ("create_json", {"schema": SCHEMA}, {}),
    "yaml": ("create_yaml", {"schema": SCHEMA}, {}),
    "xml": ("create_xml", {"schema": SCHEMA, "root_element": "firm", "namespace": "urn:a"}, {}),
    "tree": ("create_tree", {"depth": 2, "breadth": [1, 3], "files": 2}, {}),
    "clutter": ("create_csv", {"headers": ["id"], "rows": 1}, {"clutter": 12}),
}


def component(type_: str, content: Any, config: Any = None) -> Component:
    return Component(type_, "", "", content, {} if config is None else config, (), ())


def maker(type_: str, content: Any, config: Any = None) -> ComponentMaker:
    return compile_component(component(type_, content, config))


def made(
    type_: str, content: Any, config: Any = None, seed: Seed = SEED, target: str = "artifacts/a/b.x"
) -> tuple[MadeFile, ...]:
    return maker(type_, content, config).make(seed.rng(), target)


def digests() -> dict[str, str]:
    """SHA-256 of the paths and bytes of each sample's files."""
    found = {}
    for name, sample in SAMPLES.items():
        hasher = hashlib.sha256()
        for file in made(*sample):
            hasher.update(f"{file.path}\0{len(file.data)}\0".encode() + file.data)
        found[name] = hasher.hexdigest()
    return found


def record() -> None:
    recorded = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    now = digests()
    changed = sorted(name for name in recorded if now.get(name) != recorded[name])
    if changed:
        sys.exit(f"{', '.join(changed)}: other bytes than recorded")
    GOLDEN.write_text(json.dumps(now, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    if "--record" in sys.argv:
        record()
    else:
        print(json.dumps(digests()))
