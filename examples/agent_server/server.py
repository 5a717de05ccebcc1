"""A small agent server to start from: ``python -m examples.agent_server.server --help``.

It speaks the protocol of docs/agent-servers.md. Its model is any of ours; its tools are those of
one sandbox: the one behind the bridge that the request names, the folder that its first message
names, or a fresh folder if a model that is trusted is asked about files elsewhere.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import re
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from generators.seed import Seed
from generators.task import Limits
from harness.agent.tools import TOOLS, use_tool
from harness.errors import AttemptFailed, HarnessError
from harness.external_agents.tool_bridge import DeadlineHandler
from harness.external_agents.wire import RefusedCall
from harness.model import Image, Message, Model, ModelRequest, Role, ToolCall, ToolSpec
from harness.sandboxes.sandbox import Sandbox
from registry.ledger.records import ModelPin

MAX_REQUEST_BYTES = 16 << 20
FOLDER = re.compile(r"Your work folder is (/.+) and paths are relative to it\.(?:\n\n|$)")
_BRIDGE_SECONDS = 600.0  # a tool may take, its queue included

Json = Mapping[str, Any]


class BadRequest(Exception):  # noqa: N818 - an answer for who asks, not an error of ours
    """A request that is not of the protocol, or that this server does not serve."""


class Toolbox(Protocol):
    """The tools of one conversation."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    def use(self, call: ToolCall) -> Message:
        """Carry out a call. Raises AttemptFailed, OSError where there is no going on."""
        ...


class NoTools:
    specs: tuple[ToolSpec, ...] = ()

    def use(self, call: ToolCall) -> Message:
        return Message(Role.TOOL, "Error: there are no tools", call_id=call.id)


class FolderTools:
    """Our tools in a folder of this host. They keep to the folder; programs that they run are
    not kept from anything."""

    specs = TOOLS

    def __init__(self, sandbox: Sandbox, limits: Limits) -> None:
        self._sandbox, self._limits = sandbox, limits

    def use(self, call: ToolCall) -> Message:
        seconds = self._limits.tool_seconds
        return use_tool(call, self._sandbox, self._limits, seconds, time.monotonic).result


class BridgeTools:
    """The tools behind a bridge, and who may use them."""

    def __init__(self, client: Any) -> None:
        self._client = client
        listed = client.get("/tools").raise_for_status().json()["tools"]
        self.specs = tuple(
            ToolSpec(each["name"], each["description"], each["parameters"]) for each in listed
        )

    def use(self, call: ToolCall) -> Message:
        if call.name not in [spec.name for spec in self.specs]:
            return Message(Role.TOOL, "Error: there is no such tool", call_id=call.id)
        answer = self._client.post(
            f"/tools/{call.name}", content=call.arguments.encode("utf-8", "replace")
        )
        told = answer.raise_for_status().json()
        images = tuple(
            Image(each["media_type"], base64.b64decode(each["data"])) for each in told["images"]
        )
        return Message(Role.TOOL, told["text"], images, call_id=call.id)


class Served(Protocol):
    """An agent as a server needs it."""

    def open(self, request: Json) -> AbstractContextManager[Iterator[Json]]:
        """The events of one conversation. Raises BadRequest."""
        ...


