"""The reference solvers as honest agents: every built-in family at every difficulty, and dressed,
solved in a container through the agent's tools; and the ladder, in a single turn too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from generators.catalog import INSTALLED, Catalog
from generators.dressings.family import dressed_family
from generators.grading.programs import hidden_inputs
from generators.task import DIFFICULTIES, Family, TaskInstance, TaskSpec
from generators.validation.result import SOLVER_SCORE
from generators.validation.validate import public_seeds
from harness.agent.single_turn import ContextWindow
from harness.episode import Cell, Mode, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.model import Model
from harness.models.scripted import SolvingAgent
from harness.spending.purchases import MemoryJournal
from tests.conftest import ROOT
from tests.harness.script import Playback, noon, say

if TYPE_CHECKING:
    from harness.sandboxes.docker import DockerSandboxes

SEED = public_seeds(1)[0]
LADDER = ("order_statistics", "program_repair", "sequence_variants", "table_analytics")
EVERY = [
    pytest.param(family, difficulty, id=f"{family.name}/{difficulty}")
    for family in Catalog.built_in().newest()
    for difficulty in DIFFICULTIES
]
FILES = sorted((ROOT / "tests/data/dressings").iterdir())
DRESSED = tuple(dressed_family(path.name, path.read_text()) for path in FILES)
EVERY += [pytest.param(family, "easy", id=f"{family.name}/easy") for family in DRESSED]


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize(("family", "difficulty"), EVERY)
def test_an_honest_agent_solves_it_in_a_container(
    family: Family, difficulty: str, docker_sandboxes: DockerSandboxes
):
    instance = family.generate(difficulty, SEED)
    honest = SolvingAgent("honest", 0.0, families=DRESSED)
    assert scored(instance, honest, docker_sandboxes, Mode.AGENTIC) >= SOLVER_SCORE


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("name", LADDER)
def test_a_right_reply_in_a_single_turn_earns_all(
    name: str, difficulty: str, docker_sandboxes: DockerSandboxes
):
    """The program of `program_repair` is run in a container, the other answers in none."""
    family = INSTALLED.family(name)
    instance = family.generate(difficulty, SEED)
    block = json.dumps(family.key(instance.truth))
    model = Playback([say(f"<answer>\n{block}\n</answer>")], trusted=False)
    assert scored(instance, model, docker_sandboxes, Mode.SINGLE_TURN) == 1.0


def scored(instance: TaskInstance, model: Model, sandboxes: DockerSandboxes, mode: Mode) -> float:
    """The score of an episode that ended with an answer."""
    spec = TaskSpec(instance.spec.family, instance.spec.version, instance.spec.difficulty, ())
    inputs = hidden_inputs(instance.rubric)
    request = AttemptRequest(
        Cell("episode", spec, instance.id, SEED, model.name, 0, mode),
        1,
        instance.brief,
        run="run",
        journal=MemoryJournal(),
        window=ContextWindow(100_000),
        hidden_inputs=inputs,
    )
    episode = run_attempt(request, model, sandboxes, noon)
    assert episode.stop is StopReason.ANSWERED
    assert len(episode.program_runs) == len(inputs)
    score = grade_episode(instance, episode).score
    assert score is not None
    return score
