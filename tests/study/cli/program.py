"""The program as tests run it: in this process, or in one of its own."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping

import click
from click.testing import CliRunner, Result

from study.main import main
from study.workspace.study import Study

PROGRAM = (sys.executable, "-m", "study.main")
SECONDS = 200.0  # of a process, at most


def run(*arguments: str) -> Result:
    """Run the program in this process."""
    return CliRunner().invoke(main, list(arguments))


def run_in(study: Study, *arguments: str) -> Result:
    """Run the program on a study, in this process."""
    return run(*arguments, "--study", str(study.folder))


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


def walk(
    group: click.Group = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The words of each group and command, with it."""
    yield path, group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from walk(command, (*path, name))
        else:
            yield (*path, name), command


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The words of each command, with it; a group that does something by itself is one."""
    return ((p, c) for p, c in walk() if p and getattr(c, "invoke_without_command", True))


def on_terminal(width: int, show: Callable[[], None]) -> str:
    """The output of a function in a process of its own, on a terminal of a width."""
    process, terminal = pty.fork()
    if process == 0:
        try:
            os.environ.update(COLUMNS=str(width), NO_COLOR="1", TERM="xterm")
            sys.stdout = os.fdopen(1, "w", encoding="utf-8")
            sys.stderr = os.fdopen(2, "w", encoding="utf-8")
            sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
            show()
            sys.stdout.flush()
            sys.stderr.flush()
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
