"""The whole line of a study in the local sandbox, from its file to what is checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from registry.provenance import utc_now
from study import catalogue
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.register.draw import draw_seeds
from study.steps.verify.verify import VerifyRequest
from study.workspace.setup import register_plan
from study.workspace.study import Study
from tests.study.conftest import SMALL, run_wave


def nobody(what: str, done: int, of: int) -> None:
    """Watch no progress."""


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study of two instances an arm, as far as its report: drawn, registered, run, released."""
    folder = tmp_path_factory.mktemp("line")
    init_study(folder, SMALL.replace("seeds_per_arm: 6", "seeds_per_arm: 2"))
    study = pipeline.open_study(folder)
    draw_seeds(study, nobody, utc_now)
    register_plan(study, nobody, utc_now())
    run_wave(study, 0)
    pipeline.publish(study, None, nobody)
    run_wave(study, 1)
    return study


class TestLine:
    """The whole line, which takes half a minute."""

    def test_every_promise_of_a_study_holds(self, released: Study) -> None:
        held = pipeline.verify(released, VerifyRequest(), nobody)
        assert held.holds, held
        states = {row["step"]: row["state"] for row in pipeline.status(released)}
        assert [step for step, state in states.items() if state != "done"] == ["report"]

    def test_it_ends_with_a_report(self, released: Study) -> None:
        report, page = pipeline.report(released)
        assert page.is_file()
        assert {verdict.model for verdict in report.verdicts} == {"honest", "spiked"}


def test_the_program_lists_what_is_there() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for command in catalogue.commands():
        assert f"  {command.name} " in result.output
        assert callable(catalogue.load(command.target))
    for extra in catalogue.EXTRAS:
        assert all(callable(catalogue.load(target)) for target in extra.targets())


def test_a_file_is_checked(tmp_path: Path) -> None:
    init_study(tmp_path, SMALL)
    result = CliRunner().invoke(main, ["lint", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    assert [row for row in json.loads(result.stdout) if row["level"] == "error"] == []
