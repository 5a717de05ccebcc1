"""How likely a text is, as servers tell it: read where they do, nothing where they do not; and
asked for over real HTTP."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from generators.seed import Seed
from harness.build_model import build_model
from harness.errors import AttemptFailed
from harness.model import TextRequest, Usage, logprob_model
from harness.models.providers.openai import OpenAIModel
from harness.models.scripted import HonestAgent
from harness.models.text_tool_calls import TextCalls
from harness.models.token_logprobs import (
    ECHO,
    PROMPT_LOGPROBS,
    TokenScores,
    membership_scores,
    read_likelihood,
)
from registry.ledger.records import ModelPin
from tests.harness.openai_server import Answer, Json, failure, serve
from tests.harness.served_model import served_model

TEXT, START = "read: 3 mice", 6
TOKENS = ["<s>", "read", ":", " 3", " mi", "ce"]
LOGPROBS = [None, -9.0, -0.1, -2.0, -3.0, -0.5]


def echoed(rivals: list[Any] | None = None, **choice: Any) -> Json:
    """As servers say it that echo: one token more than they were given."""
    told = {"tokens": [*TOKENS, "!"], "token_logprobs": [*LOGPROBS, -0.7], "top_logprobs": rivals}
    made = {"text": TEXT + "!", "logprobs": told, **choice}
    usage = {"prompt_tokens": 6, "completion_tokens": 1}
    return {"model": "served-7", "choices": [made], "usage": usage}


def vllm(*ranked: Json) -> Json:
    return {"model": "v", "choices": [{"text": "!", "prompt_logprobs": [None, *ranked]}]}


def place(token: str, logprob: float, **others: float) -> Json:
    told = {"7": {"logprob": logprob, "rank": 2, "decoded_token": token}}
    return told | {
        name: {"logprob": each, "rank": 1, "decoded_token": name} for name, each in others.items()
    }


PLACES = [
    place(token, logprob or 0.0) for token, logprob in zip(TOKENS[1:], LOGPROBS[1:], strict=True)
]


def read(body: Json, start: int = START) -> TokenScores | None:
    return read_likelihood(json.dumps(body).encode(), TEXT, start)


@pytest.mark.parametrize("body", [echoed(), vllm(*PLACES)], ids=["echo", "vllm"])
def test_the_text_s_own_end_is_read(body: Json) -> None:
    assert read(body) == TokenScores((-2.0, -3.0, -0.5))  # " 3" reaches beyond the start
    assert read(body, 8) == TokenScores((-3.0, -0.5))
    assert read(body, 10) == TokenScores((-0.5,))


def test_a_server_may_generate_nothing_and_count_nothing() -> None:
    wanted = TokenScores((-2.0, -3.0, -0.5))
    assert read({**echoed(), "usage": None}) == wanted
    none = {"tokens": TOKENS, "token_logprobs": LOGPROBS}
    assert read({"choices": [{"logprobs": none}]}) == wanted
    assert read({"choices": [{"logprobs": none}], "usage": {"completion_tokens": 0}}) == wanted


def test_a_whole_distribution_gives_moments_and_a_part_none() -> None:
    half = -math.log(2)
    body = echoed([None, *({token: half, "else": half} for token in TOKENS[1:]), None])
    body["choices"][0]["logprobs"]["token_logprobs"] = [None, *[half] * 5, -0.7]
    found = read(body)
    assert found is not None
    assert found.means == pytest.approx((half,) * 3)
    assert membership_scores(found).min_k_plus == 0
    part = read(echoed([None, *({token: half} for token in TOKENS[1:]), None]))
    assert part is not None
    assert part.means is None
    # A token that is none of the likeliest is told beside them, and counts among them.
    quarter = math.log(0.25)
    beside = read(vllm(*[place(token, quarter, a=half, b=quarter) for token in TOKENS[1:]]))
    assert beside is not None
    assert beside.means == pytest.approx((0.5 * half + 0.5 * quarter,) * 3)


LLAMA = {"text": " fox", "logprobs": {"content": [{"token": " fox", "logprob": -1.5}]}}


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"text": "!", "logprobs": None}]},
        {"choices": [LLAMA]},  # what llama.cpp tells is of what it made, not of what it was given
        {"choices": []},
        {},
        [],
        echoed(logprobs={"tokens": ["!"], "token_logprobs": [-1.0]}),
        echoed(logprobs={"tokens": ["a", "b"], "token_logprobs": [None, -1.0]}),
        vllm(*PLACES[:-1]),
        vllm(*PLACES[:-1], place("ce", math.nan)),
        vllm(*PLACES[:-1], place("ce", 3.0)),
    ],
)
def test_what_tells_nothing_of_the_text_is_nothing(body: Any) -> None:
    assert read(body) is None


def test_parts_of_characters_are_bytes() -> None:
    text = "a … b"
    told = {"tokens": ["a", " ", "bytes:\\xe2\\x80", "bytes:\\xa6", " b", "!"],
            "token_logprobs": [None, -1, -2, -3, -4, -5]}  # fmt: skip
    body = json.dumps({"choices": [{"logprobs": told}]}).encode()
    assert read_likelihood(body, text, 1) == TokenScores((-1.0, -2.0, -3.0, -4.0))
    assert read_likelihood(b"\xff", text, 1) is None


def text_logprobs(
    *script: Answer | Callable[[Json], Answer], way: str = ECHO, top: int = 0
) -> tuple[Any, list[Json], list[Any]]:
    kept: list[Any] = []
    with serve(*script, path="/v1/completions", check=lambda request: []) as served:
        model = served_model(
            OpenAIModel, served.url, "sk-do-not-tell", lambda seconds: None, model="asked-7"
        )
        try:
            request = TextRequest(TEXT, Seed(bytes(32)), START, way, top, kept.append)
            return model.text_logprobs(request), served.requests, kept
        finally:
            model.close()
            assert not served.faults


def test_a_server_is_asked_as_it_wants_and_its_bytes_are_kept() -> None:
    answer = Answer(echoed())
    reply, (request,), _ = text_logprobs(answer, top=5)
    assert request == {
        "model": "asked-7", "prompt": TEXT, "max_tokens": 1, "temperature": 0, "echo": True,
        "logprobs": 5,
    }  # fmt: skip
    assert (reply.usage, reply.served_version) == (Usage(6, 1), "served-7")
    assert reply.raw == json.dumps(answer.body).encode()
    assert read_likelihood(reply.raw, TEXT, START) == TokenScores((-2.0, -3.0, -0.5))
    _, (request,), _ = text_logprobs(Answer(vllm(*PLACES)), way=PROMPT_LOGPROBS)
    assert request["prompt_logprobs"] == 1
    assert "echo" not in request


def test_a_failure_that_may_pass_is_tried_again_and_kept() -> None:
    reply, requests, kept = text_logprobs(failure(503), failure(429), Answer(echoed()))
    assert (len(requests), reply.retries, reply.failed) == (3, 2, ("overload", "rate_limit"))
    assert [(each.kind, each.status) for each in kept] == [("overload", 503), ("rate_limit", 429)]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (failure(404), "not_found"),
        (failure(401), "auth"),
        (failure(429, "insufficient_quota"), "quota"),
        (Answer({"error": {"message": "pay", "code": 402}}), "quota"),
        (Answer({"error": {"message": "the prompt is too long"}}, 400), "context_length"),
    ],
)
def test_a_refusal_is_told_by_its_class_alone(answer: Answer, kind: str) -> None:
    script = [answer] * 4 if kind in ("quota",) else [answer]
    with pytest.raises(AttemptFailed) as failed:
        text_logprobs(*script)
    assert failed.value.error_class == kind
    assert "SECRET" not in str(failed.value)


def test_who_can_be_asked() -> None:
    assert logprob_model(HonestAgent("h", 0.0)) is None
    pin = ModelPin("s", "openai", "x", (("api_key_env", '""'), ("base_url", '"http://localhost:1"'),
                                        ("tools", '"text"')))  # fmt: skip
    model = build_model(pin, {})
    assert isinstance(model, TextCalls)
    inner = model.model
    assert isinstance(inner, OpenAIModel)
    assert logprob_model(model) is inner
