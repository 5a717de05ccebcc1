"""Whether a text was trained on, by how likely a model finds its tokens: arrays in, numbers out.

Loss: the mean negative log-probability of a token (Yeom et al. 2018). Min-K%: the mean
log-probability of the share of tokens that are the least likely (Shi et al. 2024, "Detecting
Pretraining Data from Large Language Models"). Min-K%++: the same mean, of
(log p(x_t) − mu_t) / sigma_t with the mean and standard deviation of log p(z) for z drawn from
p(· | x_<t), the whole vocabulary (Zhang et al. 2024, "Min-K%++: Improved Baseline for Detecting
Pre-Training Data from Large Language Models"). Natural logarithms throughout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHARE = 0.2  # k of both scores
WHOLE = 1e-3  # probabilities that miss no more than this of 1 are the whole vocabulary's


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Of each token of a text: its log-probability; mean and standard deviation of the
    log-probability over the vocabulary there, None where the model does not tell all of it."""

    logprobs: tuple[float, ...]
    means: tuple[float, ...] | None = None
    deviations: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """What the tokens of one text come to. A low loss and high scores speak for membership."""

    tokens: int
    loss: float
    min_k: float
    min_k_plus: float | None  # None if no whole distribution was reported


def membership_scores(scores: TokenScores, share: float = SHARE) -> Membership:
    """The measures of a text of at least one token."""
    import numpy as np

    logprobs = np.asarray(scores.logprobs, dtype=np.float64)
    plus = None
    if scores.means is not None and scores.deviations is not None:
        standard = standardise(logprobs, np.asarray(scores.means), np.asarray(scores.deviations))
        plus = mean_of_least(standard, share)
    return Membership(len(logprobs), -float(logprobs.mean()), mean_of_least(logprobs, share), plus)


def mean_of_least(values: NDArray[np.float64], share: float = SHARE) -> float:
    """The mean of the least ``share`` of values (n,), rounded down, of one at the least."""
    import numpy as np

    count = max(1, math.floor(share * len(values) + 1e-9))
    return float(np.sort(values)[:count].mean())


def standardise(
    logprobs: NDArray[np.float64], means: NDArray[np.float64], deviations: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(log p − mu) / sigma, token by token; 0 where sigma is: all that can come is as likely."""
    import numpy as np

    spread = deviations > 0
    return np.where(spread, (logprobs - means) / np.where(spread, deviations, 1.0), 0.0)


def moments_of(distribution: NDArray[np.float64]) -> tuple[float, float] | None:
    """Mean and standard deviation of log p(z), z ~ p, from the log-probabilities of every z (n,).
    None where they do not hold the whole of the probability: the moments of a part are another
    statistic."""
    import numpy as np

    weights = np.exp(distribution)
    total = float(weights.sum())
    if not abs(total - 1) <= WHOLE:
        return None
    weights /= total
    finite = np.where(weights > 0, distribution, 0.0)  # 0 log 0 = 0
    mean = float(weights @ finite)
    return mean, math.sqrt(float(weights @ np.square(finite - mean)))
