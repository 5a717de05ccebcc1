"""Every command of the page for PICARD users runs, in the page's order, in one folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import yaml

from examples.agent_server.server import Agent, make_server
from generators.templates.library import library_text
from harness.models.scripted import HonestAgent
from tests.harness.chat_server import running
from tests.study.cli.program import run

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/migrating-from-picard.md").read_text()
COMMANDS = re.findall(r"`dosimeter ([^`]+)`", PAGE)
SAMPLES = "samples: 20"


@contextmanager
def moved_tree(folder: Path) -> Iterator[None]:
    """A run whose tree was in /home/me/sandbox, and lies in ``moved`` now."""
    key = folder / "precheck.jsonl"
    before = key.read_text()
    here = str((folder / "sandbox").resolve())
    assert here in before
    key.write_text(before.replace(here, "/home/me/sandbox"))
    (folder / "sandbox").rename("moved")
    assert run("template", "score", str(folder)).exit_code == 1, "its files are not found"
    yield
    Path("moved").rename(folder / "sandbox")
    key.write_text(before)


def test_every_command_runs_in_the_order_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yml").write_text(library_text("past").replace(SAMPLES, "samples: 1"))
    Path("picard/src").mkdir(parents=True)
    Path("picard/config").mkdir()
    Path("picard/config/entity_pool.txt").write_text("quokka\nnumbat\n")
    Path("picard/src/data_generator.py").write_text('CITIES = ["Oakville", "Elmton"]\n')
    model = HonestAgent("honest", 0.0)
    assert len(COMMANDS) >= 8
    with running(make_server(Agent(lambda temperature, tokens: model))) as url:
        for command in COMMANDS:
            words = command.replace("URL", url).replace("SEED", "5" * 64).split()
            with moved_tree(Path("run")) if "--remap" in words else nullcontext():
                result = run(*words)
            assert result.exit_code == 0, (command, result.output)
    for folder in ("run", "shared-run"):
        assert json.loads(Path(folder, "scores.json").read_text())["metadata"][
            "correct_answers"
        ] == len(Path(folder, "precheck.jsonl").read_text().splitlines())
    assert len(yaml.safe_load(Path("for-picard/config/mine.yml").read_text())["tests"]) == 10
    assert "quokka" in Path("picard-values.yml").read_text()
    assert len(list(Path("prepared/sandbox").iterdir())) == 10
    assert list(Path("tables").glob("*.csv"))
