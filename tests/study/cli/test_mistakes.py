"""Mistakes of a new user: each is refused in one line that names the place and the remedy, before
anything is promised or half written."""

from __future__ import annotations

import fcntl
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from registry.sealing import write_identity
from study.steps import pipeline
from study.steps.init.folder import init_study
from tests.cases import cases
from tests.study.cli.program import run
from tests.study.conftest import draw_tiny, run_wave

# What a user does, in a study of some state, and the words that the line has to say. ``change`` is
# of study.yaml, ``damage`` a function below.
MISTAKES: dict[str, dict[str, Any]] = cases(__file__, "mistakes")


def remove_key(folder: Path) -> None:
    (folder / "keys" / "study.txt").unlink()


def change_key(folder: Path) -> None:
    remove_key(folder)
    write_identity(folder / "keys" / "study.txt")


def make_release(folder: Path) -> None:
    (folder / "release").mkdir()


def alter_ledger(folder: Path) -> None:
    path = folder / "store" / "ledger" / "00000001.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"count":6', b'"count":7'))


LOCKS = []


def sweep_elsewhere(folder: Path) -> None:
    LOCKS.append((folder / ".sweep-0.lock").open("w"))
    fcntl.flock(LOCKS[-1], fcntl.LOCK_EX)


_DAMAGES = remove_key, change_key, make_release, alter_ledger, sweep_elsewhere
DAMAGES = {each.__name__: each for each in _DAMAGES}


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study in each state."""
    place = tmp_path_factory.mktemp("mistakes")
    (place / "none").mkdir()
    init_study(place / "study", cases(__file__, "study"))
    study = pipeline.open_study(place / "study")

    def keep(state: str) -> None:
        shutil.copytree(place / "study", place / state)

    keep("new")
    draw_tiny(study)
    keep("drawn")
    pipeline.register(study)
    keep("registered")
    run_wave(study, 0)
    keep("swept")
    pipeline.publish(study, None, lambda *step: None)
    keep("released")
    return place


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but locks, which are no part of a study."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_with_its_remedy_and_leaves_nothing(
    case: str, studies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake = MISTAKES[case]
    folder = tmp_path / "study"
    shutil.copytree(studies / mistake["state"], folder)
    if "change" in mistake:
        old, new = mistake["change"]
        path = folder / "study.yaml"
        assert path.read_text().count(old) == 1
        path.write_text(path.read_text().replace(old, new))
    if "prices" in mistake:
        (folder / "prices.yaml").write_text(f"prices:\n  - {{{mistake['prices']}}}\n")
    if "damage" in mistake:
        DAMAGES[mistake["damage"]](folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    monkeypatch.setattr("study.printing.LOG_SECONDS", 1e9)  # no progress on a slow machine
    for name, value in mistake.get("variables", {}).items():
        monkeypatch.setenv(name, value)
    before = contents(folder)
    result = run(*shlex.split(mistake["command"]))
    assert result.exit_code == mistake.get("code", 2), result.output
    assert result.stdout == ""
    *notes, line = result.stderr.splitlines()
    assert all(note.startswith("note: ") for note in notes), "notes come before the refusal"
    assert line.startswith("dosimeter: ")
    for word in mistake["words"]:
        assert word in line
    assert contents(folder) == before


def test_a_sweep_too_early_for_a_verdict_is_noted_before_it_is_refused(
    studies: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(studies / "registered", tmp_path / "study")
    note, line = run("sweep", "--wave", "2", "--study", str(folder)).stderr.splitlines()
    assert note.startswith("note: the public arm is not released: paid will get no verdict")
    assert "`dosimeter publish` comes first" in note
    assert line.startswith("dosimeter: ")
