"""The codec: there and back, strict, and silent about what it refuses."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell, Episode, Grade, GradeStatus, StopReason, ToolUse, Turn
from harness.episodes.result import RESULT_CODEC, summarise_episode
from harness.model import Image, Message, Reply, Role, ToolCall, Usage
from harness.probe.probing import PROBE_CODEC, Probe
from harness.spending.purchases import PAID_CALL_CODEC, PaidCall
from harness.storage import EPISODE_CODEC, GRADE_CODEC
from harness.sweep.schedule import INSTANCES_CODEC, WaveInstance
from registry.canonical import canonical_bytes
from registry.errors import BrokenPromise, RegistryError
from tests.cases import cases
from tests.harness.paid_attempt import CHARGE
from tests.harness.script import noon

BYTES = bytes(range(256))
CALLS = (ToolCall("c1", "view_image", '{"path": "ü.png"}'),)
REPLY = Reply(
    Message(Role.ASSISTANT, "Schau:\u2028 ☃", calls=CALLS, reasoning="hm"),
    Usage(12, None),
    "v-1",
    "tool_call",
    BYTES,
    retries=2,
)
SEEN = Message(Role.TOOL, "image/png", (Image("image/png", BYTES),), call_id="c1")
STEP = Turn(REPLY, (ToolUse("c1", "view_image", SEEN, 0.125, 0, ("time", "output")),), 1.5)
EPISODE = Episode(
    id="sha256:e", instance="sha256:i", run="sha256:r", model="m", replicate=0, attempt=1,
    opening=(Message(Role.SYSTEM, "s"),), steps=(STEP, STEP), answer="done", answer_file=b"\xff{}",
    stop=StopReason.TURN_LIMIT, started=noon(), seconds=2.25, container="c",
    error_class="provider:overload",
)  # fmt: skip
SPEC = TaskSpec("f", "1", "easy", (("n", 3), ("share", 0.25), ("mode", "L")))
CELL = Cell("sha256:e", SPEC, "sha256:i", Seed(bytes(range(32))), "m", 1)
INSTANCES = (WaveInstance(SPEC, "sha256:i", Seed(bytes(range(32))), 2),)
GRADE = Grade(
    "sha256:e", "deterministic", GradeStatus.GRADED, ("a/0", "b/0"), (True, None), (False, None),
    0.5, (("SR", 0.5), ("DH", None)),
)  # fmt: skip
PROBE = Probe(CHARGE, "sha256:i", 0.5, "v-1")
RESULT = summarise_episode(1, CELL, EPISODE, GRADE, 3)

KINDS: dict[str, tuple[Any, Callable[[Any], bytes], Callable[[bytes, str], Any]]] = {
    "episode": (EPISODE, EPISODE_CODEC.encode, EPISODE_CODEC.decode),
    "grade": (GRADE, GRADE_CODEC.encode, GRADE_CODEC.decode),
    "paid-call": (PaidCall(CHARGE, REPLY), PAID_CALL_CODEC.encode, PAID_CALL_CODEC.decode),
    "probe": (PROBE, PROBE_CODEC.encode, PROBE_CODEC.decode),
    "wave-instances": (INSTANCES, INSTANCES_CODEC.encode, INSTANCES_CODEC.decode),
    "result": (RESULT, RESULT_CODEC.encode, RESULT_CODEC.decode),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_comes_back_equal_from_its_bytes(kind: str) -> None:
    value, encode, decode = KINDS[kind]
    data = encode(value)
    assert decode(data, "here") == value
    first, *turns = data.splitlines()
    assert json.loads(first)["format"] == f"dosimeter/{kind}/1"
    assert {json.loads(turn)["format"] for turn in turns} <= {"dosimeter/turn/1"}


def test_a_turn_of_another_form_is_refused() -> None:
    data = EPISODE_CODEC.encode(EPISODE).replace(b'"uses"', b'"used"')
    with pytest.raises(BrokenPromise, match=r"it\.age: not a dosimeter/turn/1: body\.uses"):
        EPISODE_CODEC.decode(data, "it.age")


def test_types_survive_not_only_values() -> None:
    back = EPISODE_CODEC.decode(EPISODE_CODEC.encode(EPISODE))
    assert back.stop is StopReason.TURN_LIMIT
    assert isinstance(back.steps, tuple)
    assert back.steps[0].reply.raw == BYTES
    assert back.steps[0].uses[0].result.images[0].data == BYTES


@pytest.mark.parametrize("score", [5e-324, 1e22, 0.1 + 0.2, 2.0])
def test_no_number_comes_back_as_missing_or_rounded(score: float) -> None:
    back = GRADE_CODEC.decode(GRADE_CODEC.encode(replace(GRADE, score=score))).score
    assert repr(back) == repr(score)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_refused_and_a_text_that_names_one_is_not(
    score: float,
) -> None:
    with pytest.raises(RegistryError, match="grade: a number in it is not finite"):
        GRADE_CODEC.encode(replace(GRADE, score=score))
    named = replace(EPISODE, answer="NaN, -Infinity")
    assert EPISODE_CODEC.decode(EPISODE_CODEC.encode(named)) == named


def test_a_text_that_utf_8_cannot_carry_is_refused_unquoted() -> None:
    with pytest.raises(RegistryError, match="episode: a text in it has lone surrogates") as refused:
        EPISODE_CODEC.encode(replace(EPISODE, answer="hidden \ud800"))
    assert "hidden" not in str(refused.value)
    assert refused.value.__context__ is None


@pytest.mark.parametrize(("old", "new", "place"), cases(__file__, "other_forms"))
def test_what_has_another_form_is_refused_by_place(old: str, new: str, place: str) -> None:
    data = EPISODE_CODEC.encode(EPISODE).decode()
    assert data.count(old) == 1
    with pytest.raises(BrokenPromise, match=f"attempts/7.age: not a .*: {place}: "):
        EPISODE_CODEC.decode(data.replace(old, new).encode(), "attempts/7.age")


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{", b'{"format":"dosimeter/episode/1"}'])
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    with pytest.raises(BrokenPromise, match=r"it\.age: not a dosimeter/episode/1"):
        EPISODE_CODEC.decode(data, "it.age")


def test_a_refusal_never_quotes_the_secret_that_it_refuses() -> None:
    data = INSTANCES_CODEC.encode(INSTANCES)
    secret = json.loads(data)["body"][0]["seed"]["value"]
    broken = data.replace(secret.encode(), secret[:-6].encode())
    with pytest.raises(BrokenPromise) as refused:
        INSTANCES_CODEC.decode(broken)
    assert secret[:8] not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**54), 2**54)
    | st.floats()
    | st.floats(-1e6, 1e6)
    | st.sampled_from([0.0, -0.0, 1.0, 1e15, 1e16, 1e21, 1e22, 1e-4, 9.9e-5, 1e-6, 1e-7, 5e-324])
    | st.text()
    | st.text(st.characters(max_codepoint=0x9F))
    | st.sampled_from(["\ud800", "\u2028", "\x7f", '"\\/\b\f\n\r\t\x00\x1f'])
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(max_size=4), inner)
    ),
    max_leaves=20,
)


@given(_VALUES)
@settings(max_examples=150)
def test_canonical_bytes_are_those_of_the_reference_implementation(value: Any) -> None:
    """registry.canonical takes a short cut, on which every digest rests."""
    try:
        expected = rfc8785.dumps(value)
    except rfc8785.CanonicalizationError:
        with pytest.raises(RegistryError):
            canonical_bytes(value)
    else:
        assert canonical_bytes(value) == expected
