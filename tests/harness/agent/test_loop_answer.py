"""A message without an answer: the model is reminded once; one that was cut off is truncated."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from generators.seed import Seed
from generators.task import Brief, Limits
from harness.agent.loop import AgentRun, AgentTask, run_agent
from harness.episode import StopReason
from harness.model import Reply
from harness.sandboxes.sandbox import Sandbox
from harness.spending.purchases import MemoryJournal
from tests.harness.script import ANSWER, Playback, brief, call, say

SEED = Seed(bytes(32))
LOOK = call(("run_command", {"command": "ls"}))
AS_ASKED = replace(brief(), answer_schema="")


def conduct(
    model: Playback,
    sandbox: Sandbox,
    asked: Brief | None = None,
    journal: MemoryJournal | None = None,
) -> AgentRun:
    journal = journal or MemoryJournal()
    task = AgentTask(asked or brief(), sandbox, SEED, journal, time.monotonic)
    return run_agent(task, model)


def cut(text: str) -> Reply:
    return replace(say(text), finish="length")


def test_a_message_without_call_and_answer_is_followed_by_one_reminder(sandbox: Sandbox) -> None:
    model = Playback([say("Let me think."), LOOK, say(ANSWER)])
    done = conduct(model, sandbox)
    assert (done.stop, done.answer) == (StopReason.ANSWERED, ANSWER)
    assert [bool(step.prompt) for step in done.steps] == [False, True, False]
    asked = model.asked[1]
    assert asked.messages[-1].text == done.steps[1].prompt
    assert "neither a tool call nor an answer" in asked.messages[-1].text
    assert "[9 turns left]" in asked.messages[-1].text
    assert asked.tool_choice == "auto"
    assert model.asked[2].messages[: len(asked.messages)] == asked.messages


def test_it_is_reminded_once_and_then_it_has_ended(sandbox: Sandbox) -> None:
    model = Playback([say("Hm."), LOOK, say("I give up."), say(ANSWER)])
    done = conduct(model, sandbox)
    assert (done.stop, done.answer, len(model.asked)) == (StopReason.ANSWERED, "I give up.", 3)


def test_an_answer_file_is_an_answer(sandbox: Sandbox) -> None:
    written = call(("write_file", {"path": "answer.json", "content": '{"x": 1}'}))
    model = Playback([written, say("It is in the file.")])
    assert conduct(model, sandbox).stop is StopReason.ANSWERED
    broken = call(("write_file", {"path": "answer.json", "content": "{"}))
    model = Playback([broken, say("It is in the file."), written, say("Now it is.")])
    done = conduct(model, sandbox)
    assert (done.stop, len(done.steps)) == (StopReason.ANSWERED, 4)


def test_where_the_message_is_the_answer_only_an_empty_one_has_none(sandbox: Sandbox) -> None:
    done = conduct(Playback([say("Seven.")]), sandbox, AS_ASKED)
    assert (done.stop, done.answer) == (StopReason.ANSWERED, "Seven.")
    done = conduct(Playback([say(" \n"), say("Seven.")]), sandbox, AS_ASKED)
    assert (done.stop, done.answer) == (StopReason.ANSWERED, "Seven.")
    assert done.steps[1].prompt.startswith("Your last message has neither")


def test_the_last_question_takes_the_place_of_the_reminder(sandbox: Sandbox) -> None:
    limits = Limits(turns=1)
    model = Playback([say("Hm."), say("I do not know.")])
    done = conduct(model, sandbox, brief(limits=limits))
    assert (done.stop, done.answer) == (StopReason.TURN_LIMIT, "I do not know.")
    assert [step.closed for step in done.steps] == [None, StopReason.TURN_LIMIT]
    assert len(model.asked) == 2, "and none follows it"


@pytest.mark.parametrize(
    ("replies", "stop", "turns"),
    [
        ([cut("x = <answer>{")], StopReason.TRUNCATED, 2),
        ([cut("So"), say(ANSWER)], StopReason.ANSWERED, 2),
        ([cut("So"), say("I give up.")], StopReason.ANSWERED, 2),
        ([cut(ANSWER)], StopReason.ANSWERED, 1),
    ],
)
def test_a_message_that_was_cut_off_before_its_answer(
    sandbox: Sandbox, replies: list[Reply], stop: StopReason, turns: int
) -> None:
    model = Playback(replies * 2)
    done = conduct(model, sandbox)
    assert (done.stop, len(done.steps)) == (stop, turns)
    if turns == 2:
        assert "cut off at the limit of its length" in model.asked[1].messages[-1].text


def test_an_answer_word_for_word_that_was_cut_off_is_truncated(sandbox: Sandbox) -> None:
    done = conduct(Playback([cut("It was the")]), sandbox, AS_ASKED)
    assert (done.stop, done.answer) == (StopReason.TRUNCATED, "It was the")


def test_a_last_question_that_was_cut_off_is_truncated(sandbox: Sandbox) -> None:
    done = conduct(Playback([LOOK, cut("So")]), sandbox, brief(limits=Limits(turns=1)))
    assert (done.stop, done.answer) == (StopReason.TRUNCATED, "So")


def test_a_cut_off_call_is_answered_as_any_bad_call(sandbox: Sandbox) -> None:
    half = replace(call(("run_command", '{"command": "l')), finish="length")
    done = conduct(Playback([half, say(ANSWER)]), sandbox)
    assert done.steps[0].uses[0].result.text.startswith("Error: the arguments are not valid JSON")
    assert done.stop is StopReason.ANSWERED


# --- after a kill ---


class Killed(BaseException):
    """Stands for the end of the process at this very moment."""


def die(request: object) -> Reply:
    raise Killed


def test_reminder_and_last_question_are_what_they_were(sandbox: Sandbox) -> None:
    """Whatever the clock and the work folder are now: the stored replies settle it."""
    limits = Limits(working_seconds=0.5)
    sleep = call(("execute_python", {"code": "import time; time.sleep(5)"}))
    first = Playback([say("Hm."), sleep, say(ANSWER)], paid=True)
    journal = MemoryJournal()
    before = conduct(first, sandbox, brief(limits=limits), journal)
    assert (before.stop, before.answer) == (StopReason.TIME_LIMIT, ANSWER)
    generous = brief(limits=Limits(working_seconds=900.0, tool_seconds=0.1))
    after = conduct(Playback([], paid=True), sandbox, generous, MemoryJournal(journal.replies))
    assert after.stop is StopReason.TIME_LIMIT
    assert [step.prompt for step in after.steps] == [step.prompt for step in before.steps]
    assert [step.closed for step in after.steps] == [step.closed for step in before.steps]


def test_carrying_calls_out_again_takes_no_more_working_time_than_it_took(sandbox: Sandbox) -> None:
    limits = Limits(working_seconds=6.0)
    quick = call(("execute_python", {"code": "import time; time.sleep(.01)"}))
    journal = MemoryJournal()
    first = Playback([quick, quick, die], paid=True)
    with pytest.raises(Killed):
        conduct(first, sandbox, brief(limits=limits), journal)
    # As on a machine that is far too slow: each of the two takes longer than there is.
    slow = call(("execute_python", {"code": "import time; time.sleep(3.5)"}))
    stored = {turn: replace(reply, message=slow.message) for turn, reply in journal.replies.items()}
    second = Playback([say(ANSWER)], paid=True)
    done = conduct(second, sandbox, brief(limits=limits), MemoryJournal(stored))
    assert second.asked[0].tool_choice == "auto"
    assert (done.stop, done.answer) == (StopReason.ANSWERED, ANSWER)
