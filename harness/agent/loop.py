"""The agent loop: a model, its tools, and a brief."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add

from generators.grading.answer import MAX_ANSWER_BYTES, parse_answer
from generators.seed import Seed
from generators.task import Brief
from harness.agent.caps import MAX_CALLS, cap_reply
from harness.agent.conversation import conversation, fit_pictures, leave_out, leave_out_more
from harness.agent.limits import Ceiling
from harness.agent.prompts import (
    UNLIMITED,
    Libraries,
    last_question,
    opening_messages,
    reminder,
    spell_turns_left,
)
from harness.agent.tools import TOOLS, use_tool
from harness.episode import SECONDS_DIGITS, StopReason, Turn
from harness.errors import AttemptFailed, Boundary
from harness.model import (
    OVERFLOW,
    REFUSED,
    Asked,
    Message,
    Model,
    ModelRequest,
    Omission,
    Reply,
    Role,
    ToolCall,
    ToolUse,
    Try,
    Usage,
)
from harness.models.providers.verdict import CUT_OFF
from harness.sandboxes.sandbox import Sandbox, SandboxRefused
from harness.spending.purchases import Journal

ANSWER_FILE = "answer.json"
WALL_LIMIT = "wall_limit"  # error class of an attempt that took longer than an episode may

# The duration at the end of a tool's result; it differs between two runs.
_TOOK = re.compile(r"^(\[exit code \d+, )\d+\.\d\d s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What an agent works with in one episode. ``tick`` is a monotonic clock in
    seconds, ``seed`` the model's own."""

    brief: Brief
    sandbox: Sandbox
    seed: Seed
    journal: Journal
    tick: Callable[[], float]
    ceiling: Ceiling = UNLIMITED


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
        if self.final is not None and self.stop is not StopReason.FAILED:
            return self.final
        if self.stop is StopReason.FAILED or not self.steps:
            return ""
        last = self.steps[-1]
        # With calls in an open turn, a limit has left no room for a last question.
        return "" if last.reply.message.calls and not last.closed else last.reply.message.text

    @property
    def usage(self) -> Usage:
        """Summed over the turns; unknown as soon as one turn's is."""
        known = [step.reply.usage for step in self.steps]
        return reduce(add, known) if known else Usage()


def run_agent(task: AgentTask, model: Model, libraries: Libraries = ()) -> AgentRun:
    """Let the model work on the task until it answers or meets a limit: turns, working time,
    tokens, cost, the length of what it takes. ``libraries`` are those of the sandbox.

    An AttemptFailed ends the run as FAILED with the turns so far, and so does the wall time of an
    episode. Raises HarnessError if the ceiling cannot be enforced.
    """
    opening = opening_messages(task.brief, libraries, task.ceiling)
    session, error = _Session(task, model, opening, task.tick()), ""
    try:
        stop = session.work()
    except AttemptFailed as failed:
        stop, error = StopReason.FAILED, f"{failed.boundary}:{failed.error_class}"
    return AgentRun(opening, tuple(session.steps), stop, error)


def buy_reply(model: Model, journal: Journal, turn: int, request: ModelRequest) -> Reply:
    """Return the model's reply, capped. A paid one is stored before it is acted on, and a failed
    request before it is retried."""
    if not model.paid:
        return cap_reply(model.respond(request))
    stored = journal.load(turn)
    if stored is not None:
        return stored
    recorded = replace(request, keep=partial(journal.keep_failed, turn), admit=journal.admit)
    return journal.save(turn, cap_reply(model.respond(recorded)))


def recall(again: Sequence[ToolUse], seen: Sequence[ToolUse]) -> tuple[ToolUse, ...]:
    """Return the tool uses that the model saw; a different result of carrying a call out again is
    noted as ``diverged``."""

    def compare(seen: ToolUse, again: ToolUse) -> ToolUse:
        then, now = seen.result, again.result
        same = _TOOK.sub(r"\1", then.text) == _TOOK.sub(r"\1", now.text)
        return seen if same and then.images == now.images else replace(seen, diverged=now.text)

    return tuple(compare(*pair) for pair in zip(seen, again, strict=True))