@dataclass(frozen=True)
class Agent:
    """What a server serves: a model (for a temperature and a number of tokens, where the request
    gives them), and how far it goes. ``unisolated``: run a foreign model's programs in a folder
    of this host, which nothing confines."""

    model: Callable[[float | None, int | None], Model]
    rounds: int = 20
    limits: Limits = field(default_factory=Limits)
    unisolated: bool = False

    def open(self, request: Json) -> AbstractContextManager[Iterator[Json]]:
        """The events of one conversation. Raises BadRequest."""
        messages = _read_messages(request)
        model = self.model(_number(request, "temperature"), _whole(request, "max_output_tokens"))
        opened = self._toolbox(request, messages[0].text, model)
        # The tools are in the folder: their paths are relative to it, so the model need not know.
        messages[0] = replace(messages[0], text=_strip_folder(messages[0].text))
        return self._converse(model, messages, opened)

    @contextmanager
    def _converse(
        self, model: Model, messages: list[Message], opened: AbstractContextManager[Toolbox]
    ) -> Iterator[Iterator[Json]]:
        with opened as tools:
            yield self._events(model, messages, tools)

    def _events(self, model: Model, messages: list[Message], tools: Toolbox) -> Iterator[Json]:
        """The loop: what the model says, and what its calls come to."""
        seed = Seed(hashlib.sha256(messages[-1].text.encode()).digest())
        for turn in range(self.rounds):
            request = ModelRequest(tuple(messages), tools.specs, seed.child("turn", turn))
            reply = model.respond(request)
            said = reply.message
            if said.text:
                yield {"role": "assistant", "content": said.text, "type": "chunk"}
            used = reply.usage
            tokens = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}
            done = {"role": "assistant", "content": "", "type": "done"}
            yield {**done, "usage": tokens, "model": reply.served_version}
            if not said.calls:
                return
            messages.append(said)
            for call in said.calls:
                result = tools.use(call)
                messages.append(result)
                text = f"Tool result: {result.text}"
                yield {"role": "tool_call", "content": text, "name": call.name}

    def _toolbox(self, request: Json, text: str, model: Model) -> AbstractContextManager[Toolbox]:
        if "tools" in request:
            return _bridge_tools(request["tools"])
        named = FOLDER.match(text)
        if named is None and not (model.trusted or self.unisolated):
            return nullcontext(NoTools())
        if named is None:  # the message names its own files
            return _own_tools(self.limits)
        if not (model.trusted or self.unisolated):
            raise BadRequest(
                "this server's model is not built in, and nothing confines programs that it runs "
                "in a folder of this host: use `tree: bridge`, or start it with --unisolated"
            )
        return _folder_tools(check_folder(named[1]), self.limits)


def _strip_folder(text: str) -> str:
    named = FOLDER.match(text)
    return text if named is None else text[named.end() :]


def check_folder(path: str) -> Path:
    """A private folder of this user below the temp folder. Raises BadRequest for any other."""
    folder, temp = Path(path), Path(tempfile.gettempdir())
    try:
        found = folder.lstat()
    except OSError:
        raise BadRequest("there is no such work folder on this host") from None
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    if not private or found.st_uid != os.geteuid() or folder.parent != temp:
        raise BadRequest(
            f"the work folder must lie in {temp}, belong to the user of this server and be closed "
            "to all others"
        )
    return folder


@contextmanager
def _folder_tools(folder: Path, limits: Limits) -> Iterator[Toolbox]:
    from harness.sandboxes.local import LocalSandboxes

    with LocalSandboxes().open_in(folder, limits) as sandbox:
        yield FolderTools(sandbox, limits)


@contextmanager
def _own_tools(limits: Limits) -> Iterator[Toolbox]:
    """Tools in a fresh folder. Programs reach any file that the message names."""
    from harness.sandboxes.local import LocalSandboxes

    with LocalSandboxes().open((), limits) as sandbox:
        yield FolderTools(sandbox, limits)


@contextmanager
def _bridge_tools(given: Any) -> Iterator[Toolbox]:
    import httpx2

    if not isinstance(given, dict) or not all(
        isinstance(given.get(key), str) for key in ("url", "token")
    ):
        raise BadRequest("'tools' must have 'url' and 'token'")
    headers = {"Authorization": f"Bearer {given['token']}", "Content-Type": "application/json"}
    with httpx2.Client(base_url=given["url"], headers=headers, timeout=_BRIDGE_SECONDS) as client:
        try:
            tools = BridgeTools(client)
        except (httpx2.HTTPError, ValueError, LookupError, TypeError):
            raise BadRequest("the tools cannot be listed at the address given") from None
        yield tools


def _read_messages(request: Json) -> list[Message]:
    given = request.get("messages")
    roles = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
    if not isinstance(given, list) or not given:
        raise BadRequest("'messages' must be a list of at least one message")
    messages = []
    for each in given:
        role = each.get("role") if isinstance(each, dict) else None
        if role not in roles or not isinstance(each.get("content"), str):
            raise BadRequest("a message has a 'role' (system, user, assistant) and a 'content'")
        messages.append(Message(roles[role], each["content"].encode("utf-8", "replace").decode()))
    return messages


def _number(request: Json, key: str) -> float | None:
    value = request.get(key)
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and abs(value) < 2**53:  # and no NaN, which JSON as Python reads it may hold
        return value  # type: ignore[no-any-return] # what isinstance says is kept in a name
    raise BadRequest(f"{key!r} must be a number")


def _whole(request: Json, key: str) -> int | None:
    value = _number(request, key)
    if value is not None and (value < 1 or value != int(value)):
        raise BadRequest(f"{key!r} must be a whole number above 0")
    return None if value is None else int(value)


