"""Shortcuts past the pictures of discs, and readers that overlook discs or count them twice."""

from __future__ import annotations

import io
from functools import lru_cache, partial
from typing import Any

from PIL.PngImagePlugin import PngImageFile

from generators.attackers import Access, Attacker, Files, NoisySolver
from generators.basics.count_circles import SIDE, make_answer
from generators.basics.count_circles.solver import count_discs
from generators.stream import Stream

_TWICE = 1 / 3  # chance that a disc is counted twice, as a share of that of overlooking it


def rank_sizes(files: Files) -> dict[str, Any]:
    """More discs where a file is larger: the sizes of the files, ranked."""
    sizes = sorted(set(map(len, files.values())))
    return make_answer([1 + sizes.index(len(data)) for data in files.values()])


def guess_the_middle(files: Files) -> dict[str, Any]:
    """Half as many discs in each picture as there are pictures."""
    return make_answer([len(files) // 2] * len(files))


def count_upper_halves(files: Files) -> dict[str, Any]:
    """Counts the discs in the upper half of each picture, and doubles."""
    return make_answer([max(1, 2 * _count_upper_half(data)) for data in files.values()])


def _count_upper_half(picture: bytes) -> int:
    half = io.BytesIO()
    with PngImageFile(io.BytesIO(picture)) as image:
        image.crop((0, 0, SIDE, SIDE // 2)).save(half, "PNG", compress_level=0)
    half.seek(0)
    return count_discs(half)


def count_roughly(overlooked: float, files: Files, draws: Stream) -> dict[str, Any]:
    """Each disc is overlooked with probability ``overlooked``, or counted twice."""
    twice = _TWICE * overlooked

    def seen(count: int) -> int:
        return max(1, count - draws.binomial(count, overlooked) + draws.binomial(count, twice))

    return make_answer([seen(_count(data)) for data in files.values()])


@lru_cache(maxsize=64)  # the pictures of an instance, at which each of its readers looks
def _count(picture: bytes) -> int:
    return count_discs(io.BytesIO(picture))


ATTACKERS = (
    Attacker("file sizes, ranked", Access.METADATA, rank_sizes),
    Attacker("the middle", Access.TABLES, guess_the_middle),
    Attacker("upper half of each picture", Access.STEP_SKIPPED, count_upper_halves),
)
NOISY = tuple(
    NoisySolver(f"{percent} % of discs overlooked", partial(count_roughly, percent / 100))
    for percent in (1, 5, 11, 27)
)
