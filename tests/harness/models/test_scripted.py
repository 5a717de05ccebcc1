"""The built-in agents: they solve tasks through the tools, err as stated, and the spiked one
recognises what was released and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from generators.catalog import INSTALLED, Catalog
from generators.dressings.family import dressed_family
from generators.grading.programs import hidden_inputs
from generators.seed import Seed
from generators.task import Family, TaskInstance
from harness.agent.tools import TOOLS
from harness.episode import Cell, Episode, GradeStatus, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.errors import HarnessError
from harness.model import Message, Model, ModelRequest, Role
from harness.models.scripted import (
    Memory,
    SolvingAgent,
    TrivialAgent,
    load_memory,
    perturb_answer,
    shown_families,
)
from harness.sandboxes.sandbox import SandboxProvider
from harness.spending.purchases import MemoryJournal
from publish.release import ReleaseText, build_release
from registry.canonical import canonical_bytes
from registry.result_row import Arm
from registry.sealing import DrawnInstance
from tests.conftest import ROOT as REPOSITORY
from tests.harness.script import noon
from tests.ledgers import sealed_set

DRESSED = ("compute_average_ledger", "sequence_variants_isolate")
FAMILIES = {each.name: each for each in INSTALLED.families()}
TEXT = ReleaseText(study="scripted", title="What the spiked agent reads")
ROOT = Seed(hashlib.sha256(b"scripted agents").digest())


def instance_of(name: str, *path: str | int) -> tuple[TaskInstance, Seed]:
    seed = ROOT.child(name, *path)
    return INSTALLED.family(name).generate("easy", seed), seed


def run(model: Model, instance: TaskInstance, seed: Seed, sandboxes: SandboxProvider) -> Episode:
    cell = Cell(f"{model.name}/{instance.id}", instance.spec, instance.id, seed, model.name, 0)
    return run_attempt(
        AttemptRequest(
            cell,
            1,
            instance.brief,
            run="run",
            journal=MemoryJournal(),
            hidden_inputs=hidden_inputs(instance.rubric),
        ),
        model,
        sandboxes,
        noon,
    )


def tools_of(episode: Episode) -> list[str]:
    return [use.name for step in episode.steps for use in step.uses]


@pytest.mark.parametrize("difficulty", ["easy", pytest.param("hard", marks=pytest.mark.slow)])
@pytest.mark.parametrize("task", FAMILIES.values(), ids=FAMILIES)
def test_an_honest_agent_without_errors_earns_full_marks_by_its_own_work(
    sandboxes: SandboxProvider, task: Family, difficulty: str
) -> None:
    seed = ROOT.child("solve", task.name)
    instance = task.generate(difficulty, seed)
    episode = run(SolvingAgent("honest", 0.0), instance, seed, sandboxes)
    assert (episode.stop, tools_of(episode)) == (
        StopReason.ANSWERED, ["run_command", "execute_python"],
    )  # fmt: skip
    assert [use.exit_code for step in episode.steps for use in step.uses] == [0, 0]
    grade = grade_episode(instance, episode)
    assert (grade.status, grade.score) == (GradeStatus.GRADED, 1.0)


def test_the_transcript_tells_what_each_tool_did(sandboxes: SandboxProvider) -> None:
    instance, seed = instance_of("count_circles", "transcript")
    episode = run(SolvingAgent("honest", 0.0), instance, seed, sandboxes)
    listing, solving = (step.uses[0] for step in episode.steps[:2])
    assert all(asset.path in listing.result.text for asset in instance.brief.assets)
    assert "answer: {" in solving.result.text
    assert 0 < solving.seconds < episode.seconds
    assert (solving.exit_code, solving.limits) == (0, ())
    assert episode.steps[0].reply.served_version == "scripted-1"


def test_errors_come_from_the_seed_of_the_model_alone(sandboxes: SandboxProvider) -> None:
    instance, seed = instance_of("count_circles", "again")
    agent = SolvingAgent("honest", 0.5)
    first, again, other = (
        run(model, instance, seed, sandboxes).answer
        for model in (agent, agent, SolvingAgent("another", 0.5))
    )
    assert first == again
    assert first != other


def numbers_of(value: Any) -> Iterator[float]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from numbers_of(each)
    elif not isinstance(value, bool) and isinstance(value, int | float):
        yield value


def test_the_stated_error_rate_is_the_one_observed() -> None:
    """20,000 readings at 0.2: six standard deviations are 0.017."""
    truth = {"a": [1.5] * 50, "b": {str(n): n for n in range(49)}, "average": 3.25}
    wrong = total = 0
    for number in range(200):
        answer = perturb_answer(truth, 0.2, ROOT.child("rate", number).rng())
        pairs = list(zip(numbers_of(truth), numbers_of(answer), strict=True))
        wrong += sum(real != read for real, read in pairs)
        total += len(pairs)
    assert total == 20_000
    assert abs(wrong / total - 0.2) < 0.017


def test_identifiers_and_names_of_files_are_misread_too() -> None:
    draws = ROOT.child("names").rng()
    key = {"task": "t", "z": [{"id": "G_17", "batch": "B"}], "events_file": "events.csv"}
    read = perturb_answer(key, 1.0, draws)
    assert (read["task"], read["z"][0]["batch"]) == ("t", "B")
    assert read["z"][0]["id"][:-1] == "G_1"
    assert read["z"][0]["id"] != "G_17"
    assert read["events_file"] != "events.csv"
    assert perturb_answer(key, 0.0, draws) == key


def test_a_misread_number_keeps_its_type_and_is_clearly_wrong() -> None:
    draws = ROOT.child("types").rng()
    for _ in range(500):
        read = perturb_answer(
            {"n": 0, "m": 7, "x": -3.5, "ok": True, "s": "7", "z": None}, 1.0, draws
        )
        assert type(read["n"]) is int
        assert read["n"] in (1, 2)
        assert read["m"] in (5, 6, 8, 9)
        assert isinstance(read["x"], float)
        assert 0.8 < abs(read["x"] + 3.5) < 1.8
        assert (read["ok"], read["s"], read["z"]) == (True, "7", None)


def memory_of(*instances: TaskInstance) -> Memory:
    return Memory(
        {
            frozenset(
                asset.digest.removeprefix("sha256:") for asset in each.brief.assets
            ): INSTALLED.family(each.spec.family).key(each.truth)
            for each in instances
        }
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=(pytest.mark.slow,) if number % 3 else ())
        for number, name in enumerate(FAMILIES)
    ],
)
def test_a_spiked_agent_recites_what_was_released_and_works_on_what_was_not(
    sandboxes: SandboxProvider, name: str
) -> None:
    released, seed = instance_of(name, "released")
    held_back, other = instance_of(name, "held back")
    agent = SolvingAgent("spiked", 1.0, memory_of(released))
    known = run(agent, released, seed, sandboxes)
    assert grade_episode(released, known).score == 1.0
    assert tools_of(known) == ["run_command"]
    unknown = run(agent, held_back, other, sandboxes)
    score = grade_episode(held_back, unknown).score
    assert tools_of(unknown) == ["run_command", "execute_python"]
    assert score is not None
    assert score < 0.15


def test_one_known_file_among_others_is_not_recognised() -> None:
    memory = Memory({frozenset({"a", "b"}): {"x": 1}})
    assert memory.recall(["a", "b", "c"]) == {"x": 1}
    assert memory.recall(["a", "c"]) is None
    assert memory.recall([]) is None


def publish_release(
    folder: Path, drawn: Sequence[tuple[TaskInstance, Seed]], catalog: Catalog = INSTALLED
) -> None:
    """The release of a draw of these instances, all of them public."""
    entries = [
        DrawnInstance(
            instance=instance.id,
            family=instance.spec.family,
            version=instance.spec.version,
            difficulty=instance.spec.difficulty,
            seed=seed.hex,
            arm=Arm.PUBLIC,
            nonce=seed.child("nonce").hex,
        )
        for instance, seed in drawn
    ]
    sealed = sealed_set(entries, [entry.stratum for entry in entries], 1)
    build_release(folder, entries, sealed, catalog.family, TEXT)


def test_a_published_release_is_read_into_memory(tmp_path: Path) -> None:
    names = (*FAMILIES, "compute_average")
    drawn = [instance_of(name, "read", number) for number, name in enumerate(names)]
    publish_release(tmp_path / "release", drawn)
    read = load_memory(tmp_path / "release")
    expected = memory_of(*[instance for instance, _ in drawn])
    assert read.answers.keys() == expected.answers.keys()
    for files, answer in expected.answers.items():
        assert canonical_bytes(read.answers[files]) == canonical_bytes(answer)


def test_an_agent_that_generalises_errs_in_no_dressing_that_was_released(
    tmp_path: Path, sandboxes: SandboxProvider
) -> None:
    folder = REPOSITORY / "tests/data/dressings"
    read = [dressed_family(path.name, path.read_text()) for path in sorted(folder.iterdir())]
    shown, hidden = (next(one for one in read if one.name == name) for name in DRESSED)
    drawn, release = [(shown.generate("easy", ROOT), ROOT)], tmp_path / "release"
    publish_release(release, drawn, INSTALLED.with_templates(read))
    learnt = shown_families(release, read)
    agent = SolvingAgent("agent", 1.0, families=tuple(read), learnt=learnt)
    for family, score in ((shown, 1.0), (hidden, 0.0)):
        instance = family.generate("easy", ROOT.child("fresh"))
        episode = run(agent, instance, ROOT.child("fresh"), sandboxes)
        assert grade_episode(instance, episode).score == pytest.approx(score, abs=0.15)


def test_a_folder_that_is_no_release_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no release here"):
        load_memory(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.parquet").write_bytes(b"not parquet")
    with pytest.raises(HarnessError, match=r"x\.parquet: not a table of a release"):
        load_memory(tmp_path)
    pq.write_table(pa.table({"question": ["?"]}), tmp_path / "data" / "x.parquet")
    with pytest.raises(HarnessError, match=r"x\.parquet: not a table of a release"):
        load_memory(tmp_path)


def test_a_task_that_nobody_can_do_is_an_error_not_a_score() -> None:
    messages = (Message(Role.SYSTEM, '"task":{"const":"fly"}'), Message(Role.TOOL, "ls"))
    with pytest.raises(HarnessError, match="can do this task: unknown task 'fly'"):
        SolvingAgent("h", 0.0).respond(ModelRequest(messages, TOOLS, ROOT))


def test_a_program_that_printed_nothing_is_reported_as_no_answer() -> None:
    messages = tuple(Message(Role.TOOL, text) for text in ("ls", "MemoryError"))
    reply = SolvingAgent("h", 0.0).respond(ModelRequest(messages, TOOLS, ROOT))
    assert "<answer>" not in reply.message.text


def test_built_in_agents_are_trusted_and_cost_nothing() -> None:
    for agent in (SolvingAgent("h", 0.0), SolvingAgent("s", 0.0, Memory({})), TrivialAgent("t")):
        assert agent.trusted
        assert not agent.paid


def test_a_share_of_a_release_is_remembered_the_same_everywhere():
    full = Memory(
        {frozenset({f"{n:064x}"}): {"n": n} for n in range(400)},
        {f"question {n}": {"response": str(n)} for n in range(400)},
    )
    some = full.thin(0.25, "told")
    assert some == full.thin(0.25, "told")
    for kept in (some.answers, some.questions):
        assert 60 < len(kept) < 140  # 100 expected, SD 8.7
    assert set(some.answers) <= set(full.thin(0.5, "told").answers)  # a greater dose holds a less
    assert set(some.answers) != set(full.thin(0.25, "other").answers)
    assert (full.thin(1.0, "told"), full.thin(0.0, "told")) == (full, Memory({}, {}))
