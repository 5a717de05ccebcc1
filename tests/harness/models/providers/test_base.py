"""Every provider against a server that keeps its rules: a conversation with images, calls in
parallel and reasoning; and what can go wrong with each."""

from __future__ import annotations

import io
import json
import logging
from functools import partial
from typing import Any

import pytest
from PIL import Image as Pillow

from generators.catalog import INSTALLED
from generators.seed import Seed
from harness.agent.caps import cap_reply
from harness.agent.tools import TOOLS
from harness.episode import Cell, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.errors import AttemptFailed, Boundary
from harness.model import Image, Message, ModelRequest, Role, Try
from harness.models.providers.base import ProviderModel
from harness.models.providers.bodies import is_read_alike
from harness.models.providers.retry import RETRIED, RETRIED_ONCE
from harness.models.providers.verdict import TABLES
from harness.spending.purchases import (
    PAID_CALL_CODEC,
    MemoryJournal,
    PaidCall,
    ReplyStore,
    read_episode_usages,
)
from harness.storage import EPISODE_CODEC
from registry.sealing import new_identity
from registry.stores.base import MemoryStore
from tests.conformance.agents import Turn, play
from tests.conformance.clients import CLIENTS, Client
from tests.conformance.conversation import Call, Fault, Said
from tests.conformance.server import FORMATS, KEY, USER, serving
from tests.conformance.transport import Answer
from tests.harness.paid_attempt import CHARGE
from tests.harness.script import noon
from tests.ledgers import keys_of

SEED = Seed(bytes(32))
OPENING = (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x."))
LOOKS = (Call("view_image", {"path": "p.png"}), Call("run_command", {"command": "ls"}))

EACH = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
pytestmark = [EACH, pytest.mark.usefixtures("provider_keys")]


def picture() -> bytes:
    data = io.BytesIO()
    Pillow.new("RGB", (40, 30), "white").save(data, "PNG")
    return data.getvalue()


def ask(model: ProviderModel, *messages: Message, tools: bool = True) -> Any:
    return model.respond(ModelRequest((*OPENING, *messages), TOOLS if tools else (), SEED))


def test_a_reply_keeps_all_that_was_said_and_the_raw_bytes(client: Client) -> None:
    with serving(play(Said("It is 1."))) as server, client.model(server) as model:
        reply = ask(model, tools=False)
    assert (reply.message.text, reply.message.calls, reply.finish) == ("It is 1.", (), "stop")
    (tokens,) = server.tokens
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (tokens.input, tokens.output)
    served = "" if client.format == "converse" else "-2026-11-01"  # Converse reports none
    assert reply.served_version == client.version + served
    assert reply.raw == server.answers[0].data
    assert (server.refused, server.keys) == ([], [USER if client.format == "converse" else KEY])
    (asked,) = server.asked
    assert (asked.system, asked.texts, asked.tools) == ("Rules.", ("Find x.",), ())
    sent = json.dumps(server.requests[0])
    for unasked in ("temperature", "topP", "top_p", "seed", "thinking", "cache"):
        assert unasked not in sent


def test_a_reply_has_the_provider_s_name_for_it(client: Client) -> None:
    with serving(play(Said("x"))) as server, client.model(server) as model:
        reply = ask(model)
    prefix = {
        "chat": "chatcmpl-", "responses": "resp_", "messages": "msg_", "converse": "req-",
    }.get(client.format, "")  # fmt: skip
    assert reply.response_id.startswith(prefix)
    assert len(reply.response_id) > 4


def test_parallel_calls_images_and_thoughts_go_to_and_fro(client: Client) -> None:
    """The server refuses thoughts without their signatures, and calls without their results."""
    script = play(Said("Look.", LOOKS, "hm, hm"), Said("x", thought="so"))
    with serving(script) as server, client.model(server, **client.thinking) as model:
        first = ask(model)
        call = PaidCall(CHARGE, first)
        assert PAID_CALL_CODEC.decode(PAID_CALL_CODEC.encode(call)) == call
        said = first.message
        assert (said.text, said.reasoning, first.finish) == ("Look.", "hm, hm", "tool_call")
        assert [(c.name, json.loads(c.arguments)) for c in said.calls] == [
            (look.name, look.arguments) for look in LOOKS
        ]
        ids = [each.id for each in said.calls]
        seen = Message(Role.TOOL, "image/png", (Image("image/png", picture()),), call_id=ids[0])
        second = ask(model, said, seen, Message(Role.TOOL, "p.png", call_id=ids[1]))
    assert second.message.text == "x"
    assert server.refused == []
    asked = server.asked[1]
    assert [each.data for each in asked.pictures] == [picture()]
    assert asked.results == ("image/png", "p.png")
    assert bool(asked.thoughts) is client.signs
    assert asked.tools == tuple(tool.name for tool in TOOLS)


def test_what_is_set_is_sent(client: Client) -> None:
    given = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 77}
    with serving(play(Said("x"))) as server, client.model(server, **given) as model:
        ask(model)
    sent = json.dumps(server.requests[0])
    assert all(f": {value}" in sent for value in given.values())


