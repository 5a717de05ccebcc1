"""Tests that run in several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import cases
from tests.conftest import ROOT
from tests.progress import wait_until

WAITING = cases(__file__, "waiting")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_first_one(tmp_path: Path, number: int) -> None:
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text(WAITING)
    options = ("-p", "tests.processes", "--processes", "2", f"--rootdir={tmp_path}", "-q")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, str(tmp_path)]
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_until(lambda: len([*tmp_path.glob("test_?.[0-9]*")]) == 2 or first.poll() is not None)
    pids = [int(path.suffix[1:]) for path in tmp_path.glob("test_?.[0-9]*")]
    assert len(pids) == 2
    os.kill(first.pid, number)
    first.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}/cwd").exists() for pid in pids))
