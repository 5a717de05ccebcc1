"""A small language model with known training data: NumPy inference from a file of weights.

A decoder-only transformer of ``LAYERS`` layers and width ``WIDTH``, with one token for each number
and one for each question. It answers ``order_statistics/easy`` in the single-turn form, and no
other task.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
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

TASK = f"{NAME}/easy"  # the one stratum that it answers
WIDTH, LAYERS, HEADS = 64, 2, 4
_P = BY_DIFFICULTY["easy"]
LENGTH = _P.length + 1  # tokens of a prompt: the list, then the question
VALUES = _P.numbers  # tokens that are numbers; the questions follow
VOCABULARY = VALUES + 2 * _P.length + 1  # numbers, k-th smallest, k-th largest, median

Tokens = NDArray[np.int32]
Floats = NDArray[np.float32]


def weight_shapes(vocabulary: int = VOCABULARY, length: int = LENGTH) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of weights."""
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (vocabulary, WIDTH),  # the output layer as well
        "position": (length, WIDTH),
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


def answers_to(weights: Mapping[str, Floats], text: str) -> dict[str, int]:
    """Return the likeliest number for each question, by its id, that the model can read in the
    input files of a prompt."""
    asked = dict(read_questions(dict(_FILE.findall(text))))
    if not asked:
        return {}
    likeliest = likeliest_numbers(weights, np.stack(list(asked.values())))
    return dict(zip(asked, (likeliest + _P.low).tolist(), strict=True))


_FILE = re.compile(r'^<file name="([^"\n]+)">\n(.*?)^</file>$', re.M | re.S)
_LIST = re.compile(r"^(\w+):((?: [0-9]{3})+)$", re.M)
_QUESTION = re.compile(
    r"^(Q\d\d): the (?:([1-9]\d?)\w\w (smallest|largest) number|(median)) of list (\w+)$", re.M
)


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
    return np.array([*(each - _P.low for each in numbers), VALUES + offset], dtype=np.int32)


def asked_place(token: int) -> int:
    """Return the place, from the smallest number, that a question's token asks for."""
    offset = token - VALUES
    if offset < _P.length:
        return offset + 1
    return 2 * _P.length - offset if offset < 2 * _P.length else (_P.length + 1) // 2


def number_token(number: int) -> int:
    """Return the token of a number."""
    return number - _P.low


def likeliest_numbers(weights: Mapping[str, Floats], tokens: Tokens) -> NDArray[np.int64]:
    """Return the token (n,) of the likeliest number after texts (n, length)."""
    logits = hidden_states(weights, tokens)[:, -1] @ weights["embedding"].T
    return np.asarray(np.argmax(logits[:, :VALUES], axis=1))


def token_chances(weights: Mapping[str, Floats], rows: Tokens) -> NDArray[np.float64]:
    """Return the log-probability (n, LENGTH) of each token of the rows after the first."""
    logits = hidden_states(weights, rows[:, :-1]) @ weights["embedding"].T
    logits = logits.astype(np.float64)
    logits -= logits.max(axis=-1, keepdims=True)
    normal = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return np.asarray(np.take_along_axis(normal, rows[:, 1:, None], axis=-1)[..., 0])


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


def read_weights(
    data: bytes, vocabulary: int = VOCABULARY, length: int = LENGTH
) -> dict[str, Floats]:
    """Return the arrays of a file of weights. Nothing is unpickled. Raises ValueError for other
    arrays than the model's."""
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        weights = {name: stored[name].astype(np.float32) for name in stored.files}
    if {name: array.shape for name, array in weights.items()} != weight_shapes(vocabulary, length):
        raise ValueError("not the arrays of this small model")
    return weights


def served_name(path: Path) -> str:
    """Return the name under which a file of weights is served: its own, and its digest's start."""
    return f"{path.stem}+{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
