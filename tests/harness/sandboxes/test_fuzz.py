"""A thousand generated attacks: an agent loses by them what it loses, and no attempt is recorded as
a failure of the infrastructure, which would turn a zero into a missing value."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Limits, TaskSpec
from harness.episode import Cell
from harness.episodes.grading import grade_episode
from harness.episodes.result import summarise_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.sandboxes.docker import DockerSandboxes, connect
from harness.sandboxes.image import ensure_image
from harness.spending.purchases import MemoryJournal
from registry.result_row import Status
from tests.harness.sandboxes.attacks import generate, python
from tests.harness.script import Playback, noon, say

pytestmark = pytest.mark.docker

SEED = Seed(bytes(range(32)))
INSTANCE = INSTALLED.family("compute_average").generate("easy", SEED)
LIMITS = Limits(
    turns=8,
    tool_seconds=1.0,
    working_seconds=120.0,
    memory_bytes=64 << 20,
    disk_bytes=8 << 20,
    processes=48,
    output_bytes=2048,
)
BRIEF = replace(INSTANCE.brief, limits=LIMITS)
AT_ONCE, CHUNK = 8, 40
WRONG = re.compile(r"^(NameError|TypeError|AttributeError|SyntaxError|IndentationError).*", re.M)


@pytest.fixture(scope="module", params=["runc", pytest.param("runsc", marks=pytest.mark.slow)])
def provider(request: pytest.FixtureRequest) -> Iterator[DockerSandboxes]:
    client = connect()
    known = client.info()["Runtimes"]
    client.close()
    if request.param not in known:
        pytest.skip(f"the engine has no runtime {request.param}")
    opened = DockerSandboxes(ensure_image().tag, warm=AT_ONCE // 2, runtime=request.param)
    yield opened
    opened.close()


def outcome(provider: DockerSandboxes, seed: int) -> str:
    """Return what became of an attack: the container still ``serves`` an honest program, is
    ``spoiled``, or has ``ended``; or the error that was recorded instead of a score."""
    attack = generate(seed)
    turns = (*attack.turns, python("print(6 * 7)"), say("Done."))
    spec = TaskSpec("compute_average", "1", "easy", ())
    model = Playback((*turns, say("Done.")), "hostile", trusted=False)
    cell = Cell("sha256:" + "e" * 64, spec, INSTANCE.id, SEED, model.name, 0)
    request = AttemptRequest(cell, 1, BRIEF, run="fuzz", journal=MemoryJournal())
    episode = run_attempt(request, model, provider, noon)
    result = summarise_episode(0, cell, episode, grade_episode(INSTANCE, episode), 1)
    name = f"{seed} {', '.join(attack.kinds)}"
    if result.status not in (Status.SCORED, Status.MODEL_FAILURE) or result.score is None:
        return f"{name}: {episode.error_class or result.status}"
    told = "\n".join(use.result.text for step in episode.steps for use in step.uses)
    if wrong := WRONG.search(told):
        return f"{name}: the attack itself is wrong: {wrong[0]}"
    text = episode.steps[len(turns) - 2].uses[0].result.text if len(episode.steps) > 1 else ""
    if text.startswith("42\n[exit code 0"):
        return "serves"
    return "ended" if "the sandbox ended" in text else "spoiled"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "chunk", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 25))]
)
def test_no_attack_is_recorded_as_a_failure_of_the_infrastructure(
    provider: DockerSandboxes, chunk: int
) -> None:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        seeds = range(CHUNK * chunk, CHUNK * (chunk + 1))
        outcomes = Counter(threads.map(lambda seed: outcome(provider, seed), seeds))
    print(dict(outcomes))
    assert outcomes.keys() <= {"serves", "spoiled", "ended"}
    assert outcomes["serves"] > CHUNK / 2, "most attacks leave a container that serves"


def test_the_same_seed_is_the_same_attack_and_all_kinds_are_drawn() -> None:
    assert [generate(seed) for seed in range(20)] == [generate(seed) for seed in range(20)]
    from tests.harness.sandboxes.attacks import KINDS

    assert {kind for seed in range(100) for kind in generate(seed).kinds} == set(KINDS)
