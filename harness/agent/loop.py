"""The agent loop: a model, its tools, and a brief."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add

from generators.seed import Seed
from generators.task import Brief
from harness.agent.limits import Ceiling
from harness.agent.tools import TOOLS, use_tool
from harness.episode import SECONDS_DIGITS, StopReason, Turn
from harness.errors import AttemptFailed, Boundary
from harness.model import (
    AS_ASKED,
    OVERFLOW,
    Message,
    Model,
    ModelRequest,
    Reply,
    Role,
    ToolUse,
    Try,
    Usage,
)
from harness.sandboxes import Sandbox
from harness.spending import Journal

# The duration at the end of a tool's result; it differs between two runs.
_TOOK = re.compile(r"^(\[exit code \d+, )\d+\.\d\d s", re.MULTILINE)


def recall(again: Sequence[ToolUse], seen: Sequence[ToolUse]) -> tuple[ToolUse, ...]:
    """Return the tool uses that the model saw; a different result of carrying a call out again is
    noted as ``diverged``."""

    def compare(seen: ToolUse, again: ToolUse) -> ToolUse:
        then, now = seen.result, again.result
        same = _TOOK.sub(r"\1", then.text) == _TOOK.sub(r"\1", now.text)
        return seen if same and then.images == now.images else replace(seen, diverged=now.text)

    return tuple(compare(*pair) for pair in zip(seen, again, strict=True))


# Tool calls beyond these in one turn are answered with a refusal.
MAX_CALLS = 16

_RULES = """\
You are working on a task on your own. Its input files, if any, lie in the work folder of a \
sandbox: a Linux machine without network, with {libraries}. You reach it \
through the tools only; their paths are relative to the work folder.

You have {turns} turns. A turn is one message of yours, with any number of tool calls in it. \
After each turn you are told how many are left. Your first message without a tool call is taken \
as your final answer. When the turns are used up you are asked once more for your best answer, \
without tools. All of it may take {minutes:g} minutes{tokens}, one tool call {seconds:g} seconds.
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

_CLOSED = (
    "Your {budget} used up and the tools are closed. Give your best answer from what you have, "
)
_NO_ROOM = (
    "The conversation has become too long for you: what your last tools answered was left out. "
)
_LEFT_OUT = "[left out: the conversation has become too long]"
_BUDGETS = {
    StopReason.TURN_LIMIT: "turns are",
    StopReason.TOKEN_LIMIT: "budget of tokens is",
    StopReason.COST_LIMIT: "budget is",
    StopReason.CONTEXT_LIMIT: "context is",
}
_ENDING = "ending with the JSON object between the lines <answer> and </answer>."
_ENDING_AS_ASKED = "exactly as the task asks for it."
LAST_ASK = _CLOSED.format(budget=_BUDGETS[StopReason.TURN_LIMIT]) + _ENDING


Libraries = tuple[tuple[str, str], ...]  # name, version
UNLIMITED: Ceiling = Ceiling()


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One run of an agent: messages, turns and how it ended."""

    opening: tuple[Message, ...]
    steps: tuple[Turn, ...]
    stop: StopReason
    error_class: str = ""
    final: str | None = None  # the final message, where it is not the last step's

    @property
    def answer(self) -> str:
        """The final message's text; empty if the agent gave none."""
        if self.stop in (StopReason.FAILED, StopReason.TIME_LIMIT):
            return ""
        if self.final is None and self.steps[-1].reply.message.calls and not self.steps[-1].prompt:
            return ""  # a limit left no room for a last question
        return self.steps[-1].reply.message.text if self.final is None else self.final

    @property
    def usage(self) -> Usage:
        """Summed over the turns; unknown as soon as one turn's is."""
        known = [step.reply.usage for step in self.steps]
        return reduce(add, known) if known else Usage()


def opening_messages(
    brief: Brief, libraries: Libraries = (), ceiling: Ceiling = UNLIMITED
) -> tuple[Message, ...]:
    """The first messages: the rules, then the task's prompt. ``libraries`` are those of the
    sandbox, Python among them."""
    limits = brief.limits
    rules = SYSTEM if brief.answer_schema else SYSTEM_AS_ASKED
    system = rules.format(
        libraries=_spell_libraries(libraries),
        tokens="" if ceiling.tokens is None else f" and {ceiling.tokens:,} tokens (in and out)",
        turns=limits.turns,
        minutes=limits.episode_seconds / 60,
        seconds=limits.tool_seconds,
        schema=brief.answer_schema,
    )
    return Message(Role.SYSTEM, system), Message(Role.USER, brief.prompt)


