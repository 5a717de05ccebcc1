"""``dosimeter template check``: all errors with exit code 2, warnings with 0, JSON for scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from generators.templates.library import library_text
from study.main import main
from tests.cases import cases

BROKEN = cases(__file__, "broken")


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["template", "check", *arguments])
    return done.exit_code, done.output


def test_the_library_is_checked_by_name() -> None:
    code, output = run("past", "formats")
    assert code == 0, output
    assert "past: 0 errors" in output
    assert "formats: 0 errors" in output
    assert "guessable" in output


def test_a_file_s_errors_are_all_printed(tmp_path: Path) -> None:
    path = tmp_path / "broken.yml"
    path.write_text(BROKEN, encoding="utf-8")
    code, output = run(str(path))
    assert code == 2
    for line, words in cases(__file__, "faults"):
        assert any(f"broken.yml:{line}:" in each and words in each for each in output.splitlines())
    assert "Traceback" not in output


def test_one_broken_file_does_not_hide_the_others(tmp_path: Path) -> None:
    good, missing = tmp_path / "good.yml", tmp_path / "missing.yml"
    good.write_text(library_text("formats"), encoding="utf-8")
    code, output = run(str(missing), str(good), "--json")
    assert code == 2
    absent, present = json.loads(output)
    assert absent["holds"] is False
    assert "No such file" in absent["errors"][0]["what"]
    assert present["holds"] is True
    assert [question["question_id"] for question in present["questions"]] == [
        "301",
        "302",
        "303",
        "304",
    ]


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"tests: " + b"[" * 100_000, b"", b"#" * 4_000_001]
)
def test_what_is_no_template_is_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "odd.yml"
    path.write_bytes(data)
    code, output = run(str(path))
    assert code == 2
    assert output.count("error ") == 1, output
