"""Tables of cases that are data, in a YAML file beside their test that has its name."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def cases(module: str, name: str) -> Any:
    """A table of a test module, by its ``__file__``. Of a misspelt name it is a KeyError."""
    text = Path(module).with_suffix(".yaml").read_text(encoding="utf-8")
    return yaml.load(text, yaml.CSafeLoader)[name]
