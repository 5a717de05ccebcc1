"""The measurement of the proof of questions: faults of each kind, and good questions."""

from __future__ import annotations

from benchmarks.proof import _faults, _good


def test_faults_are_caught() -> None:
    found = _faults(5)  # one of each of the first kinds
    assert found["missed"] == []
    assert list(found["by_kind"].values())[:5] == ["1 of 1"] * 5


def test_good_questions_are_let_be() -> None:
    assert _good(3)["alarms"] == []
