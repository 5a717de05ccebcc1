"""The model proxy, asked by the clients that agents use, over its socket."""

from __future__ import annotations

import base64
import http.client
import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx2
import pytest

from generators.seed import Seed
from generators.task import Brief, Limits
from harness.agent.limits import Ceiling
from harness.agent.loop import AgentTask
from harness.agent.prompts import UNLIMITED
from harness.episode import StopReason
from harness.errors import AttemptFailed, Boundary, WorkStopped
from harness.external_agents import model_proxy
from harness.external_agents.model_proxy import (
    MAX_BODY_BYTES,
    MAX_CONNECTIONS,
    MAX_EVENTS,
    ModelProxy,
    ProxySocket,
)
from harness.model import Message, Model, ModelRequest, Reply, Role, ToolCall, Usage
from harness.sandboxes.sandbox import Sandbox
from harness.spending.purchases import CountingJournal, Journal, MemoryJournal
from registry.sealing import new_identity
from registry.stores.base import MemoryStore
from tests.cases import cases
from tests.harness.paid_attempt import journal_of
from tests.harness.script import Playback, say

if TYPE_CHECKING:  # they take seconds to import, which every worker would pay that collects
    import anthropic
    import openai

MODEL = "model-7"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cf"
    "c0000003010100c9fe92ef0000000049454e44ae426082"
)
BASH = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


@contextmanager
def serving(
    model: Model,
    folder: Path,
    turns: int = 50,
    ceiling: Ceiling = UNLIMITED,
    journal: Journal | None = None,
    interrupt: Callable[[], None] = lambda: None,
) -> Iterator[ModelProxy]:
    brief, no_sandbox = Brief("", (), "", Limits(turns=turns)), cast(Sandbox, None)
    kept, seed = journal or MemoryJournal(), Seed(bytes(32))
    task = AgentTask(brief, no_sandbox, seed, kept, time.monotonic, ceiling)
    proxy = ModelProxy(model, MODEL, task, interrupt)
    connection = ProxySocket(proxy, folder)
    try:
        yield proxy
    finally:
        connection.close()


def transport(folder: Path) -> httpx2.Client:
    return httpx2.Client(
        transport=httpx2.HTTPTransport(uds=str(folder / "model.sock")), timeout=120
    )


def openai_client(folder: Path) -> openai.OpenAI:
    import openai

    url = "http://proxy/v1"
    return openai.OpenAI(base_url=url, api_key="none", http_client=transport(folder), max_retries=0)


def anthropic_client(folder: Path) -> anthropic.Anthropic:
    import anthropic

    url = "http://proxy"
    client: Any = transport(folder)
    return anthropic.Anthropic(base_url=url, api_key="none", http_client=client, max_retries=0)


class UnixConnection(http.client.HTTPConnection):
    """A plain HTTP connection to the socket."""

    def __init__(self, folder: Path) -> None:
        super().__init__("proxy", timeout=120)
        self.path = str(folder / "model.sock")

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(120)
        self.sock.connect(self.path)


def post(folder: Path, body: object, path: str = "/v1/chat/completions") -> tuple[int, Any]:
    connection = UnixConnection(folder)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, data, {"Content-Type": "application/json"})
    return answer_of(connection)


def chat(*messages: dict[str, object], **more: object) -> dict[str, object]:
    return {"model": MODEL, "messages": list(messages), **more}


USER: dict[str, object] = {"role": "user", "content": "Find x."}


# --- the three protocols, with the clients of their makers ---


def look(reply_id: str = "call_a") -> Reply:
    made = ToolCall(reply_id, "bash", '{"command": "ls"}')
    return Reply(Message(Role.ASSISTANT, "I look.", calls=(made,)), Usage(10, 3, 4), MODEL)


