"""Tables on narrow terminals and in pipes: no cell is cut off."""

from __future__ import annotations

import json
import os
import pty
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness.spending import Account
from harness.sweep import ModelProgress, Progress
from harness.sweep.governor import WaitReason
from study.cli.main import main
from study.cli.output import print_accounts, print_records, sweep_watch
from tests.study.cli.program import commands

ROWS = [
    {
        "model": f"a-model-with-a-long-name-{number}",
        "basis": "12 pilots",
        "input tokens": "1,000,000 … 2,000,000",
        "output tokens": "100,000 … 200,000",
        "USD": "1.00 … 2.00",
        "episodes": 1234567,
        "notes": ["a sentence that goes on for a while", "and another one"],
    }
    for number in range(3)
]
CELLS = ["1,000,000", "2,000,000", "100,000", "200,000", "1.00", "2.00", "1234567", "another", "12"]


def on_terminal(width: int, show: Callable[[], None]) -> str:
    """The output of a function in a process of its own, on a terminal of a width."""
    process, terminal = pty.fork()
    if process == 0:
        try:
            os.environ.update(COLUMNS=str(width), NO_COLOR="1", TERM="xterm")
            sys.stdout = os.fdopen(1, "w", encoding="utf-8")
            sys.__stdout__ = sys.stdout
            show()
            sys.stdout.flush()
        finally:
            os._exit(0)
    written = b""
    try:
        while part := os.read(terminal, 1 << 16):
            written += part
    except OSError:  # how the end of a terminal is reported
        pass
    os.waitpid(process, 0)
    os.close(terminal)
    return re.sub(r"\x1b\[\d*m", "", written.decode().replace("\r", ""))


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


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_records([], title="Waves")
    assert capsys.readouterr().out == "Waves\nnone\n"


def test_a_budget_names_its_units(capsys: pytest.CaptureFixture[str]) -> None:
    print_accounts([Account("run", Decimal(10), Decimal("2.5"), Decimal(0), 1)])
    head, row = (line.split("  ") for line in capsys.readouterr().out.splitlines()[2:5:2])
    assert [word.strip() for word in head if word.strip()] == [
        *("limit", "limit, USD", "spent, USD", "left, USD", "replies of unknown cost")
    ]
    assert [word.strip() for word in row if word.strip()] == [
        "run",
        "10.00",
        "2.5000",
        "7.5000",
        "1",
    ]


@pytest.mark.parametrize("as_json", [True, False])
def test_progress_is_not_shown_beside_json(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("study.cli.output.LOG_SECONDS", 0.0)
    command = click.Command("sweep")
    with click.Context(command) as context:
        context.params["as_json"] = as_json
        with sweep_watch("wave 3") as watch:
            watch.begin("starting Ray")
            watch(Progress(9, 4, 0, 5, 0, (), failing=(("gone", "provider:connection", 2),)))
            watch.count("closing: reading receipts", 1, 2)
            watch.count("closing: listing objects", 27, 0)
    shown = [
        "wave 3: starting Ray",
        "wave 3 failed attempts: 2 of gone: 4 of 9",
        "wave 3: closing: reading receipts: 1 of 2",
        "wave 3: closing: listing objects: 27",
    ]
    assert capsys.readouterr().err.splitlines() == ([] if as_json else shown)


def test_models_that_wait_are_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("study.cli.output.LOG_SECONDS", 0.0)
    models = (
        ModelProgress("a", 1, 9, WaitReason.OUTAGE, "provider:overload", 41.6),
        ModelProgress("b", 3, 9, WaitReason.NOTHING),
        ModelProgress("c", 0, 9, WaitReason.STOPPED, "provider:auth"),
        ModelProgress("d", 2, 9, WaitReason.LIMIT, "provider:rate_limit"),
    )
    with sweep_watch("wave 3") as watch:
        watch(Progress(99, 4, 6, 36, 0, (), models=models))
    assert capsys.readouterr().err == (
        "wave 3 a waits (overload), next try in 42 s; c is stopped (its key is refused); "
        "d is slowed down to 2 at once: 4 of 99\n"
    )


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


def test_a_dry_run_prints_once_what_strata_share(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(DRY)
    place = ["--study", str(tmp_path)]
    shown = CliRunner().invoke(main, ["sweep", "--wave", "0", "--dry-run", *place]).stdout
    whole = CliRunner().invoke(main, ["sweep", "--wave", "0", "--dry-run", "--json", *place]).stdout
    requests = json.loads(whole)["requests"]
    assert len(requests) == 4
    for request in requests:
        for message in request["messages"]:
            for part in message["text"].split("\n\n"):
                assert part in shown, "nothing is lost"
    for once in ("You are working on a task", "You have 10 turns", "Run a Python 3 program", "0.5"):
        at = [line for line in shown.splitlines() if once in line]
        assert len(at) == len(set(at)), once
    assert shown.count("You are working on a task on your own") == 1
    for stratum in ("compute_average/easy", "count_circles/easy"):
        assert f"{stratum} for one" in shown


DRY = """\
study: dry
tasks: [compute_average/easy, count_circles/easy]
seeds_per_arm: 2
models:
  one: {provider: openai, base_url: "http://h/v1", model: m, api_key_env: "", temperature: 0.5}
  two: {provider: openai, base_url: "http://h/v1", model: m, api_key_env: "", tools: text}
waves: [[one, two]]
sandbox: {kind: local}
"""
