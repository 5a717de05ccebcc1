"""The program as tests run it: in this process, or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

import click
from click.testing import CliRunner, Result

from study.cli.main import main

PROGRAM = (sys.executable, "-m", "study.cli.main")
SECONDS = 200.0  # of a process, at most


def run(*arguments: str) -> Result:
    """Run the program in this process."""
    return CliRunner().invoke(main, list(arguments))


def refusal(*arguments: str, code: int = 2) -> str:
    """The one line that a refused command prints, beside notes."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    lines = [x for x in result.stderr.strip().splitlines() if not x.startswith("note: ")]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("dosimeter: ")
    return lines[0]


def run_process(
    *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the program in a process of its own, in the environment of this one without its locale,
    and what is given of another."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}
    return subprocess.run(
        [*PROGRAM, *arguments],
        capture_output=True,
        env=inherited | dict(environment or {}),
        timeout=SECONDS,
    )


def commands(
    group: click.Group = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The words of each command, with the command."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command
