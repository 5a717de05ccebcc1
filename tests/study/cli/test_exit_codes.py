"""The exit codes of docs/reference/cli.md, each by the commands that end with it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from harness.errors import (
    AttemptFailed,
    Boundary,
    CoordinatorLost,
    HarnessError,
    WorkersLost,
    WorkStopped,
)
from publish.errors import PublishError
from registry.errors import BrokenPromise, RegistryError, StoreError
from study.cli.main import main
from study.cli.output import Exit
from study.errors import StudyError, WorkOwedError
from study.workspace.setup import init_study
from tests.study.conftest import SMALLNESS

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "cli.md"
STUDY = """\
study: codes
tasks: [{family: compute_average, difficulty: easy}]
seeds_per_arm: 2
models:
  honest: {provider: scripted, agent: honest, error_rate: 0.3}
waves: [[honest]]
plan: {permutations: 199}
sandbox: {kind: local}
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    init_study(tmp_path / "study", STUDY)
    return tmp_path / "study"


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name)


def test_the_reference_lists_every_code() -> None:
    listed = re.findall(r"^\| (\d+) \|", REFERENCE.read_text(encoding="utf-8"), re.M)
    assert [int(code) for code in listed] == sorted(Exit)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StudyError("bad"), 2),
        (HarnessError("no engine"), 2),
        (RegistryError("no key"), 2),
        (StoreError("full"), 2),
        (PublishError("no token"), 2),
        (PermissionError(13, "Permission denied", "/x"), 2),
        (WorkOwedError("budget"), 1),
        (AttemptFailed(Boundary.PROVIDER, "auth"), 1),
        (CoordinatorLost("gone"), 1),
        (WorkersLost("died"), 1),
        (WorkStopped("over"), 1),
        (BrokenPromise("digest"), 3),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("command", list(leaves(main)), ids=" ".join)
def test_every_command_ends_with_the_code_of_its_error(
    command: tuple[str, ...],
    error: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group: click.Command = main
    for name in command:
        assert isinstance(group, click.Group)
        group = group.commands[name]

    def fail(*given: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(group, "callback", fail)
    monkeypatch.setattr(group, "params", [])
    result = run(*command)
    assert result.exit_code == code
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr


@pytest.mark.parametrize("command", list(leaves(main)), ids=" ".join)
def test_an_unknown_option_is_bad_input_everywhere(command: tuple[str, ...]) -> None:
    assert run(*command, "--no-such-option").exit_code == 2
    assert run(*command, "--help").exit_code == 0


def test_done_twice_is_done(folder: Path) -> None:
    for _ in range(2):
        assert run("draw", "--study", str(folder), "--underpowered", SMALLNESS).exit_code == 0


def test_a_step_too_early_is_bad_input(folder: Path) -> None:
    assert run("register", "--study", str(folder)).exit_code == 2


def test_an_altered_object_is_a_failed_integrity_check(folder: Path) -> None:
    assert run("draw", "--study", str(folder), "--underpowered", SMALLNESS).exit_code == 0
    assert run("verify", "--study", str(folder)).exit_code == 0
    sealed = next((folder / "store" / "sealed").glob("*.age"))
    sealed.chmod(0o644)
    sealed.write_bytes(sealed.read_bytes()[:-1] + b"!")
    result = run("verify", "--study", str(folder), "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["problems"]


def test_a_study_that_differs_from_the_draw_is_a_failed_integrity_check(folder: Path) -> None:
    assert run("draw", "--study", str(folder), "--underpowered", SMALLNESS).exit_code == 0
    (folder / "study.yaml").write_text(STUDY.replace("seeds_per_arm: 2", "seeds_per_arm: 3"))
    assert run("draw", "--study", str(folder), "--underpowered", SMALLNESS).exit_code == 3


def test_an_interrupted_command_ends_with_130(folder: Path) -> None:
    (folder / "study.yaml").write_text(STUDY.replace("arm: 2", "arm: 200000"))
    command = [
        sys.executable,
        "-m",
        "study.cli.main",
        "draw",
        "--study",
        str(folder),
        "--underpowered",
        SMALLNESS,
    ]
    started = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (maps := loaded(started.pid)) and time.monotonic() < deadline:
        assert started.poll() is None
        time.sleep(0.05)
    assert maps
    time.sleep(1)
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=120)
    assert started.returncode == 130, err
    assert "run the same command again" in err


def loaded(process: int) -> bool:
    """Whether a process has got as far as numerical libraries, well past its start."""
    try:
        return "pyrage" in Path(f"/proc/{process}/maps").read_text(encoding="utf-8")
    except OSError:
        return False


def test_a_reader_that_leaves_is_no_error_of_ours() -> None:
    command = f"{sys.executable} -m study.cli.main tasks list | head -1"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=100, env=os.environ
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("Task families")
