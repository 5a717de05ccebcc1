"""A release's Croissant file: valid by mlcroissant, which reads the rows by it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlcroissant
import pyarrow.parquet as pq
import pytest

from generators.task import Family
from publish.croissant import CROISSANT
from publish.dataset_card import ReleaseText
from publish.release import ReleaseManifest, build_release
from publish.row_schema import FEATURES

Find = Callable[[str], Family]
VALUES = [name for name, feature in FEATURES.items() if feature["_type"] == "Value"]
DOI = "10.5281/zenodo.1234567"


@pytest.fixture
def described(
    reserve_draw: Any, find: Find, text: ReleaseText, tmp_path: Path
) -> tuple[ReleaseManifest, ReleaseText]:
    """A release of three tranches with all that a person may say of it."""
    full = replace(
        text,
        repository="owner/letters",
        authors=("Ada Byron", 'Emmy "N" Noether'),
        doi=DOI,
        year="2026",
    )
    draw = reserve_draw
    return build_release(tmp_path / "full", draw.public, draw.sealed, find, full), full


def test_mlcroissant_finds_no_fault_and_reads_each_row(
    described: tuple[ReleaseManifest, ReleaseText],
) -> None:
    release, _ = described
    dataset = mlcroissant.Dataset(jsonld=str(release.folder / CROISSANT))
    issues = dataset.metadata.ctx.issues
    assert (issues.errors, issues.warnings) == (set(), set())
    assert dataset.metadata.version == "1.2.0"
    for split in ("public", "reserve_1", "reserve_2"):
        paths = sorted(release.folder.glob(f"data/*/{split}-*.parquet"))
        rows = [row for path in paths for row in pq.read_table(path, columns=VALUES).to_pylist()]
        read = [
            {name.removeprefix(f"{split}/"): value for name, value in record.items()}
            for record in dataset.records(split)
        ]
        assert len(read) == len(rows) > 0
        for name in ("instance", "prompt", "answer"):
            assert [each[name].decode() for each in read] == [row[name] for row in rows]
        assert [each["leaf"] for each in read] == [row["leaf"] for row in rows]


def test_card_citation_and_description_name_the_doi(
    described: tuple[ReleaseManifest, ReleaseText], release: ReleaseManifest
) -> None:
    folder = described[0].folder
    card = (folder / "README.md").read_text("utf-8")
    assert f"- DOI: <https://doi.org/{DOI}>" in card
    assert f"  doi = {{{DOI}}}," in card
    body = json.loads((folder / CROISSANT).read_bytes())
    assert body["citeAs"] == f"https://doi.org/{DOI}"
    assert [each["name"] for each in body["creator"]] == ["Ada Byron", 'Emmy "N" Noether']
    assert "doi" not in (release.folder / "README.md").read_text("utf-8").lower()
    mlcroissant.Dataset(jsonld=str(release.folder / CROISSANT))
