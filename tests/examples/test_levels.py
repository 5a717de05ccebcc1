"""The examples of levels: small models whose questions lead back to tokens, the estimate of τ_w on
scores whose spread is known, and pairs of questions."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import requests

from examples.calibration.model import served_name, weights_bytes
from examples.calibration.server import serving
from examples.levels import naming_model, questions, siblings, small_model
from generators.seed import EXAMPLE_SEED


def test_a_question_leads_back_to_its_tokens_and_is_answered() -> None:
    random = np.random.default_rng(1)
    model = small_model.open_model(weights_bytes(small_model.first_weights(random)))
    for row in small_model.topic_rows(random, 17, 1, 20):
        text, key = small_model.question_of(row)
        assert [*small_model.tokens_of(text), int(key[1:])] == row.tolist()
        assert set(model(text)[0]["answer"]) <= {*"n0123456789"}
    assert model("What is 2 + 2?") == ({}, 0, 0)


def test_a_model_runs_the_program_of_a_dressing_by_the_names_it_reads(tmp_path: Path) -> None:
    for family in naming_model.drafts(1, EXAMPLE_SEED.child("another")):
        prompt = family.generate("easy", EXAMPLE_SEED).brief.prompt
        asked, called = naming_model.rows_of(family)[:, :-1], naming_model.new_names(family)
        assert naming_model.read_prompt(prompt.partition("\n")[2]) == asked[0, :-1].tolist()
        program = partial(naming_model.program_of, family.dressing.base.name)
        assert program(called) == family.solver()
    stored = weights_bytes(naming_model.first_weights(np.random.default_rng(1)))
    (path := tmp_path / "m.npz").write_bytes(stored)
    found = naming_model.likeliest(naming_model.read_file(stored), asked)
    body = {"model": served_name(path), "tools": [{}]}
    body["messages"] = [{"role": "user", "content": prompt}]
    with serving(tmp_path, 0, naming_model.open_model, naming_model.ToolHandler) as url:
        reply = requests.post(f"{url}/chat/completions", json=body, timeout=30).json()
    (call,) = reply["choices"][0]["message"]["tool_calls"]
    read = dict(zip(called, map([*naming_model.tokens()[0]].__getitem__, found), strict=True))
    assert json.loads(call["function"]["arguments"]) == {"code": program(read)}


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
