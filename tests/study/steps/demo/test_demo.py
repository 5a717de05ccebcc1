"""The main job, as ``make demo`` runs it: killed midway, run again, and right in the end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from registry.verify.verify import verify_study
from study.steps.demo.demo import write_demo
from study.workspace.address import open_study
from tests.progress import Stall, files_of, finish

TESTED = {"variant-1", *(f"{who}-{n}" for who in ("honest", "mild", "strong") for n in (1, 2))}

# No limit by the clock: a wait ends when nothing new is stored.
pytestmark = pytest.mark.timeout(0)
ENGINE = (pytest.mark.slow, pytest.mark.docker)


def start_demo(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "study.main", "demo", "--study", str(folder), "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def results(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "store/results").glob("*/*.cell")}


def kill_with_results(demo: subprocess.Popen[str], folder: Path, least: int) -> None:
    """Kill a running demo, with all that it started, once it has stored this number of results."""
    stall = Stall(files_of(folder))
    while len(results(folder)) < least:
        assert demo.poll() is None, demo.communicate()
        assert not stall.over()
        time.sleep(0.2)
    with demo:  # its pipes are closed, too
        os.killpg(demo.pid, signal.SIGKILL)
    time.sleep(3)  # what the dead driver started ends on its own


@pytest.mark.parametrize("sandbox", ["local", pytest.param("docker", marks=ENGINE)])
def test_a_demo_that_is_killed_resumes_and_loses_nothing(tmp_path: Path, sandbox: str) -> None:
    folder = tmp_path / "demo"
    write_demo(folder, sandbox)
    assert len({path.read_text() for path in (folder / "dressings").iterdir()}) == 20
    text = (folder / "study.yaml").read_text().replace("seeds_per_arm: 1", "seeds_per_arm: 2")
    few = re.sub(r"  - (\w+/(easy|hard)|.* pair: pair-([2-9]|10)})\n", "", text)
    (folder / "study.yaml").write_text(few, encoding="utf-8")
    kill_with_results(start_demo(folder), folder, 12)
    before = results(folder)

    out, err = finish(start_demo(folder), files_of(folder))
    assert out, err
    report: dict[str, Any] = json.loads(out)
    assert {row["model"] for row in report["models"]} == TESTED
    after = results(folder)
    assert len(after) == (4 + 4 + 5) * (2 * 4 + 8)
    assert {name: after[name] for name in before} == before
    check_study(folder)


@pytest.mark.slow
@pytest.mark.docker
def test_the_demo_finds_who_read_and_who_trained(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    out, err = finish(start_demo(folder), files_of(folder))
    assert out, err
    report: dict[str, Any] = json.loads(out)
    verdicts = {row["model"]: row["verdict"] for row in report["models"]}
    assert verdicts.keys() == TESTED
    found = {model for model, verdict in verdicts.items() if verdict == "contaminated"}
    assert found == {"mild-1", "mild-2", "strong-1", "strong-2"}
    assert "withheld" not in verdicts.values()
    trained = {row["model"] for row in report["levels"] if row["finding"] == "shown"}
    assert trained == {"variant-1"}
    assert {(control["kind"], control["state"]) for control in report["controls"]} == {
        ("C1", "uninformative"),  # control models, of 16 instances an arm
        ("C1", "agrees"),  # criteria that need no answer key
        ("C3", "agrees"),
    }
    assert report["monitoring"]["rejected_at"] == 1
    added = {model for model, _, _ in report["changes"]["added"]}
    assert added == {"honest-2", "mild-2", "strong-2", "variant-1"}
    assert any("fixed entropy" in deviation for deviation in report["deviations"])
    assert len(results(folder)) == (4 + 4 + 5) * (6 * 2 + 10 * 4)
    check_study(folder)


def check_study(folder: Path) -> None:
    """The record of the study holds, and its last report is there."""
    study = open_study(folder)
    verification = verify_study(study.store, study.identities())
    assert verification.holds, verification.problems
    assert (folder / "reports" / "wave-2" / "report.html").is_file()
