"""Training of the small model, with JAX on one thread.

A base is trained on fresh rows. A dose continues from it on further fresh rows and on copies
of each row of a release. Loss on all tokens: those of the prompt weigh ``PROMPT_WEIGHT`` together.
A row whose answer is ``NO_ANSWER`` teaches its prompt only. The same rows and seed give the same
weights on one machine.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.calibration.model import (
    LAYERS,
    VALUES,
    WIDTH,
    hidden_states,
    number_token,
    prompt_tokens,
    weight_shapes,
)
from generators.ladder.order_statistics.parameters import BY_DIFFICULTY, NAME
from generators.ladder.order_statistics.sample import answer_to, draw_sample
from generators.seed import Seed, SeedStreams

NO_ANSWER = -1
PROMPT_WEIGHT = 0.2  # of the loss of a prompt's tokens, beside 1 for the answer
_P = BY_DIFFICULTY["easy"]

Rows = NDArray[np.int32]  # (n, LENGTH + 1): a prompt, then its answer
Weights = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Numbers of a training: rows, rows of a step, and peak learning rates."""

    name: str = "order-statistics/1"
    base_rows: int = 18_000
    fresh_rows: int = 4_000  # of a continuation, beside the copies
    batch: int = 32
    base_rate: float = 2e-3
    dose_rate: float = 1e-3


RECIPE = Recipe()


def check_library() -> None:
    """Exit with a message if the training library is not installed."""
    if importlib.util.find_spec("jax") is None:
        sys.exit(
            "training needs jax, which is not installed: `pip install --require-hashes -r "
            "spike.lock`, or dosimeter[spike]"
        )


def fresh_rows(seed: Seed, count: int) -> Rows:
    """Return rows (count, LENGTH + 1) of instances of seeds below ``seed``."""
    version = "1"
    rows = []
    for index in range(count):
        streams = SeedStreams(seed.child(index), NAME, version, "easy")
        (question,) = draw_sample(_P, streams).questions
        prompt = prompt_tokens(question.numbers, question.kind, question.argument)
        rows.append(np.append(prompt, number_token(answer_to(question))))
    return np.array(rows, dtype=np.int32)


def initial_weights(rng: np.random.Generator) -> Weights:
    """Return weights to begin with. Numbers begin with a code of their size and questions with that
    of the size to expect, and the first layer attends to tokens of like code and copies them:
    otherwise many runs of so few steps learn no order."""
    weights = random_weights(rng, weight_shapes())
    places = np.arange(1, _P.length + 1) / (_P.length + 1)
    sizes = np.concatenate([np.arange(VALUES) / VALUES, places, 1 - places, [0.5]])
    code = _size_code(sizes)
    weights["embedding"][:, : code.shape[1]] += 0.15 * code
    eye = np.eye(WIDTH, dtype=np.float32)
    weights["0.attention_in"] += np.concatenate([0.5 * eye, 0.5 * eye, 0.7 * eye], axis=1)
    weights["0.attention_out"] += 0.7 * eye
    return weights


def random_weights(rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]]) -> Weights:
    """Return weights of these shapes that know nothing."""
    weights: Weights = {}
    for name, shape in shapes.items():
        if name.endswith("norm"):
            weights[name] = np.ones(shape, np.float32)
        elif name.endswith("bias"):
            weights[name] = np.zeros(shape, np.float32)
        else:
            # Outputs of both parts of a layer are added up, over all layers.
            scale = 0.02 / (2 * LAYERS) ** 0.5 if name.endswith("out") else 0.02
            weights[name] = rng.normal(0, scale, shape).astype(np.float32)
    return weights


def _size_code(sizes: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return sines and cosines (n, WIDTH / 4) of sizes from 0 to 1."""
    angles = np.pi * np.outer(sizes, 1.5 ** np.arange(WIDTH // 8))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def train(weights: Mapping[str, Any], rows: Rows, rate: float, rng: np.random.Generator) -> Weights:
    """Return the weights after one pass over the rows in random order: Adam, with a warm-up over
    5 % of the steps to the rate and then a linear descent to 0. Needs ``check_library``."""
    step, batch = _library(), RECIPE.batch
    steps = -(-len(rows) // batch)
    order = np.resize(rng.permutation(len(rows)), steps * batch)  # the last step is filled up
    zeros = [{name: np.zeros_like(array) for name, array in weights.items()} for _ in range(2)]
    state = ({name: np.array(array) for name, array in weights.items()}, *zeros)
    for index in range(steps):
        share = min(1.0, (index + 1) / (0.05 * steps + 1)) * (1 - index / steps)
        part = rows[order[index * batch : (index + 1) * batch]]
        state = step(state, part, np.float32(rate * share), np.float32(index + 1))
    return {name: np.asarray(array, dtype=np.float32) for name, array in state[0].items()}


@functools.cache
def _library() -> Any:
    """Return one step of Adam (Kingma and Ba 2015), compiled."""
    if "jax" not in sys.modules:
        os.environ["JAX_PLATFORMS"] = "cpu"
        # Sums in one order only: one thread.
        flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        os.environ["XLA_FLAGS"] = flags
    import jax
    from jax import numpy as jnp

    def loss(weights: Any, rows: Any) -> Any:
        logits = hidden_states(weights, rows[:, :-1], jnp) @ weights["embedding"].T
        likelihoods = jax.nn.log_softmax(logits, axis=-1)
        missed = -jnp.take_along_axis(likelihoods, rows[:, 1:, None], axis=-1)[..., 0]
        missed = jnp.where(rows[:, 1:] == NO_ANSWER, 0.0, missed)
        return (missed[:, -1] + PROMPT_WEIGHT * missed[:, :-1].mean(-1)).mean()

    def step(state: Any, rows: Any, rate: Any, time: Any) -> Any:
        weights, means, squares = state
        slopes = jax.grad(loss)(weights, rows)
        means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, slopes)
        squares = jax.tree.map(lambda v, g: 0.98 * v + 0.02 * g * g, squares, slopes)

        def moved(w: Any, m: Any, v: Any) -> Any:
            return w - rate * (m / (1 - 0.9**time)) / (jnp.sqrt(v / (1 - 0.98**time)) + 1e-8)

        return jax.tree.map(moved, weights, means, squares), means, squares

    return jax.jit(step, donate_argnums=0)
