"""``dosimeter checkpoint`` and ``dosimeter witness``: a study and two custodians, by commands."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from registry.checkpoints import read_key, read_witness
from registry.ledger import Release
from registry.stores.folder import FolderStore
from study.workspace import Study, draw_seeds, release_checkpoint
from study.workspace.address import open_study
from study.workspace.setup import init_study
from tests.registry.checkpoints.watched import rewritten
from tests.study.cli.program import refusal, run
from tests.study.conftest import SMALL
from tests.tsa import make_authority, serve

NOW, LATE = "2026-11-01T12:00:00Z", "2100-01-01T00:00:00Z"


def _make(folder: Path, extra: str = "") -> Study:
    init_study(folder, SMALL + extra)
    study = open_study(folder)
    draw_seeds(study, lambda *step: None, lambda: NOW)
    return study


@pytest.fixture
def custodians(tmp_path: Path) -> dict[str, str]:
    """State files of two witnesses, with the lines that they send."""
    paths = {name: str(tmp_path / name) for name in ("anna", "ben")}
    return {
        path: run("witness", "init", path, "--name", f"example.org/{name}").output.strip()
        for name, path in paths.items()
    }


@pytest.fixture
def watched(tmp_path: Path, custodians: dict[str, str]) -> Study:
    """A study that is drawn, and needs both of them."""
    keys = ", ".join(custodians.values())
    return _make(tmp_path / "study", f"witnesses: {{keys: [{keys}], threshold: 2}}\n")


def _sign(state: str, study: Study, *options: str) -> str:
    key = ("--study-key", study.signer().public) if not read_witness(Path(state)).ledgers else ()
    result = run("witness", "sign", state, str(study.folder / "store"), *key, *options)
    assert result.exit_code == 0, result.output
    return result.stdout


def _verification(study: Study, *options: str) -> dict[str, object]:
    result = run("verify", "--study", str(study.folder), "--json", *options)
    body: dict[str, object] = json.loads(result.stdout)
    return body


def test_a_study_and_its_witnesses(
    watched: Study, custodians: dict[str, str], tmp_path: Path
) -> None:
    study, (anna, ben) = ("--study", str(watched.folder)), custodians
    assert all(read_key(line).name.startswith("example.org/") for line in custodians.values())
    made = run("checkpoint", *study)
    assert made.exit_code == 0, made.output
    assert made.stdout.splitlines()[1] == str(len(watched.ledger.entries()))
    assert "has not grown" in run("checkpoint", *study).stderr
    _sign(anna, watched)
    sent = tmp_path / "ben.txt"
    _sign(ben, watched, "--out", str(sent))
    before = str(_verification(watched)["unchecked"])
    assert "1 of 2 needed witnesses" in before
    assert "not yet example.org/ben" in before
    shown = json.loads(run("checkpoint", *study, "--add", str(sent), "--json").stdout)
    assert [one["name"] for one in shown["witnesses"]] == ["example.org/anna", "example.org/ben"]
    assert shown["study_key"] == watched.signer().public
    assert "witnesses" not in str(_verification(watched)["unchecked"])
    assert "is there already" in refusal(
        *("witness", "sign", ben, str(watched.folder / "store"), "--out", str(sent))
    )


def test_a_rewritten_study_is_refused_and_verified_as_such(
    watched: Study, custodians: dict[str, str], tmp_path: Path
) -> None:
    """The owner signs another ledger, and removes every checkpoint from the store."""
    anna = next(iter(custodians))
    run("checkpoint", "--study", str(watched.folder))
    kept = tmp_path / "kept.txt"
    kept.write_text(_sign(anna, watched))
    store = watched.folder / "store"
    shutil.rmtree(store / "checkpoints")
    shutil.rmtree(store / "ledger")
    forged = rewritten(4, None, watched.signer())
    for key in forged.list():
        FolderStore(store).put(key, forged.get(key))
    assert run("checkpoint", "--study", str(watched.folder)).exit_code == 2, "other witnesses"
    named = refusal("witness", "sign", anna, str(store), code=3)
    assert "ledger/00000000.json: was rewritten" in named
    result = run("verify", "--study", str(watched.folder), "--checkpoint", str(kept))
    assert result.exit_code == 3
    assert "one of these was rewritten" in " ".join(result.stdout.split())


def test_witnesses_cannot_change_after_the_announcement(watched: Study, tmp_path: Path) -> None:
    file = watched.folder / "study.yaml"
    file.write_text(file.read_text().replace("threshold: 2", "threshold: 1"))
    line = refusal("checkpoint", "--study", str(watched.folder))
    assert "`witnesses:` is not that of the ledger's first record" in line
    assert "here is 1, and there 2" in line


def test_the_first_time_asks_for_the_study_s_key(
    watched: Study, custodians: dict[str, str]
) -> None:
    run("checkpoint", "--study", str(watched.folder))
    line = refusal("witness", "sign", next(iter(custodians)), str(watched.folder / "store"))
    assert line.endswith(f"--study-key {watched.signer().public}")


@pytest.mark.parametrize(
    ("section", "match"),
    [
        ("{keys: [nobody], threshold: 1}", "a witness's key is NAME+KEY-ID+KEY"),
        ("{keys: [KEY], threshold: 2}", "threshold 2: of 1 witnesses 1 to all must sign"),
        ("{keys: [KEY, KEY], threshold: 1}", "a witness is named twice"),
        ("{keys: [DAMAGED], threshold: 1}", "copy all of it, as it was printed"),
        ("{keys: [], threshold: 1}", "keys"),
    ],
)
def test_a_wrong_section_is_refused_at_its_line(
    tmp_path: Path, custodians: dict[str, str], section: str, match: str
) -> None:
    key = next(iter(custodians.values()))
    damaged = key.replace("anna", "anne")
    text = section.replace("KEY", key).replace("DAMAGED", damaged)
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "study.yaml").write_text(f"{SMALL}witnesses: {text}\n")
    result = run("lint", str(folder))
    assert result.exit_code == 2
    assert match in " ".join(result.output.split())
    assert f"study.yaml:{len(SMALL.splitlines()) + 1}" in result.output


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_checkpoint_is_stamped_with_a_time(tmp_path: Path) -> None:
    study = _make(tmp_path / "study")
    with serve(make_authority(tmp_path / "tsa")) as authority:
        made = run("checkpoint", "--study", str(study.folder), "--tsa", authority.url)
        assert made.exit_code == 0, made.output
    (token,) = (study.folder / "store" / "checkpoints").rglob("*.tsr")
    (note,) = (study.folder / "store" / "checkpoints").rglob("*.txt")
    assert authority.verifies(note, token), "as a stranger would"
    checked = _verification(study, "--tsa-ca", str(authority.root))
    assert "time-stamp" not in str(checked["unchecked"])
    assert ["time-stamps", 1] in checked["counts"]  # type: ignore[operator]
    assert "no authority's certificate was given" in str(_verification(study)["unchecked"])


def test_a_release_that_is_published_again_has_the_same_checkpoint(
    watched: Study, custodians: dict[str, str]
) -> None:
    anna, records = next(iter(custodians)), len(watched.ledger.entries())
    run("checkpoint", "--study", str(watched.folder))
    _sign(anna, watched)
    built = watched.folder / "release" / "checkpoint.txt"
    first = release_checkpoint(watched, built, LATE)
    assert first.splitlines()[1] == str(records)
    assert "example.org/anna" in first
    record = Release("public", "ab" * 32, 1, "sha256:" + "0" * 64, "folder", "")
    watched.ledger.append(record, LATE)
    assert release_checkpoint(open_study(watched.folder), built, LATE) == first
    _sign([*custodians][1], watched)
    watched.ledger.append(replace(record, count=2), LATE)
    built.parent.mkdir()
    built.write_text(first)
    again = open_study(watched.folder)
    assert release_checkpoint(again, built, LATE) == first, "also after it was killed"
    built.write_text(first.replace(f"\n{records}\n", "\n1\n"))
    assert "\n1\n" not in release_checkpoint(again, built, LATE), "nor what somebody else put there"
