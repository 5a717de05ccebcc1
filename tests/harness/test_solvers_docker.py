"""The reference solvers as honest agents: every built-in family at every difficulty, solved in a
container through the agent's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from generators.catalog import Catalog
from generators.grading.programs import hidden_inputs
from generators.task import DIFFICULTIES, Family, TaskSpec
from generators.validation.result import SOLVER_SCORE
from generators.validation.validate import public_seeds
from harness.episode import Cell, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.models.scripted import HonestAgent
from harness.spending.purchases import MemoryJournal
from tests.harness.script import noon

if TYPE_CHECKING:
    from harness.sandboxes.docker import DockerSandboxes

EVERY = [
    pytest.param(family, difficulty, id=f"{family.name}/{difficulty}")
    for family in Catalog.built_in().newest()
    for difficulty in DIFFICULTIES
]


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize(("family", "difficulty"), EVERY)
def test_an_honest_agent_solves_it_in_a_container(
    family: Family, difficulty: str, docker_sandboxes: DockerSandboxes
):
    seed = public_seeds(1)[0]
    instance = family.generate(difficulty, seed)
    spec = TaskSpec(family.name, family.version, difficulty, ())
    cell = Cell("episode", spec, instance.id, seed, "honest", 0)
    episode = run_attempt(
        AttemptRequest(
            cell,
            1,
            instance.brief,
            run="run",
            journal=MemoryJournal(),
            hidden_inputs=hidden_inputs(instance.rubric),
        ),
        HonestAgent("honest", 0.0),
        docker_sandboxes,
        noon,
    )
    assert episode.stop is StopReason.ANSWERED
    score = grade_episode(instance, episode).score
    assert score is not None
    assert score >= SOLVER_SCORE
