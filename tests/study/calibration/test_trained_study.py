"""Models trained on a release, stored as test data: accuracy by dose and arm, and the verdicts.

Made by ``examples/calibration/run.py``; its study's entropy is fixed, so that the draw is the one
that they were trained on. Accuracies are asserted as bands, wide enough for weights that another
machine trained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import yaml

from examples.calibration.run import EXAMPLE
from harness.models.trained import last_logits, load_trained
from publish.leakcheck.check import regenerate
from registry.result_row import Arm
from study import pipeline
from study.calibration.from_training import rows_of
from study.workspace.setup import init_study
from study.workspace.study import Study
from tests.study.conftest import draw_tiny, run_wave

STORED = Path(__file__).resolve().parents[2] / "data/trained"
DOSES = {"dose-00-1": 0, "dose-01-1": 1, "dose-04-1": 4, "dose-16-1": 16}
BYTES = 4_000_000  # of all stored weights
# By dose: least and greatest accuracy on the public arm. 400 instances: SE up to 0.025.
PUBLIC = {0: (0.45, 0.68), 1: (0.53, 0.78), 4: (0.75, 0.97), 16: (0.95, 1.0)}
PRIVATE = (0.4, 0.7)


def digest_of(name: str) -> str:
    return hashlib.sha256((STORED / f"{name}.npz").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The calibration study, drawn, with the stored models in its second wave."""
    folder = tmp_path_factory.mktemp("trained") / "study"
    document = yaml.safe_load(EXAMPLE.read_text())
    document["models"] = {
        name: {
            "provider": "trained",
            "weights": str(STORED / f"{name}.npz"),
            "sha256": digest_of(name),
            "doses": [dose],
        }
        for name, dose in DOSES.items()
    }
    document["waves"] = [["dose-00-1"], ["dose-00-1", "dose-04-1"]]
    init_study(folder, yaml.safe_dump(document, sort_keys=False))
    drawn = pipeline.open_study(folder)
    draw_tiny(drawn)
    return drawn


@pytest.fixture(scope="module")
def arms(study: Study) -> Mapping[Arm, np.ndarray]:
    """The rows of each arm (400, LENGTH + 1): prompts with their answers."""
    rows: dict[Arm, list[np.ndarray]] = {arm: [] for arm in Arm}
    for entry in study.entries():
        instance, key = regenerate(entry, study.protocol.catalog.family)
        files = {each.path: each.data.decode() for each in instance.brief.assets}
        answers = {each["id"]: each["answer"] for each in key["answers"]}
        rows[entry.arm] += rows_of(files, answers)
    return {arm: np.stack(listed) for arm, listed in rows.items()}


def test_the_stored_weights_are_small() -> None:
    assert sum(path.stat().st_size for path in STORED.iterdir()) <= BYTES
    assert sorted(path.stem for path in STORED.glob("*.npz")) == sorted(DOSES)


def test_public_accuracy_rises_with_the_dose_and_private_does_not(
    arms: Mapping[Arm, np.ndarray],
) -> None:
    reached = {}
    for name, dose in DOSES.items():
        weights = load_trained(name, STORED / f"{name}.npz", digest_of(name)).weights
        for arm, rows in arms.items():
            chosen = np.argmax(last_logits(weights, rows[:, :-1])[:, :500], axis=1)
            reached[dose, arm] = float((chosen == rows[:, -1]).mean())
    for dose, (least, greatest) in PUBLIC.items():
        assert least <= reached[dose, Arm.PUBLIC] <= greatest, reached
        assert PRIVATE[0] <= reached[dose, Arm.PRIVATE] <= PRIVATE[1], reached
    assert abs(reached[0, Arm.PUBLIC] - reached[0, Arm.PRIVATE]) < 0.1, reached
    gaps = [reached[dose, Arm.PUBLIC] - reached[dose, Arm.PRIVATE] for dose in sorted(PUBLIC)]
    assert gaps == sorted(gaps), reached


@pytest.mark.slow
def test_the_registered_test_finds_the_dose_and_clears_the_model_without(study: Study) -> None:
    pipeline.register(study, underpowered="a test")
    run_wave(study, 0, parallel=2)
    pipeline.publish(study, None, lambda *step: None)
    run_wave(study, 1, parallel=2)
    report, _ = pipeline.report(study)
    verdicts = {row.model: str(row.verdict) for row in report.verdicts if row.wave == 1}
    assert verdicts["dose-04-1"] == "contaminated"
    assert verdicts["dose-00-1"] != "contaminated"
