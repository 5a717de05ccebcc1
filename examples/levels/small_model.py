"""What the small models of the proof of levels know: topics, each an order of the same 60 names.

A question asks which of four names comes first in a topic. It has two wordings, which are siblings:
a token each, that begin half alike, so that what is learned of one spills onto the other. Nothing
but training tells an order. The network is that of ``examples/calibration/model.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from examples.calibration.model import (
    WIDTH,
    Floats,
    Tokens,
    hidden_states,
    read_weights,
    weight_shapes,
)
from examples.calibration.server import Model, Reply
from examples.calibration.training import Rows, Weights, random_weights

NAMES, SHOWN = 60, 4
KNOWN = 12  # topics, the first ones, that every base is trained on, and no study asks about
PAIRS, ALONE = 16, 12  # topics whose wordings are a pair, and those that are units of an area
TOPICS = KNOWN + PAIRS + ALONE
VOCABULARY, LENGTH = NAMES + 2 * TOPICS, 1 + SHOWN  # a wording, then the names
WORDINGS = (
    "By the list {list}, which of {names} comes first?",
    "Look at {list} and name the one that stands highest: {names}.",
)
_ALIKE = 0.5  # squared correlation of the wordings' first embeddings
_ORDERS = [np.random.default_rng([2026, topic]).permutation(NAMES) for topic in range(TOPICS)]
_QUESTION = re.compile(r"\bL(\d\d)([ab])\b(.*)")
_NAME = re.compile(r"\bn(\d\d)\b")


def topic_rows(rng: np.random.Generator, topic: int, side: int, count: int) -> Rows:
    """Return rows (count, LENGTH + 1) of a topic in a wording: its tokens, then the answer's."""
    names = rng.permuted(np.tile(np.arange(NAMES), (count, 1)), axis=1)[:, :SHOWN]
    first = names[np.arange(count), _ORDERS[topic][names].argmax(axis=1)]
    wording = np.full(count, NAMES + 2 * topic + side)
    return np.column_stack([wording, names, first]).astype(np.int32)


def question_of(row: Sequence[int]) -> tuple[str, str]:
    """Return a row's question in words, and its key."""
    topic, side = divmod(int(row[0]) - NAMES, 2)
    names = ", ".join(f"n{name:02d}" for name in row[1 : SHOWN + 1])
    return WORDINGS[side].format(list=f"L{topic:02d}{'ab'[side]}", names=names), f"n{row[-1]:02d}"


def tokens_of(text: str) -> Tokens | None:
    """Return the tokens (LENGTH,) of the question in a prompt, None if there is none."""
    for topic, side, rest in _QUESTION.findall(text):
        names = [int(name) for name in _NAME.findall(rest)]
        if int(topic) < TOPICS and len(names) == SHOWN and max(names) < NAMES:
            return np.array([NAMES + 2 * int(topic) + "ab".index(side), *names], dtype=np.int32)
    return None


def first_weights(rng: np.random.Generator) -> Weights:
    """Return weights that know nothing, but that a topic's wordings are half alike."""
    weights = random_weights(rng, weight_shapes(VOCABULARY, LENGTH))
    shape = (TOPICS, 2, WIDTH)
    own, shared = rng.normal(0, 0.1, shape), rng.normal(0, 0.1, (TOPICS, 1, WIDTH))
    mixed = _ALIKE**0.5 * shared + (1 - _ALIKE) ** 0.5 * own
    names = rng.normal(0, 0.1, (NAMES, WIDTH))
    weights["embedding"] = np.concatenate([names, mixed.reshape(-1, WIDTH)]).astype(np.float32)
    return weights


def answered(weights: Mapping[str, Floats], tokens: Tokens) -> Any:
    """Return the token (n,) of the likeliest name after questions (n, LENGTH)."""
    logits = hidden_states(weights, tokens)[:, -1] @ weights["embedding"].T
    return np.argmax(logits[:, :NAMES], axis=1)


def open_model(data: bytes) -> Model:
    """Return what a file of weights answers. Raises ValueError for other weights."""
    weights = read_weights(data, VOCABULARY, LENGTH)

    def reply(text: str) -> Reply:
        if (tokens := tokens_of(text)) is None:
            return {}, 0, 0
        return {"answer": f"n{answered(weights, tokens[None])[0]:02d}"}, LENGTH, 1

    return reply


def units() -> Iterator[tuple[int, int]]:
    """Yield topic and wording of each stratum of the study."""
    yield from ((topic, side) for topic in range(KNOWN, TOPICS) for side in (0, 1))
