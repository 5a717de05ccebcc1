"""The agent loop: turns, tools, budgets, and replies that are bought once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from generators.seed import Seed
from generators.task import Limits
from harness.agent.caps import MAX_CALLS
from harness.agent.loop import AgentRun, AgentTask, run_agent
from harness.agent.prompts import last_question, opening_messages
from harness.agent.tools import TOOLS
from harness.episode import StopReason
from harness.errors import AttemptFailed, Boundary
from harness.model import ModelRequest, Reply, Role, Usage
from harness.sandboxes.sandbox import Sandbox
from harness.spending.purchases import MemoryJournal
from tests.harness.script import ANSWER, SCHEMA, Playback, brief, call, say

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
    return run_agent(AgentTask(brief(limits=limits), sandbox, SEED, journal, tick), model)


def test_the_opening_states_rules_budget_and_schema_then_the_task() -> None:
    system, user = opening_messages(brief(limits=Limits(turns=7)))
    assert (system.role, user.role, user.text) == (Role.SYSTEM, Role.USER, "Find x.")
    assert "You have 7 turns." in system.text
    assert SCHEMA in system.text
    assert "Your tool calls may take 15 minutes in all, one of them 60 seconds" in system.text


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


def test_calls_beyond_the_cap_are_neither_kept_nor_sent_back(sandbox: Sandbox) -> None:
    flood = call(*[("write_file", {"path": f"{n}.txt", "content": ""}) for n in range(50)])
    model = Playback([flood, LOOK, say(ANSWER)])
    done = conduct(model, sandbox)
    first = done.steps[0]
    assert len(first.reply.message.calls) == len(first.uses) == MAX_CALLS
    assert first.reply.dropped_calls == 50 - MAX_CALLS
    assert first.uses[-1].result.text.endswith(
        "[34 more tool calls of this message were dropped: at most 16 are carried out in one "
        "turn]\n[9 turns left]"
    )
    assert model.asked[1].messages[-MAX_CALLS - 1].calls == flood.message.calls[:MAX_CALLS]
    assert done.steps[1].uses[0].result.text.count(".txt") == MAX_CALLS + 1


def test_a_model_that_calls_on_is_asked_once_more_with_closed_tools(sandbox: Sandbox) -> None:
    model = Playback([LOOK, LOOK, say(ANSWER)])
    done = conduct(model, sandbox, Limits(turns=2))
    assert (done.stop, done.answer) == (StopReason.TURN_LIMIT, ANSWER)
    assert "[1 turn left]" in done.steps[0].uses[0].result.text
    assert "[0 turns left]" in done.steps[1].uses[0].result.text
    assert [request.tools for request in model.asked] == [TOOLS] * 3, "the same prefix"
    assert [request.tool_choice for request in model.asked] == ["auto", "auto", "none"]
    asked = last_question(StopReason.TURN_LIMIT, brief())
    assert model.asked[2].messages[-1].text == done.steps[2].prompt == asked
    assert [step.closed for step in done.steps] == [None, None, StopReason.TURN_LIMIT]


def test_calls_at_the_last_question_are_refused_and_the_text_counts(sandbox: Sandbox) -> None:
    both = replace(LOOK, message=replace(LOOK.message, text=ANSWER))
    done = conduct(Playback([LOOK, both]), sandbox, Limits(turns=1))
    assert (done.stop, done.answer) == (StopReason.TURN_LIMIT, ANSWER)
    assert [use.result.text for use in done.steps[-1].uses] == ["Error: the tools are closed"]


def test_an_agent_that_used_up_its_working_time_is_asked_for_its_answer(sandbox: Sandbox) -> None:
    sleep = call(("execute_python", {"code": "import time; time.sleep(30)"}))
    limits = Limits(tool_seconds=30, working_seconds=1.5)
    begun = time.monotonic()
    done = conduct(Playback([sleep, say(ANSWER)]), sandbox, limits)
    assert time.monotonic() - begun < 10
    assert (done.stop, done.answer) == (StopReason.TIME_LIMIT, ANSWER)
    assert done.steps[0].uses[0].limits == ("time",)
    assert done.steps[1].prompt.startswith("Your time for tool calls is used up")


def test_waiting_for_the_model_takes_no_working_time(sandbox: Sandbox) -> None:
    hours: list[float] = [0.0]

    def wait(reply: Reply) -> Callable[[ModelRequest], Reply]:
        def respond(request: ModelRequest) -> Reply:
            hours[0] += 3600.0
            return reply

        return respond

    limits = Limits(working_seconds=10.0)
    model = Playback([wait(LOOK), wait(LOOK), wait(say(ANSWER))])
    done = conduct(model, sandbox, limits, tick=lambda: hours[0])
    assert (done.stop, done.answer) == (StopReason.ANSWERED, ANSWER)
    assert [step.seconds for step in done.steps] == [3600.0] * 3


def test_beyond_its_wall_time_an_attempt_is_missing(sandbox: Sandbox) -> None:
    """And the reply that was on its way is kept."""
    hours: list[float] = [0.0]

    def respond(request: ModelRequest) -> Reply:
        hours[0] += 4 * 3600.0
        return LOOK

    done = conduct(Playback([respond] * 9), sandbox, tick=lambda: hours[0])
    assert (done.stop, done.error_class) == (StopReason.FAILED, "worker:wall_limit")
    assert len(done.steps) == 2


def test_an_answer_that_came_after_the_wall_time_counts(sandbox: Sandbox) -> None:
    hours: list[float] = [0.0]

    def respond(request: ModelRequest) -> Reply:
        hours[0] += 7 * 3600.0
        return say(ANSWER)

    done = conduct(Playback([respond]), sandbox, tick=lambda: hours[0])
    assert (done.stop, done.answer) == (StopReason.ANSWERED, ANSWER)


def test_a_provider_failure_is_data_and_the_steps_before_it_are_kept(sandbox: Sandbox) -> None:
    lost = AttemptFailed(Boundary.PROVIDER, "overload", "HTTP 503")
    done = conduct(Playback([LOOK, lost]), sandbox)
    assert (done.stop, done.error_class) == (StopReason.FAILED, "provider:overload")
    assert len(done.steps) == 1


def test_an_unknown_count_of_tokens_makes_the_sum_unknown_not_smaller(sandbox: Sandbox) -> None:
    assert conduct(Playback([LOOK, say(ANSWER, tokens=None)]), sandbox).usage == Usage(None, None)


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
