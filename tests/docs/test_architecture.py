"""ARCHITECTURE.md names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from registry.provenance import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
_OF_USERS = {"template"}  # files that `dosimeter tasks new` copies


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_path_that_a_page_names_exists(page: str) -> None:
    named = re.findall(rf"`((?:{'|'.join(PACKAGES)})/[\w./]*)`", (ROOT / page).read_text())
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_sub_package_is_on_the_map() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    layers = text.split("### Sub-packages")[1].split("## Where to find")[0]
    for package in PACKAGES:
        (line,) = re.findall(rf"^{package} (.*(?:\n +→.*)?)", layers, re.MULTILINE)
        folders = {
            path.name
            for path in (ROOT / package).iterdir()
            if path.is_dir() and list(path.glob("*.py"))
        }
        assert set(re.findall(r"[a-z_]+", line)) == folders - _OF_USERS, package
