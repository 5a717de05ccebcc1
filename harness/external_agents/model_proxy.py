"""The model proxy: the one model that an agent inside a sandbox can call, over a Unix socket.

It speaks the protocols of ``wire.py``, one call at a time. Each call becomes a request to the
study's own model, so that its settings, key, retries and prices are those of any episode. A paid
reply is stored before the agent has it. The turns, tokens and USD of an episode are limited, and
so is everything that an agent could flood the worker with. Whatever exceeds a limit is refused, and
is the agent's own loss.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from harness.agent.caps import cap_reply
from harness.agent.loop import AgentTask
from harness.episode import SECONDS_DIGITS, StopReason, ToolUse, Turn
from harness.errors import AttemptFailed, Boundary
from harness.external_agents.anthropic_messages import ANTHROPIC_MESSAGES
from harness.external_agents.chat_completions import CHAT_COMPLETIONS
from harness.external_agents.openai_responses import OPENAI_RESPONSES
from harness.external_agents.tool_bridge import DeadlineHandler
from harness.external_agents.wire import AgentCall, RefusedCall, WireProtocol
from harness.model import OVERFLOW, REFUSED, Message, Model, ModelRequest, Reply, Role, ToolCall

logger = logging.getLogger(__name__)

SOCKET = "model.sock"
PROTOCOLS = {
    "/v1/chat/completions": CHAT_COMPLETIONS,
    "/v1/messages": ANTHROPIC_MESSAGES,
    "/v1/responses": OPENAI_RESPONSES,
}
MAX_BODY_BYTES = 16 << 20
MAX_RECORD_BYTES = 64 << 20  # of all distinct messages of an episode
MAX_CONNECTIONS = 32  # at once; each takes a thread
MAX_EVENTS = 2000  # connections and requests of an episode, after which the socket is closed
_POLL_SECONDS = 0.2


@dataclass(slots=True)
class _Call:
    """One call of the agent, as it is recorded."""

    messages: tuple[Message, ...]
    reply: Reply
    begun: float
    prompt: str = ""  # of the messages before it, those that are no results of tools
    uses: list[ToolUse] = field(default_factory=list)


class ModelProxy:
    """The model calls of one episode, by the program that works on a task: its limits on turns,
    tokens and cost hold. Threads may share it. ``interrupt`` is called when the episode cannot go
    on."""

    def __init__(
        self,
        model: Model,
        version: str,
        task: AgentTask,
        interrupt: Callable[[], None] = lambda: None,
    ) -> None:
        self.version = version
        self.error: BaseException | None = None  # of the model or the store: the study's loss
        self._model, self._task, self._interrupt = model, task, interrupt
        self._journal, self._seed, self._tick = task.journal, task.seed, task.tick
        self._lock = threading.Lock()
        self._open = True
        self._limit: StopReason | None = None
        self._overflowed = False  # the last call was too long for the model
        self._calls: list[_Call] = []
        self._replies: dict[object, Message] = {}  # by what an agent sends back of them
        self._messages: dict[Message, Message] = {}  # each once, however often it is sent
        self._bytes = 0
        self._waited = 0.0
        self._waits_since: float | None = None
        self._number = 0  # of the next reply

    def carry_out(
        self, protocol: WireProtocol, read: Callable[[], bytes]
    ) -> tuple[Reply, AgentCall, int]:
        """Carry out one call, the body of which ``read`` returns, after those before it: so one
        body at a time is in memory, and no budget is exceeded. Returns the reply, the call and its
        number. Raises RefusedCall if it is refused."""
        with self._lock:
            call = protocol.read(read())
            self._check(call)
            messages = self._keep(self._restore(call.messages))
            begun = self._tick()
            request = ModelRequest(
                messages,
                call.tools,
                self._seed,
                conversation=self._name(messages),
                tool_choice=call.tool_choice,
            )
            reply = self._ask(request)
            self._overflowed = False  # it may go on after a conversation that was too long
            self._record(_Call(messages, reply, begun))
            return reply, call, len(self._calls)

    def _check(self, call: AgentCall) -> None:
        if not self._open or self.error is not None:
            raise RefusedCall(403, "the episode is over: no more model calls")
        self._limit = self._limit or self._limit_met()
        if self._limit is not None:
            raise RefusedCall(403, f"the budget of this episode is used up: {self._limit}")
        if call.model != self.version:
            raise RefusedCall(404, f"the only model here is {self.version!r}")

    @property
    def stop(self) -> StopReason | None:
        """The limit that ended the model calls, if any."""
        return self._limit or (StopReason.CONTEXT_LIMIT if self._overflowed else None)

    def close(self) -> None:
        """Refuse all further calls. Returns when none is under way."""
        self._open = False
        with self._lock:
            pass

    def waited(self) -> float:
        """Return the seconds that the agent has waited for its model so far."""
        since = self._waits_since
        return self._waited + (0.0 if since is None else self._tick() - since)

    @property
    def opening(self) -> tuple[Message, ...]:
        """The messages of the first call; none if there was no call."""
        return self._calls[0].messages if self._calls else ()

    def steps(self) -> tuple[Turn, ...]:
        """Return the calls as turns. A turn lasts until the next call begins."""
        moments = [*(call.begun for call in self._calls), self._tick()]
        return tuple(
            Turn(call.reply, tuple(call.uses), round(end - begun, SECONDS_DIGITS), call.prompt)
            for call, (begun, end) in zip(self._calls, pairwise(moments), strict=True)
        )

    def _limit_met(self) -> StopReason | None:
        """The limit that the next call would exceed."""
        if len(self._calls) >= self._task.brief.limits.turns:
            return StopReason.TURN_LIMIT
        try:
            met = self._task.ceiling.met([call.reply.usage for call in self._calls])
        except Exception as error:  # a count is unknown
            raise self._give_up(error) from None
        return met[0] if met is not None and not met[1] else None

    def _name(self, messages: Sequence[Message]) -> str:
        """A name for the conversation that begins like this, for the provider's cache."""
        begin = "\0".join([self._seed.hex, *(message.text for message in messages[:2])])
        return hashlib.sha256(begin.encode()).hexdigest()[:32]

    def _ask(self, request: ModelRequest) -> Reply:
        """Return the model's reply. Raises RefusedCall for a failure, which is the episode's
        unless the agent caused it."""
        self._waits_since = self._tick()
        try:
            return self._buy(request)
        except AttemptFailed as failed:
            kind = failed.error_class if failed.boundary is Boundary.PROVIDER else ""
            if kind == OVERFLOW:
                self._overflowed = True
                reason = "prompt is too long: it exceeds the model's maximum context length"
                raise RefusedCall(400, reason, "context_length_exceeded") from None
            # Before its first reply a model has had no influence on what is sent to it.
            if kind == REFUSED and self._calls:
                raise RefusedCall(400, f"the model's server refuses this request: {kind}") from None
            raise self._give_up(failed) from None
        except Exception as error:
            raise self._give_up(error) from None
        finally:
            self._waited = self.waited()
            self._waits_since = None

    def _buy(self, request: ModelRequest) -> Reply:
        """Return a reply, stored if it was paid for: under a number that has none, since a run that
        was interrupted, or another worker, may have stored some."""
        paid, journal = self._model.paid, self._journal
        while paid and journal.load(self._number) is not None:
            self._number += 1
        asked = replace(request, seed=self._seed.child("turn", self._number))
        if paid:
            keep = partial(journal.keep_failed, self._number)
            asked = replace(asked, keep=keep, admit=journal.admit)
        reply = cap_reply(self._model.respond(asked))
        while paid and journal.save(self._number, reply) is not reply:
            self._number += 1
        self._number += 1
        return reply

    def _give_up(self, error: BaseException) -> RefusedCall:
        self.error = error
        self._interrupt()
        return RefusedCall(503, "the model cannot be reached: the episode is over")

    def _restore(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Yield the messages. A reply that the agent sends back is replaced by the reply itself,
        with the reasoning that its protocol may have no field for."""
        for message in messages:
            echo = message.role is Role.ASSISTANT
            yield self._replies.get(_echo_key(message), message) if echo else message

    def _keep(self, messages: Iterator[Message]) -> tuple[Message, ...]:
        """Return the messages, those that were sent before as they are kept. Raises
        RefusedCall if they are too many to keep."""
        kept: list[Message] = []
        for message in messages:
            if message not in self._messages:
                self._bytes += _size(message)
                if self._bytes > MAX_RECORD_BYTES:
                    limit = f"{MAX_RECORD_BYTES >> 20} MiB"
                    raise RefusedCall(413, f"all messages of an episode may have {limit} together")
            kept.append(self._messages.setdefault(message, message))
        return tuple(kept)

    def _record(self, call: _Call) -> None:
        """Add a call, and give the tool results in its messages to the calls they are of."""
        base = max(
            self._calls, key=lambda each: _shared(each.messages, call.messages), default=None
        )
        shared = 0 if base is None else _shared(base.messages, call.messages)
        owed = {made.id: (each, made) for each in self._calls for made in each.reply.message.calls}
        others: list[Message] = []
        for message in call.messages[shared:]:
            each, made = owed.get(message.call_id, (None, None))
            if message.role is not Role.TOOL or each is None or made is None:
                others.append(message)
            elif all(use.call_id != made.id for use in each.uses):
                each.uses.append(ToolUse(made.id, made.name, message, 0.0))
        if self._calls:
            call.prompt = render_messages(others, set(self._replies.values()))
        self._replies[_echo_key(call.reply.message)] = call.reply.message
        self._calls.append(call)


def _echo_key(message: Message) -> object:
    calls = tuple((call.id, call.name, _canonical(call)) for call in message.calls)
    return message.text.strip(), calls


def _canonical(call: ToolCall) -> str:
    """The arguments of a call, the same however an agent's client writes the object."""
    try:
        return json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return call.arguments


def _size(message: Message) -> int:
    texts = (message.text, *(call.arguments for call in message.calls))
    images = sum(len(image.data) for image in message.images)
    return images + sum(map(len, texts)) + 200


def _shared(first: Sequence[Message], second: Sequence[Message]) -> int:
    """How many messages two conversations have in common, from the first on."""
    pairs = zip(first, second, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a is not b), min(len(first), len(second)))


