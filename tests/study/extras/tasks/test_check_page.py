"""What `tasks check` prints and the page it writes."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from generators.basics.compute_average import FAMILY
from generators.validation.result import Survey
from generators.validation.validate import validate
from study.errors import StudyError
from study.extras.tasks.check_page import render_page, write_page
from study.extras.tasks.command import print_survey
from study.main import main


@pytest.fixture(scope="module")
def found() -> Survey:
    return Survey((validate(FAMILY, "easy", 2), validate(FAMILY, "hard", 1)), ())


class Balanced(HTMLParser):
    """Raises for an element that is not closed."""

    void = frozenset({"meta", "!doctype"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        """An element of SVG that closes itself."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_shows_every_metarubric_guess_and_bound(found: Survey) -> None:
    page = render_page(found)
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    for name in ("found_numbers", "computed_average", "noisy key", "Every bound holds"):
        assert name in page
    assert page.count("<svg") == 2
    assert page.count("stroke: var(--contaminated)") == 2  # the bounds
    assert "found_numbers, easy: 36/36." in page


def test_the_page_loads_nothing_and_runs_nothing(found: Survey) -> None:
    assert not re.search(r'<script|src=|href="[^#]|url\([^#]|@import', render_page(found))


def test_problems_are_named_on_page_and_screen(
    found: Survey, capsys: pytest.CaptureFixture[str]
) -> None:
    easy, *others = found.strata
    poor = dataclasses.replace(easy, solver=0.5, leaks=("values of <a.b> stand in the inputs",))
    bad = Survey((poor, *others), ("one and another share 3 ids, files or values",))
    page = render_page(bad)
    assert "3 out of bounds" in page
    assert "values of &lt;a.b&gt;" in page
    print_survey(bad, as_json=False)
    shown = capsys.readouterr().out
    assert "out of bounds compute_average@3/easy: the solver scores 0.500, below 0.98" in shown
    assert "share 3 ids" in shown


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["tasks", "check", "compute_average", *arguments])


def test_the_command_writes_page_and_json(tmp_path: Path) -> None:
    page = tmp_path / "check.html"
    result = check("--seeds", "1", "--page", str(page), "--json")
    assert result.exit_code == 0
    body = json.loads(result.stdout)
    assert body["holds"]
    assert [each["difficulty"] for each in body["strata"]] == ["easy", "medium", "hard"]
    assert body["strata"][0]["criteria"][2]["metarubric"] == "found_numbers"
    assert "compute_average" in page.read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_is_one_clear_error(found: Survey, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="give a file that you may write"):
        write_page(found, tmp_path / "no" / "page.html")
