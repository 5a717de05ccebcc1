"""A small language model with known training data: NumPy inference from a file of weights.

A decoder-only transformer of ``LAYERS`` layers and width ``WIDTH``, with one token for each number
and one for each question. It answers ``order_statistics/easy`` in the single-turn form, and no
other task. `dosimeter calibrate train` makes its weights.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from generators.ladder.order_statistics.parameters import (
    BY_DIFFICULTY,
    LARGEST,
    LISTS,
    NAME,
    QUESTIONS,
    SMALLEST,
)
from harness.errors import HarnessError, ModelUnavailable
from harness.model import BuiltInModel, Message, ModelRequest, Reply, Role, Usage

TRAINED_TASK = f"{NAME}/easy"  # the one stratum that it answers
TRAINED_CONTEXT = 4096  # tokens, as single turns are estimated: more than that stratum takes
WIDTH, LAYERS, HEADS = 64, 2, 4
_P = BY_DIFFICULTY["easy"]
LENGTH = _P.length + 1  # tokens of a prompt: the list, then the question
VOCABULARY = _P.numbers + 2 * _P.length + 1  # numbers, k-th smallest, k-th largest, median
_MAX_BYTES = 2_000_000  # of a file of weights
_MAX_HEADER = 512  # bytes of a member beside its values

Tokens = NDArray[np.int32]
Floats = NDArray[np.float32]


def weight_shapes() -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of weights."""
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (VOCABULARY, WIDTH),  # the output layer as well
        "position": (LENGTH, WIDTH),
        "norm": (WIDTH,),
    }
    for layer in range(LAYERS):
        shapes |= {
            f"{layer}.attention_norm": (WIDTH,),
            f"{layer}.attention_in": (WIDTH, 3 * WIDTH),
            f"{layer}.attention_out": (WIDTH, WIDTH),
            f"{layer}.feed_norm": (WIDTH,),
            f"{layer}.feed_in": (WIDTH, 4 * WIDTH),
            f"{layer}.feed_bias": (4 * WIDTH,),
            f"{layer}.feed_out": (4 * WIDTH, WIDTH),
        }
    return shapes


@dataclass(frozen=True, slots=True)
class TrainedModel(BuiltInModel):
    """Answers each question that it can read with the likeliest number."""

    name: str
    version: str  # "sha256:" and the digest of its file of weights
    weights: Mapping[str, Floats] = field(repr=False)

    def respond(self, request: ModelRequest) -> Reply:
        """Return the answer block: without answers for a task that it cannot read. Raises
        HarnessError for a task with tools."""
        if request.tools:
            raise HarnessError(
                f"model {self.name!r} uses no tools: give its tasks `mode: single_turn`"
            )
        asked = dict(read_questions(_files(request.messages[-1].text)))
        block: dict[str, object] = {}
        if asked:
            logits = last_logits(self.weights, np.stack(list(asked.values())))
            answers = np.argmax(logits[:, : _P.numbers], axis=1) + _P.low
            pairs = zip(asked, answers.tolist(), strict=True)
            block = {"task": NAME, "answers": [{"id": id_, "answer": each} for id_, each in pairs]}
        text = f"<answer>\n{json.dumps(block)}\n</answer>"
        usage = Usage(LENGTH * len(asked), len(asked))
        return Reply(Message(Role.ASSISTANT, text), usage, self.version)


_FILE = re.compile(r'^<file name="([^"\n]+)">\n(.*?)^</file>$', re.M | re.S)
_LIST = re.compile(r"^(\w+):((?: [0-9]{3})+)$", re.M)
_QUESTION = re.compile(
    r"^(Q\d\d): the (?:([1-9]\d?)\w\w (smallest|largest) number|(median)) of list (\w+)$", re.M
)


def _files(text: str) -> dict[str, str]:
    return dict(_FILE.findall(text))


def read_questions(files: Mapping[str, str]) -> Iterator[tuple[str, Tokens]]:
    """Yield the id and the tokens (LENGTH,) of each question that the model can read, from the
    texts of the input files by name."""
    lists = {
        name: tuple(map(int, row.split())) for name, row in _LIST.findall(files.get(LISTS, ""))
    }
    for id_, place, kind, _, name in _QUESTION.findall(files.get(QUESTIONS, "")):
        numbers = lists.get(name, ())
        fits = len(numbers) == _P.length and all(_P.low <= each <= _P.high for each in numbers)
        if fits and int(place or 1) <= _P.length:
            yield id_, prompt_tokens(numbers, kind, int(place or 0))


def prompt_tokens(numbers: tuple[int, ...], kind: str, place: int) -> Tokens:
    """Return the tokens (LENGTH,) of a question about a list; ``place`` is not read for the
    median."""
    offset = {SMALLEST: place - 1, LARGEST: _P.length + place - 1}.get(kind, 2 * _P.length)
    return np.array([*(each - _P.low for each in numbers), _P.numbers + offset], dtype=np.int32)


def asked_place(token: int) -> int:
    """Return the place, from the smallest number, that a question's token asks for."""
    offset = token - _P.numbers
    if offset < _P.length:
        return offset + 1
    return 2 * _P.length - offset if offset < 2 * _P.length else (_P.length + 1) // 2


