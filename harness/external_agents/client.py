"""Agent servers: a model and its loop behind ``POST /api/chat``, as docs/agent-servers.md has it.

Either the server works in a folder of this host (``tree: host``), or it calls the tools of a
sandbox of this host over the bridge (``tree: bridge``). Its stream is read as rounds until it
closes, until its rounds are used up, or until the task's time is.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import count, islice, pairwise
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.seed import Seed
from generators.task import Brief
from harness.agent.caps import MAX_CALLS
from harness.agent.loop import WALL_LIMIT, AgentRun, AgentTask
from harness.agent.prompts import BLOCK_RULES
from harness.agent.tools import use_tool
from harness.episode import SECONDS_DIGITS, StopReason, ToolUse, Turn
from harness.errors import Boundary
from harness.external_agents.snapshot import (
    ConversationSnapshot,
    holds,
    lay_out,
    pack,
    read_tree,
    unpack,
)
from harness.external_agents.stream import MAX_STREAM_BYTES, ChatStream, MalformedStream, Round
from harness.external_agents.tool_bridge import Bridge, BridgedTools
from harness.model import Message, Reply, Role, ToolCall, Usage
from harness.models.providers.retry import RETRIED, ProviderError, kind_of_break, pause
from harness.models.providers.transport import asked_wait
from harness.models.providers.verdict import kind_of_status
from harness.models.settings import AgentServerSettings
from harness.sandboxes.local import LocalSandboxes, folder_of
from harness.sandboxes.sandbox import Sandbox, SandboxProvider, open_for

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

_NOTHING = Usage(0, 0)

# Before the task's own prompt, where the server shares this host.
FOLDER_LINE = "Your work folder is {folder} and paths are relative to it.\n\n"


class AgentServer:
    """An agent with a loop of its own, behind a server that speaks the streaming protocol.

    ``folders`` are those that it works in, if not the sandboxes of the run; then the user runs it,
    and nothing isolates it.
    """

    trusted = False
    resumes = True

    def __init__(
        self,
        name: str,
        settings: AgentServerSettings,
        api_key: str = "",
        sleep: Callable[[float], None] = time.sleep,
        own_files: bool = False,
    ) -> None:
        """With ``own_files`` the messages name their files: there is no folder and no bridge."""
        self.name = name
        self._version = settings.model
        self._settings = settings
        self._api_key = api_key
        self._sleep = sleep
        # Made at once: this removes what processes that were killed have left.
        tree = "" if own_files else settings.tree
        self.folders = LocalSandboxes() if tree == "host" else None
        host, _, port = settings.bridge.rpartition(":")
        bridge = Bridge(host.strip("[]"), int(port), settings.bridge_url or "")
        self._bridge = bridge if tree == "bridge" else None

    def __repr__(self) -> str:
        return f"AgentServer({self.name!r}, {self._version!r}, {self._settings.base_url!r})"

    def close(self) -> None:
        """Remove its folders."""
        if self.folders is not None:
            self.folders.close()

    @staticmethod
    def show(brief: Brief) -> str:
        """Return the message without a folder of this host."""
        return ask(brief, None)

    def open_sandbox(
        self, brief: Brief, sandboxes: SandboxProvider
    ) -> AbstractContextManager[Sandbox]:
        """Open a sandbox with the files of a task. Raises AttemptFailed."""
        return open_for(brief, sandboxes)

    def work(self, task: AgentTask) -> AgentRun:
        """Let it work on a task. A failure on its side ends the run as FAILED with the turns so
        far. A conversation that is in the journal is not repeated. Raises AttemptFailed if the
        sandbox is lost."""
        folder = None if self.folders is None else folder_of(task.sandbox)
        text = ask(task.brief, folder)
        stored = task.journal.load(0)
        if stored is not None:
            conversation = self._recall(unpack(stored.raw), task, folder)
        else:
            task.journal.admit()
            conversation = self._talk(text, task)
            self._keep(conversation, task, folder)
        return self._run_of(text, conversation)

    def chat(
        self, text: str, seed: Seed, seconds: float, untouched: Callable[[], bool]
    ) -> AgentRun:
        """Send one message as it stands and return the conversation. Files that it names are the
        caller's; a request is not sent again unless they are ``untouched``."""
        body = _request(self._settings, text)
        conversation = self._listen(body, seed, seconds, time.monotonic, untouched)
        return self._run_of(text, conversation)

    def _run_of(self, text: str, conversation: _Conversation) -> AgentRun:
        opening, steps = (Message(Role.USER, text),), tuple(self._steps(conversation))
        if conversation.error:
            return AgentRun(opening, steps, StopReason.FAILED, conversation.error)
        stop = conversation.ending
        final = "" if stop is StopReason.TIME_LIMIT else conversation.final
        return AgentRun(opening, steps, stop, final=final)

    def _talk(self, text: str, task: AgentTask) -> _Conversation:
        """Have the conversation, with the tools on the bridge for as long as it lasts. Its own
        limit of time is the agent's; beyond the task's wall time the attempt is missing."""
        limits, own = task.brief.limits, self._settings.seconds
        seconds = limits.wall_seconds if own is None else min(own, limits.wall_seconds)
        body = _request(self._settings, text)
        if self._bridge is None:
            folder, assets = folder_of(task.sandbox), task.brief.assets
            conversation = self._listen(
                body, task.seed, seconds, task.tick, lambda: holds(folder, assets)
            )
        else:
            most = self._settings.rounds * MAX_CALLS
            tools = BridgedTools(task.sandbox, limits, most, task.tick)
            with self._bridge.serve(tools):
                body["tools"] = {"url": tools.url, "token": tools.token}
                conversation = self._listen(
                    body, task.seed, seconds, task.tick, lambda: not tools.touched
                )
            conversation.calls, conversation.uses = tuple(tools.calls), tuple(tools.uses)
            if tools.lost is not None:
                conversation.error = f"{tools.lost.boundary}:{tools.lost.error_class}"
        if conversation.ending is StopReason.TIME_LIMIT and seconds != own:
            conversation.error = f"{Boundary.WORKER}:{WALL_LIMIT}"
        return conversation

    def _listen(
        self,
        body: Mapping[str, Any],
        seed: Seed,
        seconds: float,
        tick: Callable[[], float],
        untouched: Callable[[], bool],
    ) -> _Conversation:
        """Return the conversation that the server streams within these seconds. A try that fails
        before the first byte, and before anything is done to the files, may be repeated; neither
        it nor the pause after it takes of the time of the next."""
        for tried in count():
            conversation = _Conversation(ChatStream(self._settings.rounds), tick, tick(), tried)
            try:
                asyncio.run(self._exchange(body, conversation, seconds))
                break
            except ProviderError as error:
                wait = pause(self._settings.backoff_seconds, tried, error.wait, seed)
                again = error.kind in RETRIED and tried < self._settings.retries and wait < seconds
                if not again or conversation.received or not untouched():
                    conversation.error = f"{Boundary.PROVIDER}:{error.kind}"
                    break
                logger.warning("agent %s: %s, retry in %.1f s", self.name, error.kind, wait)
                self._sleep(wait)
        return conversation

    async def _exchange(
        self, body: Mapping[str, Any], conversation: _Conversation, seconds: float
    ) -> None:
        """One request, to the end of its stream. Raises ProviderError."""
        import httpx2

        try:
            async with asyncio.timeout(seconds), self._client() as client:
                address = self._settings.base_url.rstrip("/") + "/api/chat"
                async with client.stream("POST", address, json=body) as response:
                    _check_answer(response)
                    # As it came: what is packed may unpack to more than memory holds.
                    async for data in response.aiter_raw():
                        if conversation.take(data):
                            return
                conversation.end()
        except Exception as error:
            if conversation.stream.full:  # it was only waited for the last round's tools
                conversation.ending = StopReason.TURN_LIMIT
            elif isinstance(error, ProviderError):
                raise
            elif isinstance(error, TimeoutError) and conversation.received:
                conversation.ending = StopReason.TIME_LIMIT
            elif isinstance(error, (TimeoutError, MalformedStream, httpx2.HTTPError)):
                raise ProviderError(_kind(error)) from None
            else:
                raise

    def _client(self) -> httpx2.AsyncClient:
        import httpx2

        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        settings = self._settings
        timeout = httpx2.Timeout(settings.silence_seconds, connect=settings.connect_seconds)
        return httpx2.AsyncClient(headers=headers, timeout=timeout, verify=self._tls)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()  # slow to make: once, not for every episode

    def _keep(self, conversation: _Conversation, task: AgentTask, folder: Path | None) -> None:
        """Store a conversation that was had to its end, with what it takes to go on from it.

        Of a tree too large to keep nothing is stored: a crash before the attempt is written has
        the whole conversation again. Where another worker stored this turn first, both go on by
        themselves: the first to write the attempt counts, with its own tree.
        """
        tree = () if folder is None else read_tree(folder)
        if conversation.error or tree is None:
            return
        given = {(asset.path, asset.data) for asset in task.brief.assets}
        snapshot = ConversationSnapshot(
            ending=conversation.ending,
            seconds=tuple(conversation.seconds()),
            retries=conversation.retries,
            stream=bytes(conversation.received),
            calls=conversation.calls,
            tree=tuple(entry for entry in tree if entry not in given),
            unchanged=tuple(path for path, data in tree if (path, data) in given),
        )
        message = Message(Role.ASSISTANT, conversation.final)
        usage = reduce(add, (each.usage for each in conversation.stream.rounds), _NOTHING)
        reply = Reply(message, usage, self._version, conversation.ending, pack(snapshot))
        task.journal.save(0, reply)

    def _recall(
        self, snapshot: ConversationSnapshot, task: AgentTask, folder: Path | None
    ) -> _Conversation:
        """Return a conversation stored before a crash, and bring the sandbox to its state then."""
        stream = ChatStream(self._settings.rounds)
        conversation = _Conversation(stream, task.tick, task.tick(), snapshot.retries)
        # Bytes after the last round need not follow the protocol.
        with suppress(MalformedStream):
            stopped = conversation.take(snapshot.stream[:MAX_STREAM_BYTES])
            if not stopped and snapshot.ending is StopReason.ANSWERED:
                conversation.end()
        conversation.ending, conversation.calls = snapshot.ending, snapshot.calls
        conversation.stored_seconds = snapshot.seconds
        if folder is not None:
            same = [(a.path, a.data) for a in task.brief.assets if a.path in snapshot.unchanged]
            lay_out((*snapshot.tree, *same), folder)
        limits = task.brief.limits
        conversation.uses = tuple(
            use_tool(call, task.sandbox, limits, limits.tool_seconds, task.tick)
            for call in snapshot.calls
        )
        return conversation

    def _steps(self, conversation: _Conversation) -> Iterator[Turn]:
        rounds = conversation.stream.rounds
        shares = share_uses(rounds, conversation.uses) if self._bridge else _reported_uses(rounds)
        arguments = {call.id: call.arguments for call in conversation.calls}
        for number, (round, uses) in enumerate(zip(rounds, shares, strict=True)):
            calls = tuple(
                ToolCall(use.call_id, use.name, arguments.get(use.call_id, "")) for use in uses
            )
            finish = ("tool_call" if uses else "stop") if round.done else "cut"
            reply = Reply(
                message=Message(Role.ASSISTANT, round.text, calls=calls),
                usage=round.usage,
                served_version=round.version or self._version,
                finish=finish,
                raw=round.raw,
                retries=conversation.retries if number == 0 else 0,
            )
            yield Turn(reply, uses, conversation.seconds()[number])