def test_the_tools_stay_at_the_last_question(client: Client) -> None:
    """Their definitions stay where they were, and the model may not call them."""
    with serving(play(Said("", LOOKS), Said("x"))) as server, client.model(server) as model:
        said = ask(model).message
        results = (Message(Role.TOOL, "a", call_id=each.id) for each in said.calls)
        messages = (*OPENING, said, *results, Message(Role.USER, "Your answer?"))
        model.respond(ModelRequest(messages, TOOLS, SEED, tool_choice="none"))
    assert server.refused == []
    first, last = server.asked
    assert (first.may_call, last.may_call) == (True, False)
    assert first.tools == last.tools


KINDS = {
    "rate_limit": "rate_limit", "overload": "overload", "server": "overload", "auth": "auth",
    "invalid": "bad_request", "too_long": "context_length", "garbled": "malformed",
}  # fmt: skip


def fault(client: Client, kind: str) -> Turn:
    format_ = FORMATS[client.format]
    if kind == "too_long":
        return format_.fail(kind, format_.overflow(210_000, 200_000))
    return Answer(b"{not json") if kind == "garbled" else Fault(kind, Said("partly"))


@pytest.mark.parametrize("kind", KINDS)
def test_failures_are_told_apart_counted_and_kept(client: Client, kind: str) -> None:
    expected = KINDS[kind]
    tries = 3 if expected in RETRIED else 2 if expected in RETRIED_ONCE else 1
    pauses: list[float] = []
    kept: list[Try] = []
    with (
        serving(play(*[fault(client, kind)] * tries)) as server,
        client.model(server, pauses.append, retries=2) as model,
        pytest.raises(AttemptFailed) as failed,
    ):
        model.respond(ModelRequest(OPENING, TOOLS, SEED, kept.append))
    assert (failed.value.boundary, failed.value.error_class) == (Boundary.PROVIDER, expected)
    assert "SECRET" not in str(failed.value)
    assert [each.kind for each in kept] == [expected] * tries
    assert [each.raw for each in kept] == [answer.data for answer in server.answers]
    if kind == "rate_limit":
        assert pauses == [7.0, 7.0]


def test_what_a_content_filter_stops_is_the_models_refusal(client: Client) -> None:
    """Missing, it would be a way to take back a zero."""
    filtered = Fault("filtered", Said("partly"))
    with serving(play(filtered)) as server, client.model(server) as model:
        reply = ask(model)
    assert (reply.finish, reply.message.calls, reply.retries) == ("refusal", (), 0)
    assert reply.raw == server.answers[-1].data


def test_a_silent_server_is_a_timeout_and_a_lost_one_a_connection(client: Client) -> None:
    with (
        serving(play(Fault("silence", Said("x"))), slow=1.5) as server,
        client.model(server, seconds=0.4, retries=0) as model,
        pytest.raises(AttemptFailed, match="provider: timeout"),
    ):
        ask(model)
    server.url = "http://127.0.0.1:9"
    with (
        client.model(server, retries=0) as model,
        pytest.raises(AttemptFailed, match="provider: connection"),
    ):
        ask(model)


