"""``dosimeter verify`` with checkpoints: written, stamped with a time, and compared."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from registry.checkpoints.checkpoint import sign_checkpoint
from registry.checkpoints.timestamp import stamp_record
from registry.ledger.records import Release
from registry.stores.folder import FolderStore
from study.steps.init.folder import init_study
from study.steps.register.draw import draw_seeds
from study.workspace.address import open_study
from study.workspace.checkpoints import release_checkpoint
from study.workspace.study import Study
from tests.registry.checkpoints.watched import rewritten
from tests.study.cli.program import refusal, run
from tests.study.conftest import SMALL
from tests.tsa import make_authority, serve

NOW, LATE = "2026-11-01T12:00:00Z", "2100-01-01T00:00:00Z"


@pytest.fixture
def drawn(tmp_path: Path) -> Study:
    """A study that is drawn."""
    init_study(tmp_path / "study", SMALL)
    study = open_study(tmp_path / "study")
    draw_seeds(study, lambda *step: None, lambda: NOW)
    return study


def _verify(study: Study, *options: str) -> dict[str, Any]:
    done = run("verify", "--study", str(study.folder), "--json", *options)
    assert done.exit_code == 0, done.output
    body: dict[str, Any] = json.loads(done.stdout)
    return body


def test_a_checkpoint_is_written_once_and_shows_a_ledger_that_was_rewritten(
    drawn: Study, tmp_path: Path
) -> None:
    """The owner signs another ledger, and removes every checkpoint from the store."""
    kept, store = tmp_path / "kept.txt", drawn.folder / "store"
    _verify(drawn, "--checkpoint-out", str(kept))
    assert kept.read_text().splitlines()[1] == str(len(drawn.ledger.entries()))
    assert ["checkpoints", 1] in _verify(drawn, "--checkpoint", str(kept))["counts"]
    here = ("--study", str(drawn.folder))
    assert "kept.txt" in refusal("verify", "--checkpoint-out", str(kept), *here)
    shutil.rmtree(store / "checkpoints")
    shutil.rmtree(store / "ledger")
    forged = rewritten(4, None, drawn.signer())
    for key in forged.list():
        FolderStore(store).put(key, forged.get(key))
    other = tmp_path / "other.txt"
    done = run("verify", "--checkpoint", str(kept), "--checkpoint-out", str(other), *here)
    assert done.exit_code == 3
    assert "one of these was rewritten" in " ".join(done.stdout.split())
    assert not other.exists(), "what does not hold is not signed"
    assert not (store / "checkpoints").exists()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_checkpoint_is_stamped_with_a_time(drawn: Study, tmp_path: Path) -> None:
    with serve(make_authority(tmp_path / "tsa")) as authority:
        stamp_record(drawn.store, drawn.ledger.entries()[-1], authority.url)
    (token,) = (drawn.folder / "store" / "stamps").rglob("*.tsr")
    record = max((drawn.folder / "store" / "ledger").glob("*.json"))
    assert authority.verifies(record, token), "as a stranger would"
    checked = _verify(drawn, "--tsa-ca", str(authority.root))
    assert "no time-stamp" not in str(checked["unchecked"])
    assert ["records under time-stamps", len(drawn.ledger.entries())] in checked["counts"]
    assert "not signed by an authority known here" in str(_verify(drawn)["unchecked"])


def test_a_release_that_is_published_again_has_the_same_checkpoint(drawn: Study) -> None:
    records, built = len(drawn.ledger.entries()), drawn.folder / "release" / "checkpoint.txt"
    first = release_checkpoint(drawn, built)
    assert first.splitlines()[1] == str(records)
    record = Release("public", "ab" * 32, 1, "sha256:" + "0" * 64, "folder", "")
    drawn.ledger.append(record, LATE)
    assert release_checkpoint(open_study(drawn.folder), built) == first
    drawn.ledger.append(replace(record, count=2), LATE)
    longer = sign_checkpoint(drawn.ledger.entries(), drawn.signer()).note.decode()
    built.parent.mkdir()
    built.write_text(longer)
    again = open_study(drawn.folder)
    assert release_checkpoint(again, built) == longer, "also after it was killed"
    built.write_text(longer.replace(f"\n{records + 2}\n", "\n1\n"))
    assert release_checkpoint(again, built) == first, "nor what somebody else put there"
