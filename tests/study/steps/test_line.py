"""The whole line of a study in the local sandbox, from its file to what is checked."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from registry.provenance import utc_now
from study import catalogue
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.register.draw import draw_seeds
from study.steps.verify.verify import VerifyRequest
from study.workspace.setup import register_plan
from tests.study.conftest import SMALL, run_wave


def test_a_study_goes_from_its_file_to_a_verified_report(tmp_path: Path) -> None:
    init_study(tmp_path, SMALL.replace("seeds_per_arm: 6", "seeds_per_arm: 4"))
    study = pipeline.open_study(tmp_path)
    draw_seeds(study, lambda what, done, of: None, utc_now)
    register_plan(study, lambda what, done, of: None, utc_now())
    run_wave(study, 0)
    pipeline.publish(study, None, lambda what, done, of: None)
    run_wave(study, 1)
    report, page = pipeline.report(study)
    assert page.is_file()
    assert {verdict.model for verdict in report.verdicts} == {"honest", "spiked"}
    held = pipeline.verify(study, VerifyRequest(), lambda what, done, of: None)
    assert held.holds, held
    assert all(row["state"] == "done" for row in pipeline.status(study))


def test_the_program_lists_what_is_there() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for command in catalogue.commands():
        assert f"  {command.name} " in result.output
        assert callable(catalogue.load(command.target))


def test_a_file_is_checked(tmp_path: Path) -> None:
    init_study(tmp_path, SMALL)
    result = CliRunner().invoke(main, ["lint", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    assert [row for row in json.loads(result.stdout) if row["level"] == "error"] == []