@pytest.mark.parametrize("stream", [False, True])
def test_chat_completions(tmp_path: Path, stream: bool) -> None:
    model = Playback([look(), say("x is 1")])
    tool = {"type": "function", "function": {"name": "bash", "parameters": BASH}}
    given: Any = {"model": MODEL, "tools": [tool]}
    with serving(model, tmp_path) as proxy, openai_client(tmp_path) as client:
        messages: list[Any] = [{"role": "developer", "content": "Be brief."}, USER]

        def ask() -> Any:
            if not stream:
                return client.chat.completions.create(messages=messages, **given).choices[0]
            with client.chat.completions.stream(messages=messages, **given) as events:
                return events.get_final_completion().choices[0]

        first = ask()
        assert (first.finish_reason, first.message.content) == ("tool_calls", "I look.")
        (made,) = first.message.tool_calls
        assert (made.id, made.function.name) == ("call_a", "bash")
        assert json.loads(made.function.arguments) == {"command": "ls"}
        messages += [
            first.message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}),
            {"role": "tool", "tool_call_id": "call_a", "content": "data.csv"},
        ]
        second = ask()
        assert (second.finish_reason, second.message.content) == ("stop", "x is 1")
    assert [message.role for message in model.asked[0].messages] == [Role.SYSTEM, Role.USER]
    assert model.asked[0].tools[0].parameters == BASH
    check_two_turns(proxy, model)


@pytest.mark.parametrize("stream", [False, True])
def test_anthropic_messages(tmp_path: Path, stream: bool) -> None:
    model = Playback([look("toolu_a"), say("x is 1")])
    tools: Any = [{"name": "bash", "input_schema": BASH}]
    with serving(model, tmp_path) as proxy, anthropic_client(tmp_path) as client:
        messages: list[Any] = [USER]
        given: Any = {"model": MODEL, "max_tokens": 99, "system": "Be brief.", "tools": tools}

        def ask() -> Any:
            if not stream:
                return client.messages.create(messages=messages, **given)
            with client.messages.stream(messages=messages, **given) as events:
                return events.get_final_message()

        first = ask()
        text, made = first.content
        assert (first.stop_reason, text.text) == ("tool_use", "I look.")
        assert (made.id, made.name, made.input) == ("toolu_a", "bash", {"command": "ls"})
        assert first.usage.output_tokens == 3
        result = {"type": "tool_result", "tool_use_id": "toolu_a", "content": "data.csv"}
        messages += [
            {"role": "assistant", "content": [block.model_dump() for block in first.content]},
            {"role": "user", "content": [result]},
        ]
        second = ask()
        assert (second.stop_reason, second.content[0].text) == ("end_turn", "x is 1")
    check_two_turns(proxy, model)


@pytest.mark.parametrize("stream", [False, True])
def test_openai_responses(tmp_path: Path, stream: bool) -> None:
    model = Playback([look(), say("x is 1")])
    tools: Any = [{"type": "function", "name": "bash", "parameters": BASH, "strict": False}]
    with serving(model, tmp_path) as proxy, openai_client(tmp_path) as client:
        items: list[Any] = [{"role": "user", "content": "Find x."}]
        given: Any = {"model": MODEL, "instructions": "Be brief.", "tools": tools, "store": False}

        def ask() -> Any:
            if not stream:
                return client.responses.create(input=items, **given)
            with client.responses.stream(input=items, **given) as events:
                texts = [each.delta for each in events if each.type == "response.output_text.delta"]
                whole = events.get_final_response()
            assert "".join(texts) == whole.output_text
            return whole

        first = ask()
        assert first.output_text == "I look."
        made = first.output[1]
        assert (made.call_id, made.name, made.arguments) == ("call_a", "bash", '{"command": "ls"}')
        items += [each.model_dump(exclude_none=True) for each in first.output]
        items.append({"type": "function_call_output", "call_id": "call_a", "output": "data.csv"})
        assert ask().output_text == "x is 1"
    check_two_turns(proxy, model)


