"""The documentation site builds without a warning, and shows every command and page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build(builder: str, folder: Path) -> Path:
    """The site, built as `make docs` builds it but for the builder."""
    options = ["-q", "-W", "--keep-going", "-b", builder, "-d", str(folder / "doctrees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(folder / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_every_page_is_read_in_a_table_of_contents_and_its_links_lead_somewhere(
    tmp_path: Path,
) -> None:
    """Sphinx warns of a page that is not; this builder writes none."""
    build("dummy", tmp_path)


@pytest.mark.slow
def test_every_page_is_in_the_index(tmp_path: Path) -> None:
    index = (build("html", tmp_path) / "index.html").read_text()
    pages = [
        path.relative_to(ROOT / "docs").with_suffix(".html")
        for path in (ROOT / "docs").rglob("*.md")
        if "decisions" not in path.parts and path.name != "index.md"
    ]
    assert [str(page) for page in pages if f'href="{page}"' not in index] == []
