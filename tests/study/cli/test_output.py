"""Tables on narrow terminals and in pipes: no cell is cut off."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness.spending.budget import Account
from study.main import main
from study.printing import print_records
from study.steps.report.command import print_verdicts
from study.steps.sweep.accounts import print_accounts
from tests.cases import cases
from tests.study.cli.program import commands, on_terminal, run_process

ROWS, CELLS = cases(__file__, "rows"), cases(__file__, "cells")
DRY = cases(__file__, "dry")
PIPE = {"COLUMNS": "60", "TERM": "xterm"}  # of a dumb terminal, rich assumes 80 columns


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_no_model_and_no_number_is_cut_off_on_a_terminal(width: int) -> None:
    text = on_terminal(width, lambda: print_records(ROWS, title="What wave 0 still owes"))
    assert "What wave 0 still owes" in text
    for number in range(3):
        assert f"a-model-with-a-long-name-{number}" in text
    for cell in CELLS:
        assert text.count(cell) == 3 * sum(cell in str(v) for v in ROWS[0].values()), (cell, text)
    assert max(map(len, text.splitlines())) <= width, "the terminal would wrap lines itself"


def test_a_narrow_terminal_gets_lines_of_name_and_value() -> None:
    text = on_terminal(50, lambda: print_records(ROWS[:1]))
    assert text.splitlines()[0] == "model a-model-with-a-long-name-0"
    assert "  USD: 1.00 … 2.00" in text.splitlines()


def test_a_pipe_gets_every_row_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{**row, "text": "a long sentence, " * 20 + "its end"} for row in ROWS]
    print_records(rows, title="Long")
    lines = [line for line in capsys.readouterr().out.splitlines() if "a-model" in line]
    assert len(lines) == 3
    for line in lines:
        assert line.rstrip().endswith("its end")
        assert re.search(r"1,000,000 … 2,000,000 .*100,000 … 200,000 .*1234567", line)


@pytest.mark.parametrize("words", cases(__file__, "narrow pipe"))
def test_a_narrow_pipe_gets_whole_lines(words: str, demo_study: Path) -> None:
    place = ["--study", str(demo_study)]
    printed = run_process(*words.split(), *place, environment=PIPE).stdout.decode()
    assert [line for line in cases(__file__, "narrow pipe")[words] if line not in printed] == []


def test_verdicts_in_a_narrow_pipe_are_whole_lines(
    demo_study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in PIPE.items():
        monkeypatch.setenv(name, value)
    body = json.loads((demo_study / "reports/wave-1/report.json").read_text(encoding="utf-8"))
    print_verdicts(body, demo_study, as_json=False)
    printed = capsys.readouterr().out
    assert [line for line in cases(__file__, "verdicts") if line not in printed] == []


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_records([], title="Waves")
    assert capsys.readouterr().out == "Waves\nnone\n"


def test_a_budget_names_its_units(capsys: pytest.CaptureFixture[str]) -> None:
    print_accounts([Account("run", Decimal(10), Decimal("2.5"), Decimal(0), 1)])
    head, row = (line.split("  ") for line in capsys.readouterr().out.splitlines()[2:5:2])
    assert [word.strip() for word in head if word.strip()] == [
        *("limit", "limit, USD", "spent, USD", "left, USD", "replies of unknown cost")
    ]
    assert " ".join(row).split() == ["run", "10.00", "2.5000", "7.5000", "1"]


def test_help_shows_every_default() -> None:
    """Of each option that may be left out: a value, or words for one that is computed."""
    silent = []
    for path, command in commands():
        context = click.Context(
            command, info_name=path[-1], parent=click.Context(main, show_default=True)
        )
        for option in command.params:
            if not isinstance(option, click.Option) or option.is_flag or option.required:
                continue
            record = option.get_help_record(context)
            assert record is not None
            if "default:" not in record[1] and "Default:" not in record[1] and not option.multiple:
                silent.append((*path, option.name))
    assert silent == []


def test_a_dry_run_prints_each_request_whole(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(DRY)
    place = ["--study", str(tmp_path)]
    shown = CliRunner().invoke(main, ["sweep", "--wave", "0", "--dry-run", *place]).stdout
    whole = CliRunner().invoke(main, ["sweep", "--wave", "0", "--dry-run", "--json", *place]).stdout
    requests = json.loads(whole)["requests"]
    assert len(requests) == 4
    for request in requests:
        assert f"{request['stratum']} for {request['model']}" in shown
        for message in request["messages"]:
            assert message["text"] in shown
    for once in ("Run a Python 3 program", "temperature: 0.5"):
        assert shown.count(once) == (4 if "Python" in once else 2), once
