"""``dosimeter leak scan``: finds private seeds and keys anywhere, and quotes none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from registry.result_row import Arm
from study.main import main
from study.workspace.study import Study
from tests.study.steps.sweep.test_exposure_ledger import RESERVED, make_study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return make_study(tmp_path / "study", RESERVED)


def test_a_seed_and_the_key_are_found_and_not_shown(study: Study, tmp_path: Path) -> None:
    places = [n for n, entry in enumerate(study.entries()) if entry.arm is Arm.PRIVATE]
    entry = study.entries()[places[0]]
    logs = tmp_path / "logs"
    (logs / "deep").mkdir(parents=True)
    (logs / "deep" / "a.log").write_text(f"read {entry.seed}\n")
    (tmp_path / "notes.txt").write_text(study.identities()[0])
    (logs / "link").symlink_to("nowhere")
    command = ["leak", "scan", "--study", str(study.folder), str(logs), str(tmp_path / "notes.txt")]
    shown = CliRunner().invoke(main, command)
    result = CliRunner().invoke(main, [*command, "--json"])
    assert (shown.exit_code, result.exit_code) == (1, 1), shown.output
    assert "1 not read" in shown.stdout
    rows = {(row["file"], row["kind"], row["commitment"]) for row in json.loads(result.stdout)}
    assert (str(logs / "deep" / "a.log"), "seed", places[0]) in rows
    assert (str(tmp_path / "notes.txt"), "study's key 1", None) in rows
    output = shown.output + result.output
    assert entry.seed not in output
    assert study.identities()[0] not in output


def test_public_files_are_clean_and_a_missing_one_is_an_error(study: Study, tmp_path: Path) -> None:
    public = next(entry for entry in study.entries() if entry.arm is Arm.PUBLIC)
    (tmp_path / "notes.txt").write_text(public.seed)
    command = ["leak", "scan", "--study", str(study.folder)]
    clean = CliRunner().invoke(main, [*command, str(tmp_path / "notes.txt")])
    assert clean.exit_code == 0, clean.output
    assert "no leaks found" in clean.stdout
    missing = CliRunner().invoke(main, [*command, str(tmp_path / "nothing")])
    assert missing.exit_code == 2
    assert "nothing" in missing.output


def test_what_is_not_read_is_listed_and_is_no_leak(study: Study, tmp_path: Path) -> None:
    (tmp_path / "half.zip").write_bytes(b"PK\3\4" + bytes(99))
    command = ["leak", "scan", "--study", str(study.folder), str(tmp_path / "half.zip")]
    shown = CliRunner().invoke(main, command)
    assert (shown.exit_code, "no leaks found; 1 not read" in shown.stdout) == (1, True)
    result = CliRunner().invoke(main, [*command, "--json"])
    assert result.exit_code == 1, result.output
    (row,) = json.loads(result.stdout)
    assert row == {
        "file": str(tmp_path / "half.zip"),
        "kind": "not read: neither UTF-8 text, nor a PNG image, a SQLite database or a release's "
        "Parquet file",
        "commitment": None,
    }
