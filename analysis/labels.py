"""Arm labels under permutation: drawing them, and multiplying by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]  # (rows, n): public or not
Labels = NDArray[np.float64]  # (rows, n): 1 public, 0 private
Keys = NDArray[np.unsignedinteger[Any]]  # (rows, n)

_SHORT, _LONG = np.dtype("<u2"), np.dtype("<u4")
_SHORT_UP_TO = 1 << 12  # units: with more, too many rows would hold equal keys of 16 bits
_PERIOD = 1 << 128  # of PCG64
_CHUNK = 1 << 16  # labels at a time: what a processor's cache holds
_PRODUCT = 1 << 18  # multiplications at a time: up to here, OpenBLAS starts no threads
_ROWS = 16  # at a time at the least, where a product is cut; thinner ones are slow


@dataclass(frozen=True, slots=True)
class Block:
    """Units that are permuted among each other: their columns, and how many are public."""

    columns: slice
    public: int

    @property
    def size(self) -> int:
        return int(self.columns.stop - self.columns.start)


def rows_at_once(blocks: Sequence[Block]) -> int:
    """How many rows ``draw_labels`` is best asked for."""
    return max(1, _CHUNK // max(block.size for block in blocks))


def draw_labels(seed: int, blocks: Sequence[Block], first: int, rows: int) -> Iterator[Flags]:
    """Rows ``first`` and on of the permutations that ``seed`` names, block by block. The blocks
    lie side by side, from column 0 on.

    A row has a key for every unit, and the units with the smallest keys of a block are public.
    Row i takes the raw words i·w to (i + 1)·w - 1 of PCG64(seed), the low bits of a word first,
    four keys of 16 bits to a word, or two of 32 where a block has more than 4,096 units; w is
    how many words a row fills, the last perhaps in part. So no chunk, thread or version of numpy
    moves a draw, and more rows leave the earlier ones as they are.

    Where equal keys straddle the count, that block of that row is drawn again, from the same
    words of PCG64(seed).jumped(1), then of jumped(2) and so on. All this treats units alike, so
    that, words being uniform, every allocation is exactly as likely as any other.
    """
    source = _Source(seed, blocks)
    keys = source.keys(first, rows)
    for block in blocks:
        chosen, tied = smallest(keys[:, block.columns], block.public)
        jumps = 1
        while tied.size:
            again = np.concatenate([source.keys(first + i, 1, jumps) for i in tied.tolist()])
            chosen[tied], still = smallest(again[:, block.columns], block.public)
            tied, jumps = tied[still], jumps + 1
        yield chosen


def smallest(keys: Keys, count: int) -> tuple[Flags, NDArray[np.intp]]:
    """Which ``count`` keys of each row are smallest; and the rows that cannot say, because equal
    keys straddle the count: there, more are flagged."""
    if count in (0, keys.shape[1]):
        return np.full(keys.shape, count > 0), np.empty(0, dtype=np.intp)
    last = np.partition(keys, count - 1, axis=1)[:, count - 1, None]
    chosen: Flags = keys <= last
    if np.count_nonzero(chosen) == count * len(keys):
        return chosen, np.empty(0, dtype=np.intp)
    found = np.bitwise_count(np.packbits(chosen, axis=1)).sum(axis=1)  # quicker than their sum
    return chosen, np.flatnonzero(found != count)


class _Source:
    """Where the keys of a draw come from, for one thread."""

    def __init__(self, seed: int, blocks: Sequence[Block]) -> None:
        short = max(block.size for block in blocks) <= _SHORT_UP_TO
        self._kind = _SHORT if short else _LONG
        self._n = max(block.columns.stop for block in blocks)
        self._words = -(-self._n * self._kind.itemsize // 8)  # of a row
        self._streams = [np.random.PCG64(seed)]  # by jumps
        self._at = [0]

    def keys(self, first: int, rows: int, jumps: int = 0) -> Keys:
        while jumps >= len(self._streams):
            self._streams.append(self._streams[0].jumped(len(self._streams)))
            self._at.append(self._at[0])
        start, bits = first * self._words, self._streams[jumps]
        bits.advance((start - self._at[jumps]) % _PERIOD)
        self._at[jumps] = start + rows * self._words
        raw = np.asarray(bits.random_raw((rows, self._words)), dtype="<u8")
        return raw.view(self._kind)[:, : self._n]


def product(labels: Labels, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """labels @ weights in slices. OpenBLAS would share a large product among threads that wait
    for each other busily: on a machine with other work, that took ten times as long."""
    rows, (deep, columns) = len(labels), weights.shape
    depth = max(min(deep, _PRODUCT // (_ROWS * max(columns, 1))), 1)
    step = max(_PRODUCT // (max(columns, 1) * depth), 1)
    total, even = np.empty((rows, columns)), rows // step * step
    for part, high in ((slice(0, even), step), (slice(even, rows), rows - even)):
        if part.start < part.stop:
            slices = labels[part].reshape(-1, high, deep)
            _multiply(slices, weights, depth, total[part].reshape(-1, high, columns))
    return total


def _multiply(
    labels: Labels, weights: NDArray[np.float64], depth: int, out: NDArray[np.float64]
) -> None:
    """A stack of products, each of ``depth`` places at a time."""
    np.matmul(labels[:, :, :depth], weights[:depth], out=out)
    for left in range(depth, len(weights), depth):
        out += labels[:, :, left : left + depth] @ weights[left : left + depth]
