"""Hidden tests of an answer's program: where it is run, what is kept of it, and what it earns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from generators.grading.answer import Answer
from generators.grading.programs import hidden_inputs
from generators.ladder.program_repair import FAMILY
from generators.ladder.program_repair.parameters import PROGRAM_FILE
from generators.task import Asset, Limits, TaskSpec
from generators.validation.validate import public_seeds
from harness.agent.single_turn import ContextWindow
from harness.episode import Cell, Episode, Grade, GradeStatus, Mode, ProgramRun, StopReason
from harness.episodes import hidden_tests
from harness.episodes.grading import grade_episode
from harness.episodes.hidden_tests import run_hidden_tests
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.judge.judge import is_judged
from harness.model import Reply
from harness.probe.probing import probe_messages
from harness.sandboxes.local import LocalSandboxes
from harness.sandboxes.sandbox import Sandbox, SandboxProvider
from harness.spending.purchases import MemoryJournal
from harness.storage import EPISODE_CODEC
from tests.harness.script import Playback, call, noon, say

SEED = public_seeds(1)[0]
INSTANCE = FAMILY.generate("easy", SEED)
INPUTS = hidden_inputs(INSTANCE.rubric)
RIGHT = str(INSTANCE.truth.table("program").column("right")[0])
FAULTY = INSTANCE.brief.assets[0].data.decode()
NAMED = '<answer>\n{"task": "program_repair", "program_file": "program.py"}\n</answer>'


def leave(program: str) -> Sequence[Reply]:
    """The turns of an agent that leaves this program in its work folder and names it."""
    return call(("write_file", {"path": PROGRAM_FILE, "content": program})), say(NAMED)


def hand_in(program: str) -> str:
    """The final message that holds the whole program."""
    block = json.dumps({"task": "program_repair", "program": program})
    return f"<answer>\n{block}\n</answer>"


def attempt(
    sandboxes: SandboxProvider,
    turns: Iterable[Reply],
    mode: Mode = Mode.AGENTIC,
    trusted: bool = True,
    limits: Limits = INSTANCE.brief.limits,
    inputs: Sequence[str] = INPUTS,
) -> Episode:
    """One attempt, stored and read back."""
    spec = TaskSpec(FAMILY.name, FAMILY.version, "easy", ())
    cell = Cell("sha256:" + "e" * 64, spec, INSTANCE.id, SEED, "playback", 0, mode)
    request = AttemptRequest(
        cell,
        1,
        replace(INSTANCE.brief, limits=limits),
        run="run",
        journal=MemoryJournal(),
        window=ContextWindow(100_000),
        hidden_inputs=tuple(inputs),
    )
    model = Playback(list(turns), trusted=trusted)
    return EPISODE_CODEC.decode(EPISODE_CODEC.encode(run_attempt(request, model, sandboxes, noon)))


def grade(episode: Episode) -> Grade:
    return grade_episode(INSTANCE, episode)


def passed_of(episode: Episode) -> float:
    """The score of the hidden tests alone."""
    score = dict(grade(episode).dimension_scores)["SR"]
    assert score is not None
    return score


@pytest.fixture(scope="module")
def repaired(sandboxes: LocalSandboxes) -> Episode:
    """The attempt of an agent that repairs the program."""
    return attempt(sandboxes, leave(RIGHT))


def test_a_repaired_file_passes_all_and_an_unrepaired_one_none(
    sandboxes: LocalSandboxes, repaired: Episode
) -> None:
    assert (grade(repaired).status, grade(repaired).score) == (GradeStatus.GRADED, 1.0)
    assert [run.given for run in repaired.program_runs] == list(INPUTS)
    assert {run.exit_code for run in repaired.program_runs} == {0}
    assert passed_of(attempt(sandboxes, [say(NAMED)])) == 0.0
    assert passed_of(attempt(sandboxes, leave(FAULTY))) == 0.0


def test_a_single_turn_gives_the_program_in_its_message(sandboxes: LocalSandboxes) -> None:
    episode = attempt(sandboxes, [say(hand_in(RIGHT))], Mode.SINGLE_TURN)
    assert (episode.container, grade(episode).score) == ("", 1.0)


def test_an_answer_without_a_program_is_not_run_and_passes_nothing(
    sandboxes: LocalSandboxes,
) -> None:
    gone = NAMED.replace("program.py", "gone.py")
    for text in (gone, '<answer>\n{"task": "program_repair"}\n</answer>'):
        episode = attempt(sandboxes, [say(text)])
        assert episode.program_runs == ()
        assert (grade(episode).status, passed_of(episode)) == (GradeStatus.GRADED, 0.0)
    silent = attempt(sandboxes, [say("It is done."), say("It is done.")])
    assert (grade(silent).status, grade(silent).score) == (GradeStatus.NO_ANSWER, 0.0)


def test_what_the_agent_left_beside_its_program_is_not_there(sandboxes: LocalSandboxes) -> None:
    """The program works in the agent's sandbox, by a table that it left there."""
    rows = INSTANCE.truth.table("tests").records()
    known = {str(row["given"]): str(row["printed"]) for row in rows}
    table = call(("write_file", {"path": "known.json", "content": json.dumps(known)}))
    cheat = "import json\nprint(json.load(open('known.json'))[input()])\n"
    episode = attempt(sandboxes, [table, *leave(cheat)])
    assert passed_of(episode) == 0.0
    assert all("known.json" in run.output for run in episode.program_runs)


