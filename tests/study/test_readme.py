"""The README's walk-through, run as it stands: its commands in a shell, its edit in $EDITOR, and a
local server of the OpenAI protocol as the model, which has read the release."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.models.scripted import HASH_FILES, Memory, load_memory
from study.steps import pipeline
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, Served, completion, serve

pytestmark = [pytest.mark.docker]

ROOT = Path(__file__).resolve().parents[2]
MOST_COMMANDS = 6  # `dosimeter init` among them
SMALL = 4  # instances in each arm of each stratum, for a gap of 60 points; init writes more
_EDITOR = cases(__file__, "editor")


def walk_through() -> str:
    """The commands of the README's section on a study of one's own."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("## A study of your own", 1)[1]
    found = re.search(r"```sh\n(.*?)```", section, re.S)
    assert found is not None
    return found[1]


def is_dirty() -> bool:
    return bool(subprocess.check_output(["git", "status", "--porcelain"], cwd=ROOT))


class Reader:
    """A model that knows the published answers by heart and solves nothing."""

    def __init__(self, release: Path) -> None:
        self.release = release
        self.memory: Memory | None = None

    def play(self, request: Json) -> Answer:
        """Look at the digests of the files, and answer if they are released ones."""
        seen = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        if not seen:
            return completion(None, [("look", "run_command", {"command": HASH_FILES})])
        if self.memory is None:
            self.memory = load_memory(self.release)
        answer = self.memory.recall(re.findall(r"\b[0-9a-f]{64}\b", seen[0]))
        return completion(f"<answer>\n{json.dumps(answer or {})}\n</answer>")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[tuple[Path, Served]]:
    """A folder with the virtual environment that the README activates, and the running server."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "editor.py").write_text(_EDITOR, encoding="utf-8")
    with serve(always=Reader(tmp_path / "my-study" / "release").play) as served:
        yield tmp_path, served


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seeds", [SMALL, None])
def test_the_walk_through_ends_with_a_verdict(desk: tuple[Path, Served], seeds: int | None) -> None:
    folder, served = desk
    script = walk_through()
    steps = re.findall(r"^dosimeter (\w+)", script, re.M)
    assert steps[0] == "init"
    assert len(steps) <= MOST_COMMANDS
    if is_dirty():  # a tree in which somebody works is refused, as the README states
        script = re.sub(r"^(dosimeter sweep.*?)(\s+#)", r"\1 --allow-dirty\2", script, flags=re.M)
    environment = os.environ | {
        "EDITOR": f"{sys.executable} {folder / 'editor.py'}",
        "PYTHONPATH": str(ROOT),
        "SERVER_URL": served.url,
        "SMALL": "" if seeds is None else str(seeds),
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    study = pipeline.open_study(folder / "my-study")
    assert study.ledger.find("report")
    (page,) = (folder / "my-study" / "reports").glob("*/report.json")
    verdicts = {row["model"]: row["verdict"] for row in json.loads(page.read_text())["models"]}
    assert verdicts["my-model"] == "contaminated", verdicts
    assert served.faults == []
