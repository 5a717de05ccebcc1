"""Strata of unequal size: drawn, registered, run, reported and verified as they were planned."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from analysis.power.variance_components import allocation
from registry.verify.verify import verify_study
from study.protocol.protocol import read_protocol
from study.steps import pipeline
from study.steps.sweep.estimate import planned_episodes
from study.workspace.study import Study
from tests.conftest import ROOT
from tests.study.cli.program import run
from tests.study.conftest import TINY, make_study, run_wave

EASY, HARD = "compute_average/easy", "compute_average/hard"
STUDY = TINY.replace("seeds_per_arm: 2", f"seeds_per_arm: {{{HARD}: 2, {EASY}: 4}}").replace(
    "seeds_per_arm:", "  - {family: compute_average, difficulty: hard}\nseeds_per_arm:"
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return make_study(tmp_path_factory.mktemp("unequal") / "study", STUDY)


def test_each_stratum_is_split_in_halves_of_its_own_size(study: Study) -> None:
    counts = Counter((f"{e.family}/{e.difficulty}", str(e.arm)) for e in study.entries())
    halves = {(EASY, arm): 4 for arm in ("public", "private")}
    assert counts == halves | {(HARD, arm): 2 for arm in ("public", "private")}
    assert {name: len(runs) for name, runs in planned_episodes(study.protocol, 0).items()} == {
        EASY: 8,
        HARD: 4,
    }
    stratum, public = allocation(study.protocol.registered_plan())
    assert np.bincount(stratum).tolist() == [8, 4]
    assert np.bincount(stratum[public]).tolist() == [4, 2]


def test_its_report_has_no_deviation_and_a_stranger_verifies_it(study: Study) -> None:
    assert run_wave(study).finished == 12
    report, _ = pipeline.report(study)
    assert not [each for each in report.deviations if "were registered" in each]
    assert [(row.owed, row.scored) for row in report.funnel] == [(6, 6), (6, 6)]
    assert verify_study(study.store, study.identities()).holds
    checker = [sys.executable, str(ROOT / "tests/external_check.py"), str(study.folder / "store")]
    done = subprocess.run(checker, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        (f"{{{EASY}: 4}}", f"'{HARD}' stands here or in `tasks` only"),
        (f"{{{EASY}: 4, {HARD}: 2, other/easy: 2}}", "'other/easy' stands here or in `tasks` only"),
        (f"{{{EASY}: 0, {HARD}: 2}}", "a number from 1 on is right"),
        ("many", "'many': a whole number is right"),
        ("[4, 2]", "a whole number is right"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_their_line(
    tmp_path: Path, sizes: str, wanted: str
) -> None:
    text = STUDY.replace(f"{{{HARD}: 2, {EASY}: 4}}", sizes)
    (tmp_path / "study.yaml").write_text(text)
    (line,) = [n for n, row in enumerate(text.splitlines(), 1) if row.startswith("seeds_per_arm")]
    refused = run("lint", str(tmp_path))
    assert refused.exit_code == 2
    assert wanted in refused.stdout
    assert f"study.yaml:{line}: seeds_per_arm" in refused.stdout
    assert "1 error" in refused.stdout


def test_equal_sizes_are_recorded_as_one_number(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.replace(f"{EASY}: 4", f"{EASY}: 2"))
    assert read_protocol(tmp_path).seeds_per_arm == 2
