"""The documentation site builds without a warning, and shows every command and page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    options = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(folder / "doctrees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(folder / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def test_every_page_is_in_the_index(site: Path) -> None:
    index = (site / "index.html").read_text()
    pages = [
        path.relative_to(ROOT / "docs").with_suffix(".html")
        for path in (ROOT / "docs").rglob("*.md")
        if "decisions" not in path.parts and path.name != "index.md"
    ]
    assert [str(page) for page in pages if f'href="{page}"' not in index] == []
