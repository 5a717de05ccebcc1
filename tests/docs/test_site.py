"""The documentation site builds without a warning, and shows every command and page."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from study.main import main

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


def command_names(group: click.Group, prefix: str = "dosimeter") -> Iterator[str]:
    for name, command in group.commands.items():
        yield f"{prefix} {name}"
        if isinstance(command, click.Group):
            yield from command_names(command, f"{prefix} {name}")


def test_every_command_has_a_section(site: Path) -> None:
    page = (site / "reference/cli.html").read_text()
    missing = [name for name in command_names(main) if f'id="{name.replace(" ", "-")}"' not in page]
    assert missing == []


def test_every_page_is_in_the_index(site: Path) -> None:
    index = (site / "index.html").read_text()
    pages = [
        path.relative_to(ROOT / "docs").with_suffix(".html")
        for path in (ROOT / "docs").rglob("*.md")
        if "decisions" not in path.parts and path.name != "index.md"
    ]
    assert [str(page) for page in pages if f'href="{page}"' not in index] == []


def test_the_gallery_has_its_pictures(site: Path) -> None:
    page = (site / "gallery.html").read_text()
    shown = sorted((ROOT / "docs/gallery").glob("*.png"))
    assert shown
    assert [path.name for path in shown if path.name not in page] == []
    assert not list((site / "gallery").glob("*.html"))
