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
from tests.cases import cases

GOLDEN = Path(__file__).with_name("component_digests.json")
SEED = Seed.from_hex("5e" * 32)

SCHEMA: dict[str, Any] = cases(__file__, "schema")

SHOP: dict[str, Any] = cases(__file__, "shop")

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