def ask(brief: Brief, folder: Path | None) -> str:
    """The one message that a server is sent: its folder, the task, and the form of an answer
    if the task does not state it."""
    place = "" if folder is None else FOLDER_LINE.format(folder=folder)
    rules = BLOCK_RULES.format(schema=brief.answer_schema) if brief.answer_schema else ""
    return f"{place}{brief.prompt}\n\n{rules}" if rules else f"{place}{brief.prompt}"


def _request(settings: AgentServerSettings, text: str) -> dict[str, Any]:
    stated = settings.model_dump(include={"temperature", "max_output_tokens"}, exclude_none=True)
    return {"messages": [{"role": "user", "content": text}], **stated}


@dataclass(slots=True)
class _Conversation:
    """The rounds of a conversation so far, and how it ended."""

    stream: ChatStream
    tick: Callable[[], float]
    begun: float
    retries: int = 0
    received: bytearray = field(default_factory=bytearray)
    marks: list[float] = field(default_factory=list)  # time at which each round was done
    ending: StopReason = StopReason.FAILED
    error: str = ""  # "<boundary>:<class>"
    calls: tuple[ToolCall, ...] = ()  # over the bridge
    uses: tuple[ToolUse, ...] = ()
    stored_seconds: tuple[float, ...] = ()  # of the rounds of a stored conversation

    def take(self, data: bytes) -> bool:
        """Read on; return True to stop. Raises MalformedStream."""
        self.received += data
        stop = self.stream.take(data)
        self.marks += [self.tick()] * (self.stream.done - len(self.marks))
        if stop:
            self.ending = StopReason.TURN_LIMIT
        return stop

    def end(self) -> None:
        """Record that the server closed the stream. Raises MalformedStream, ProviderError."""
        if not self.stream.end():
            raise ProviderError("connection")
        self.marks += [self.tick()] * (self.stream.done - len(self.marks))
        self.ending = StopReason.TURN_LIMIT if self.stream.stopped else StopReason.ANSWERED

    def seconds(self) -> list[float]:
        """Return the seconds that each round took, the tools before it included."""
        if self.stored_seconds:
            return list(self.stored_seconds)
        marks = [self.begun, *self.marks]
        if len(self.stream.rounds) > len(self.marks):
            marks.append(self.tick())
        return [round(b - a, SECONDS_DIGITS) for a, b in pairwise(marks)]

    @property
    def final(self) -> str:
        """The last complete message that is not empty."""
        messages = [each.text for each in self.stream.rounds if each.done and each.text.strip()]
        return messages[-1] if messages else ""


