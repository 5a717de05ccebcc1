"""The simulated providers: limits are used and seldom passed, and healthy models go on beside."""

from __future__ import annotations

import pytest

from benchmarks.governor import beside, limited, refuse_above, shared


@pytest.mark.parametrize(("latency", "workers"), [(0.5, 1), (5.0, 1), (1.5, 8)])
def test_a_server_with_a_limit_is_kept_busy_and_refuses_few(latency: float, workers: int) -> None:
    measured = limited(latency, workers, episodes=600)
    assert measured["given_up"] == 0
    assert measured["rate"] >= 0.85, "with the minute in which the limit is found"
    assert measured["refusals_per_reply"] <= 0.06


def test_a_throttled_model_takes_few_slots_of_a_healthy_one() -> None:
    measured = beside("rate_limit", refuse_above(1.0))
    assert measured["rate"] >= 0.92
    assert measured["refusals"] <= 70


def test_models_of_one_key_both_get_a_part_of_its_rate() -> None:
    measured = shared()
    replies = measured["replies"]
    assert replies["slow"] >= 0.25 * replies["quick"]
    assert measured["rate"] >= 0.9
