"""The line over S3: the ledger, the seals and every result in a bucket of a real server; and a
machine that has the bucket's address and the operator's key alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from registry.verify.verify import verify_study
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.sweep.sweep import SweepRequest
from tests.study.cli.program import refusal, run
from tests.study.conftest import TINY, make_study, run_wave

pytestmark = pytest.mark.s3

STUDY = TINY.replace("arm: 2", "arm: 3")


def test_a_study_runs_in_a_bucket(tmp_path: Path, seaweedfs: Any) -> None:
    study = make_study(tmp_path, STUDY + f"store: {seaweedfs.uri('a-study')}\n")
    outcome = pipeline.sweep(study, SweepRequest(0, allow_dirty=True), lambda progress: None)
    assert outcome.closed is not None
    assert outcome.closed.finished == 6
    assert pipeline.report(study)[0].before_publication
    verification = verify_study(study.store, study.identities())
    assert verification.holds, verification.problems
    assert not (tmp_path / "store").exists()


def test_a_store_moves_to_a_bucket_and_back(tmp_path: Path, seaweedfs: Any) -> None:
    study, bucket, back = (
        make_study(tmp_path / "study", STUDY),
        seaweedfs.uri("moved"),
        tmp_path / "b",
    )
    copied = run("store", "copy", str(study.folder / "store"), bucket)
    assert copied.exit_code == 0, copied.output
    (study.folder / "store").rename(tmp_path / "old")
    path = study.folder / "study.yaml"
    path.write_text(f"{path.read_text()}store: {bucket}\n")
    moved = pipeline.open_study(study.folder)
    pipeline.register(moved)  # records the new address
    run_wave(moved)
    for place in (back, back):  # the second finds all there
        assert run("store", "copy", bucket, str(place)).exit_code == 0
    path.write_text(path.read_text().replace(bucket, str(back)))
    home = pipeline.open_study(study.folder)
    assert verify_study(home.store, home.identities()).holds
    assert [key for key in home.store.list() if home.store.get(key) != moved.store.get(key)] == []
    other = make_study(tmp_path / "other", STUDY)
    assert "has a ledger of its own" in refusal(
        "store", "copy", str(other.folder / "store"), bucket
    )


def test_a_wave_runs_by_the_address_of_a_bucket_and_the_operators_key(
    tmp_path: Path, seaweedfs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, address = tmp_path / "study", seaweedfs.uri("by-address")
    init_study(tmp_path / "keys-of", STUDY)
    made = run("keys", "new", "--operator", "--study", str(tmp_path / "keys-of"))
    shutil.copytree(tmp_path / "keys-of" / "keys", folder / "keys")
    make_study(folder, f"{STUDY}store: {address}\n{made.stdout}")
    shutil.move(folder / "keys/operator.txt", tmp_path / "operator.txt")
    shutil.rmtree(folder)
    shutil.rmtree(tmp_path / "keys-of")
    assert "DOSIMETER_OPERATOR_KEY_FILE" in refusal("status", "--study", address)
    monkeypatch.setenv("DOSIMETER_OPERATOR_KEY_FILE", str(tmp_path / "operator.txt"))
    there = ("--study", address)
    swept = run("sweep", *there, "--wave", "0", "--allow-dirty", "--json")
    assert swept.exit_code == 0, swept.output
    assert json.loads(swept.stdout)["closed"]["finished"] == 6
    closed = run("wave", "close", "0", *there)
    assert closed.exit_code == 0, closed.output
    (row,) = json.loads(run("wave", "list", *there, "--json").stdout)
    assert (row["state"], row["scored"]) == ("closed", 6)
    for command in ("status", "log", "verify"):
        done = run(command, *there)
        assert done.exit_code == 0, done.output
    assert "there is no ledger" in refusal("status", "--study", seaweedfs.uri("nothing"))
    elsewhere = address.replace(seaweedfs.bucket, "no-such-bucket")
    assert "no such bucket" in refusal("status", "--study", elsewhere)