def share_uses(
    rounds: tuple[Round, ...], uses: tuple[ToolUse, ...]
) -> tuple[tuple[ToolUse, ...], ...]:
    """The calls of the bridge by rounds: as many to each as the stream reported results after it,
    and to the last what is left."""
    left = iter(uses)
    shares = [tuple(islice(left, len(earlier.results))) for earlier in rounds[:-1]]
    return (*shares, tuple(left)) if rounds else ()


def _reported_uses(rounds: tuple[Round, ...]) -> tuple[tuple[ToolUse, ...], ...]:
    """Return the tool calls of a server with its own tools, as it reported them."""
    numbers = count(1)

    def use(name: str, text: str) -> ToolUse:
        call = f"call-{next(numbers)}"
        return ToolUse(call, name, Message(Role.TOOL, text, call_id=call), 0.0)

    return tuple(tuple(use(*result) for result in each.results) for each in rounds)


def _check_answer(response: httpx2.Response) -> None:
    if response.is_success:
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ProviderError("malformed")  # the request asked for the stream unencoded
        return
    wait = asked_wait(response.headers)
    raise ProviderError(kind_of_status(response.status_code), wait=wait)


def _kind(error: Exception) -> str:
    import httpx2

    if isinstance(error, MalformedStream):
        return "malformed"
    late = isinstance(error, TimeoutError | httpx2.TimeoutException)
    connecting = isinstance(error, httpx2.ConnectTimeout)
    return "timeout" if late and not connecting else kind_of_break(error)
