"""What `tasks check` prints."""

from __future__ import annotations

import dataclasses
import json

import pytest
from click.testing import CliRunner, Result

from generators.basics.compute_average import FAMILY
from generators.validation.result import Survey
from generators.validation.validate import validate
from study.extras.tasks.command import print_survey
from study.main import main


@pytest.fixture(scope="module")
def found() -> Survey:
    return Survey((validate(FAMILY, "easy", 2), validate(FAMILY, "hard", 1)), ())


def test_problems_are_named(found: Survey, capsys: pytest.CaptureFixture[str]) -> None:
    easy, *others = found.strata
    poor = dataclasses.replace(easy, solver=0.5, leaks=("values of <a.b> stand in the inputs",))
    bad = Survey((poor, *others), ("one and another share 3 ids, files or values",))
    print_survey(bad, as_json=False)
    shown = capsys.readouterr().out
    assert "out of bounds compute_average@3/easy: the solver scores 0.500, below 0.98" in shown
    assert "values of <a.b>" in shown
    assert "share 3 ids" in shown


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["tasks", "check", "compute_average", *arguments])


def test_the_command_prints_json() -> None:
    result = check("--seeds", "1", "--json")
    assert result.exit_code == 0
    body = json.loads(result.stdout)
    assert body["holds"]
    assert [each["difficulty"] for each in body["strata"]] == ["easy", "medium", "hard"]
    assert body["strata"][0]["criteria"][2]["metarubric"] == "found_numbers"
