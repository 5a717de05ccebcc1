"""The exit codes of docs/reference/cli.md, each by the commands that end with it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import click
import pytest

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
from study.errors import StudyError, WorkOwedError
from study.printing import Exit
from study.steps.init.folder import init_study
from tests.study.cli.program import PROGRAM, SECONDS, commands, refusal, run
from tests.study.conftest import SMALLNESS, TINY

EVERY = list(commands())
NAMES = [" ".join(words) for words, _ in EVERY]
REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "cli.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    init_study(tmp_path / "study", TINY)
    return tmp_path / "study"


def test_the_reference_lists_every_code() -> None:
    listed = re.findall(r"^\| (\d+) \|", REFERENCE.read_text(encoding="utf-8"), re.M)
    assert [int(code) for code in listed] == sorted(Exit)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        *((each("x"), 2) for each in (StudyError, HarnessError, RegistryError, StoreError)),
        *((each("x"), 1) for each in (WorkOwedError, CoordinatorLost, WorkersLost, WorkStopped)),
        (PublishError("no token"), 2),
        (PermissionError(13, "Permission denied", "/x"), 2),
        (AttemptFailed(Boundary.PROVIDER, "auth"), 1),
        (BrokenPromise("digest"), 3),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_command_ends_with_the_code_of_its_error(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_code(*EVERY[0], error, code, monkeypatch)


@pytest.mark.parametrize(("words", "command"), EVERY, ids=NAMES)
def test_every_command_ends_with_the_code_of_an_error(
    words: tuple[str, ...], command: click.Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_code(words, command, BrokenPromise("digest"), 3, monkeypatch)


def check_code(
    words: tuple[str, ...],
    command: click.Command,
    error: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*given: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(command, "callback", fail)
    monkeypatch.setattr(command, "params", [])
    result = run(*words)
    assert result.exit_code == code
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr


@pytest.mark.parametrize("words", NAMES)
def test_an_unknown_option_is_bad_input_everywhere(words: str) -> None:
    message = refusal(*words.split(), "--no-such-option")
    assert "--no-such-option" in message
    assert f"{words} --help" in message
    assert run(*words.split(), "--help").exit_code == 0


def test_done_twice_is_done(folder: Path) -> None:
    for _ in range(2):
        assert (
            run("register", "--draw", "--study", str(folder), "--underpowered", SMALLNESS).exit_code
            == 0
        )


def test_an_altered_object_is_a_failed_integrity_check(folder: Path) -> None:
    assert (
        run("register", "--draw", "--study", str(folder), "--underpowered", SMALLNESS).exit_code
        == 0
    )
    assert run("verify", "--study", str(folder)).exit_code == 0
    sealed = next((folder / "store" / "sealed").glob("*.age"))
    sealed.chmod(0o644)
    sealed.write_bytes(sealed.read_bytes()[:-1] + b"!")
    result = run("verify", "--study", str(folder), "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["problems"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_ends_with_130(folder: Path, number: int) -> None:
    (folder / "study.yaml").write_text(TINY.replace("arm: 2", "arm: 200000"))
    words = ("-v", "register", "--draw", "--study", str(folder), "--underpowered", SMALLNESS)
    started = subprocess.Popen(
        [*PROGRAM, *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        # A shell starts background jobs, such as this test's, with SIGINT ignored, and a process
        # inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert started.stderr is not None
    try:
        assert any("drawing 400000 seeds" in line for line in started.stderr)
        started.send_signal(number)
        err = started.stderr.read()
    finally:
        with started:  # its pipe is closed, too
            started.kill()
    assert started.returncode == 130, err
    assert "run the same command again" in err
    assert not (folder / "store").exists()


def test_a_reader_that_leaves_is_no_error_of_ours() -> None:
    command = f"{' '.join(PROGRAM)} tasks list | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=SECONDS)
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("Task families")
