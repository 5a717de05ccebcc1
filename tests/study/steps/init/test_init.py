"""``dosimeter init``: what it writes, and that it leaves no half of a study."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.spending.prices import read_prices
from study.errors import StudyError
from study.extras.power.target_power import find_power
from study.main import main
from study.protocol.schema import study_schema
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.lint.lint import lint_study
from study.steps.register.gate import check_ready
from tests.cases import cases

GUESSED = cases(__file__, "guessed")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["init", *arguments])


def test_it_writes_a_study_of_two_waves(tmp_path: Path) -> None:
    done = run(str(tmp_path / "new"))
    assert done.exit_code == 0, done.output
    protocol = pipeline.open_study(tmp_path / "new").protocol
    plan = protocol.registered_plan()
    assert (protocol.name, plan.name, len(protocol.waves)) == ("new", "standard-v1", 2)
    assert plan.standard is not None
    assert plan.standard.pre_exposure == protocol.waves[0]
    assert len(protocol.waves[0]) == 4
    assert [protocol.replicates_of(name) for name in ("before-1", "my-model")] == [2, 1]
    assert protocol.waves[1] == (*protocol.waves[0], "my-model")
    assert lint_study(tmp_path / "new" / "study.yaml", {}, lambda *_: None) == []
    assert protocol.budget is not None
    assert protocol.budget.run == 50
    assert read_prices(tmp_path / "new" / "prices.yaml").of("openai", "whatever") is not None
    assert (tmp_path / "new" / "keys" / "study.txt").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", GUESSED)
def test_columns_of_questions_are_guessed(name: str, tmp_path: Path) -> None:
    case, pool = GUESSED[name], tmp_path / "pool.jsonl"
    lines = [json.dumps(row, ensure_ascii=False) for row in case["rows"]]
    pool.write_text("\n".join(line.replace("?", mark) for mark in ("?", "??") for line in lines))
    done = run(str(tmp_path / "new"), "--items", str(pool))
    if "error" in case:
        assert re.search(case["error"], done.output)
        return
    written = (tmp_path / "new" / "study.yaml").read_text("utf-8")
    assert [line for line in case["written"] if line not in written] == []
    keys = re.findall("^→ (.*)", done.output, re.MULTILINE)[:2]
    texts = [f"{key}. {text}" for key, text in zip(keys, case.get("texts", ()), strict=False)]
    assert keys == case.get("keys", keys)
    assert [text for text in texts if text not in done.output] == []


def test_editors_find_the_schema_by_the_first_line(tmp_path: Path) -> None:
    run(str(tmp_path))
    first = (tmp_path / "study.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=study.schema.json"
    written = (tmp_path / "study.schema.json").read_text(encoding="utf-8")
    assert json.loads(written) == study_schema()


@pytest.mark.parametrize("name", ["study.yaml", "prices.yaml", "study.schema.json"])
def test_an_existing_file_is_never_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    done = run(str(tmp_path))
    assert done.exit_code == 2
    assert "there already" in done.stderr
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


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


def test_the_study_that_it_writes_passes_the_check_of_a_draw(tmp_path: Path) -> None:
    run(str(tmp_path))
    path = tmp_path / "study.yaml"
    path.write_text(path.read_text().replace("name-at-the-server", "a-model"))
    study = pipeline.open_study(tmp_path)
    assert check_ready(study, "", lambda *_: None) is None
    fewer = replace(study.protocol, seeds_per_arm=study.protocol.seeds_per_arm // 2)
    assert not find_power(fewer).suffices, "it is no larger than it needs to be"
