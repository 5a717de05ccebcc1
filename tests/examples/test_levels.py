"""The examples of levels: small models whose questions lead back to tokens, the estimate of τ_w on
scores whose spread is known, and pairs of questions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples.calibration.model import weights_bytes
from examples.levels import questions, siblings, small_model


def test_a_question_leads_back_to_its_tokens_and_is_answered() -> None:
    random = np.random.default_rng(1)
    model = small_model.open_model(weights_bytes(small_model.first_weights(random)))
    for row in small_model.topic_rows(random, 17, 1, 20):
        text, key = small_model.question_of(row)
        assert [*small_model.tokens_of(text), int(key[1:])] == row.tolist()
        assert set(model(text)[0]["answer"]) <= {*"n0123456789"}
    assert model("What is 2 + 2?") == ({}, 0, 0)


@pytest.mark.parametrize("tau", [0.0, 0.1])
def test_the_spread_between_siblings_is_found_without_the_noise_of_instances(tau: float) -> None:
    draws = np.random.default_rng(7)
    centres = 0.5 + tau * draws.standard_normal((400, 2))
    pairs = [tuple((c + 0.3 * draws.standard_normal(30)).tolist() for c in two) for two in centres]
    square, error = siblings.tau_squared(pairs)
    assert abs(square - tau**2) < 3 * error
    assert error < 0.001


def test_pairs_of_questions_are_proved_solved_by_their_keys_and_of_one_form(tmp_path: Path) -> None:
    assert questions.check_pairs(tmp_path) == []
