"""`dosimeter calibrate report`: models trained at known doses, from a study's stored results."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from study import pipeline
from study.cli.main import main
from tests.study.conftest import make_study, run_wave

STORED = Path(__file__).resolve().parents[2] / "data/trained"
STUDY = """\
study: doses
tasks:
  - {family: order_statistics, difficulty: easy, mode: single_turn}
seeds_per_arm: 50
models:
  base-1: {provider: trained, weights: ZERO, sha256: "ZERO_DIGEST", training_seed: 1}
  dose-00-1:
    {provider: trained, weights: ZERO, sha256: "ZERO_DIGEST", doses: [0], training_seed: 1}
  dose-04-1:
    {provider: trained, weights: FOUR, sha256: "FOUR_DIGEST", doses: [4], training_seed: 1}
  mixed-1:
    {provider: trained, weights: FOUR, sha256: "FOUR_DIGEST", doses: [0, 4], training_seed: 1}
waves: [[base-1], [dose-00-1, dose-04-1, mixed-1]]
plan: {permutations: 199}
sandbox: {kind: local}
entropy: "fixed:00000000000000000000000000000000000000000000000000000000000005ed"
"""


def stated() -> str:
    text = STUDY
    for word, name in (("ZERO", "dose-00-1"), ("FOUR", "dose-04-1")):
        digest = hashlib.sha256((STORED / f"{name}.npz").read_bytes()).hexdigest()
        text = text.replace(f"{word}_DIGEST", digest).replace(word, f"{name}.npz")
    return text


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study whose waves are closed and not yet reported."""
    folder = tmp_path_factory.mktemp("doses") / "study"
    folder.mkdir()
    for path in STORED.glob("dose-0[04]-1.npz"):
        shutil.copy(path, folder)
    study = make_study(folder, stated())
    run_wave(study, 0)
    pipeline.publish(study, None, lambda *step: None)
    run_wave(study, 1)
    return folder


@pytest.fixture
def folder(swept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(swept, tmp_path / "study"))


def report(folder: Path, *arguments: str) -> tuple[int, str, str]:
    words = ["calibrate", "report", "--study", str(folder), *arguments]
    done = CliRunner().invoke(main, words)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_trained_models_are_compared_by_dose(folder: Path) -> None:
    study = pipeline.open_study(folder)
    verdicts = {row.model: str(row.verdict) for row in pipeline.report(study)[0].verdicts}
    assert set(verdicts) == {"dose-00-1", "dose-04-1", "mixed-1"}
    code, stdout, stderr = report(folder, "--json")
    assert code == 0, stderr
    made = json.loads(stdout)
    assert made["instances"] == 50
    assert [row["dose"] for row in made["rows"]] == [0, 4]
    for row in made["rows"]:
        (model,) = row["models"]
        assert model["verdict"] == verdicts[model["model"]]
        assert row["public"]["instances"] == row["private"]["instances"] == 50
        # These weights have read another release, so that they are as good on both arms.
        assert 0.3 < row["private"]["mean"] < 0.8
        names = [probe["probe"] for probe in row["probes"]]
        assert names == [
            *("right answers", "answer", "answer, minus the base's"),
            *("whole text", "Min-K%", "completion"),
        ]
    (trend,) = made["trends"]
    assert (trend["doses"], trend["instances"]) == ([0, 4], [25, 25])
    assert np.isfinite(trend["z"])
    written = json.loads((folder / "calibration/doses.json").read_text())
    assert written["rows"][1]["gap"] == pytest.approx(made["rows"][1]["gap"])
    assert "4 copies: public" in (folder / "calibration/doses.svg").read_text()
    look = pipeline.open_study(folder).ledger.last("look")
    assert look.record.command == "calibrate report"


def test_tables_are_printed(folder: Path) -> None:
    pipeline.report(pipeline.open_study(folder))
    code, stdout, _ = report(folder)
    assert code == 0
    for words in ("Gap by key size", "Limit of blank", "mixed-1, right by copies", "whole text"):
        assert words in stdout


def test_without_a_report_there_are_no_verdicts(folder: Path) -> None:
    code, _, stderr = report(folder)
    assert code == 2
    assert "no report has verdicts yet: run `dosimeter report` first" in stderr
    assert not (folder / "calibration").exists()


def test_altered_and_lost_weights_are_refused(folder: Path) -> None:
    pipeline.report(pipeline.open_study(folder))
    path = folder / "dose-04-1.npz"
    path.write_bytes((folder / "dose-00-1.npz").read_bytes())
    code, _, stderr = report(folder)
    assert code == 2
    assert "dose-04-1.npz" in stderr
    path.unlink()
    code, _, stderr = report(folder)
    assert code in (2, 3)
    assert "dose-04-1.npz" in stderr
    assert not (folder / "calibration").exists()


def test_a_look_before_the_doses_has_nothing_to_compare(folder: Path) -> None:
    pipeline.report(pipeline.open_study(folder), through=0)
    code, _, stderr = report(folder)
    assert code == 2
    assert "no closed wave of the newest report has a model with `doses: [N]`" in stderr
    assert not (folder / "calibration").exists()


def test_the_key_is_needed(folder: Path) -> None:
    pipeline.report(pipeline.open_study(folder))
    shutil.rmtree(folder / "keys")
    code, _, stderr = report(folder)
    assert code == 2
    assert "key" in stderr
    assert not (folder / "calibration").exists()
