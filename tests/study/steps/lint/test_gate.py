"""A draw and a registration refuse what cannot answer, and what any later step would refuse."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from registry.ledger.records import Underpowered, Unproved
from study.extras.power.target_power import describe_chances
from study.main import main
from study.protocol.draw_checks import draw_faults
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.report.look import shortfalls_of
from study.workspace.setup import find_registration
from tests.cases import cases
from tests.plugins import installing
from tests.study.conftest import SMALLNESS

STUDY = cases(__file__, "study")
NEW = "  new: {provider: scripted, agent: honest, error_rate: 0.2}\n"
# One question with one answer, and one with thousands.
TEMPLATE = cases(__file__, "template")
# A filter that never matches: its answer is 0 for ever.
BROKEN = cases(__file__, "broken")
PRICES = """\
prices:
  - {provider: openai, model: m-1, input: 1, output: 2, date: 2026-11-01, source: a test}
"""


SERVED = """\
  new: {provider: openai, model: m-1, base_url: 'http://127.0.0.1:9/v1', api_key_env: NO_SUCH_KEY,
        context: 100000, retention: kept}
"""


def changed(*changes: tuple[str, str]) -> str:
    text = STUDY
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def draw(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["register", "--draw", "--study", str(folder), *options])


REFUSED: dict[str, dict[str, Any]] = cases(__file__, "refused")

UNANSWERED: dict[str, dict[str, Any]] = cases(__file__, "unanswered")


def make(folder: Path, text: str) -> Path:
    from registry.sealing import new_identity

    folder.mkdir()
    (folder / "prices.yaml").write_text(PRICES)
    (folder / "own.yml").write_text(TEMPLATE)
    init_study(folder, STUDY)
    (folder / "study.yaml").write_text(text.replace("RECIPIENT", new_identity()[1]))
    return folder


@pytest.mark.parametrize("case", [*REFUSED, *UNANSWERED])
def test_what_a_later_step_would_refuse_is_refused_before_the_draw(
    tmp_path: Path, case: str
) -> None:
    found = (REFUSED | UNANSWERED)[case]
    folder = tmp_path / "study"
    result = draw(make(folder, changed(*found["change"].items())))
    assert result.exit_code == 2, result.output
    *progress, message = result.stderr.strip().splitlines()  # on a slow machine it says so
    assert not any(line.startswith("dosimeter:") for line in progress)
    assert message.startswith(f"dosimeter: {folder}/study.yaml:{found['at']}"), message
    assert found["remedy"] in message
    assert not list(folder.glob("store/**/*.*"))
    if case in UNANSWERED:
        assert "--underpowered REASON" in message


def test_the_base_of_these_cases_is_drawn_and_registered_without_a_reason(tmp_path: Path) -> None:
    folder = make(tmp_path / "study", STUDY)
    result = draw(folder, "--json")
    assert result.exit_code == 0, result.stderr
    assert "power: finds 40 points in one model with probability 1.00" in result.stderr
    assert json.loads(result.stdout)["underpowered"] is None
    record, _ = pipeline.register(pipeline.open_study(folder))
    assert record.underpowered is None
    assert shortfalls_of(record) == ()
    assert "finds 40 points in one model with probability 1.00" in record.plan.chances
    form = json.loads((folder / "registration.json").read_text())
    answers = {field["name"]: field["answer"] for field in form["fields"]}
    assert record.plan.chances in answers["Sample size rationale"]
    assert "and clears a model without inflation with probability 0." in record.plan.chances
    again = pipeline.register(pipeline.open_study(folder))[0]  # no promise that could be broken
    assert again == record


def test_a_reason_lets_a_plan_pass_and_is_recorded_with_what_it_lacks(tmp_path: Path) -> None:
    folder = make(tmp_path / "study", changed(("replicates: 2", "replicates: 1")))
    assert draw(folder, "--underpowered", SMALLNESS).exit_code == 0
    study = pipeline.open_study(folder)
    pipeline.register(study)  # the reason of the draw holds
    record = find_registration(study.ledger)
    assert record is not None
    known = record.underpowered
    assert known == study.sealed_set().underpowered
    assert isinstance(known, Underpowered)
    assert known.reason == SMALLNESS
    (shortfall,) = known.shortfalls
    assert shortfall.startswith("plan.controls.pre_exposure: 4 control runs on each instance")
    (sentence,) = shortfalls_of(record)
    assert SMALLNESS in sentence
    assert "4 control runs" in sentence


def test_an_unproved_question_needs_a_reason_which_ledger_and_report_show(tmp_path: Path) -> None:
    task = "  - {family: count_circles, difficulty: easy}\n"
    template = "  - {template: broken.yml, questions: [lost]}\n"
    folder = make(tmp_path / "study", changed((task, task + template)))
    (folder / "broken.yml").write_text(BROKEN)
    refused = draw(folder)
    assert refused.exit_code == 2, refused.output
    assert "broken.yml, question lost: 'Enginering' in `DEPT == Enginering`" in refused.stderr
    assert "did you mean 'Engineering'?" in refused.stderr
    assert "--unproved REASON" in refused.stderr
    assert not list(folder.glob("store/**/*.*"))
    linted = CliRunner().invoke(main, ["lint", str(folder)])
    assert "broken.yml, question lost: 'Enginering'" in linted.output
    assert "--unproved: give the reason in words" in draw(folder, "--unproved", " ").stderr

    drawn = draw(folder, "--unproved", "a test of it")
    assert drawn.exit_code == 0, drawn.stderr
    study = pipeline.open_study(folder)
    record, _ = pipeline.register(study)  # the reasons of the draw hold
    assert record.unproved == Unproved("a test of it", ("broken.yml, question lost",))
    assert record.unproved == study.sealed_set().unproved
    (sentence,) = shortfalls_of(record)
    assert "broken.yml, question lost" in sentence
    assert "since a test of it" in sentence
    form = json.loads((folder / "registration.json").read_text())
    assert "not proved: broken.yml, question lost" in json.dumps(form)
    verified = CliRunner().invoke(main, ["verify", "--study", str(folder)])
    assert verified.exit_code == 0, verified.output
    (note,) = [line for line in verified.output.splitlines() if "--unproved" in line]
    assert note.startswith("not checked: whether broken.yml, question lost can be solved")
    assert note.endswith("since a test of it")


@pytest.mark.parametrize(("name", "why", "source"), cases(__file__, "families of others"))
def test_a_family_of_others_that_its_check_rejects_needs_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str, source: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # of the process that makes the bytes again
    with installing(tmp_path, monkeypatch, "dosimeter.families") as install:
        install(name, source, f"{name}@1", "FAMILY")
        folder = make(tmp_path / "study", changed(("compute_average", name)))
        refused = draw(folder)
        assert refused.exit_code == 2, refused.output
        assert f"{name}@1: {why}" in refused.stderr
        assert "--unproved REASON" in refused.stderr
        assert not list(folder.glob("store/**/*.*"))
        assert draw(folder, "--unproved", "a test of it").exit_code == 0
        sealed = pipeline.open_study(folder).sealed_set()
        assert sealed.unproved == Unproved("a test of it", (f"{name}@1",))


def test_a_plan_that_is_cut_down_after_the_draw_is_refused_at_registration(tmp_path: Path) -> None:
    folder = make(tmp_path / "study", STUDY)
    assert draw(folder).exit_code == 0
    path = folder / "study.yaml"
    path.write_text(path.read_text().replace("target_gap: 0.4", "target_gap: 0.1"))
    refused = CliRunner().invoke(main, ["register", "--study", str(folder)])
    assert refused.exit_code == 2
    assert "10 points in one model would be found with probability" in refused.stderr
    assert [entry.kind for entry in pipeline.open_study(folder).ledger.entries()] == [
        "announcement",
        "sealed-set",
    ]


def test_too_few_runs_of_frozen_models_are_warned_of(tmp_path: Path) -> None:
    four = changed(
        ("frozen: [old-1]", "frozen: [old-1, old-2, old-3, old-4]"),
        ("  - [old-1, new]", "  - [old-1, old-2, old-3, old-4, new]"),
    )
    for name, text, runs in (("one", STUDY, 2), ("four", four, 8)):
        result = draw(make(tmp_path / name, text))
        assert result.exit_code == 0, result.stderr
        said = f"plan.controls.frozen: {runs} runs of frozen models" in result.stderr
        assert said == (runs < 8)


@pytest.mark.parametrize("reason", [" ", "two\nlines"])
def test_a_reason_is_words_on_one_line(tmp_path: Path, reason: str) -> None:
    refused = draw(make(tmp_path / "study", STUDY), "--underpowered", reason)
    assert refused.exit_code == 2
    assert "--underpowered: give the reason in words" in refused.stderr


def test_a_missing_key_is_warned_of_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    text = changed((NEW, SERVED), ("{kind: local}", "{kind: docker}"))
    text = text.replace("  - [old-1, new]\n", "  - [old-1, new]\n" * 2)
    folder = make(tmp_path / "study", text)
    (folder / "prices.yaml").unlink()
    result = draw(folder)
    assert result.exit_code == 0, result.stderr
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert any("NO_SUCH_KEY is not set" in warning for warning in warnings)
    assert any("no `prices:` file is named for m-1" in warning for warning in warnings)
    assert any("draw reserve tranches" in warning for warning in warnings)


def test_a_control_that_is_released_on_this_very_day_is_refused(tmp_path: Path) -> None:
    """The public arm may be released on the same day, and a report would refuse it."""
    protocol = pipeline.open_study(make(tmp_path / "study", STUDY)).protocol
    assert list(draw_faults(protocol, date(2024, 4, 2))) == []
    ((place, _),) = draw_faults(protocol, date(2024, 4, 1))
    assert place == ("models", "old-4", "released")


def test_a_very_large_study_goes_by_the_formula(tmp_path: Path) -> None:
    text = changed(("seeds_per_arm: 12", "seeds_per_arm: 90000"))
    study = pipeline.open_study(make(tmp_path / "study", text))
    assert describe_chances(study.protocol) == (
        "finds 40 points in one model with probability 1.00 by formula"
    )