def render_messages(messages: Sequence[Message], replies: set[Message]) -> str:
    """Return messages as one text; those of the model are left out where its reply is recorded."""
    shown = [each for each in messages if each not in replies]
    if len(shown) == 1 and shown[0].role is Role.USER and not shown[0].images:
        return shown[0].text
    texts = []
    for message in shown:
        pictures = [f"[a picture of {len(image.data):,} bytes]" for image in message.images]
        calls = [f"[calls {call.name}: {call.arguments}]" for call in message.calls]
        texts.append("\n".join([f"[{message.role}]", message.text, *pictures, *calls]))
    return "\n\n".join(texts)


class ProxySocket:
    """Serves a proxy at ``folder/model.sock``, for any user that reaches the folder, until it is
    closed. It logs nothing. Raises OSError if the folder is gone."""

    def __init__(self, proxy: ModelProxy, folder: Path) -> None:
        self.proxy = proxy
        self._closed = False
        self._capacity = threading.Semaphore(MAX_CONNECTIONS)
        self._events, self._lock = MAX_EVENTS, threading.Lock()
        self._connections: set[socket.socket] = set()
        self._listener = _listen(folder)
        self._thread = threading.Thread(target=self._accept, name="model proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the socket and every connection, when the call under way has been recorded."""
        self._closed = True
        self.proxy.close()
        self._thread.join()
        with self._lock:
            left = list(self._connections)
        for connection in left:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def count_event(self) -> bool:
        """Count a connection or a request; False if there were too many, and all is closed."""
        with self._lock:
            self._events -= 1
            left = self._events
        if left == 0:
            logger.warning("an agent flooded its model proxy, which is closed for good")
        if left <= 0:
            self._closed = True
        return left > 0

    def _accept(self) -> None:
        """Accept connections. While all threads are taken, the kernel holds new ones back."""
        with self._listener:
            while not self._closed:
                if not self._capacity.acquire(timeout=_POLL_SECONDS):
                    continue
                try:
                    connection, _ = self._listener.accept()
                except OSError:  # none came, or no descriptor is left
                    self._capacity.release()
                    continue
                self.count_event()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)
        try:
            # It may hang up at any time, and the request may be private.
            with connection, suppress(OSError, ValueError):
                if not self._closed:
                    _ProxyHandler(connection, ("", 0), self)  # type: ignore[arg-type]
        finally:
            with self._lock:
                self._connections.discard(connection)
            self._capacity.release()


