"""All families of the ladder: shortcuts do not pay, skill does, and the page has their keys."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.key_bits import number_entropy, table_lines
from generators.attackers import BOUNDS
from generators.catalog import INSTALLED
from generators.grading.answer import Answer
from generators.seed import Seed
from generators.task import DIFFICULTIES
from generators.validation.scores import (
    BEYOND_INSTRUCTIONS,
    attack_scores,
    noisy_scores,
    score_answer,
)
from generators.validation.validate import public_seeds
from harness.agent.single_turn import single_turn
from tests.generators.measures import as_many

PAGE = Path(__file__).resolve().parents[3] / "docs" / "ladder.md"
LADDER = ("order_statistics", "program_repair", "sequence_variants", "table_analytics")
QUICKLY = {"easy": 20, "medium": 6, "hard": 3}  # seeds, of 20 in `make test-all`


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("name", LADDER)
def test_shortcuts_stay_within_their_bounds_and_skill_pays(name, difficulty):
    family = INSTALLED.family(name)
    bounds = {attacker.name: BOUNDS[attacker.access] for attacker in family.attackers()}
    attacks, skills = [], []
    for seed in public_seeds(as_many(QUICKLY[difficulty], 20)):
        instance = family.generate(difficulty, seed)
        attacks.append(attack_scores(family, instance))
        skills.append(list(noisy_scores(family, instance, seed).values()))
    for attacker, bound in bounds.items():
        assert statistics.fmean(scores[attacker] for scores in attacks) <= bound
    means = [statistics.fmean(column) for column in zip(*skills, strict=True)]
    assert all(able > less for able, less in pairwise(means))


@pytest.mark.parametrize("name", LADDER)
def test_a_solver_that_never_errs_is_right(name):
    """So the errors of the noisy solvers are all that costs them marks."""
    family = INSTALLED.family(name)
    solve = __import__(f"{family.package}.attackers", fromlist=["NOISY"]).NOISY[0].solve.func
    instance = family.generate("hard", public_seeds(1)[0])
    files = {asset.path: asset.data for asset in instance.brief.assets}
    answer = Answer(dict(solve(0.0, files, public_seeds(1)[0].rng())))
    assert score_answer(instance, answer, BEYOND_INSTRUCTIONS) == 1.0


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("name", LADDER)
def test_each_has_a_single_turn_form_that_fits_a_small_context(name, difficulty):
    instance = INSTALLED.family(name).generate(difficulty, public_seeds(1)[0])
    made = single_turn(instance.brief)
    assert made.picture_tokens == 0
    assert made.tokens < 8_000
    for asset in instance.brief.assets:
        assert f'<file name="{asset.path}">' in made.messages[-1].text


def test_the_entropy_of_numbers_is_estimated_to_a_fifth_of_a_bit():
    draws = Seed(bytes(32)).rng()
    uniform = [draws.integer(1, 4096) for _ in range(400)]
    assert number_entropy(uniform, draws) == pytest.approx(12, abs=0.2)


@pytest.mark.slow
def test_the_page_has_the_table_that_the_program_prints():
    assert "\n".join(table_lines()) in PAGE.read_text(encoding="utf-8")