class AgentHandler(DeadlineHandler):
    """One conversation a request, streamed in chunks, so that a cut stream is seen as one."""

    agent: Served

    def do_POST(self) -> None:  # noqa: N802 - as the base class has it
        self.close_connection = True
        try:
            if self.path != "/api/chat":
                self._refuse(404, "there is POST /api/chat")
                return
            with self.agent.open(self._read()) as events:
                self._stream(events)
        except (RefusedCall, BadRequest, HarnessError) as bad:
            # A HarnessError: the model does not take this temperature, for instance.
            self._refuse(400, str(bad))
        except AttemptFailed as failed:
            self._refuse(503, f"the model failed: {failed.error_class}")
        except OSError:
            self.close_connection = True  # who asked has hung up: at its round limit, or for good
        except Exception as error:  # told by its class: what it says may quote what was asked
            self._refuse(500, f"the server failed: {type(error).__name__}")

    def _read(self) -> Json:
        body = self.read_body(MAX_REQUEST_BYTES)
        try:
            request = json.loads(body)
        except (ValueError, RecursionError):
            raise BadRequest("the request is not JSON") from None
        if not isinstance(request, dict):
            raise BadRequest("the request must be an object")
        return request

    def _stream(self, events: Iterator[Json]) -> None:
        """The first event is waited for: until it comes, an error has a status of its own. After
        it, an error cuts the stream."""
        first = next(events)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        self._send(first)
        try:
            for event in events:
                self._send(event)
        except Exception:  # of the model, the tools or the line: all that can be told is the end
            return
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, event: Json) -> None:
        line = json.dumps(event).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    def _refuse(self, status: int, reason: str) -> None:
        self.send_body(status, json.dumps({"error": reason}).encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: what is asked here may be of a private instance."""


def make_server(agent: Served, host: str = "127.0.0.1", port: int = 0) -> ThreadingHTTPServer:
    """A server that is bound, and serves once its ``serve_forever`` is called. Raises OSError."""
    handler = type("Handler", (AgentHandler,), {"agent": agent})
    return _Server((host, port), handler)


def models_of(pin: ModelPin) -> Callable[[float | None, int | None], Model]:
    """The pinned model as requests want it: those of servers take a temperature and a number of
    tokens. Raises HarnessError where it cannot be built."""
    from harness.build_model import build_plain_model

    @lru_cache(maxsize=16)
    def build(temperature: float | None, max_tokens: int | None) -> Model:
        settings = dict(pin.settings)
        if pin.provider == "openai" and temperature is not None:
            settings["temperature"] = json.dumps(temperature)
        if pin.provider == "openai" and max_tokens is not None:
            settings["max_tokens"] = json.dumps(max_tokens)
        made = ModelPin(pin.name, pin.provider, pin.version, tuple(sorted(settings.items())))
        return build_plain_model(made)

    build(None, None)
    return build


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=VALUE")
    try:
        return name, json.dumps(json.loads(value))
    except ValueError:
        return name, json.dumps(value)


def _rounds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10_000):
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number from 1")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until interrupted. The first line printed is the address."""
    parser = argparse.ArgumentParser("python -m examples.agent_server.server", description=__doc__)
    parser.add_argument("--provider", default="openai", choices=("openai", "scripted"))
    parser.add_argument("--model", default="honest", help="its version, as the provider names it")
    parser.add_argument(
        "--setting",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="as in a model's section of study.yaml, for instance base_url=http://127.0.0.1:8000/v1",
    )
    parser.add_argument("--listen", default="127.0.0.1:8765", metavar="HOST:PORT")
    parser.add_argument("--rounds", type=_rounds, default=20)
    parser.add_argument(
        "--unisolated",
        action="store_true",
        help="run what a foreign model writes in folders of this host, which nothing confines",
    )
    given = parser.parse_args(arguments)
    host, _, port = given.listen.rpartition(":")
    pin = ModelPin("agent", given.provider, given.model, tuple(given.setting))
    try:
        agent = Agent(models_of(pin), given.rounds, unisolated=given.unisolated)
        server = make_server(agent, host.strip("[]"), int(port))
    except (HarnessError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    for number in (signal.SIGINT, signal.SIGTERM):  # which a shell may have had it ignore
        signal.signal(number, signal.default_int_handler)
    print(f"http://{given.listen.rpartition(':')[0]}:{server.server_port}", flush=True)
    try:
        server.serve_forever(0.05)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


if __name__ == "__main__":
    main()
