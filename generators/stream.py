"""Random draws that depend on no library's distribution code.

Only raw 64-bit words are taken from PCG64; every distribution is made here."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from numpy import float64
    from numpy.random import PCG64
    from numpy.typing import NDArray

T = TypeVar("T")

_WORDS = 1 << 64
_MASK, _TWO = _WORDS - 1, (1 << 128) - 1
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645  # of PCG64's step
_INVERTED = 64.0  # largest mean of one inversion
# The largest of all words would round to 1, which has no normal quantile.
_BELOW_ONE = 1.0 - 2.0**-53
_STANDARD_NORMAL = NormalDist()
_FOUR_WORDS = struct.Struct("<4Q")


@functools.cache
def _pcg64() -> Callable[[int], PCG64]:
    # Imported here: reading the catalogue or a command's help should not cost numpy.
    from numpy.random import PCG64

    return PCG64


@functools.cache
def _pcg64_of_words() -> Callable[[bytes], PCG64]:
    import numpy as np
    from numpy.random import PCG64
    from numpy.random.bit_generator import ISeedSequence

    class Words(ISeedSequence):
        """The four words that seed a PCG64 generator."""

        def __init__(self, digest: bytes) -> None:
            self._words = np.frombuffer(digest, dtype="<u8").astype(np.uint64)

        def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
            if (n_words, dtype) != (4, np.uint64):
                raise TypeError(f"PCG64 asks for {n_words} words of {dtype}; 4 of uint64 are held")
            return self._words

    return lambda digest: PCG64(Words(digest))  # type: ignore[arg-type] # its stub asks for less


class Stream:
    """A source of draws made from one 256-bit key. Mutable: each draw moves it on."""

    __slots__ = ("_bits",)

    def __init__(self, key: bytes) -> None:
        self._bits = _pcg64()(int.from_bytes(key[:16], "big"))

    @staticmethod
    def of_digest(digest: bytes) -> Stream:
        """The stream whose PCG64 begins with these 256 bits, as they are, for state and increment:
        digests need no stirring, and this is made in a seventh of the time. It differs from
        ``Stream(digest)``."""
        return _DigestStream(digest)

    def word(self) -> int:
        """One raw 64-bit word."""
        return int(self._bits.random_raw())

    def uniforms(self, count: int) -> NDArray[float64]:
        """``count`` draws from the open interval (0, 1): (word>>11 + 1/2) / 2**53."""
        import numpy as np

        words: NDArray[Any] = self._words(count)
        words >>= np.uint64(11)
        units = words.astype(np.float64)
        units += 0.5
        units *= 2.0**-53
        return np.minimum(units, _BELOW_ONE, out=units)

    def _words(self, count: int) -> Any:
        """``count`` raw words in an array of their own."""
        return self._bits.random_raw(count)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """One draw from (low, high)."""
        return low + (high - low) * min(((self.word() >> 11) + 0.5) / 2.0**53, _BELOW_ONE)

    def normal(self, mean: float = 0.0, deviation: float = 1.0) -> float:
        """One normal draw by the inverse of the cumulative distribution."""
        return mean + deviation * _STANDARD_NORMAL.inv_cdf(self.uniform())

    def integer(self, low: int, high: int) -> int:
        """One draw from low…high, both included, without modulo bias.

        Raises ValueError for an empty range or one of more than 2**64 values.
        """
        if high < low:
            raise ValueError(f"empty range {low}…{high}")
        size = high - low + 1
        if size > _WORDS:
            raise ValueError(f"{low}…{high} holds more values than one word")
        limit = _WORDS - _WORDS % size
        while (word := self.word()) >= limit:
            pass
        return low + word % size

    def exponential(self, mean: float = 1.0) -> float:
        """One exponential draw, by the inverse of the cumulative distribution."""
        return -mean * math.log1p(-self.uniform())

    def poisson(self, mean: float) -> int:
        """One Poisson draw, by inversion; a large mean is drawn in parts, which add up. Raises
        ValueError for a mean below 0."""
        if mean < 0:
            raise ValueError(f"the mean of a Poisson draw is {mean}, not 0 or more")
        parts = max(1, math.ceil(mean / _INVERTED))
        part = mean / parts

        def following(count: int) -> float:
            return part / (count + 1)

        return sum(self._inverted(math.exp(-part), following) for _ in range(parts))

    def binomial(self, trials: int, probability: float) -> int:
        """One binomial draw, by inversion; many trials are drawn in parts, which add up. Raises
        ValueError for trials below 0 or a probability outside 0…1."""
        if trials < 0 or not 0 <= probability <= 1:
            raise ValueError(f"no binomial draw of {trials} trials at probability {probability}")
        if probability > 0.5:
            return trials - self.binomial(trials, 1 - probability)
        if probability == 0:
            return 0
        odds, most = probability / (1 - probability), max(1, int(_INVERTED / probability))
        drawn = 0
        for begun in range(0, trials, most):
            part = min(most, trials - begun)

            def following(count: int, part: int = part) -> float:
                return odds * (part - count) / (count + 1)

            drawn += self._inverted((1 - probability) ** part, following)
        return drawn

    def _inverted(self, at_zero: float, following: Callable[[int], float]) -> int:
        """The count at which the cumulative probability passes a uniform draw: that of 0 is given,
        and ``following`` gives the ratio of the probability of count + 1 to that of count."""
        left, probability, count = self.uniform(), at_zero, 0
        while left > probability > 0:
            left -= probability
            probability *= following(count)
            count += 1
        return count

    def choice(self, items: Sequence[T]) -> T:
        """One of the items, each equally likely."""
        return items[self.integer(0, len(items) - 1)]

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.uniform() < probability

    def shuffle(self, items: Sequence[T]) -> tuple[T, ...]:
        """The items in random order (Fisher and Yates)."""
        shuffled = list(items)
        for last in range(len(shuffled) - 1, 0, -1):
            other = self.integer(0, last)
            shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
        return tuple(shuffled)


class _DigestStream(Stream):
    """Stream that ``Stream.of_digest`` returns. It computes the first single words itself: many
    streams give no more than two or three, and numpy's generator costs as much as six to make."""

    __slots__ = ("_bulk", "_digest", "_drawn", "_increment", "_state")

    def __init__(self, digest: bytes) -> None:
        self._digest, self._drawn = digest, 0
        self._bulk: PCG64 | None = None  # made for the first array

    def _begin(self) -> None:
        high, low, one, other = _FOUR_WORDS.unpack(self._digest)
        increment: int = ((one << 64 | other) << 1 | 1) & _TWO
        self._increment = increment
        self._state: int = ((high << 64 | low) + increment) * _MULTIPLIER + increment & _TWO

    def word(self) -> int:
        if self._bulk is not None:
            return int(self._bulk.random_raw())
        if not self._drawn:
            self._begin()
        self._drawn += 1
        self._state = state = self._state * _MULTIPLIER + self._increment & _TWO
        mixed, turn = (state >> 64) ^ (state & _MASK), state >> 122
        return (mixed >> turn | mixed << 64 - turn) & _MASK

    def _words(self, count: int) -> Any:
        if self._bulk is None:
            self._bulk = _pcg64_of_words()(self._digest)
            if self._drawn:
                self._bulk.advance(self._drawn)
        return self._bulk.random_raw(count)
