"""A study with a data set of reasoning-gym, from its file to its verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.lint.later_refusals import UNSOLVED, unproved_tasks
from study.steps.verify.verify import VerifyRequest
from tests.study.conftest import SINGLE, promise_unchecked, run_wave

STUDY = SINGLE.replace("{family: compute_average, difficulty: easy}", "rg:spell_backward/default")


def nobody(what: str, done: int, of: int) -> None:
    """Watch no progress."""


def test_a_study_of_a_data_set_ends_with_a_verdict(tmp_path: Path) -> None:
    init_study(tmp_path, STUDY)
    study = pipeline.open_study(tmp_path)
    assert [task.stratum for task in study.protocol.tasks] == ["rg_spell_backward/default"]
    unproved = dict(unproved_tasks(study.protocol, nobody))
    assert unproved == {"rg_spell_backward@0.1.25": (UNSOLVED,)}
    promise_unchecked(study)
    run_wave(study, 0)
    pipeline.publish(study, None, nobody)
    run_wave(study, 1)
    report, _ = pipeline.report(study)
    spiked = {verdict.model: verdict for verdict in report.verdicts}["spiked"]
    # It has read the release, and there is no program for the rest.
    assert spiked.estimate == pytest.approx(1.0)
    assert pipeline.verify(study, VerifyRequest(), nobody).holds
