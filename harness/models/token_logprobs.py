"""Token log-probabilities of a text: as servers report them, and their evidence of membership.

Two forms are read: ``choices[0].logprobs`` of an OpenAI-compatible server that echoes its prompt,
and ``choices[0].prompt_logprobs`` of vLLM. A reply without either gives None, never zeros.

Loss: the mean negative log-probability of a token (Yeom et al. 2018). Min-K%: the mean
log-probability of the share of tokens that are the least likely (Shi et al. 2024, "Detecting
Pretraining Data from Large Language Models"). Min-K%++: the same mean, of
(log p(x_t) − mu_t) / sigma_t with the mean and standard deviation of log p(z) for z drawn from
p(· | x_<t), the whole vocabulary (Zhang et al. 2024, "Min-K%++: Improved Baseline for Detecting
Pre-Training Data from Large Language Models"). Natural logarithms throughout.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

SHARE = 0.2  # k of both scores
WHOLE = 1e-3  # probabilities that miss no more than this of 1 are the whole vocabulary's


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Of each token of a text: its log-probability; mean and standard deviation of the
    log-probability over the vocabulary there, None if the model does not report all of it."""

    logprobs: tuple[float, ...]
    means: tuple[float, ...] | None = None
    deviations: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """Membership scores of one text. A low loss and high scores speak for membership."""

    tokens: int
    loss: float
    min_k: float
    min_k_plus: float | None  # None if no whole distribution was reported


def membership_scores(scores: TokenScores, share: float = SHARE) -> Membership:
    """The measures of a text of at least one token."""
    logprobs = np.asarray(scores.logprobs, dtype=np.float64)
    plus = None
    if scores.means is not None and scores.deviations is not None:
        standard = standardise(logprobs, np.asarray(scores.means), np.asarray(scores.deviations))
        plus = mean_of_least(standard, share)
    return Membership(len(logprobs), -float(logprobs.mean()), mean_of_least(logprobs, share), plus)


def mean_of_least(values: NDArray[np.float64], share: float = SHARE) -> float:
    """The mean of the least ``share`` of values (n,), rounded down, of at least one."""
    count = max(1, math.floor(share * len(values) + 1e-9))
    return float(np.sort(values)[:count].mean())


def standardise(
    logprobs: NDArray[np.float64], means: NDArray[np.float64], deviations: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(log p − mu) / sigma, token by token; 0 where sigma is: all that can come is as likely."""
    spread = deviations > 0
    return np.where(spread, (logprobs - means) / np.where(spread, deviations, 1.0), 0.0)


def moments_of(logprobs: ArrayLike) -> tuple[float, float] | None:
    """Mean and standard deviation of log p(z), z ~ p, from the log-probabilities of every z (n,).
    None where they do not hold the whole of the probability: the moments of a part are another
    statistic."""
    distribution = np.asarray(logprobs, dtype=np.float64)
    weights = np.exp(distribution)
    total = float(weights.sum())
    if not abs(total - 1) <= WHOLE:
        return None
    weights /= total
    finite = np.where(weights > 0, distribution, 0.0)  # 0 log 0 = 0
    mean = float(weights @ finite)
    return mean, math.sqrt(float(weights @ np.square(finite - mean)))


ECHO, PROMPT_LOGPROBS = "echo", "prompt_logprobs"  # ways to ask a server
_ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})")
_LEAST = -1e4  # servers write minus infinity in many ways
_MOST = 1e-3  # of rounding, for what is certain


@dataclass(frozen=True, slots=True)
class _Token:
    """One token: its bytes, its log-probability, and those of its alternatives if reported."""

    data: bytes
    logprob: float | None  # None of the first, which follows nothing
    others: Sequence[float] = ()


def read_likelihood(raw: bytes, text: str, start: int) -> TokenScores | None:
    """Return the scores of the tokens of ``text`` that reach beyond character ``start``, from the
    bytes of a reply; None if it does not report all of them, of this text, in a known form."""
    try:
        tokens, most = _tokens(json.loads(raw))
        ends = (len(tokens) - generated for generated in most)
        tails = (_tail(tokens[:end], text.encode(), len(text[:start].encode())) for end in ends)
        return _scores(next((tail for tail in tails if tail), []))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError):
        return None  # the reply is untrusted


def _scores(tokens: Sequence[_Token]) -> TokenScores | None:
    logprobs = [token.logprob for token in tokens if _is_logprob(token.logprob)]
    if not tokens or len(logprobs) < len(tokens):
        return None
    values = tuple(max(float(each), _LEAST) for each in logprobs)
    moments = [_moments(token) for token in tokens]
    whole = [each for each in moments if each is not None]
    if len(whole) < len(tokens):
        return TokenScores(values)
    return TokenScores(values, tuple(mean for mean, _ in whole), tuple(sd for _, sd in whole))


def _is_logprob(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not math.isnan(value) and value < _MOST


def _tail(tokens: Sequence[_Token], text: bytes, start: int) -> list[_Token]:
    """The tokens that end the text, from the one that holds byte ``start``; none where tokens and
    text do not agree there."""
    left, tail = text, []
    for token in reversed(tokens):
        if len(left) <= start:
            break
        if not token.data or not left.endswith(token.data):
            return []
        tail.append(token)
        left = left[: -len(token.data)]
    return tail[::-1] if len(left) <= start else []


def _moments(token: _Token) -> tuple[float, float] | None:
    return moments_of(np.maximum(token.others, _LEAST)) if token.others else None


def _tokens(body: Any) -> tuple[list[_Token], Sequence[int]]:
    """Return the reported tokens, and how many of the last may have been generated behind the
    text: one was asked for."""
    choice = body["choices"][0]
    if choice.get("prompt_logprobs"):
        return list(_vllm_tokens(choice["prompt_logprobs"])), (0,)
    generated = (body.get("usage") or {}).get("completion_tokens")
    return list(_echoed_tokens(choice["logprobs"])), (generated,) if generated in (0, 1) else (1, 0)


def _vllm_tokens(places: Sequence[Mapping[str, Any] | None]) -> Iterator[_Token]:
    """Of each place the given token comes first, whatever its rank, then the most likely ones.
    There is none for the first token, which follows nothing."""
    for place in places:
        if place is None:
            yield _Token(b"", None)
            continue
        given, *_ = place.values()
        distribution = [token["logprob"] for token in place.values()]
        yield _Token(_bytes(given["decoded_token"]), given["logprob"], distribution)


def _echoed_tokens(echoed: Mapping[str, Any]) -> Iterator[_Token]:
    tokens, logprobs = echoed["tokens"], echoed["token_logprobs"]
    distributions = echoed.get("top_logprobs") or [None] * len(tokens)
    for token, logprob, top in zip(tokens, logprobs, distributions, strict=True):
        yield _Token(_bytes(token), logprob, _alternatives(token, logprob, top or {}))


def _alternatives(token: str, logprob: float | None, top: Mapping[str, float]) -> Sequence[float]:
    """Return the distribution as far as reported, with a token beyond the most likely ones."""
    if logprob is None or not top:
        return ()
    return [*top.values(), *([] if token in top else [logprob])]


def _bytes(token: str) -> bytes:
    """A token's bytes; of a part of a character, which servers spell out, those."""
    if token.startswith("bytes:"):
        return bytes(int(each, 16) for each in _ESCAPED.findall(token))
    return token.encode()
