"""Strata of unequal size: drawn, registered, run, reported and verified as they were planned."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.data.table import weigh_strata
from analysis.power.variance_components import allocation
from registry.provenance import utc_now
from registry.verify.verify import verify_study
from study.extras.reveal.reveal import check_revealed, reveal
from study.protocol.protocol import read_protocol
from study.steps import pipeline
from study.steps.sweep.estimate import planned_episodes
from study.workspace.study import Study
from tests.cases import cases
from tests.conftest import ROOT
from tests.study.cli.program import run
from tests.study.conftest import make_study, run_wave

STUDY = cases(__file__, "study")
SIZES = "{compute_average/hard: 2, compute_average/easy: 4}"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return make_study(tmp_path_factory.mktemp("unequal") / "study", STUDY)


def test_each_stratum_is_split_in_halves_of_its_own_size(study: Study) -> None:
    counts = Counter(f"{each.difficulty} {each.arm}" for each in study.entries())
    assert counts == {"easy public": 4, "easy private": 4, "hard public": 2, "hard private": 2}
    assert [len(runs) for runs in planned_episodes(study.protocol, 0).values()] == [8, 4]
    stratum, public = allocation(study.protocol.registered_plan())
    assert (np.bincount(stratum).tolist(), np.bincount(stratum[public]).tolist()) == (
        [8, 4],
        [4, 2],
    )


def test_a_stratum_without_weight_leaves_with_its_size(study: Study) -> None:
    plan = replace(study.protocol.registered_plan(), seeds_per_arm=(2, 40))
    arms, strata = np.tile(["public", "private"], 42), np.repeat(plan.strata, [4, 80])
    table: Any = {"instance": np.arange(84).astype(str), "stratum": strata, "arm": arms}
    assert weigh_strata(plan, table).sizes == (40,)


def test_its_report_has_no_deviation_and_a_stranger_verifies_it(study: Study) -> None:
    assert run_wave(study).finished == 12
    report, _ = pipeline.report(study)
    assert not [each for each in report.deviations if "were registered" in each]
    assert [(row.owed, row.scored) for row in report.funnel] == [(6, 6), (6, 6)]
    assert verify_study(study.store, study.identities()).holds
    command = [sys.executable, ROOT / "tests/external_check.py", study.folder / "store"]
    subprocess.run(command, check=True)
    _, path = reveal(study, (0,), "over", utc_now)
    assert check_revealed(study, path, lambda *step: None) == (12, ())


@pytest.mark.parametrize(("sizes", "wanted"), cases(__file__, "sizes"))
def test_sizes_that_do_not_fit_are_refused_with_their_line(
    tmp_path: Path, sizes: str, wanted: str
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.replace(SIZES, sizes))
    refused = run("lint", str(tmp_path))
    assert (refused.exit_code, "1 error" in refused.stdout) == (2, True)
    assert "study.yaml:5: seeds_per_arm" in refused.stdout
    assert wanted in refused.stdout


def test_equal_sizes_are_recorded_as_one_number(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.replace("easy: 4", "easy: 2"))
    assert read_protocol(tmp_path).seeds_per_arm == 2
