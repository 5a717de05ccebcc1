"""Chosen questions of a template file, and previews of their samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from study.errors import StudyError
from study.main import main
from study.protocol.protocol import read_protocol
from tests.cases import cases

SEED = "0" * 63 + "7"
TEMPLATE = cases(__file__, "template")


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yml"
    path.write_text(TEMPLATE)
    return path


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def prepared(template: Path, out: Path, *options: str) -> Result:
    return command("template", "prepare", template, "--seed", SEED, "--out", out, *options)


def test_a_bad_question_does_not_block_the_others(template: Path, tmp_path: Path) -> None:
    done = prepared(template, tmp_path / "out", "--questions", "sums,greet")
    assert done.exit_code == 0, done.output
    trees = {path.name for path in (tmp_path / "out/sandbox").iterdir()}
    assert trees == {"qgreet_s1", "qgreet_s2", "qsums-rows-5_s1", "qsums-rows-50_s1"}


@pytest.mark.parametrize(("options", "words"), cases(__file__, "refused"))
def test_a_question_that_is_not_right_is_refused(
    template: Path, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    done = prepared(template, tmp_path / "out", *options)
    assert (done.exit_code, words in done.output) == (2, True), done.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yml"]


def test_a_check_of_chosen_questions_reports_these(template: Path) -> None:
    whole = command("template", "check", template, "--json")
    assert whole.exit_code == 2
    (report,) = json.loads(whole.output)
    proved = {question["question_id"]: question["proved"] for question in report["questions"]}
    assert proved == {"greet": True, "bad": False, "sums-rows-5": True, "sums-rows-50": True}
    chosen = command("template", "check", template, "--questions", "greet,sums", "--json")
    assert chosen.exit_code == 0, chosen.output
    (report,) = json.loads(chosen.output)
    assert [each["question_id"] for each in report["questions"]] == cases(__file__, "chosen")
    unknown = command("template", "check", template, "--questions", "gret")
    assert unknown.exit_code == 2
    assert "no question 'gret'; did you mean 'greet'?" in unknown.output


def test_a_study_may_name_the_right_questions_of_a_file(template: Path, tmp_path: Path) -> None:
    text = cases(__file__, "study")
    (tmp_path / "study.yaml").write_text(text % "greet, sums")
    assert [task.difficulty for task in read_protocol(tmp_path).tasks] == cases(__file__, "tasks")
    (tmp_path / "study.yaml").write_text(text % "bad")
    with pytest.raises(StudyError, match=r"mine.yml:8: tests\[1\].samples: "):
        read_protocol(tmp_path)


def test_a_preview_shows_question_tree_and_key(template: Path) -> None:
    done = command("template", "preview", template, "--question", "sums-rows-5", "--json")
    assert done.exit_code == 0, done.output
    sample = json.loads(done.output)
    (file,) = sample["files"]
    lines = file["content"].splitlines()
    assert lines[:2] == ["sales: 5 rows", "ID | AMOUNT"]
    amounts = [int(line.split(" | ")[1]) for line in lines[2:]]
    assert sample["expected"] == str(sum(amounts))
    assert file["path"] in sample["prompt"]
    shown = command("template", "preview", template, "--question", "sums-rows-5").output
    for text in (sample["prompt"], *lines, sample["expected"], "key, by stringmatch"):
        assert text in shown


def test_a_long_file_is_cut() -> None:
    assert "…" in command("template", "preview", "past", "--question", "201").output.splitlines()
    assert command("template", "preview", "past", "--question", "1").exit_code == 2


def test_a_preview_sends_a_terminal_no_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text(TEMPLATE.split("- question_id: bad")[0].replace("Say", "Say \\e[2J"))
    assert "\x1b" not in command("template", "preview", path).output


def test_a_template_is_shown_among_tasks() -> None:
    done = command("tasks", "show", "past/201", "--json")
    assert done.exit_code == 0, done.output
    view = json.loads(done.output)
    assert (view["name"], view["difficulty"]) == ("past", "201")
    assert "notes.txt" in view["prompt"]
    assert json.loads(command("tasks", "show", "past", "--json").output)["difficulty"] == "101"
    assert "no question '9'" in command("tasks", "show", "past/9").output
