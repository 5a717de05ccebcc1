"""Snapshots of help and of tables on a terminal.

If you change wording on purpose, write them again and review the difference:

    pytest tests/study/cli/test_snapshots.py --snapshot-update
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from syrupy.assertion import SnapshotAssertion

from study.main import main

WIDTH = 100


def every_command(group: click.Group, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each command and group, the program itself first."""
    yield names
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_command(command, (*names, name))
        else:
            yield (*names, name)


def run(*arguments: str) -> str:
    """The output of a command on a terminal of fixed width."""
    runner = CliRunner(env={"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"})
    result = runner.invoke(
        main, arguments, prog_name="dosimeter", terminal_width=WIDTH, catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    "words", list(every_command(main)), ids=lambda words: " ".join(words) or "dosimeter"
)
def test_help(words: tuple[str, ...], snapshot: SnapshotAssertion) -> None:
    assert run(*words, "--help") == snapshot


@pytest.fixture(scope="module")
def folder(stored_demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the stored demo study, for commands that only read."""
    copy = tmp_path_factory.mktemp("tables") / "demo-study"
    shutil.copytree(stored_demo, copy)
    return copy


@pytest.mark.parametrize(
    "words",
    [("status",), ("wave", "list"), ("log",), ("show", "--wave", "2", "--model", "mild-2")],
    ids=" ".join,
)
def test_tables_of_a_study(
    words: tuple[str, ...], folder: Path, snapshot: SnapshotAssertion
) -> None:
    output = run(*words, "--study", str(folder))
    assert re.sub(r"\S*/demo-study", "DEMO", output) == snapshot


def test_the_table_of_families(snapshot: SnapshotAssertion) -> None:
    assert run("tasks", "list") == snapshot