def _spell_libraries(libraries: Libraries) -> str:
    versions = dict(libraries)
    python = f"Python {versions.pop('Python', '3')}"
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{python} and these libraries: {named}" if named else python


def run_agent(
    brief: Brief,
    model: Model,
    sandbox: Sandbox,
    seed: Seed,
    journal: Journal,
    tick: Callable[[], float],
    *,
    libraries: Libraries = (),
    ceiling: Ceiling = UNLIMITED,
) -> AgentRun:
    """Let the model work on the brief until it answers or meets a limit: turns, time, tokens, cost,
    the length of what it takes.

    ``seed`` is the model's own; ``tick`` a monotonic clock in seconds; ``libraries`` what the
    sandbox has. An AttemptFailed ends the run as FAILED with the turns so far. Raises HarnessError
    if the ceiling cannot be enforced.
    """
    opening = opening_messages(brief, libraries, ceiling)
    session = _Session(brief, model, sandbox, seed, journal, tick, opening, tick(), ceiling)
    steps: list[Turn] = []
    try:
        stop = session.work(steps)
    except AttemptFailed as failed:
        error = f"{failed.boundary}:{failed.error_class}"
        return AgentRun(opening, tuple(steps), StopReason.FAILED, error)
    return AgentRun(opening, tuple(steps), stop)


def buy_reply(model: Model, journal: Journal, turn: int, request: ModelRequest) -> Reply:
    """Return the model's reply. A paid one is stored before it is acted on, and a failed request
    before it is retried."""
    if not model.paid:
        return model.respond(request)
    stored = journal.load(turn)
    if stored is not None:
        return stored
    recorded = replace(request, keep=partial(journal.keep_failed, turn))
    return journal.save(turn, model.respond(recorded))


def buy_or_overflow(
    model: Model,
    journal: Journal,
    turn: int,
    request: ModelRequest,
    uses: tuple[ToolUse, ...] = (),
) -> Reply:
    """As ``buy_reply``, but a conversation that is too long for the model also has a reply: an
    empty one with finish ``OVERFLOW``, which cost nothing. It is stored as any other reply of a
    paid model, so that all attempts that resume from it agree."""
    tried: list[Try] = []

    def keep(failed: Try) -> None:
        tried.append(failed)
        journal.keep_failed(turn, failed)

    stored = journal.load(turn) if model.paid else None
    if stored is not None:
        return stored
    try:
        reply = model.respond(replace(request, keep=keep) if model.paid else request)
    except AttemptFailed as failed:
        if (failed.boundary, failed.error_class) != (Boundary.PROVIDER, OVERFLOW):
            raise
        kinds = tuple(each.kind for each in tried)
        raw = tried[-1].raw if tried else b""
        silent = Message(Role.ASSISTANT, "")
        reply = Reply(silent, Usage(0, 0), "", OVERFLOW, raw, len(kinds), kinds)
    return journal.save(turn, replace(reply, heard=uses)) if model.paid else reply


