"""``dosimeter init``: what it asks, what it writes, and that it leaves no half of a study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from generators.task import DIFFICULTIES
from harness.spending.prices import read_prices
from study.errors import StudyError
from study.extras.guided import questions as guided
from study.extras.power.target_power import find_power
from study.main import main
from study.protocol.schema import study_schema
from study.steps import pipeline
from study.steps.init.folder import create_study, init_study
from study.steps.init.new_study import NewStudy
from study.steps.register.gate import check_ready
from tests.cases import cases

TODAY = "2026-11-22T10:00:00Z"
ANSWERS = {  # one a question, in their order
    "Tasks": "hubble_constant/easy, compute_average/hard",
    "Waves of models": "3",
    "Gap": "40",
    "Budget": "12.5",
}


def run(*arguments: str, answers: Sequence[str] | None = None) -> Result:
    text = None if answers is None else "".join(f"{answer}\n" for answer in answers)
    return CliRunner().invoke(main, ["init", *arguments], input=text)


def answers_before(question: str) -> list[str]:
    """The answers to the questions before this one."""
    names = list(ANSWERS)
    return list(ANSWERS.values())[: names.index(question)]


def test_without_questions_it_writes_a_study_of_two_waves(tmp_path: Path) -> None:
    done = run(str(tmp_path / "new"))
    assert done.exit_code == 0, done.output
    protocol = pipeline.open_study(tmp_path / "new").protocol
    plan = protocol.registered_plan()
    assert (protocol.name, plan.name, len(protocol.waves)) == ("new", "standard-v1", 2)
    assert plan.standard is not None
    assert plan.standard.pre_exposure == protocol.waves[0]
    assert len(protocol.waves[0]) == 4
    assert [protocol.replicates_of(name) for name in ("before-1", "my-model")] == [2, 1]
    assert protocol.waves[1] == ("my-model",)
    assert protocol.budget is not None
    assert protocol.budget.run == 50
    prices = read_prices(tmp_path / "new" / "prices.yaml")
    assert prices.of("openai", "whatever") is not None
    assert (tmp_path / "new" / "keys" / "study.txt").stat().st_mode & 0o777 == 0o600


def test_editors_find_the_schema_by_the_first_line(tmp_path: Path) -> None:
    run(str(tmp_path))
    first = (tmp_path / "study.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=study.schema.json"
    written = (tmp_path / "study.schema.json").read_text(encoding="utf-8")
    assert json.loads(written) == study_schema()


def test_the_answers_are_in_the_study(tmp_path: Path) -> None:
    folder = tmp_path / "asked"
    done = run(str(folder), "--guided", answers=[*ANSWERS.values(), "y"])
    assert done.exit_code == 0, done.output
    for question in ANSWERS:
        assert question in done.stdout
    protocol = pipeline.open_study(folder).protocol
    assert [(task.family, task.difficulty) for task in protocol.tasks] == [
        ("hubble_constant", "easy"),
        ("compute_average", "hard"),
    ]
    assert protocol.waves == (tuple(f"before-{n}" for n in range(1, 5)), ("my-model",))
    plan = protocol.registered_plan()
    assert (plan.looks, plan.target_gap) == (3, 0.4)
    assert protocol.budget is not None
    assert protocol.budget.run == 12.5
    assert f"{protocol.seeds_per_arm} instances in each arm of 2 strata" in done.stdout


@pytest.mark.parametrize(
    ("question", "wrong", "remedy"), cases(__file__, "a wrong answer is asked for again")
)
def test_a_wrong_answer_is_asked_for_again(
    tmp_path: Path, question: str, wrong: str, remedy: str
) -> None:
    done = run(str(tmp_path / "new"), "--guided", answers=[*answers_before(question), wrong])
    assert remedy in done.stdout
    assert done.stdout.count(question) >= 2
    assert done.exit_code == 130
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("answers", [[], list(ANSWERS.values())[:2], [*ANSWERS.values(), "n"]])
def test_a_stop_at_any_question_leaves_nothing(tmp_path: Path, answers: list[str]) -> None:
    done = run(str(tmp_path / "new"), "--guided", answers=answers)
    assert done.exit_code == 130
    assert "nothing was written" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["study.yaml", "prices.yaml", "study.schema.json"])
def test_an_existing_file_is_never_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    done = run(str(tmp_path), "--guided", "--yes")
    assert done.exit_code == 2
    assert "there already" in done.stderr
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_yes_without_questions_is_refused(tmp_path: Path) -> None:
    done = run(str(tmp_path / "new"), "--yes")
    assert (done.exit_code, "--guided" in done.stderr) == (2, True)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, StudyError])
def test_whatever_stops_the_writing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    def fail(folder: Path, name: str) -> None:
        assert {path.name for path in folder.iterdir()} > {"keys", "prices.yaml"}
        raise stop

    monkeypatch.setattr("study.steps.init.folder.read_protocol", fail)
    with pytest.raises(stop):
        init_study(tmp_path / "deep" / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_was_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "study.txt").write_text("AGE-SECRET-KEY-1")
    (tmp_path / ".gitignore").write_text("mine\n")
    monkeypatch.setattr("study.steps.init.folder.read_protocol", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        init_study(tmp_path)
    assert (tmp_path / "keys" / "study.txt").read_text() == "AGE-SECRET-KEY-1"
    assert not (tmp_path / "prices.yaml").exists()


def test_a_gap_beyond_reach_is_refused() -> None:
    with pytest.raises(StudyError, match="larger target gap"):
        guided.size_study(NewStudy(gap=0.001), TODAY, lambda *_: None)


@pytest.mark.parametrize(
    "new",
    [
        NewStudy(),
        NewStudy(gap=0.15, looks=4),
        NewStudy(gap=0.2, tasks=("compute_average/easy",)),
        NewStudy(gap=0.3, looks=8, tasks=tuple(f"count_circles/{d}" for d in DIFFICULTIES)),
    ],
)
def test_a_study_of_the_computed_size_passes_the_check_of_a_draw(
    tmp_path: Path, new: NewStudy
) -> None:
    sized, _ = guided.size_study(new, TODAY, lambda *_: None)
    create_study(tmp_path / "new", sized, TODAY)
    study = pipeline.open_study(tmp_path / "new")
    assert check_ready(study, "", lambda *_: None) is None
    fewer = replace(study.protocol, seeds_per_arm=sized.seeds_per_arm // 2)
    assert not find_power(fewer).suffices, "it is no larger than it needs to be"


def test_every_question_has_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --yes nothing is asked, and the study is the one that plain init writes, but for its
    seeds, which are simulated."""
    monkeypatch.setattr(click, "prompt", lambda *_, **__: pytest.fail("a question"))
    monkeypatch.setattr(click, "confirm", lambda *_, **__: pytest.fail("a question"))
    done = run(str(tmp_path / "a" / "new"), "--guided", "--yes")
    assert done.exit_code == 0, done.output
    run(str(tmp_path / "b" / "new"))
    one, other = (
        (tmp_path / place / "new" / "study.yaml").read_text().splitlines() for place in ("a", "b")
    )
    differ = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    assert all("seeds_per_arm" in line for pair in differ for line in pair)
    asked, plain = (pipeline.open_study(tmp_path / p / "new").protocol for p in ("a", "b"))
    assert asked.seeds_per_arm == pytest.approx(plain.seeds_per_arm, rel=0.1)
