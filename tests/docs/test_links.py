"""Links between the repository's pages lead somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s]+)\)")


def markdown_pages() -> list[Path]:
    """Committed Markdown pages."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub names them."""
    text = re.sub(r"^(`{3,}).*?^\1", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", markdown_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    text = re.sub(r"^(`{3,}).*?^\1", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for target in _LINK.findall(text):
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        if not linked.exists() or (
            anchor and linked.suffix == ".md" and anchor not in anchors(linked)
        ):
            broken.append(target)
    assert broken == []


def test_every_test_that_a_page_names_exists() -> None:
    missing = []
    for page in (ROOT / "docs").glob("*.md"):
        for name in re.findall(r"`((?:[\w-]+/)*test_\w+\.py)`", page.read_text()):
            place = re.sub(r"^t/", "generators/templates/", name).removeprefix("tests/")
            if not (ROOT / "tests" / place).exists():
                missing.append((page.name, name))
    assert missing == []