def check_two_turns(proxy: ModelProxy, model: Playback) -> None:
    """The record of a call, its tool's result, and an answer; the second request as it was sent."""
    opening, (first, second) = proxy.opening, proxy.steps()
    assert [(each.role, each.text) for each in opening] == [
        (Role.SYSTEM, "Be brief."),
        (Role.USER, "Find x."),
    ]
    (use,) = first.uses
    assert (use.name, use.result.role, use.result.text) == ("bash", Role.TOOL, "data.csv")
    assert (second.reply.message.text, second.uses, second.prompt) == ("x is 1", (), "")
    assert proxy.stop is None
    # The model's own message goes back as it was, and not as the agent's client wrote it.
    assert model.asked[1].messages[2] is first.reply.message


def test_reasoning_goes_back_to_the_model_though_the_protocol_has_no_field_for_it(
    tmp_path: Path,
) -> None:
    thought = replace(look().message, reasoning="Files first.", native='[{"signed": 1}]')
    model = Playback([replace(look(), message=thought), say("x is 1")])
    with serving(model, tmp_path):
        _, first = post(tmp_path, chat(USER))
        message = first["choices"][0]["message"]
        assert "Files first." not in json.dumps(first)
        result = {"role": "tool", "tool_call_id": "call_a", "content": "data.csv"}
        assert post(tmp_path, chat(USER, message, result))[0] == 200
    assert model.asked[1].messages[1] == thought


def test_images_reach_the_model_in_every_protocol(tmp_path: Path) -> None:
    data = base64.b64encode(PNG).decode()
    url = f"data:image/png;base64,{data}"
    source = {"type": "base64", "media_type": "image/png", "data": data}
    parts: list[tuple[str, str, object]] = [
        ("/v1/chat/completions", "messages", {"type": "image_url", "image_url": {"url": url}}),
        ("/v1/messages", "messages", {"type": "image", "source": source}),
        ("/v1/responses", "input", {"type": "input_image", "image_url": url}),
    ]
    model = Playback([say("a point")] * 3)
    with serving(model, tmp_path):
        for path, key, part in parts:
            body = {"model": MODEL, "max_tokens": 9, key: [{"role": "user", "content": [part]}]}
            assert post(tmp_path, body, path)[0] == 200
    assert [[i.data for i in each.messages[-1].images] for each in model.asked] == [[PNG]] * 3


# --- refusals ---


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"{", 400, "Invalid JSON"),
        (b"[" * 100_000, 400, ""),
        *cases(__file__, "not_served"),
        (b" " * (MAX_BODY_BYTES + 1), 413, "16,777,216 bytes"),
    ],
)
def test_a_call_that_is_not_served_costs_nothing(
    tmp_path: Path, body: object, status: int, reason: str
) -> None:
    model = Playback([])
    with serving(model, tmp_path) as proxy:
        if isinstance(body, bytes) and len(body) > MAX_BODY_BYTES:
            made = answer_of(begin(tmp_path, len(body)))
        else:
            made = post(tmp_path, body)
        assert made[0] == status
        assert reason in made[1]["error"]["message"]
    assert (model.asked, proxy.steps(), proxy.stop) == ([], (), None)


def begin(folder: Path, length: int) -> UnixConnection:
    """Send the head of a request."""
    connection = UnixConnection(folder)
    connection.putrequest("POST", "/v1/chat/completions")
    connection.putheader("Content-Length", str(length))
    connection.endheaders()
    return connection


def answer_of(connection: UnixConnection) -> tuple[int, Any]:
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def test_there_is_one_model_and_no_other_path(tmp_path: Path) -> None:
    import openai

    with serving(Playback([]), tmp_path), openai_client(tmp_path) as client:
        assert [each.id for each in client.models.list()] == [MODEL]
        assert post(tmp_path, chat(USER), "/v1/embeddings")[0] == 404
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve("resp_1")


# --- the budget ---


def test_turns_are_limited_and_clients_do_not_retry(tmp_path: Path) -> None:
    import openai

    model = Playback([say("one"), say("two"), say("three")])
    with serving(model, tmp_path, turns=2) as proxy, openai_client(tmp_path) as client:
        retrying = client.with_options(max_retries=5)
        for _ in range(2):
            retrying.chat.completions.create(model=MODEL, messages=[USER])  # type: ignore[list-item]
        with pytest.raises(openai.PermissionDeniedError, match="turn_limit"):
            retrying.chat.completions.create(model=MODEL, messages=[USER])  # type: ignore[list-item]
    assert (len(model.asked), proxy.stop) == (2, StopReason.TURN_LIMIT)


