"""What a provider's server can do to its client: bodies without end, bombs, drips, and waits."""

from __future__ import annotations

import gzip
import json
import resource
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from generators.seed import Seed
from harness.errors import AttemptFailed
from harness.model import Message, ModelRequest, Role, Try
from harness.models.providers import transport
from harness.models.providers.anthropic import AnthropicModel
from harness.models.providers.base import ProviderModel
from harness.models.providers.bedrock import BedrockModel
from harness.models.providers.google import GoogleModel
from harness.models.providers.openai import OpenAIModel
from harness.models.providers.retry import LONGEST_PAUSE, try_again
from harness.models.providers.transport import KEPT_BYTES, MOST_BYTES, asked_wait
from tests.harness.openai_server import Answer, completion, failure, serve
from tests.harness.served_model import served_model

SEED = Seed(bytes(32))
REQUEST = ModelRequest((Message(Role.USER, "Find x."),), (), SEED)
pytestmark = pytest.mark.usefixtures("provider_keys")
CLASSES = [OpenAIModel, AnthropicModel, GoogleModel, BedrockModel]


def build(cls: type[ProviderModel], url: str, **sampling: float) -> ProviderModel:
    key = "" if cls is BedrockModel else "sk-1"
    return served_model(cls, url, key, lambda seconds: None, **sampling)


def fail(cls: type[ProviderModel], url: str, **sampling: float) -> tuple[str, list[Try]]:
    kept: list[Try] = []
    model = build(cls, url, **sampling)
    with pytest.raises(AttemptFailed) as failed:
        model.respond(replace(REQUEST, keep=kept.append))
    model.close()
    return failed.value.error_class, kept


@contextmanager
def any_server(*script: Answer) -> Iterator[str]:
    with serve(*script, root="", check=lambda request: [], path=".*") as served:
        yield served.url


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """Eight times what is unpacked at most, in less than a megabyte."""
    packer = zlib.compressobj(wbits=31)
    zeros = bytes(MOST_BYTES)
    made = b"".join(packer.compress(zeros) for _ in range(8)) + packer.flush()
    assert len(made) < 2**20
    return made


@pytest.mark.parametrize("cls", CLASSES)
def test_a_bomb_is_not_unpacked_and_counts_as_too_large(
    cls: type[ProviderModel], bomb: bytes
) -> None:
    answer = Answer(bomb, headers=(("Content-Encoding", "gzip"),))
    with any_server(Answer(b"["), answer, answer) as url:
        fail(cls, url, retries=0)  # imports the provider's library, which is large
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        kind, kept = fail(cls, url)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert kind == "too_large"
    assert [(each.kind, len(each.raw)) for each in kept] == [("too_large", KEPT_BYTES)] * 2
    assert grown < 3 * MOST_BYTES // 1024  # kB; the whole bomb would be 8


@pytest.mark.parametrize("cls", CLASSES)
def test_a_body_without_end_is_cut_off(
    cls: type[ProviderModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MOST_BYTES", 300_000)
    with any_server(Answer(b"[" * 400_000)) as url:
        kind, kept = fail(cls, url, retries=0)
    assert kind == "too_large"
    assert kept[0].raw == b"[" * KEPT_BYTES


def test_a_packed_body_is_read() -> None:
    body = json.dumps(completion("It is 1.").body).encode().ljust(2**20)
    with serve(Answer(gzip.compress(body), headers=(("Content-Encoding", "gzip"),))) as served:
        model = build(OpenAIModel, served.url)
        reply = model.respond(REQUEST)
        model.close()
    assert reply.message.text == "It is 1."
    assert reply.raw == body


@contextmanager
def dripping(pause: float, head: bytes) -> Iterator[str]:
    """A server that sends the head and then a byte at a time, without end."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(head)
            while not stop.wait(pause):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        listener.close()
        thread.join()


def test_a_connection_that_is_not_secure_is_a_class_of_its_own() -> None:
    with any_server() as url:
        assert fail(OpenAIModel, url.replace("http:", "https:"), retries=0)[0] == "tls"


def test_a_reply_that_is_sent_twice_answers_one_request() -> None:
    asked: list[object] = []

    def answer(request: object) -> Answer:
        asked.append(request)
        return replace(completion(f"reply {len(asked)}"), times=2)

    with serve(always=answer) as served, closing(build(OpenAIModel, served.url)) as model:
        texts = [model.respond(REQUEST).message.text for _ in range(3)]
    assert texts == ["reply 1", "reply 2", "reply 3"]


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Slow: "],
    ids=["body", "head"],
)
def test_a_slow_drip_ends_with_the_time_of_the_request(
    cls: type[ProviderModel], head: bytes
) -> None:
    with dripping(0.1, head) as url:
        begun = time.monotonic()
        kind, _ = fail(cls, url, seconds=1.5, retries=0)
    assert kind == "timeout"
    assert time.monotonic() - begun < 20  # not the hours that each read by itself allows


def in_minutes(minutes: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(minutes=minutes), usegmt=True)


def test_each_form_of_an_asked_pause_is_read_and_no_other() -> None:
    asked = {"120": 120, "1.5": 1.5, in_minutes(-5): 0}
    others = ("", "soon", "-5", "1e9", "inf", "99999999999", "nan")
    for text, seconds in {**asked, **dict.fromkeys(others)}.items():
        assert asked_wait({"retry-after": text}) == seconds
    assert asked_wait({"retry-after-ms": "2500", "retry-after": "9"}) == 2.5
    assert 3540 <= (asked_wait({"retry-after": in_minutes(60)}) or 0) <= 3600
    skewed = {"retry-after": in_minutes(51), "date": in_minutes(50)}
    assert asked_wait(skewed) == 60, "by the clock of the server"


def test_an_asked_pause_is_kept_up_to_a_quarter_of_an_hour() -> None:
    pauses: list[float] = []
    busy = failure(429, headers=(("Retry-After", "600"),))
    with serve(busy, completion("x")) as served:
        model = served_model(OpenAIModel, served.url, "sk-1", pauses.append)
        assert model.respond(REQUEST).message.text == "x"
        model.close()
    assert pauses == [600.0]
    assert try_again(["rate_limit"], 3, LONGEST_PAUSE)
    assert not try_again(["rate_limit"], 3, LONGEST_PAUSE + 1)
    with serve(failure(429, headers=(("Retry-After", "3600"),))) as served:
        assert fail(OpenAIModel, served.url)[0] == "rate_limit"
