"""Models that are asked once: what would not fit is refused before anything is paid for."""

from __future__ import annotations

from pathlib import Path

import pytest

from generators.catalog import INSTALLED
from harness.agent.single_turn import SingleTurnModel
from harness.models.scripted import HonestAgent, TrivialAgent
from study.errors import StudyError
from study.protocol.protocol import Task
from study.sweeps.sweep import check_context_windows
from tests.study.conftest import make_study, sweep

CIRCLES = Task("count_circles", "1", "hard")
STUDY = """\
study: once
tasks:
  - {family: count_circles, difficulty: easy}
seeds_per_arm: 2
models:
  asked-once:
    provider: openai
    model: any
    base_url: http://127.0.0.1:9/v1
    api_key_env: ASKED_ONCE_KEY
    mode: single_turn
    context: 1500
waves:
  - [asked-once]
plan: {permutations: 199}
sandbox: {kind: local}
"""


def once(context: int) -> SingleTurnModel:
    return SingleTurnModel(TrivialAgent("small"), context)


def test_only_models_that_are_asked_once_need_the_room() -> None:
    check_context_windows(
        [HonestAgent("any", 0.0)], [Task("no_such_family", "1", "easy")], INSTALLED
    )
    check_context_windows([once(60_000)], [CIRCLES], INSTALLED)


def test_what_does_not_fit_names_model_and_task() -> None:
    with pytest.raises(StudyError) as refused:
        check_context_windows([once(60_000), once(20_000)], [CIRCLES], INSTALLED)
    assert "model 'small', task count_circles hard: in its single-turn form" in str(refused.value)
    assert "the context of the model is 20,000" in str(refused.value)


def test_a_sweep_that_would_not_fit_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASKED_ONCE_KEY", "sk")
    study = make_study(tmp_path / "study", STUDY)
    with pytest.raises(StudyError, match="model 'asked-once', task count_circles easy: in its"):
        sweep(study, 0)
    kinds = [entry.kind for entry in study.ledger.entries()]
    assert kinds == ["sealed-set", "preregistration"]
