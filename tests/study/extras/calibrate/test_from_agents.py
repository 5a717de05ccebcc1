"""`dosimeter calibrate --run`: agents of its own go through a whole study."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.verify.verify import verify_study
from study.workspace.address import open_study
from tests.study.conftest import make_study
from tests.study.extras.calibrate.test_from_scores import TINY, json_of


@pytest.mark.ray
@pytest.mark.slow
def test_agents_that_know_a_part_go_through_the_pipeline(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", TINY.replace("0.6", "1.0"))
    head = study.ledger.entries()
    found = json_of(study.folder, "--run", "--doses", "1")
    rates = {each["dose"]: (each["replicates"], each["gap"]) for each in found["doses"]}
    assert rates[1.0][1] > rates[0.0][1]
    assert found["doses"][1]["detected"] == 1  # all known: full marks against none
    assert (found["how"], found["alpha"]) == ("run", 0.025)
    assert any(note.startswith("Each agent is tested alone") for note in found["notes"])
    (scratch,) = (study.folder / "calibration").glob("scratch-*")
    held = open_study(scratch)
    assert verify_study(held.store, held.identities(), None).holds
    assert held.key_file.read_text() != study.key_file.read_text()
    assert {e.seed for e in held.entries()}.isdisjoint(e.seed for e in study.entries())
    (kept,) = study.ledger.entries()[len(head) :]
    assert (kept.kind, kept.record.how, kept.record.wave) == ("calibrated", "run", None)
    again = json_of(study.folder, "--run", "--doses", "1")  # nothing is left to run
    assert again == found
    assert study.ledger.entries()[len(head) :] == (kept,)
