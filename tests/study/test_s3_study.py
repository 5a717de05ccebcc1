"""The line over S3: the ledger, the seals and every result in a bucket of a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.sweep.worker_process import prepare_ray
from registry.verify import verify_study
from study import pipeline
from study.sweeps.sweep import SweepRequest
from study.workspace.setup import init_study
from tests.study.conftest import draw_tiny

pytestmark = [pytest.mark.s3, pytest.mark.ray]

STUDY = """\
study: in-a-bucket
tasks:
  - {family: compute_average, difficulty: easy}
seeds_per_arm: 3
models:
  honest: {provider: scripted, agent: honest, error_rate: 0.3}
waves:
  - [honest]
plan: {permutations: 199}
sandbox: {kind: local}
"""


def test_a_study_runs_in_a_bucket(tmp_path: Path, seaweedfs: Any) -> None:
    init_study(tmp_path, STUDY + f"store: {seaweedfs.uri('a-study')}\n")
    study = pipeline.open_study(tmp_path)
    draw_tiny(study)
    pipeline.register(study)
    prepare_ray(None)
    request = SweepRequest(0, allow_dirty=True)
    outcome = pipeline.sweep(study, request, lambda progress: None)
    assert outcome.closed is not None
    assert outcome.closed.finished == 6
    assert pipeline.report(study)[0].before_publication
    verification = verify_study(study.store, study.identities())
    assert verification.holds, verification.problems
    assert not (tmp_path / "store").exists()