@pytest.mark.parametrize(
    ("ceiling", "stop"),
    [
        (Ceiling(tokens=50), StopReason.TOKEN_LIMIT),
        (Ceiling(usd=Decimal(5), spent=lambda usage: Decimal(2)), StopReason.COST_LIMIT),
    ],
)
def test_tokens_and_cost_are_limited(tmp_path: Path, ceiling: Ceiling, stop: StopReason) -> None:
    model = Playback([say("so", tokens=10)] * 9)
    with serving(model, tmp_path, ceiling=ceiling) as proxy:
        statuses = [post(tmp_path, chat(USER))[0] for _ in range(4)]
    assert statuses == [200, 200, 403, 403]
    assert (len(model.asked), proxy.stop) == (2, stop)


def test_calls_at_once_are_carried_out_one_after_another_within_the_budget(tmp_path: Path) -> None:
    working = threading.Lock()

    def slow(request: ModelRequest) -> Reply:
        assert working.acquire(blocking=False), "another call is under way"
        time.sleep(0.05)
        working.release()
        return say("so")

    model = Playback([slow] * 9)
    statuses: list[int] = []
    with serving(model, tmp_path, turns=3) as proxy:
        threads = [
            threading.Thread(target=lambda: statuses.append(post(tmp_path, chat(USER))[0]))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(statuses) == [200] * 3 + [403] * 5
    assert len(proxy.steps()) == 3


def test_the_wait_for_the_model_is_counted_apart(tmp_path: Path) -> None:
    def slow(request: ModelRequest) -> Reply:
        time.sleep(0.3)
        return say("so")

    with serving(Playback([slow]), tmp_path) as proxy:
        post(tmp_path, chat(USER))
        before = proxy.waited()
        time.sleep(0.1)
        assert proxy.waited() == before
    assert 0.3 <= before < 2


# --- failures ---


def failing(kind: str) -> AttemptFailed:
    return AttemptFailed(Boundary.PROVIDER, kind)


def test_a_conversation_too_long_is_the_agents_to_shorten(tmp_path: Path) -> None:
    import openai

    model = Playback([say("one"), failing("context_length"), say("two")])
    with serving(model, tmp_path) as proxy, openai_client(tmp_path) as client:
        statuses = [post(tmp_path, chat(USER))[0]]
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model=MODEL, messages=[USER])  # type: ignore[list-item]
        assert refused.value.code == "context_length_exceeded"
        assert proxy.stop is StopReason.CONTEXT_LIMIT
        statuses.append(post(tmp_path, chat(USER))[0])
    assert statuses == [200, 200]
    assert (proxy.stop, proxy.error, len(proxy.steps())) == (None, None, 2)


def test_a_request_that_the_provider_refuses_is_the_agents_after_the_first_reply(
    tmp_path: Path,
) -> None:
    kind = "bad_request"
    model = Playback([say("one"), failing(kind), say("two")])
    with serving(model, tmp_path) as proxy:
        assert [post(tmp_path, chat(USER))[0] for _ in range(3)] == [200, 400, 200]
    assert proxy.error is None

    model = Playback([failing(kind)])  # before it, the model had no part in the request
    (tmp_path / "again").mkdir()
    with serving(model, tmp_path / "again") as proxy:
        assert post(tmp_path / "again", chat(USER))[0] == 503
    assert isinstance(proxy.error, AttemptFailed)


@pytest.mark.parametrize("error", [failing("overload"), WorkStopped("over"), ValueError("bug")])
def test_a_failure_of_the_model_ends_the_episode(tmp_path: Path, error: Exception) -> None:
    ended = threading.Event()
    model = Playback([say("one"), error])
    with serving(model, tmp_path, interrupt=ended.set) as proxy:
        assert [post(tmp_path, chat(USER))[0] for _ in range(3)] == [200, 503, 403]
    assert proxy.error is error
    assert ended.is_set()


