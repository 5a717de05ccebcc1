"""The first files of a new study, from templates: ``study.yaml`` and ``prices.yaml``."""

from __future__ import annotations

from pathlib import Path
from string import Template


def study_name(folder: Path) -> str:
    """Return the name of a new study by its folder."""
    name = "".join(c if c.isalnum() else "-" for c in folder.resolve().name.lower()).strip("-")
    return name[:63] if name and name.isascii() else "my-study"


def fill_template(file: str, /, **values: object) -> str:
    """Return the text of a template that lies here, with values for its names."""
    return Template(Path(__file__).with_name(file).read_text(encoding="utf-8")).substitute(values)
