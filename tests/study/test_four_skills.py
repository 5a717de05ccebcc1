"""The study of examples/four_skills: all families, agents of four skills, from draw to verdict."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import pytest

from generators.catalog import INSTALLED
from registry.result_row import GRADER, Status
from registry.verify.verify import verify_study
from study.api import open_study

pytestmark = [pytest.mark.docker, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/four_skills/study.yaml"
TESTED = {"after-1", "after-2", "after-3", "after-4", "reader"}


@pytest.fixture
def addresses() -> Iterator[list[str]]:
    program = [sys.executable, "-m", "examples.four_skills.server", "--port", "0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout is not None
        try:
            yield [server.stdout.readline().strip() for _ in range(4)]
        finally:
            server.terminate()


def commands() -> list[str]:
    """The commands in the example's head, but those before the study's folder is entered."""
    head = re.findall(r"^#   (.*)$", EXAMPLE.read_text(encoding="utf-8"), re.M)
    assert head[1].endswith("cd skills")
    return head[2:]


@pytest.mark.timeout(1500)
def test_a_study_of_all_families_and_four_skills_runs_from_draw_to_verdict(
    tmp_path: Path, addresses: list[str]
) -> None:
    folder = tmp_path / "skills"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}

    def run(command: str) -> None:
        command = command.replace("sweep", "sweep --allow-dirty")  # the tests' tree may be
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    folder.mkdir()
    run("dosimeter init")
    text = EXAMPLE.read_text(encoding="utf-8")
    for skill, address in enumerate(addresses):
        text = text.replace(f"http://127.0.0.1:{8781 + skill}", address)
    (folder / "study.yaml").write_text(text, encoding="utf-8")
    for command in commands():
        run(command)

    view = open_study(folder)
    families = {family.name for family in INSTALLED.families()}
    results = view.results()
    rows = results[results["grader"] == GRADER].to_dict("records")
    assert len(rows) == len(families) * 4 * (4 + 5)
    assert {row["status"] for row in rows} == {Status.SCORED}
    for model in (*TESTED, *(f"before-{n}" for n in range(1, 5))):
        assert {row["family"] for row in rows if row["model"] == model} == families
    for when in ("before", "after"):
        means = [
            fmean(row["score"] for row in rows if row["model"] == f"{when}-{skill}")
            for skill in range(1, 5)
        ]
        assert means == sorted(means, reverse=True), (when, means)
        assert means[0] - means[3] > 0.3, (when, means)

    verdicts = view.verdicts().set_index("model")["verdict"].to_dict()
    assert verdicts.keys() == TESTED
    assert verdicts["reader"] == "contaminated"
    assert "contaminated" not in {verdicts[name] for name in TESTED - {"reader"}}
    page = folder / "reports/wave-1/report.html"
    body = json.loads(page.with_name("report.json").read_text())
    assert [(row["model"], row["finding"]) for row in body["markers"]] == [("reader", "exposed")]
    shown = page.read_text(encoding="utf-8")
    assert all(family in shown for family in families)
    verification = verify_study(view.study.store, view.study.identities())
    assert verification.holds, verification.problems
