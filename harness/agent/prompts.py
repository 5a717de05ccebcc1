"""What the agent loop says to a model: the rules, the last question, and the one reminder."""

from __future__ import annotations

from generators.task import Brief
from harness.agent.limits import Ceiling
from harness.episode import StopReason
from harness.model import AS_ASKED, Message, Role

Libraries = tuple[tuple[str, str], ...]  # name, version
UNLIMITED: Ceiling = Ceiling()

_RULES = """\
You are working on a task on your own. Its input files, if any, lie in the work folder of a \
sandbox: a Linux machine without network, with {libraries}. You reach it \
through the tools only; their paths are relative to the work folder.

You have {turns} turns. A turn is one message of yours, with any number of tool calls in it. \
After each turn you are told how many are left. Your first message without a tool call is taken \
as your final answer. When the turns are used up you are asked once more for your best answer, \
without tools. Your tool calls may take {minutes:g} minutes in all, one of them {seconds:g} \
seconds; the time that you think is not counted.{tokens}
"""

SYSTEM = (
    _RULES
    + """
End your final answer with one JSON object between a line <answer> and a line </answer>. \
Instead, you may leave the object in the file answer.json in the work folder. It must fit this \
JSON Schema:
{schema}"""
)

SYSTEM_AS_ASKED = (
    _RULES
    + f"""
Paths in the task are relative to the work folder too. {AS_ASKED}; the files and \
folders that you leave are what the task is judged by where it asks for any."""
)

_TOKENS = " All turns together may take {:,} tokens (in and out)."
_CLOSED = (
    "Your {budget} used up and the tools are closed. Give your best answer from what you have, "
)
_BUDGETS = {
    StopReason.TURN_LIMIT: "turns are",
    StopReason.TIME_LIMIT: "time for tool calls is",
    StopReason.TOKEN_LIMIT: "budget of tokens is",
    StopReason.COST_LIMIT: "budget is",
}
_BLOCK = "ending with the JSON object between the lines <answer> and </answer>."
_AS_ASKED = "exactly as the task asks for it."

_NO_ANSWER = "Your last message has neither a tool call nor an answer."
_CUT_OFF = "Your last message was cut off at the limit of its length, before an answer."
_REMINDER = "{} Go on with a tool call, or give your final answer, {}"

TEXTS = (
    SYSTEM,
    SYSTEM_AS_ASKED,
    _TOKENS,
    _CLOSED,
    *_BUDGETS.values(),
    _BLOCK,
    _AS_ASKED,
    _NO_ANSWER,
    _CUT_OFF,
    _REMINDER,
)  # all of them, to be pinned


def opening_messages(
    brief: Brief, libraries: Libraries = (), ceiling: Ceiling = UNLIMITED
) -> tuple[Message, ...]:
    """The first messages: the rules, then the task's prompt. ``libraries`` are those of the
    sandbox, Python among them."""
    limits = brief.limits
    rules = SYSTEM if brief.answer_schema else SYSTEM_AS_ASKED
    system = rules.format(
        libraries=_spell_libraries(libraries),
        tokens="" if ceiling.tokens is None else _TOKENS.format(ceiling.tokens),
        turns=limits.turns,
        minutes=limits.working_seconds / 60,
        seconds=limits.tool_seconds,
        schema=brief.answer_schema,
    )
    return Message(Role.SYSTEM, system), Message(Role.USER, brief.prompt)


def last_question(limit: StopReason, brief: Brief) -> str:
    """The question for an answer once a limit has closed the tools."""
    return _CLOSED.format(budget=_BUDGETS[limit]) + _ending(brief)


def reminder(brief: Brief, cut_off: bool, turns_left: int) -> str:
    """The message to a model after one of its own with neither a call nor an answer."""
    text = _REMINDER.format(_CUT_OFF if cut_off else _NO_ANSWER, _ending(brief))
    return f"{text}\n\n{spell_turns_left(turns_left)}"


def spell_turns_left(count: int) -> str:
    """The number of turns left, as each turn's note to the model has it."""
    return f"[{count} turn{'' if count == 1 else 's'} left]"


def _ending(brief: Brief) -> str:
    return _BLOCK if brief.answer_schema else _AS_ASKED


def _spell_libraries(libraries: Libraries) -> str:
    versions = dict(libraries)
    python = f"Python {versions.pop('Python', '3')}"
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{python} and these libraries: {named}" if named else python
