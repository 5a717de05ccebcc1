"""ARCHITECTURE.md names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from registry.provenance import PACKAGES
from study.catalogue import EXTRAS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_path_that_a_page_names_exists(page: str) -> None:
    named = re.findall(rf"`((?:{'|'.join(PACKAGES)}|tests)/[\w./]*)`", (ROOT / page).read_text())
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_folder_is_in_the_tree() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    tree = text.split("## The tree")[1].split("## Where to find")[0]
    parts = re.split(rf"^({'|'.join(PACKAGES)})/", tree, flags=re.MULTILINE)[1:]
    named = {
        package: set(re.findall(r"[a-z_]+", words))
        for package, words in zip(parts[::2], parts[1::2], strict=True)
    }
    folders = {
        package: {f.parent.name for f in (ROOT / package).glob("*/__init__.py")}
        for package in PACKAGES
    }
    assert {p: folders[p] - named[p] for p in PACKAGES if folders[p] - named[p]} == {}
    assert {extra.name for extra in EXTRAS} <= named["study"]