# --- paid replies ---


def test_paid_replies_are_stored_and_an_interrupted_run_pays_again_beside_them(
    tmp_path: Path,
) -> None:
    identity, recipient = new_identity()
    store = MemoryStore()
    for run in range(2):
        folder = tmp_path / str(run)
        folder.mkdir()
        journal = CountingJournal(journal_of(store, "sha256:e", recipient, identity))
        model = Playback([say(f"{run} {turn}") for turn in range(2)], paid=True)
        with serving(model, folder, journal=journal) as proxy:
            assert [post(folder, chat(USER))[0] for _ in range(2)] == [200, 200]
        assert [each.reply.message.text for each in proxy.steps()] == [f"{run} 0", f"{run} 1"]
    kept = [journal.load(turn) for turn in range(4)]
    assert [each.message.text for each in kept if each] == ["0 0", "0 1", "1 0", "1 1"]


# --- the record of conversations that branch ---


def test_a_conversation_of_its_own_and_a_compacted_one_are_recorded(tmp_path: Path) -> None:
    model = Playback([look(), say("title"), say("done")])
    with serving(model, tmp_path) as proxy:
        post(tmp_path, chat(USER))
        post(tmp_path, chat({"role": "user", "content": "Give it a title."}))
        post(tmp_path, chat(USER, {"role": "user", "content": "So far: data.csv was found."}))
    first, second, third = proxy.steps()
    assert (first.uses, second.prompt) == ((), "Give it a title.")
    assert third.prompt == "So far: data.csv was found."


# --- attacks ---


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_ten_thousand_connections_are_held_off(tmp_path: Path) -> None:
    threads, before = threading.active_count(), memory()
    with serving(Playback([]), tmp_path) as proxy, ExitStack() as opened:
        refused = 0
        for _ in range(10_000):
            link = opened.enter_context(socket.socket(socket.AF_UNIX))
            link.setblocking(False)
            try:
                link.connect(str(tmp_path / "model.sock"))
                link.send(b"POST /v1/chat/completions HTTP/1.1\r\n")  # and no more
            except OSError:
                refused += 1
                link.close()
        assert refused > 9_000
        assert threading.active_count() <= threads + MAX_CONNECTIONS + 1
        assert memory() - before < 64 << 20
    assert proxy.steps() == ()


def test_a_flood_of_requests_closes_the_socket(tmp_path: Path) -> None:
    with serving(Playback([say("so")] * 3), tmp_path) as proxy:
        answered = 0
        with suppress(OSError, http.client.HTTPException):
            for _ in range(3 * MAX_EVENTS):
                post(tmp_path, {})
                answered += 1
        assert MAX_EVENTS // 2 - 2 <= answered <= MAX_EVENTS
        with pytest.raises(OSError, match=r"refused|reset"):
            post(tmp_path, chat(USER))
    assert (proxy.steps(), proxy.error) == ((), None)


def test_a_slow_body_holds_up_only_its_own_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.external_agents.tool_bridge.DeadlineHandler.seconds", 0.5)
    with serving(Playback([say("so")]), tmp_path):
        begin(tmp_path, 1000).send(b"{")
        begun = time.monotonic()
        assert post(tmp_path, chat(USER))[0] == 200
        assert time.monotonic() - begun < 5


def test_what_an_episode_may_have_recorded_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_proxy, "MAX_RECORD_BYTES", 100_000)
    with serving(Playback([say("so")] * 9), tmp_path) as proxy:
        texts = [f"{n}" + "x" * 40_000 for n in range(3)]
        statuses = [post(tmp_path, chat({"role": "user", "content": t}))[0] for t in texts]
        assert statuses == [200, 200, 413]
        again = chat({"role": "user", "content": texts[0]})
        assert post(tmp_path, again)[0] == 200  # the same bytes are kept once
    assert len(proxy.steps()) == 3


def test_a_socket_in_a_folder_with_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with serving(Playback([]), folder):
        assert (folder / "model.sock").is_socket()
