"""The agent loop: turns, tools, budgets, and replies that are bought once."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from generators.seed import Seed
from generators.task import Limits
from harness.agent.loop import LAST_ASK, MAX_CALLS, AgentRun, opening_messages, run_agent
from harness.episode import StopReason
from harness.errors import AttemptFailed, Boundary
from harness.model import Reply, Role, Usage
from harness.sandboxes.sandbox import Sandbox
from harness.spending.purchases import MemoryJournal
from tests.harness.script import ANSWER, SCHEMA, Playback, brief, call, say, ticks

SEED = Seed(bytes(32))
LOOK = call(("run_command", {"command": "ls"}))


def conduct(
    model: Playback,
    sandbox: Sandbox,
    limits: Limits | None = None,
    journal: MemoryJournal | None = None,
    tick: Callable[[], float] = time.monotonic,
) -> AgentRun:
    journal = MemoryJournal() if journal is None else journal
    return run_agent(brief(limits=limits), model, sandbox, SEED, journal, tick)


def test_the_opening_states_rules_budget_and_schema_then_the_task() -> None:
    system, user = opening_messages(brief(limits=Limits(turns=7)))
    assert (system.role, user.role, user.text) == (Role.SYSTEM, Role.USER, "Find x.")
    assert "You have 7 turns." in system.text
    assert SCHEMA in system.text


def test_the_model_is_told_of_the_libraries_that_are_there() -> None:
    has = (("Python", "3.12.1"), ("numpy", "2.3.1"), ("scipy", "1.16"))
    told = opening_messages(brief(), has)[0].text
    assert "with Python 3.12.1 and these libraries: numpy 2.3.1, scipy 1.16. You reach" in told
    assert "with Python 3. You reach" in opening_messages(brief())[0].text


def test_a_model_works_until_it_answers_without_a_call(sandbox: Sandbox) -> None:
    model = Playback([LOOK, call(("read_file", {"path": "notes.txt"})), say(ANSWER)])
    done = conduct(model, sandbox)
    assert (done.stop, done.answer, done.usage) == (StopReason.ANSWERED, ANSWER, Usage(3, 3))
    assert [len(step.uses) for step in done.steps] == [1, 1, 0]
    assert done.steps[1].uses[0].result.text == "one\ntwo\n\n\n[8 turns left]"


def test_each_request_carries_the_whole_conversation(sandbox: Sandbox) -> None:
    model = Playback([LOOK, say(ANSWER)])
    done = conduct(model, sandbox)
    first, second = model.asked
    assert first.messages == done.opening
    assert second.messages == (
        *done.opening, done.steps[0].reply.message, done.steps[0].uses[0].result,
    )  # fmt: skip
    assert first.seed != second.seed


def test_several_calls_of_one_turn_are_carried_out_in_order(sandbox: Sandbox) -> None:
    both = call(("write_file", {"path": "a.txt", "content": "A"}), ("read_file", {"path": "a.txt"}))
    done = conduct(Playback([both, say(ANSWER)]), sandbox)
    assert [use.call_id for use in done.steps[0].uses] == ["c0", "c1"]
    assert [use.result.text for use in done.steps[0].uses] == [
        "Wrote 1 bytes.", "A\n\n[9 turns left]",
    ]  # fmt: skip


def test_a_flood_of_calls_is_answered_but_not_carried_out(sandbox: Sandbox) -> None:
    flood = call(*[("write_file", {"path": f"{n}.txt", "content": ""}) for n in range(50)])
    done = conduct(Playback([flood, LOOK, say(ANSWER)]), sandbox)
    answered = [use.result.text for use in done.steps[0].uses]
    assert len(answered) == 50
    assert sum(text.startswith("Wrote") for text in answered) == MAX_CALLS
    assert done.steps[1].uses[0].result.text.count(".txt") == MAX_CALLS + 1


def test_a_model_that_calls_on_is_asked_once_more_without_tools(sandbox: Sandbox) -> None:
    model = Playback([LOOK, LOOK, say(ANSWER)])
    done = conduct(model, sandbox, Limits(turns=2))
    assert (done.stop, done.answer) == (StopReason.TURN_LIMIT, ANSWER)
    assert "[1 turn left]" in done.steps[0].uses[0].result.text
    assert "[0 turns left]" in done.steps[1].uses[0].result.text
    assert model.asked[1].tools != ()
    assert model.asked[2].tools == ()
    assert model.asked[2].messages[-1].text == done.steps[2].prompt == LAST_ASK


def test_calls_on_the_last_tool_free_turn_are_not_carried_out(sandbox: Sandbox) -> None:
    done = conduct(Playback([LOOK, LOOK]), sandbox, Limits(turns=1))
    assert (done.stop, done.answer) == (StopReason.TURN_LIMIT, "")
    assert done.steps[-1].uses == ()


def test_an_episode_ends_when_its_wall_time_is_up(sandbox: Sandbox) -> None:
    model = Playback([LOOK] * 50)
    limits = Limits(turns=50, episode_seconds=60)
    done = conduct(model, sandbox, limits, tick=ticks(3.0))
    assert (done.stop, done.answer) == (StopReason.TIME_LIMIT, "")
    assert 1 <= len(done.steps) < 20


def test_a_tool_gets_no_more_time_than_the_episode_has_left(sandbox: Sandbox) -> None:
    sleep = call(("execute_python", {"code": "import time; time.sleep(30)"}))
    limits = Limits(tool_seconds=30, episode_seconds=1.5)
    begun = time.monotonic()
    done = conduct(Playback([sleep, sleep]), sandbox, limits)
    assert time.monotonic() - begun < 10
    assert (done.stop, done.steps[0].uses[0].limits) == (StopReason.TIME_LIMIT, ("time",))


def test_a_provider_failure_is_data_and_the_steps_before_it_are_kept(sandbox: Sandbox) -> None:
    lost = AttemptFailed(Boundary.PROVIDER, "overload", "HTTP 503")
    done = conduct(Playback([LOOK, lost]), sandbox)
    assert (done.stop, done.error_class) == (StopReason.FAILED, "provider:overload")
    assert len(done.steps) == 1


def test_an_unknown_count_of_tokens_makes_the_sum_unknown_not_smaller(sandbox: Sandbox) -> None:
    done = conduct(Playback([LOOK, say(ANSWER, tokens=None)]), sandbox)
    assert done.usage == Usage(None, None)


class Killed(BaseException):
    """Stands for the end of the process at this very moment."""


def test_after_a_kill_the_paid_replies_are_replayed_and_none_is_bought_twice(
    sandbox: Sandbox,
) -> None:
    journal = MemoryJournal()
    write = call(("write_file", {"path": "n.txt", "content": "7"}))
    read = call(("read_file", {"path": "n.txt"}))

    def die(request: object) -> Reply:
        raise Killed

    first = Playback([write, read, die], paid=True)
    with pytest.raises(Killed):
        conduct(first, sandbox, journal=journal)
    second = Playback([say(ANSWER)], paid=True)
    done = conduct(second, sandbox, journal=journal)
    assert len(second.asked) == 1
    assert [step.reply for step in done.steps] == [write, read, second.turns[0]]
    assert done.steps[1].uses[0].result.text.startswith("7")
    assert sorted(journal.replies) == [0, 1, 2]


def test_a_paid_reply_is_kept_before_it_is_acted_on(sandbox: Sandbox) -> None:
    made: list[bool] = []

    class Watching(MemoryJournal):
        def save(self, turn: int, reply: Reply) -> Reply:
            made.append(b"made.txt" in sandbox.run(("ls",), 5).output)
            return MemoryJournal.save(self, turn, reply)

    make = call(("write_file", {"path": "made.txt", "content": ""}))
    conduct(Playback([make, say(ANSWER)], paid=True), sandbox, journal=Watching())
    assert made == [False, True]


def test_the_earlier_of_two_replies_to_one_turn_counts(sandbox: Sandbox) -> None:
    class Beaten(MemoryJournal):
        def load(self, turn: int) -> Reply | None:
            return None

    kept = say("first\n" + ANSWER)
    journal = Beaten({0: kept})
    done = conduct(Playback([say("second")], paid=True), sandbox, journal=journal)
    assert done.steps[0].reply is kept


def test_free_replies_are_not_kept(sandbox: Sandbox) -> None:
    journal = MemoryJournal()
    conduct(Playback([say(ANSWER)]), sandbox, journal=journal)
    assert journal.replies == {}