def test_only_inputs_are_given_and_each_process_sees_its_own(sandboxes: LocalSandboxes) -> None:
    program = "import os, sys\nprint(sys.stdin.read(), sorted(os.listdir()), sys.argv)\n"
    episode = attempt(sandboxes, leave(program), inputs=INPUTS[:3])
    assert len(episode.program_runs) == 3
    for run in episode.program_runs:
        assert run.output.startswith(f"{run.given} ['program.py'] ['program.py']")


def test_a_grade_follows_from_the_stored_runs_alone(repaired: Episode) -> None:
    episode = repaired
    assert grade(episode) == grade(replace(episode, container="another"))
    half = episode.program_runs[: len(INPUTS) // 2]
    failed = tuple(replace(run, exit_code=1) for run in episode.program_runs[len(half) :])
    assert 0.0 < passed_of(replace(episode, program_runs=half + failed)) < 1.0
    with pytest.raises(HarnessError, match="has no runs of its answer's program"):
        grade(replace(episode, program_runs=()))


def test_a_program_that_hangs_is_stopped_and_all_runs_together_have_a_limit(
    sandboxes: LocalSandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_tests, "RUN_SECONDS", 0.3)
    monkeypatch.setattr(hidden_tests, "ALL_SECONDS", 0.9)
    answer = Answer({"program": "while True:\n    pass\n"})
    runs = run_hidden_tests(answer, tuple("abcdefgh"), sandboxes, Limits())
    assert len(runs) == 8
    assert {(run.exit_code, run.limits) for run in runs} == {(137, ("time",))}
    assert runs[-1] == ProgramRun("h", "", 137, ("time",))


class LostAfterAgent(LocalSandboxes):
    """Local sandboxes of which only the first can be made."""

    opened = 0

    def open(self, assets: Sequence[Asset], limits: Limits, model_socket: bool = False) -> Sandbox:
        self.opened += 1
        if self.opened > 1:
            raise AttemptFailed(Boundary.SANDBOX, "not created", "no room")
        return super().open(assets, limits, model_socket)


def test_a_lost_sandbox_is_a_failed_attempt_and_no_zero() -> None:
    provider = LostAfterAgent()
    episode = attempt(provider, leave(RIGHT))
    provider.close()
    assert (episode.stop, episode.error_class) == (StopReason.FAILED, "sandbox:not created")
    assert (grade(episode).status, grade(episode).score) == (GradeStatus.MISSING, None)


def test_no_models_program_runs_where_nothing_isolates_it(sandboxes: LocalSandboxes) -> None:
    for mode in Mode:
        with pytest.raises(HarnessError, match="does not isolate"):
            attempt(sandboxes, [say(hand_in(RIGHT))], mode, trusted=False)


def test_judges_and_probes_are_not_asked_what_a_program_prints() -> None:
    from generators.catalog import INSTALLED

    assert not any(map(is_judged, INSTANCE.rubric.parts[2:]))
    assert probe_messages(INSTANCE, INSTALLED) is None
