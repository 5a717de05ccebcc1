"""Every provider's wire format, over real HTTP: a conversation with images, calls in parallel and
reasoning; and what can go wrong with each."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from generators.catalog import INSTALLED
from generators.seed import Seed
from harness.agent.tools import TOOLS
from harness.episode import Cell, StopReason
from harness.episodes.grading import grade_episode
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.errors import AttemptFailed, Boundary
from harness.model import Image, Message, ModelRequest, Role, Try, Usage
from harness.models.providers.base import ProviderModel, Sampling
from harness.models.providers.retry import RETRIED, RETRIED_ONCE
from harness.spending.purchases import PAID_CALL_CODEC, MemoryJournal, PaidCall
from harness.storage import EPISODE_CODEC
from tests.harness.dialects import DIALECTS, GOOGLE, GOOGLE_SAFETY, KEY, Dialect
from tests.harness.openai_server import Answer, Served
from tests.harness.paid_attempt import CHARGE
from tests.harness.script import noon

SEED = Seed(bytes(32))
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
OPENING = (Message(Role.SYSTEM, "Rules."), Message(Role.USER, "Find x."))
LOOKS = [("a1", "view_image", {"path": "p.png"}), ("a2", "run_command", {"command": "ls"})]

pytestmark = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


@pytest.fixture(autouse=True)
def no_keys_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "from-the-environment")


@contextmanager
def model_at(
    dialect: Dialect, served: Served, pauses: list[float] | None = None, **sampling: Any
) -> Iterator[ProviderModel]:
    sleep = (lambda seconds: None) if pauses is None else pauses.append
    model = dialect.model(
        "m", "asked-model", served.url, dialect.given, Sampling(**sampling), sleep
    )
    try:
        yield model
    finally:
        model.close()


def ask(model: ProviderModel, *messages: Message, tools: bool = True) -> Any:
    return model.respond(ModelRequest((*OPENING, *messages), TOOLS if tools else (), SEED))


def test_a_reply_keeps_all_that_was_said_and_the_raw_bytes(dialect: Dialect) -> None:
    answer = dialect.speak("It is 1.", [], "")
    with dialect.serve(answer) as served, model_at(dialect, served) as model:
        reply = ask(model, tools=False)
    assert (reply.message.text, reply.message.calls, reply.finish) == ("It is 1.", (), "stop")
    assert replace(reply.usage, reasoning_tokens=None) == Usage(100, 20)
    assert reply.served_version == dialect.served
    assert reply.raw == json.dumps(answer.body).encode()
    assert served.faults == []
    assert served.keys[0].startswith(dialect.key)
    (request,) = served.requests
    assert dialect.system(request) == "Rules."
    sent = json.dumps(request)
    assert "Find x." in sent
    for unasked in ("temperature", "topP", "top_p", "seed", "run_command", "thinking", "cache"):
        assert unasked not in sent


def test_a_reply_has_the_provider_s_name_for_it(dialect: Dialect) -> None:
    answer = replace(dialect.speak("x", [], ""), headers=(("x-amzn-RequestId", "req-1"),))
    with dialect.serve(answer) as served, model_at(dialect, served) as model:
        reply = ask(model)
    names = {"anthropic": "msg_1", "google": "r1", "bedrock": "req-1"}
    assert reply.response_id == names[dialect.name]


def test_parallel_calls_images_and_thoughts_go_to_and_fro(dialect: Dialect) -> None:
    """The server refuses thoughts without their signatures, and calls without their answers."""
    script = (dialect.speak("Look.", LOOKS, "hm, hm"), dialect.speak("x", [], "so"))
    with dialect.serve(*script) as served, model_at(dialect, served) as model:
        first = ask(model)
        call = PaidCall(CHARGE, first)
        assert PAID_CALL_CODEC.decode(PAID_CALL_CODEC.encode(call)) == call
        said = first.message
        assert (said.text, said.reasoning, first.finish) == ("Look.", "hm, hm", "tool_call")
        assert [(c.id, c.name, json.loads(c.arguments)) for c in said.calls] == LOOKS
        seen = Message(Role.TOOL, "image/png", (Image("image/png", PNG),), call_id="a1")
        listed = Message(Role.TOOL, "p.png", call_id="a2")
        second = ask(model, said, seen, listed)
    assert second.message.text == "x"
    assert served.faults == []
    assert dialect.images(served.requests[1]) == [PNG]
    sent = json.dumps(served.requests[1])
    assert "hm, hm" in sent
    for tool in TOOLS:
        assert tool.name in sent


def test_what_is_set_is_sent(dialect: Dialect) -> None:
    with (
        dialect.serve(dialect.speak("x", [], "")) as served,
        model_at(dialect, served, temperature=0.5, top_p=0.9, max_tokens=77) as model,
    ):
        ask(model)
    sent = json.dumps(served.requests[0])
    assert ": 0.5" in sent
    assert ": 0.9" in sent
    assert ": 77" in sent


# Models that reason, and refuse a temperature.
REASONERS = {
    "anthropic": "claude-opus-4-8",
    "google": "gemini-3-pro",
    "bedrock": "us.anthropic.claude-opus-4-8",
}


def test_what_is_set_is_sent_to_a_model_that_refuses_it(dialect: Dialect) -> None:
    """The provider's refusal is an error in the open; another temperature than the pin's is not."""
    open_to_all = replace(dialect, path=".*")
    with open_to_all.serve(dialect.speak("x", [], "")) as served:
        settings = Sampling(temperature=0.5, max_tokens=77)
        version = REASONERS[dialect.name]
        model = dialect.model("m", version, served.url, dialect.given, settings)
        ask(model)
        model.close()
    assert ": 0.5" in json.dumps(served.requests[0])


@pytest.mark.parametrize(
    "kind",
    ["rate_limit", "overload", "auth", "bad_request", "context_length", "content_filter",
     "malformed"],
)  # fmt: skip
def test_failures_are_told_apart_counted_and_kept(dialect: Dialect, kind: str) -> None:
    check_failure(dialect, kind, dialect.failures[kind])


def test_a_reply_that_was_stopped_for_safety_is_a_filter_s_doing(dialect: Dialect) -> None:
    stopped = GOOGLE_SAFETY if dialect is GOOGLE else dialect.failures["content_filter"]
    check_failure(dialect, "content_filter", stopped)


def check_failure(dialect: Dialect, kind: str, answer: Answer) -> None:
    expected = 3 if kind in RETRIED else 2 if kind in RETRIED_ONCE else 1
    pauses: list[float] = []
    kept: list[Try] = []
    with (
        dialect.serve(*[answer] * expected) as served,
        model_at(dialect, served, pauses, retries=2) as model,
        pytest.raises(AttemptFailed) as failed,
    ):
        model.respond(ModelRequest(OPENING, TOOLS, SEED, kept.append))
    assert failed.value.boundary is Boundary.PROVIDER
    assert failed.value.error_class == kind
    assert "SECRET" not in str(failed.value)
    assert len(served.requests) == expected
    assert [each.kind for each in kept] == [kind] * expected
    body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
    assert [each.raw for each in kept] == [body] * expected
    if kind == "rate_limit":
        assert pauses == [7.0, 7.0]


def test_a_silent_server_is_a_timeout_and_a_lost_one_a_connection(dialect: Dialect) -> None:
    slow = Answer(dialect.speak("x", [], "").body, seconds=1.5)
    with (
        dialect.serve(slow) as served,
        model_at(dialect, served, seconds=0.4, retries=0) as model,
        pytest.raises(AttemptFailed, match="provider: timeout"),
    ):
        ask(model)
    once = Sampling(retries=0)
    gone = dialect.model("m", "asked-model", "http://127.0.0.1:9", dialect.given, once)
    with pytest.raises(AttemptFailed, match="provider: connection"):
        ask(gone)
    gone.close()


def test_the_key_goes_to_the_server_and_nowhere_else(
    dialect: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "harness")
    quoting = Answer({"error": {"message": f"bad key {KEY}"}, "message": KEY}, 401)
    kept: list[Try] = []
    with dialect.serve(quoting) as served, model_at(dialect, served) as model:
        with pytest.raises(AttemptFailed) as failed:
            model.respond(ModelRequest(OPENING, TOOLS, SEED, kept.append))
        assert KEY not in repr(model) + str(failed.value) + caplog.text
    assert served.keys[0].startswith(dialect.key)
    if dialect.given:
        assert KEY.encode() not in kept[0].raw
        assert b"[key]" in kept[0].raw


@pytest.mark.docker
def test_a_whole_episode_in_a_container(dialect: Dialect, docker_sandboxes: Any) -> None:
    """Look at the first picture, count by a program, answer: as a real model would."""
    task, seed = INSTALLED.family("count_circles"), SEED.child("http")
    instance = task.generate("easy", seed)
    looks = [("a1", "view_image", {"path": "1.png"}), ("a2", "run_command", {"command": "ls"})]
    key = json.dumps(task.key(instance.truth))
    script = (
        dialect.failures["overload"],
        dialect.speak("Let me look.", looks, "What is there?"),
        dialect.failures["malformed"],
        dialect.speak("", [("a3", "execute_python", {"code": task.solver()})], "Count."),
        dialect.speak(f"Counted.\n<answer>\n{key}\n</answer>", [], "Done."),
    )
    cell = Cell("sha256:e", instance.spec, instance.id, seed, "m", 0)
    journal = MemoryJournal()
    with dialect.serve(*script) as served, model_at(dialect, served) as model:
        episode = run_attempt(
            AttemptRequest(cell, 1, instance.brief, run="r", journal=journal),
            model,
            docker_sandboxes,
            noon,
        )
    assert served.faults == []
    assert (episode.stop, episode.error_class) == (StopReason.ANSWERED, "")
    assert grade_episode(instance, episode).score == 1.0
    assert dialect.images(served.requests[-1]) == [instance.brief.assets[0].data]
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