@dataclass(frozen=True, slots=True)
class _Session:
    """One run of the agent loop and what it works with."""

    brief: Brief
    model: Model
    sandbox: Sandbox
    seed: Seed
    journal: Journal
    tick: Callable[[], float]
    opening: tuple[Message, ...]
    begun: float
    ceiling: Ceiling

    def work(self, steps: list[Turn]) -> StopReason:
        """Take turns, add each to ``steps`` as it ends, and return what ended them. The last one
        has no tool calls, unless time ran out or a limit leaves no room for it."""
        messages = list(self.opening)
        for turn in range(self.brief.limits.turns + 1):
            if self._seconds_left() <= 0:
                return StopReason.TIME_LIMIT
            met = self.ceiling.met([step.reply.usage for step in steps])
            stop, fits = met or (StopReason.TURN_LIMIT, True)
            if met is not None or turn == self.brief.limits.turns:
                return self._close(turn, messages, stop, steps) if fits else stop
            step = self._take_step(turn, messages, steps)
            if step.reply.finish == OVERFLOW:
                return self._close_shortened(turn + 1, messages, steps)
            steps.append(step)
            if not step.reply.message.calls:
                return StopReason.ANSWERED
            messages += [step.reply.message, *(use.result for use in step.uses)]
        raise AssertionError("the last turn returns")

    def _take_step(self, turn: int, messages: list[Message], steps: list[Turn]) -> Turn:
        begun = self.tick()
        seed, name = self._seed(turn), self._conversation()
        request = ModelRequest(tuple(messages), TOOLS, seed, conversation=name)
        reply = self._ask(turn, request, messages, steps)
        left = self.brief.limits.turns - turn - 1
        uses = _with_turns_left(self._use_tools(reply), left)
        return Turn(reply, uses, self._since(begun))

    def _close(
        self, turn: int, messages: list[Message], stop: StopReason, steps: list[Turn]
    ) -> StopReason:
        """Ask the last question and return what ended the turns."""
        step = self._ask_last(turn, messages, stop, steps)
        if step.reply.finish == OVERFLOW:
            return self._close_shortened(turn + 1, messages, steps)
        steps.append(step)
        return stop

    def _close_shortened(self, turn: int, messages: list[Message], steps: list[Turn]) -> StopReason:
        """Ask the last question of a conversation that is too long, once: without the results of
        the last tools, since the model took all messages before them."""
        if self._seconds_left() <= 0:
            return StopReason.TIME_LIMIT
        answered = len(steps[-1].uses)
        earlier = messages[: len(messages) - answered]
        short = [replace(each, text=_LEFT_OUT, images=()) for each in messages[len(earlier) :]]
        step = self._ask_last(turn, earlier + short, StopReason.CONTEXT_LIMIT, steps)
        if step.reply.finish != OVERFLOW:
            steps.append(step)
        return StopReason.CONTEXT_LIMIT

    def _ask_last(
        self, turn: int, messages: list[Message], stop: StopReason, steps: list[Turn]
    ) -> Turn:
        begun = self.tick()
        ending = _ENDING if self.brief.answer_schema else _ENDING_AS_ASKED
        last_ask = _CLOSED.format(budget=_BUDGETS[stop]) + ending
        if stop is StopReason.CONTEXT_LIMIT:
            last_ask = _NO_ROOM + last_ask
        asked = (*messages, Message(Role.USER, last_ask))
        seed, name = self._seed(turn), self._conversation()
        request = ModelRequest(asked, (), seed, conversation=name)
        reply = self._ask(turn, request, messages, steps)
        return Turn(reply, (), self._since(begun), prompt=last_ask)

    def _ask(
        self, turn: int, request: ModelRequest, messages: list[Message], steps: list[Turn]
    ) -> Reply:
        """Return the reply. If an earlier conversation that this one resumes bought it, the last
        turn and messages become what the model saw then.

        A first request that is too long is not caused by the model: the attempt fails.
        """
        if turn == 0:
            return buy_reply(self.model, self.journal, turn, request)
        uses = steps[-1].uses
        reply = buy_or_overflow(self.model, self.journal, turn, request, uses)
        if reply.heard and reply.heard is not uses:
            steps[-1] = replace(steps[-1], uses=recall(uses, reply.heard))
            messages[len(messages) - len(uses) :] = [use.result for use in steps[-1].uses]
        return replace(reply, heard=())

    def _use_tools(self, reply: Reply) -> tuple[ToolUse, ...]:
        calls, limits = reply.message.calls, self.brief.limits
        uses = []
        for call in calls[:MAX_CALLS]:
            # A second of grace, so that a call at the very end reports its limit by itself.
            seconds = min(limits.tool_seconds, max(self._seconds_left(), 1.0))
            uses.append(use_tool(call, self.sandbox, limits, seconds, self.tick))
        return (*uses, *(_refuse(call.id, call.name) for call in calls[MAX_CALLS:]))

    def _since(self, begun: float) -> float:
        return round(self.tick() - begun, SECONDS_DIGITS)

    def _seed(self, turn: int) -> Seed:
        return self.seed.child("turn", turn)

    def _conversation(self) -> str:
        """A name that the turns share: a digest, from which nothing of the seed follows."""
        return self.seed.child("conversation").hex[:32]

    def _seconds_left(self) -> float:
        return self.begun + self.brief.limits.episode_seconds - self.tick()


def _refuse(call_id: str, name: str) -> ToolUse:
    text = f"Error: at most {MAX_CALLS} tool calls are carried out in one turn"
    return ToolUse(call_id, name, Message(Role.TOOL, text, call_id=call_id), 0.0)


def _with_turns_left(uses: tuple[ToolUse, ...], left: int) -> tuple[ToolUse, ...]:
    """The uses; the last result also states how many turns are left."""
    if not uses:
        return uses
    *earlier, last = uses
    text = f"{last.result.text}\n\n[{left} turn{'' if left == 1 else 's'} left]"
    return (*earlier, replace(last, result=replace(last.result, text=text)))