@dataclass(slots=True)
class _Session:
    """One run of the agent loop: what it works with, and the turns so far."""

    task: AgentTask
    model: Model
    opening: tuple[Message, ...]
    begun: float
    steps: list[Turn] = field(default_factory=list)
    left_out: Omission | None = None
    worked: float = 0.0  # seconds of all tool calls, at most what they took at first

    def work(self) -> StopReason:
        """Take turns and return what ended them. The last one has its tools closed, unless the
        model answered before, or a limit leaves no room for it."""
        while True:
            asked = self._next_question()
            if isinstance(asked, StopReason):
                return asked
            step = self._take_turn(asked)
            if step is None:
                return StopReason.CONTEXT_LIMIT
            self.steps.append(step)
            if step.closed is not None:
                return self._ended(step, step.closed)

    def _next_question(self) -> Asked | StopReason:
        """What the next turn is asked, beyond the conversation so far; or what has ended it. A
        message with neither a call nor an answer is followed by a reminder, once."""
        prompt, taken, turns = "", len(self.steps), self.task.brief.limits.turns
        if self.steps and not self.steps[-1].reply.message.calls:
            last = self.steps[-1]
            if self._is_answered(last) or any(step.prompt for step in self.steps):
                return self._ended(last, StopReason.ANSWERED)
            prompt = reminder(self.task.brief, last.reply.finish == CUT_OFF, turns - taken)
        met = self.task.ceiling.met([step.reply.usage for step in self.steps])
        if met is None and taken >= turns:
            met = StopReason.TURN_LIMIT, True
        elif met is None and self._seconds_left() <= 0:
            met = StopReason.TIME_LIMIT, True
        if met is None:
            return Asked(prompt=prompt)
        limit, fits = met
        return Asked(prompt=last_question(limit, self.task.brief), closed=limit) if fits else limit

    def _ended(self, step: Turn, reason: StopReason) -> StopReason:
        """The reason, or TRUNCATED if the final message was cut off by the limit on output tokens
        and is no answer: there is none, or all of the message is the answer."""
        if step.reply.finish != CUT_OFF:
            return reason
        whole = bool(self.task.brief.answer_schema) and self._is_answered(step)
        return reason if whole else StopReason.TRUNCATED

    def _is_answered(self, step: Turn) -> bool:
        """Return True if an answer can be read from the message, or from the answer file."""
        text = step.reply.message.text
        if not self.task.brief.answer_schema:
            return bool(text.strip())
        return parse_answer(text) is not None or parse_answer("", self._answer_file()) is not None

    def _answer_file(self) -> bytes | None:
        try:
            return self.task.sandbox.read(ANSWER_FILE, MAX_ANSWER_BYTES)
        except SandboxRefused:
            return None

    def _take_turn(self, asked: Asked) -> Turn | None:
        """Take the next turn; None if the conversation is too long with all left out that can
        be. If an earlier conversation that this one resumes took it, all is as it was then."""
        begun, turn, paid = self.task.tick(), len(self.steps), self.model.paid
        reply = self.task.journal.load(turn) if paid else None
        if reply is None:
            made = self._respond(turn, asked)
            if made is None:
                return None
            reply, asked = made
            if paid:
                reply = self.task.journal.save(turn, replace(reply, asked=asked))
        if reply.asked is not None:
            asked = reply.asked
            self._recall(asked.uses)
            reply = replace(reply, asked=None)
        self.left_out = asked.left_out
        closed = StopReason(asked.closed) if asked.closed else None
        uses = self._use_tools(reply) if closed is None else _refuse(reply.message.calls)
        if closed is None and uses:
            uses = _add_note(uses, self._spell_notes(reply, turn))
        return Turn(
            reply=reply,
            uses=uses,
            seconds=self._since(begun),
            prompt=asked.prompt,
            closed=closed,
            left_out=asked.left_out,
        )

    def _respond(self, turn: int, asked: Asked) -> tuple[Reply, Asked] | None:
        """Ask the model and return its reply with what it was asked; None if the conversation is
        too long whatever is left out. A request may be refused for what a tool's result has in it,
        so the results go too, and the attempt fails only if it is refused without any. A first
        request is not caused by the model: the attempt fails."""
        if self.task.tick() - self.begun > self.task.brief.limits.wall_seconds:
            raise AttemptFailed(Boundary.WORKER, WALL_LIMIT)
        messages = conversation(self.opening, self.steps)
        question = (Message(Role.USER, asked.prompt),) if asked.prompt else ()
        left_out = fit_pictures(messages, self.left_out)
        # A name that the turns share: a digest, from which nothing of the seed follows.
        name = self.task.seed.child("conversation").hex[:32]
        tried: list[str] = []

        def keep(failed: Try) -> None:
            tried.append(failed.kind)
            self.task.journal.keep_failed(turn, failed)

        while True:
            earlier = tuple(tried)
            request = ModelRequest(
                (*leave_out(messages, left_out), *question),
                TOOLS,
                self.task.seed.child("turn", turn),
                keep if self.model.paid else None,
                self.task.journal.admit if self.model.paid else None,
                conversation=name,
                tool_choice="none" if asked.closed else "auto",
            )
            try:
                reply = cap_reply(self.model.respond(request))
            except AttemptFailed as lost:
                error = lost.error_class if lost.boundary is Boundary.PROVIDER else ""
                if turn == 0 or error not in (OVERFLOW, REFUSED):
                    raise
                left_out = leave_out_more(messages, left_out)
                if left_out is None and error == OVERFLOW:
                    return None
                if left_out is None:
                    raise
                continue
            if earlier:
                failed, retries = (*earlier, *reply.failed), len(earlier) + reply.retries
                reply = replace(reply, failed=failed, retries=retries)
            uses = self.steps[-1].uses if self.steps else ()
            return reply, Asked(uses, asked.prompt, asked.closed, left_out)

    def _recall(self, seen: tuple[ToolUse, ...]) -> None:
        """Bring the last turn to what the model had seen of it when it gave a stored reply.
        Carrying out its calls again takes no more working time than it took then."""
        if not self.steps or seen is self.steps[-1].uses:
            return
        last = self.steps[-1]
        pairs = zip(last.uses, seen, strict=True)
        self.worked -= sum(max(again.seconds - then.seconds, 0.0) for again, then in pairs)
        self.steps[-1] = replace(last, uses=recall(last.uses, seen))

    def _use_tools(self, reply: Reply) -> tuple[ToolUse, ...]:
        limits, uses = self.task.brief.limits, []
        for call in reply.message.calls:
            # A second of grace, so that a call at the very end reports its limit by itself.
            seconds = min(limits.tool_seconds, max(self._seconds_left(), 1.0))
            use = use_tool(call, self.task.sandbox, limits, seconds, self.task.tick)
            self.worked += use.seconds
            uses.append(use)
        return tuple(uses)

    def _spell_notes(self, reply: Reply, turn: int) -> str:
        """The notes at the end of the last tool's result."""
        left = spell_turns_left(self.task.brief.limits.turns - turn - 1)
        if not reply.dropped_calls:
            return left
        return (
            f"[{reply.dropped_calls:,} more tool calls of this message were dropped: at most "
            f"{MAX_CALLS} are carried out in one turn]\n{left}"
        )

    def _since(self, begun: float) -> float:
        return round(self.task.tick() - begun, SECONDS_DIGITS)

    def _seconds_left(self) -> float:
        return self.task.brief.limits.working_seconds - self.worked


def _refuse(calls: Sequence[ToolCall]) -> tuple[ToolUse, ...]:
    """The refusals of calls in a turn with closed tools."""
    text = "Error: the tools are closed"
    return tuple(
        ToolUse(call.id, call.name, Message(Role.TOOL, text, call_id=call.id), 0.0)
        for call in calls
    )


def _add_note(uses: tuple[ToolUse, ...], note: str) -> tuple[ToolUse, ...]:
    """The uses; the last result has the note at its end."""
    *earlier, last = uses
    text = f"{last.result.text}\n\n{note}"
    return (*earlier, replace(last, result=replace(last.result, text=text)))
