"""Sphinx configuration of the documentation site; `make docs` builds it into build/docs."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import click
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent

project = "dosimeter"
author = "The dosimeter developers"
copyright = "The dosimeter developers"
release = metadata.version("dosimeter")

extensions = ["myst_parser", "sphinx_click"]
exclude_patterns = ["decisions/README.md"]
myst_enable_extensions = ["colon_fence", "html_image"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # examples of the gallery skip a heading level

smartquotes = False  # it would turn --option into –option

html_theme = "furo"
html_title = "dosimeter"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_copy_source = False
html_show_sourcelink = False

# Pages that lie at the root of the repository, and their places in the site.
ROOT_PAGES = {
    "ARCHITECTURE.md": "explanation/architecture",
    "CHANGELOG.md": "reference/changelog",
    "CONTRIBUTING.md": "how-to/contribute",
    "SECURITY.md": "explanation/security",
}


def read_root_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace the stub of a root page by the page, with links that fit its new place."""
    for file, place in ROOT_PAGES.items():
        if name == place:
            app.env.note_dependency(str(ROOT / file))
            source[0] = move_links((ROOT / file).read_text())


def move_links(text: str) -> str:
    """Links of a page at the root, as seen from a folder of the site."""
    for file, place in ROOT_PAGES.items():
        text = text.replace(f"]({file}", f"](../{place}.md")
    text = text.replace("](docs/decisions/)", "](../explanation/decisions.md)")
    return text.replace("](docs/", "](../")


def format_help(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Show the examples of a command's help as code, and its names in code font."""
    formatted: list[str] = []
    for line in lines:
        text = line.removeprefix("| ")
        if line.startswith("| ") and text.startswith("  "):
            if not formatted or not formatted[-1].startswith("      "):
                formatted += ["", ".. code-block:: text", ""]
            formatted.append(f"      {text.strip()}")
            continue
        if formatted and formatted[-1].startswith("      "):
            formatted.append("")
        formatted.append(re.sub(r"`([^`]+)`", r"``\1``", text.rstrip() if text.strip() else ""))
    lines[:] = formatted


def setup(app: Sphinx) -> None:
    app.connect("source-read", read_root_page)
    app.connect("sphinx-click-process-description", format_help)
