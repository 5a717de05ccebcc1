"""The small models that show what each level sees: questions lead back to tokens."""

from __future__ import annotations

import numpy as np

from examples.calibration.model import weights_bytes
from examples.levels import small_model as small


def test_a_question_leads_back_to_its_tokens_and_is_answered() -> None:
    random = np.random.default_rng(1)
    model = small.open_model(weights_bytes(small.first_weights(random)))
    for row in small.topic_rows(random, 17, 1, 20):
        text, key = small.question_of(row)
        assert [*small.tokens_of(text), int(key[1:])] == row.tolist()
        assert set(model(text)[0]["answer"]) <= {*"n0123456789"}
    assert model("What is 2 + 2?") == ({}, 0, 0)