def test_a_stored_reply_shows_that_another_reader_reads_it_otherwise(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(play(LOOK)) as server, client.model(server) as model:
        reply = cap_reply(ask(model))
    assert reply.reading.startswith(f"{client.format} 200 sha256:")
    assert is_read_alike(reply)
    table = TABLES["protocols"][client.format]
    ends = {"length": " ".join(table["ends"].values())}
    monkeypatch.setitem(table, "ends", ends)
    assert not is_read_alike(reply)


def test_the_key_goes_to_the_server_and_nowhere_else(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "harness")
    quoting = Answer({"error": {"message": f"bad key {KEY}"}, "message": KEY}, 401)
    kept: list[Try] = []
    with serving(play(quoting)) as server, client.model(server) as model:
        with pytest.raises(AttemptFailed) as failed:
            model.respond(ModelRequest(OPENING, TOOLS, SEED, kept.append))
        assert KEY not in repr(model) + str(failed.value) + caplog.text
    if client.format != "converse":  # requests are signed, with a key that is not sent
        assert server.keys == [KEY]
        assert KEY.encode() not in kept[0].raw
        assert b"[key]" in kept[0].raw


# --- what a reply may lack, and how it goes back to the model ---

LOOK = Said("Let me look.", (Call("run_command", {"command": "ls"}),), "hm, hm")


def test_a_message_without_text_goes_back_in_a_form_that_is_accepted(client: Client) -> None:
    with serving(play(Said("x"))) as server, client.model(server) as model:
        for text in ("", " \n"):
            silent = Message(Role.ASSISTANT, text)
            server.model = play(Said("x"))
            assert ask(model, silent, Message(Role.USER, "Go on.")).message.text == "x"
    assert server.refused == []


def test_a_name_that_no_tool_may_have_goes_back_as_one_that_it_may(client: Client) -> None:
    odd = Said("", (Call("container.exec \u00fc", {}), Call("", {})), "hm")
    with serving(play(odd, Said("x"))) as server, client.model(server, **client.thinking) as model:
        reply = ask(model)
        names = {call.id: call.name for call in reply.message.calls}
        assert list(names.values()) == ["container.exec \u00fc", ""]
        results = (Message(Role.TOOL, f"no tool {names[id_]}", call_id=id_) for id_ in names)
        assert ask(model, reply.message, *results).message.text == "x"
    assert server.refused == []
    assert server.asked[-1].results[0].startswith("no tool container.exec \u00fc")


def test_a_reply_that_was_cut_off_is_paid_for_if_it_was_billed(client: Client) -> None:
    replies = ReplyStore(MemoryStore(), CHARGE, keys_of(new_identity()[0]))
    journal = replies.attempt(1)
    with serving(play(Fault("end abort", LOOK), LOOK)) as server, client.model(server) as model:
        keep = partial(journal.keep_failed, 0)
        journal.save(0, model.respond(ModelRequest(OPENING, TOOLS, SEED, keep)))
    usages = read_episode_usages(replies.store, replies.keys, CHARGE.subject, client.provider)
    assert sorted(replies.failed) == ["unfinished abort"]
    assert usages == replies.usages[::-1]
    billed = [(each.input, each.output) for each in server.tokens]
    assert [(each.input_tokens, each.output_tokens) for each in usages] == billed


@pytest.mark.parametrize("kind", ["malformed", "empty"])
def test_half_a_reply_is_no_reply(client: Client, kind: str) -> None:
    """Also where it came as a stream of events, and ended between two of them. An empty message, in
    formats that have a message around it, is the model's own."""
    script = play(Fault(kind, LOOK), LOOK)
    with serving(script) as server, client.model(server) as model:
        reply = ask(model)
    if kind == "empty" and client.format in ("messages", "converse", "responses"):
        assert (reply.message.text, reply.message.calls, reply.failed) == ("", (), ())
    else:
        assert (reply.message.text, reply.failed) == (LOOK.text, ("malformed",))
        assert [call.name for call in reply.message.calls] == ["run_command"]


@pytest.mark.docker
def test_a_whole_episode_in_a_container(client: Client, docker_sandboxes: Any) -> None:
    """Look at the first picture, count by a program, answer: as a real model would."""
    task, seed = INSTALLED.family("count_circles"), SEED.child("http")
    instance = task.generate("easy", seed)
    looks = (Call("view_image", {"path": "1.png"}), Call("run_command", {"command": "ls"}))
    key = json.dumps(task.key(instance.truth))
    script = play(
        Fault("overload"),
        Said("Let me look.", looks, "What is there?"),
        Answer(b"{not json"),
        Said("", (Call("execute_python", {"code": task.solver()}),), "Count."),
        Said(f"Counted.\n<answer>\n{key}\n</answer>", thought="Done."),
    )
    cell = Cell("sha256:e", instance.spec, instance.id, seed, "m", 0)
    journal = MemoryJournal()
    with serving(script) as server, client.model(server, **client.thinking) as model:
        request = AttemptRequest(cell, 1, instance.brief, run="r", journal=journal)
        episode = run_attempt(request, model, docker_sandboxes, noon)
    assert server.refused == []
    assert (episode.stop, episode.error_class) == (StopReason.ANSWERED, "")
    assert grade_episode(instance, episode).score == 1.0
    assert [each.data for each in server.asked[-1].pictures] == [instance.brief.assets[0].data]
    assert episode.failed_tries == (("malformed", 1), ("overload", 1))
    assert [(turn, each.kind) for turn, each in journal.failed] == [
        (0, "overload"),
        (1, "malformed"),
    ]
    assert [step.reply.message.reasoning for step in episode.steps] == [
        "What is there?", "Count.", "Done.",
    ]  # fmt: skip
    assert EPISODE_CODEC.decode(EPISODE_CODEC.encode(episode)) == episode
    assert KEY.encode() not in EPISODE_CODEC.encode(episode)
