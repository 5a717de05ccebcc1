"""Models that are asked once: what would not fit is refused before anything is paid for. Episodes
that infrastructure failed are run again before a wave is closed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from generators.catalog import INSTALLED
from harness.episode import Mode
from harness.sweep.leases import Progress
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import RunContext, Workbench
from registry.ledger.records import ModelPin
from registry.provenance import utc_now
from study.errors import StudyError
from study.protocol.protocol import Task
from study.steps.init.folder import init_study
from study.steps.sweep.sweep import SweepRequest, check_single_turns, sweep_wave
from study.workspace.address import open_study
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests.cases import cases
from tests.study.conftest import SINGLE, Lost, make_study, promise_unchecked, sweep

OPEN = SweepRequest(0, allow_dirty=True)

CIRCLES = Task("count_circles", "3", "hard", Mode.SINGLE_TURN)
STUDY = cases(__file__, "study")


HONEST = ModelPin("honest", "scripted", "honest/1", (("agent", '"honest"'),))


def small(context: int) -> ModelPin:
    settings = (("base_url", '"http://h/v1"'), ("context", str(context)))
    return ModelPin("small", "openai", "any", settings)


def test_only_tasks_in_a_single_turn_need_the_room() -> None:
    check_single_turns([HONEST], [Task("no_such_family", "1", "easy")], INSTALLED)
    check_single_turns([small(60_000)], [CIRCLES], INSTALLED)


@pytest.mark.parametrize("provider", ["agent_server", "scripted"])
def test_an_agent_takes_no_single_turn(provider: str) -> None:
    given = {"agent_server": ("base_url", '"http://h"'), "scripted": ("agent", '"honest"')}
    settings = (given[provider], *([("tree", '"host"')] if provider == "agent_server" else []))
    pin = ModelPin("theirs", provider, "any", settings)
    with pytest.raises(StudyError, match="'theirs', task count_circles/hard: it is an agent that"):
        check_single_turns([pin], [CIRCLES], INSTALLED)


def test_what_does_not_fit_names_model_and_task() -> None:
    with pytest.raises(StudyError) as refused:
        check_single_turns([small(60_000), small(20_000)], [CIRCLES], INSTALLED)
    assert "model 'small', task count_circles/hard: in its single-turn form" in str(refused.value)
    assert "the context of the model is 20,000" in str(refused.value)


def test_a_sweep_that_would_not_fit_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASKED_ONCE_KEY", "sk")
    init_study(tmp_path / "study", STUDY)
    study = open_study(tmp_path / "study")
    promise_unchecked(study)
    with pytest.raises(StudyError, match="model 'asked-once', task count_circles/easy: in its"):
        sweep(study, 0)
    kinds = [entry.kind for entry in study.ledger.entries()]
    assert kinds == ["announcement", "sealed-set", "preregistration"]


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sweeps in this process instead of Ray's. Three episodes fail in the first round and the
    second; the number of episodes that each round ran."""
    ran: list[int] = []

    def run_owed(
        study: Study, request: SweepRequest, context: RunContext, watch: object, begin: object
    ) -> Progress:
        cells = list(take_snapshot(study).waves[request.wave].owed_cells())
        bench = Workbench.open(context)
        lost = replace(bench, models={"honest": Lost()}) if len(ran) < 2 else bench
        ends = [run_cell(cell, lost, utc_now) for cell in cells[:3]]
        ends += [run_cell(cell, bench, utc_now) for cell in cells[3:]]
        bench.close()
        for end in ends:
            assert bool(end.used.replies) is end.finished, "also those that cost nothing"
            assert (end.used.usd, end.used.unpriced) == (0, 0), "it is known that they do"
        ran.append(len(cells))
        finished = sum(end.finished for end in ends)
        return Progress(12, 12 - len(cells) + finished, 0, 0, len(ends) - finished, ())

    monkeypatch.setattr("study.steps.sweep.sweep._run_owed", run_owed)
    return ran


def test_episodes_that_failed_are_run_again_by_the_next_sweep(
    tmp_path: Path, rounds: list[int]
) -> None:
    study = make_study(tmp_path / "study", SINGLE)
    assert [sweep_wave(study, OPEN, lambda p: None, utc_now).closed for _ in range(2)] == [None] * 2
    closed = sweep_wave(study, OPEN, lambda p: None, utc_now).closed
    assert closed is not None
    assert (closed.finished, closed.missing, rounds) == (12, 0, [12, 3, 3])


def test_episodes_are_run_once_more_before_they_are_closed_as_missing(
    tmp_path: Path, rounds: list[int]
) -> None:
    study = make_study(tmp_path / "study", SINGLE)
    giving_up = replace(OPEN, close_missing=True)
    closed = sweep_wave(study, giving_up, lambda p: None, utc_now).closed
    assert closed is not None
    assert (closed.finished, closed.missing, rounds) == (9, 3, [12, 3])