def _listen(folder: Path) -> socket.socket:
    """Return a listening socket, however long the folder's path is."""
    listener = socket.socket(socket.AF_UNIX)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        short = f"/proc/self/fd/{place}/{SOCKET}"
        listener.bind(short)
        os.chmod(short, 0o666)  # noqa: S103 - the agent is another user; its folder keeps others out
        listener.listen(MAX_CONNECTIONS)
        listener.settimeout(_POLL_SECONDS)
    except OSError:
        listener.close()
        raise
    finally:
        os.close(place)
    return listener


class _ProxyHandler(DeadlineHandler):
    server: ProxySocket  # type: ignore[assignment]

    def do_GET(self) -> None:  # noqa: N802 - as http.server names it
        version = self.server.proxy.version
        models = [{"id": version, "type": "model", "object": "model", "display_name": version}]
        if self._path() == "/v1/models":
            self._send(200, _encode({"object": "list", "data": models}))
        else:
            self._refuse(RefusedCall(404, f"there are {', '.join(PROTOCOLS)} and /v1/models"))

    def do_HEAD(self) -> None:  # noqa: N802
        self._send(200, b"")

    def do_POST(self) -> None:  # noqa: N802
        protocol = PROTOCOLS.get(self._path())
        if protocol is None:
            with suppress(RefusedCall):
                self._body()  # a client that is still sending it would never read the refusal
            self._refuse(RefusedCall(404, f"there are {', '.join(PROTOCOLS)} and /v1/models"))
            return
        proxy = self.server.proxy
        try:
            reply, call, number = proxy.carry_out(protocol, self._body)
        except RefusedCall as refused:
            self._refuse(refused, protocol)
            return
        if call.stream:
            events = b"".join(protocol.events(reply, call.model, number))
            self._send(200, events, "text/event-stream")
        else:
            self._send(200, _encode(protocol.reply(reply, call.model, number)))

    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _body(self) -> bytes:
        """Return the body. Raises RefusedCall if it is too long or of unstated length,
        ConnectionError if it is cut off."""
        self.restart_deadline()  # it may have waited for the calls before it
        return self.read_body(MAX_BODY_BYTES)

    def _refuse(self, refused: RefusedCall, protocol: WireProtocol = CHAT_COMPLETIONS) -> None:
        self.close_connection = True  # its body may not have been read
        self._send(refused.status, _encode(protocol.error(refused)))

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        if not self.server.count_event():
            self.close_connection = True
        self.send_body(status, body, kind)


def _encode(value: object) -> bytes:
    return json.dumps(value).encode()