def number_token(number: int) -> int:
    """Return the token of a number."""
    return number - _P.low


def last_logits(weights: Mapping[str, Floats], tokens: Tokens) -> Floats:
    """Return the logits (n, VOCABULARY) of the token that follows prompts (n, LENGTH)."""
    logits: Floats = hidden_states(weights, tokens)[:, -1] @ weights["embedding"].T
    return logits


def hidden_states(weights: Mapping[str, Any], tokens: Any, xp: Any = np) -> Any:
    """Return the last layer's normalised states (n, length, WIDTH) of tokens (n, length), computed
    with the arrays of ``xp``: NumPy, or jax.numpy in training."""
    count, length = tokens.shape
    mask = xp.where(xp.tri(length, dtype=bool), 0.0, -1e9).astype(xp.float32)
    state = weights["embedding"][tokens] + weights["position"][:length]
    for layer in range(LAYERS):
        own = {name: weights[f"{layer}.{name}"] for name in _LAYER}
        mixed = _norm(state, own["attention_norm"], xp) @ own["attention_in"]
        heads = mixed.reshape(count, length, 3, HEADS, WIDTH // HEADS).transpose(2, 0, 3, 1, 4)
        scores = heads[0] @ heads[1].swapaxes(-1, -2) * (WIDTH // HEADS) ** -0.5 + mask
        attention = xp.exp(scores - scores.max(-1, keepdims=True))
        attention = attention / attention.sum(-1, keepdims=True)
        read = (attention @ heads[2]).transpose(0, 2, 1, 3).reshape(count, length, WIDTH)
        state = state + read @ own["attention_out"]
        fed = _norm(state, own["feed_norm"], xp) @ own["feed_in"] + own["feed_bias"]
        state = state + xp.maximum(fed, 0) @ own["feed_out"]
    return _norm(state, weights["norm"], xp)


_LAYER = (
    "attention_norm",
    "attention_in",
    "attention_out",
    "feed_norm",
    "feed_in",
    "feed_bias",
    "feed_out",
)


def _norm(state: Any, gain: Any, xp: Any) -> Any:
    """Root mean square normalisation over the last axis (Zhang and Sennrich 2019)."""
    return gain * state / xp.sqrt((state * state).mean(-1, keepdims=True) + 1e-6)


# -- the file of weights ----------------------------------------------------------------------


def weights_bytes(weights: Mapping[str, Floats]) -> bytes:
    """Return the bytes of an npz file with half-precision values: the same for the same weights."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in weight_shapes():
            member = io.BytesIO()
            np.lib.format.write_array(
                member, np.asarray(weights[name], dtype=np.float16), (1, 0), allow_pickle=False
            )
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    return out.getvalue()


def load_trained(name: str, path: Path, digest: str) -> TrainedModel:
    """Return the model of a file of weights with this SHA-256 in hex. Raises ModelUnavailable if
    there is none, HarnessError for another file and for one that holds other arrays."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ModelUnavailable(
            f"model {name!r}: {path}: no file of weights ({error.strerror}): "
            "`dosimeter calibrate train` makes it"
        ) from None
    if len(data) > _MAX_BYTES:
        raise HarnessError(f"model {name!r}: {path}: more than {_MAX_BYTES:,} bytes of weights")
    actual = hashlib.sha256(data).hexdigest()
    if actual != digest:
        raise HarnessError(
            f"model {name!r}: {path} has the SHA-256 {actual}, and the study's pin says {digest}: "
            "bring that file back, or name the digest of this one in `sha256`"
        )
    try:
        return TrainedModel(name, f"sha256:{digest}", read_weights(data))
    except HarnessError as error:
        raise HarnessError(f"model {name!r}: {path}: {error}") from None


def read_weights(data: bytes) -> dict[str, Floats]:
    """Return the arrays of a file of weights. Each member's size and shape is checked before its
    values are read, and nothing is unpickled. Raises HarnessError."""
    shapes = weight_shapes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if sorted(each.filename for each in members) != sorted(f"{n}.npy" for n in shapes):
                raise HarnessError("not the arrays of a small trained model")
            return {
                member.filename.removesuffix(".npy"): _read_member(archive, member)
                for member in members
            }
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError) as error:
        if isinstance(error, HarnessError):
            raise
        raise HarnessError(f"not an npz file of weights ({error})") from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Floats:
    name = member.filename.removesuffix(".npy")
    shape = weight_shapes()[name]
    size = 2 * int(np.prod(shape))
    if not size < member.file_size <= size + _MAX_HEADER:
        raise HarnessError(f"array {name!r} has {member.file_size:,} bytes; {size:,} are right")
    file = io.BytesIO(archive.read(member))
    if np.lib.format.read_magic(file) != (1, 0):
        raise HarnessError(f"array {name!r} is not of the npy format 1.0")
    stored, by_column, dtype = np.lib.format.read_array_header_1_0(file)
    if stored != shape or by_column or dtype != np.dtype("<f2"):
        raise HarnessError(f"array {name!r} is {dtype} {stored}; float16 {shape} is right")
    values = np.frombuffer(file.read(), dtype="<f2").reshape(shape).astype(np.float32)
    if not np.isfinite(values).all():
        raise HarnessError(f"array {name!r} has values that are not finite")
    return values
