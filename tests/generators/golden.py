"""The digests that pin what each family at each version makes.

Add those of a new family or version with

    python -m tests.generators.golden

It refuses where a recorded digest no longer holds: an instance of a published version may not
change by a byte. Raise the family's version instead, and list it in the catalogue.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from generators.catalog import INSTALLED
from generators.task import DIFFICULTIES
from generators.validation.validate import instance_digest, public_seeds

GOLDEN = Path(__file__).with_name("golden.json")
SEEDS = 2


def made_digests() -> dict[str, list[str]]:
    """For each ``name@version/difficulty`` the digests of the first public seeds' instances."""
    return {
        f"{family.name}@{family.version}/{difficulty}": [
            instance_digest(family.generate(difficulty, seed)) for seed in public_seeds(SEEDS)
        ]
        for family in INSTALLED.families()
        for difficulty in DIFFICULTIES
    }


def merge(recorded: Mapping[str, list[str]], made: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The record with the new strata added. Raises ValueError where an old one has changed."""
    changed = sorted(name for name in recorded if name in made and recorded[name] != made[name])
    if changed:
        raise ValueError(
            f"{', '.join(changed)}: other bytes than recorded; raise the family's version"
        )
    return {**recorded, **made}


def main() -> None:
    recorded = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    try:
        merged = merge(recorded, made_digests())
    except ValueError as error:
        sys.exit(str(error))
    GOLDEN.write_text(json.dumps(merged, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
