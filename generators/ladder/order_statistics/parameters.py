"""Parameters of each difficulty, and the entropy of the key that follows from them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from generators.family import FamilyParameters
from generators.task import Limits

NAME = "order_statistics"

LISTS, QUESTIONS = "lists.txt", "questions.txt"
SMALLEST, LARGEST, MEDIAN, RANK, RANGE = "smallest", "largest", "median", "rank", "trimmed range"


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Number of questions, each about a list of its own; the length of a list, which is odd; the
    least and the greatest number that it may hold; and the kinds of questions.

    ``questions`` sets how many answers the key holds, and the other three how many bits each has.
    """

    questions: int
    length: int
    low: int
    high: int
    kinds: tuple[str, ...]

    @property
    def numbers(self) -> int:
        """Number of values that a number of a list may have."""
        return self.high - self.low + 1

    @property
    def most_trimmed(self) -> int:
        """Most numbers that a trimmed range leaves out at each end."""
        return self.length // 4

    def described(self) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        return {
            "questions": self.questions,
            "length": self.length,
            "low": self.low,
            "high": self.high,
            "kinds": ", ".join(self.kinds),
        }


BY_DIFFICULTY = {
    "easy": Parameters(
        questions=1,
        length=9,
        low=100,
        high=599,
        kinds=(SMALLEST, LARGEST, MEDIAN),
        limits=Limits(turns=10),
    ),
    "medium": Parameters(
        questions=15,
        length=15,
        low=10,
        high=99,
        kinds=(SMALLEST, LARGEST, MEDIAN, RANK),
        limits=Limits(turns=10),
    ),
    "hard": Parameters(
        questions=50,
        length=21,
        low=1000,
        high=9999,
        kinds=(SMALLEST, LARGEST, MEDIAN, RANK, RANGE),
        limits=Limits(turns=15),
    ),
}


def key_bits(parameters: Parameters) -> float:
    """Expected entropy of the key in bits, given the questions: that of one answer, averaged over
    the questions that may be asked, times their number, since each has a list of its own."""
    by_kind = [
        statistics.fmean(map(_entropy, _distributions(kind, parameters)))
        for kind in parameters.kinds
    ]
    return parameters.questions * statistics.fmean(by_kind)


def answer_bits(place: int, parameters: Parameters) -> float:
    """Entropy of the answer to a question for the ``place``-th smallest number of a list."""
    return _entropy(order_statistic(parameters.numbers, parameters.length, place))


def _distributions(kind: str, parameters: Parameters) -> Iterator[tuple[float, ...]]:
    """For each question of a kind, the probabilities of its answers."""
    numbers, length = parameters.numbers, parameters.length
    if kind == RANK:
        yield (1 / length,) * length
    elif kind == MEDIAN:
        yield order_statistic(numbers, length, (length + 1) // 2)
    elif kind == RANGE:
        for trimmed in range(1, parameters.most_trimmed + 1):
            yield spacing(numbers, length, length - 1 - 2 * trimmed)
    else:
        for place in range(1, length + 1):
            yield order_statistic(numbers, length, place)


def order_statistic(numbers: int, length: int, place: int) -> tuple[float, ...]:
    """The probability that the ``place``-th smallest of ``length`` of the first ``numbers`` whole
    numbers, drawn without replacement, is 0, 1, and so on."""
    ways = math.comb(numbers, length)
    return tuple(
        math.comb(value, place - 1) * math.comb(numbers - 1 - value, length - place) / ways
        for value in range(numbers)
    )


def spacing(numbers: int, length: int, places: int) -> tuple[float, ...]:
    """The probability that two numbers of such a draw, ``places`` apart once it is sorted, differ
    by 0, 1, and so on. The gaps between neighbours are exchangeable, and so is the first one,
    which begins below the least whole number: the sum of any ``places`` has one distribution."""
    return (0.0, *order_statistic(numbers, length, places))


def _entropy(probabilities: Iterable[float]) -> float:
    """Shannon's entropy in bits."""
    return -math.fsum(p * math.log2(p) for p in probabilities if p > 0)
