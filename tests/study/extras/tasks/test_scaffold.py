"""A new family as its author meets it: written, installed by pip, checked by the command line."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from study.errors import StudyError
from study.extras.tasks.scaffold import new_task
from tests.cases import cases

ROOT = Path(__file__).resolve().parents[4]
GUIDE = ROOT / "docs" / "writing-a-task.md"
PARTS = "draw_sample write_table make_truth make_key make_rubric make_nulls draw"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the guide's commands were run one after the other, as they stand there,
    but for where pip installs to; ``check.json`` is what `tasks check` says."""
    folder = tmp_path_factory.mktemp("guide")
    for line in guide_commands():
        command = shlex.split(line)
        if command[0] == "pip":
            command = [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--no-deps", "--no-build-isolation", "--target", "site", command[-1]),
            ]
        elif command[0] == "pytest":
            command = [sys.executable, "-m", *command, "-p", "no:cacheprovider"]
        else:
            assert command[0] == "dosimeter"
            as_json = ["--json"] if "check" in command else []
            command = [sys.executable, "-m", "study.main", *command[1:], *as_json]
        ended = run(folder, *command)
        assert ended.returncode == 0, f"{line}\n{ended.stdout}\n{ended.stderr}"
        if "--json" in command:
            (folder / "check.json").write_text(ended.stdout)
    return folder


def guide_commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    lines = [line.split(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{folder / 'site'}{os.pathsep}{ROOT}"}


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False
    )


def dosimeter(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(folder, sys.executable, "-m", "study.main", *arguments)


def test_the_guide_holds_from_the_first_command_to_the_last(written: Path) -> None:
    commands = [shlex.split(line)[:3] for line in guide_commands()]
    assert ["dosimeter", "tasks", "new"] in commands
    assert ["dosimeter", "tasks", "check"] in commands
    assert any(command[0] == "pip" for command in commands)


def test_the_guide_shows_the_parts_as_they_are(written: Path) -> None:
    """Every Python block stands, line for line, in the files that the guide had written."""
    source = "".join(path.read_text() for path in sorted(written.rglob("src/*/*.py")))
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    assert blocks
    for block in blocks:
        assert block.strip() in source, block


def test_it_has_the_parts_of_every_family_in_their_order(written: Path) -> None:
    family = next(written.rglob("src/*/__init__.py"))
    package = family.parent
    assert {path.stem for path in package.glob("*.py")} == {"__init__", "attackers", "solver"}
    functions = re.findall(r"^def ([a-z]\w*)", family.read_text(), re.M)
    assert " ".join(functions) == PARTS
    assert not re.search("new_task|NewTask", "".join(p.read_text() for p in package.glob("*.py")))


def test_installed_it_is_listed_shown_and_made_like_any_other(written: Path) -> None:
    listed = json.loads(dosimeter(written, "tasks", "list", "--json").stdout)
    assert "lucky_sums" in {each["name"] for each in listed}
    assert "readings.csv" in dosimeter(written, "tasks", "show", "lucky_sums").stdout
    made = dosimeter(
        written, "tasks", "make", "lucky_sums", "--seed", "5e" * 32, "--out", "made", "--with-truth"
    )
    assert made.returncode == 0
    answer = json.loads((written / "made" / "truth.json").read_text())["answer"]
    assert answer["task"] == "lucky_sums"


def test_its_readers_that_err_are_ordered_and_its_shortcuts_do_not_pay(written: Path) -> None:
    strata = json.loads((written / "check.json").read_text())["strata"]
    easy = [solver["mean"] for solver in strata[0]["noisy_solvers"]]
    assert easy == pytest.approx([0.9, 0.7, 0.5, 0.3], abs=0.1)
    for stratum in strata:
        means = [solver["mean"] for solver in stratum["noisy_solvers"]]
        assert means == sorted(means, reverse=True)
        attacks = {attack["name"]: attack["mean"] for attack in stratum["attacks"]}
        assert attacks["file size"] < 0.15 < attacks["all readings averaged"] < 0.5


def test_a_family_that_breaks_promises_exits_with_1(written: Path) -> None:
    """The guide's own family, with a key that forgets a reading, and without attackers."""
    family = written / "site" / "lucky_sums"
    key = 'list(truth.table("bad").column("id"))'
    texts = {family / name: (family / name).read_text() for name in ("__init__.py", "attackers.py")}
    truth, attackers = texts
    assert key in texts[truth]
    truth.write_text(texts[truth].replace(key, f"{key}[1:]"))
    attackers.write_text(texts[attackers].split("ATTACKERS =")[0])
    try:
        ended = dosimeter(written, "tasks", "check", "lucky_sums", "--seeds", "1", "--json")
    finally:
        for path, text in texts.items():
            path.write_text(text)
    assert ended.returncode == 1
    found = json.loads(ended.stdout)
    assert not found["holds"]
    for stratum in found["strata"]:
        problems = stratum["problems"]
        assert any("the key scores" in line for line in problems)
        assert (
            "the family has no attackers or no noisy solvers: write ATTACKERS and NOISY in "
            "lucky_sums/attackers.py"
        ) in problems


@pytest.mark.parametrize(("name", "said"), cases(__file__, "bad_names"))
def test_a_name_that_no_family_may_have_is_refused(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        new_task(name, tmp_path / "new")
    assert not list(tmp_path.iterdir())


def test_it_never_writes_over_a_folder(tmp_path: Path) -> None:
    (tmp_path / "lucky_sums").mkdir()
    with pytest.raises(StudyError, match="is there already"):
        new_task("lucky_sums", tmp_path / "lucky_sums")
    assert not list((tmp_path / "lucky_sums").iterdir())


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="give a folder that you may write"):
        new_task("lucky_sums", tmp_path / "file" / "new")
