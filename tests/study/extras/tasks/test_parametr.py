"""A task folder of PARAMETR-Bench as its author brings it: written, installed, made, checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from generators.family import PNG_NOTES, png_chunks
from study.main import main
from tests.cases import cases

ROOT = Path(__file__).resolve().parents[4]
SEED = "5e" * 32
FILES = {
    "generate.py": cases(__file__, "generator"),
    "config.json": json.dumps(cases(__file__, "config")),
    "metarubrics.json": json.dumps(cases(__file__, "metarubrics")),
    "prompt.md": cases(__file__, "prompt"),
}


def write_original(folder: Path, **changed: str | None) -> Path:
    folder.mkdir()
    for name, text in (FILES | changed).items():
        if text is not None:
            (folder / name).write_bytes(text.encode())
    return folder


def dosimeter(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    places = f"{folder / 'lab' / 'site'}{os.pathsep}{ROOT}"
    return subprocess.run(
        [sys.executable, "-m", "study.main", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the package ``grain_count`` was written and installed."""
    folder = tmp_path_factory.mktemp("parametr")
    write_original(folder / "original")
    assert dosimeter(folder, "tasks", "new", "grain_count", "--from-parametr", "original").stdout
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--target", "lab/site", "./grain_count"]
    subprocess.run([*pip, *options], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def view(written: Path) -> dict[str, Any]:
    """What ``tasks show`` says of the easy level."""
    shown = dosimeter(written, "tasks", "show", "grain_count/easy", "--json")
    return dict(json.loads(shown.stdout))


def test_the_original_s_files_are_kept_byte_for_byte(written: Path) -> None:
    kept = written / "grain_count" / "src" / "grain_count" / "original"
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == {
        name: text.encode() for name, text in FILES.items()
    }


def test_a_seed_makes_the_same_bytes_twice(written: Path) -> None:
    for out in ("one", "other"):
        task = ("grain_count/hard", "--seed", SEED, "--out", out, "--with-truth")
        assert dosimeter(written, "tasks", "make", *task).stdout.startswith("wrote 10 files")
    one, other = (
        {path.relative_to(written / out): path.read_bytes() for path in files if path.is_file()}
        for out in ("one", "other")
        for files in [list((written / out).rglob("*"))]
    )
    assert one == other
    pictures = [data for path, data in one.items() if path.suffix == ".png"]
    assert len(pictures) == 6
    assert len({len(picture) for picture in pictures}) == 1
    assert not [
        kind for picture in pictures for kind, _ in png_chunks(picture) if kind in PNG_NOTES
    ]
    assert one[Path("inputs/weights.csv")].count(b"\r\n") == 7


def test_the_truth_fills_the_criteria(view: dict[str, Any]) -> None:
    rubric = {each["part"]: each for each in view["rubric"]}
    assert set(rubric) >= {"grains/0", "grains/1", "mean/0", "method/0"}
    assert rubric["grains/1"]["asks"].endswith("grains on plate_1.png?")
    assert (rubric["grains/0"]["weight"], rubric["grains/0"]["dimension"]) == (8.0, "IM")
    assert (rubric["mean/0"]["weight"], rubric["mean/0"]["dimension"]) == (1.0, "SR")
    assert rubric["method/0"]["graded"] == "judge"


def test_the_prompt_asks_for_one_form_of_an_answer(view: dict[str, Any]) -> None:
    assert "final_result" not in view["prompt"]
    assert view["prompt"].count("<answer>") == 1
    assert "COUNTS: [count]" in view["prompt"]
    assert "\\frac{1}{2} mm" in view["prompt"]


def test_the_check_names_what_is_still_to_be_written(written: Path) -> None:
    ended = dosimeter(written, "tasks", "check", "grain_count", "--seeds", "2", "--json")
    assert ended.returncode == 1, ended.stderr
    strata = json.loads(ended.stdout)["strata"]
    assert [stratum["same_elsewhere"] for stratum in strata] == [True] * 3
    problems = "\n".join(strata[0]["problems"])
    assert "the solver meets 0 of 4 parts of grains" in problems
    assert "the solver meets 0 of 2 parts of mean" in problems
    assert "method" not in problems
    assert "write ATTACKERS and NOISY in grain_count/attackers.py" in problems


def test_an_author_s_checks_key_and_solver_are_used(written: Path) -> None:
    """The stubs are filled in as the README says, for one criterion: its complaint is gone."""
    package = written / "lab" / "site" / "grain_count"
    texts = {path: path.read_text() for path in package.glob("*.py")}
    module = texts[package / "__init__.py"]
    module = module.replace(
        "TODO, source='result'", "lambda row: ValueEquals(('mean',), row['mean']), source='result'"
    ).replace(
        'return {"task": NAME}\n',
        'return {"task": NAME, "mean": truth.table("result").column("mean")[0]}\n',
    )
    try:
        (package / "__init__.py").write_text(module)
        ended = dosimeter(written, "tasks", "check", "grain_count", "--seeds", "1", "--json")
    finally:
        for path, text in texts.items():
            path.write_text(text)
    assert ended.returncode == 1, ended.stderr
    assert 0.1 < json.loads(ended.stdout)["strata"][0]["key"] < 0.2  # a ninth, and the form


def test_a_generator_that_fails_is_one_line(written: Path) -> None:
    original = written / "lab" / "site" / "grain_count" / "original" / "generate.py"
    text = original.read_text()
    try:
        original.write_text(text.replace('"grains"]).mean()', '"grians"]).mean()') + "\n1 / 0\n")
        ended = dosimeter(written, "tasks", "check", "grain_count", "--seeds", "1")
    finally:
        original.write_text(text)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].endswith("original: ZeroDivisionError: division by zero")


@pytest.mark.parametrize(("changed", "said"), cases(__file__, "other_forms"))
def test_a_folder_of_another_form_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str | None], said: str
) -> None:
    write_original(tmp_path / "original", **changed)
    monkeypatch.chdir(tmp_path)
    arguments = ["tasks", "new", "grain_count", "--from-parametr", "original"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert said in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["original"]


def test_a_file_that_is_no_text_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (write_original(tmp_path / "original") / "prompt.md").write_bytes(b"\xff\xfe")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["tasks", "new", "grain", "--from-parametr", "original"])
    assert result.exit_code == 2
    assert "prompt.md: 'utf-8' codec" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["original"]
