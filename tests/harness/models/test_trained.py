"""A small trained model: what it reads and answers, and the files of weights that it refuses."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from generators.catalog import INSTALLED
from generators.grading import parse_answer
from generators.seed import Seed
from harness.agent.single_turn import turn_request
from harness.agent.tools import TOOLS
from harness.build_model import build_model, read_window
from harness.errors import HarnessError, ModelUnavailable
from harness.model import Message, ModelRequest, Role
from harness.models.trained import (
    LENGTH,
    VOCABULARY,
    TrainedModel,
    hidden_states,
    last_logits,
    load_trained,
    read_questions,
    read_weights,
    weight_shapes,
    weights_bytes,
)
from registry.ledger.records import ModelPin

ROOT = Seed(hashlib.sha256(b"a small trained model").digest())


def random_weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {
        name: rng.normal(0, 0.1, shape).astype(np.float16).astype(np.float32)
        for name, shape in weight_shapes().items()
    }


@pytest.fixture
def weights(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "some.npz"
    path.write_bytes(weights_bytes(random_weights()))
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def pin(path: Path, digest: str) -> ModelPin:
    settings = (("doses", "[4]"), ("weights", json.dumps(str(path))))
    return ModelPin("m", "trained", f"sha256:{digest}", settings)


def test_its_pin_builds_it_and_it_answers_a_single_turn(weights: tuple[Path, str]) -> None:
    model = build_model(pin(*weights))
    assert isinstance(model, TrainedModel)
    assert not model.paid
    instance = INSTALLED.family("order_statistics").generate("easy", ROOT)
    request = turn_request(instance.brief, read_window(pin(*weights)), ROOT)
    reply = model.respond(request)
    answer = parse_answer(reply.message.text)
    assert answer is not None
    (given,) = answer.block["answers"]
    assert given["id"] == "Q01"
    assert 100 <= given["answer"] <= 599
    assert reply == model.respond(request)
    assert reply.served_version == f"sha256:{weights[1]}"


@pytest.mark.parametrize("name", ["order_statistics/hard", "order_statistics/medium"])
def test_another_task_gets_no_answer(weights: tuple[Path, str], name: str) -> None:
    family, _, difficulty = name.partition("/")
    instance = INSTALLED.family(family).generate(difficulty, ROOT)
    window = read_window(pin(*weights))
    request = turn_request(instance.brief, type(window)(100_000), ROOT)
    reply = load_trained("m", *weights).respond(request)
    assert reply.message.text == "<answer>\n{}\n</answer>"


def test_a_task_with_tools_is_refused(weights: tuple[Path, str]) -> None:
    request = ModelRequest((Message(Role.USER, "x"),), TOOLS, ROOT)
    with pytest.raises(HarnessError, match="give its tasks `mode: single_turn`"):
        load_trained("m", *weights).respond(request)


@pytest.mark.parametrize(
    ("question", "token"),
    [
        ("the 1st smallest number", 500),
        ("the 9th smallest number", 508),
        ("the 1st largest number", 509),
        ("the 9th largest number", 517),
        ("the median", 518),
    ],
)
def test_tokens_of_a_question(question: str, token: int) -> None:
    files = {
        "lists.txt": "AB: 100 101 599 200 201 202 203 204 205\n",
        "questions.txt": f"Q01: {question} of list AB\n",
    }
    ((id_, tokens),) = read_questions(files)
    assert id_ == "Q01"
    assert tokens.tolist() == [0, 1, 499, 100, 101, 102, 103, 104, 105, token]
    assert len(tokens) == LENGTH
    assert max(tokens) < VOCABULARY


@pytest.mark.parametrize(
    ("numbers", "question"),
    [
        ("100 101", "the median"),
        ("99 101 599 200 201 202 203 204 205", "the median"),
        ("100 101 599 200 201 202 203 204 205", "the 10th smallest number"),
        ("100 101 599 200 201 202 203 204 205", "the rank of 100 in list"),
    ],
)
def test_a_question_of_another_form_is_not_read(numbers: str, question: str) -> None:
    files = {"lists.txt": f"AB: {numbers}\n", "questions.txt": f"Q01: {question} of list AB\n"}
    assert list(read_questions(files)) == []


def test_no_token_depends_on_a_later_one() -> None:
    weights, rng = random_weights(), np.random.default_rng(1)
    tokens = rng.integers(0, 500, (3, LENGTH)).astype(np.int32)
    changed = tokens.copy()
    changed[:, -1] = 518
    before, after = hidden_states(weights, tokens), hidden_states(weights, changed)
    assert np.allclose(before[:, :-1], after[:, :-1])
    assert not np.allclose(before[:, -1], after[:, -1])
    assert last_logits(weights, tokens).shape == (3, VOCABULARY)


# --- files of weights ---


def test_the_same_weights_make_the_same_file() -> None:
    data = weights_bytes(random_weights())
    assert data == weights_bytes(random_weights())
    read = read_weights(data)
    assert all(np.array_equal(read[name], array) for name, array in random_weights().items())


def test_a_missing_file_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"no file of weights .*`dosimeter calibrate train`"):
        load_trained("m", tmp_path / "none.npz", "0" * 64)


def test_another_file_than_the_pin_names_is_refused(weights: tuple[Path, str]) -> None:
    with pytest.raises(HarnessError, match=f"has the SHA-256 {weights[1]}, and the study's pin"):
        load_trained("m", weights[0], "0" * 64)


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.npz"
    with path.open("wb") as file:
        file.truncate(1 << 32)
    with pytest.raises(HarnessError, match="more than 2,000,000 bytes"):
        load_trained("m", path, "0" * 64)


def rewritten(change: Callable[[str, bytes], bytes | None], compression: int = 0) -> bytes:
    out = io.BytesIO()
    whole = zipfile.ZipFile(io.BytesIO(weights_bytes(random_weights())))
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name in whole.namelist():
            if (data := change(name, whole.read(name))) is not None:
                archive.writestr(name, data)
    return out.getvalue()


def npy(array: np.ndarray, pickle: bool = False) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=pickle)
    return out.getvalue()


def only(name: str, data: bytes | None) -> Callable[[str, bytes], bytes | None]:
    return lambda member, old: data if member == f"{name}.npy" else old


HUGE = npy(np.zeros(64, np.float16)).replace(b"(64,), }" + b" " * 11, b"(9999999999999,), }")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"not a zip file", "not an npz file of weights"),
        (rewritten(only("norm", None)), "not the arrays of a small trained model"),
        (rewritten(only("norm", npy(np.zeros(64, np.float32)))), "float16 .* is right"),
        (rewritten(only("norm", npy(np.zeros((8, 8), np.float16)))), r"\(8, 8\); float16 \(64,\)"),
        (rewritten(only("norm", npy(np.full(64, np.nan, np.float16)))), "not finite"),
        (rewritten(only("norm", HUGE)), "9999999999999"),
        (rewritten(only("norm", bytes(10_000_000)), zipfile.ZIP_DEFLATED), "10,000,000 bytes"),
        (rewritten(only("norm", npy(np.array([{}] * 64), True))), "array 'norm'"),
        (rewritten(only("norm", b"\x93NUMPY\x03\x00" + bytes(200))), "array 'norm' is not of"),
        (weights_bytes(random_weights())[:-100], "not an npz file of weights"),
    ],
)
def test_a_hostile_file_of_weights_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        read_weights(data)
