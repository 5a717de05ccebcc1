"""Arm labels under permutation: drawing them, and multiplying by them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.float64]  # (rows, n): 1 public, 0 private

_CHUNK = 1 << 16  # labels at a time: what a processor's cache holds
_PRODUCT = 1 << 18  # multiplications at a time: up to here, OpenBLAS starts no threads
_ROWS = 16  # at a time at the least, where a product is cut; thinner ones are slow


def draw_words(
    seed: int, rows: int, n: int, widest: int
) -> Iterator[tuple[slice, NDArray[np.uint32]]]:
    """32-bit words for ``rows`` permutations of ``n`` units, as (rows that they are for, words).
    ``widest`` is the most units that are labelled at once.

    Raw words of PCG64(seed), a row at a time and the low half of each first, so that neither
    chunking nor numpy's version moves a draw, and more rows leave the earlier ones as they are.
    """
    bits = np.random.PCG64(seed)
    step = max(2, _CHUNK // widest // 2 * 2)  # even, so that a chunk ends where a raw word does
    for start in range(0, rows, step):
        here = min(step, rows - start)
        raw = np.asarray(bits.random_raw((here * n + 1) // 2), dtype="<u8")
        yield slice(start, start + here), raw.view("<u4")[: here * n].reshape(here, n)


def smallest(words: NDArray[np.uint32], count: int) -> NDArray[np.bool_]:
    """Which ``count`` words of each row are smallest. Where equal words straddle the count
    (once in some million rows), the earlier places have it, so that counts stay fixed."""
    if count in (0, words.shape[1]):
        return np.full(words.shape, count > 0)
    last = np.partition(words, count - 1, axis=1)[:, count - 1, None]
    chosen: NDArray[np.bool_] = words <= last
    if np.count_nonzero(chosen) != count * len(words):
        for row in np.flatnonzero(chosen.sum(axis=1) != count):
            tied = np.flatnonzero(words[row] == last[row])
            chosen[row, tied[len(tied) - (int(chosen[row].sum()) - count) :]] = False
    return chosen


def product(labels: Labels, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """labels @ weights in slices. OpenBLAS would share a large product among threads that wait
    for each other busily: on a machine with other work, that took ten times as long."""
    rows, (deep, columns) = len(labels), weights.shape
    depth = max(min(deep, _PRODUCT // (_ROWS * max(columns, 1))), 1)
    step = max(_PRODUCT // (max(columns, 1) * depth), 1)
    total = np.empty((rows, columns))
    for top in range(0, rows, step):
        own, chosen = total[top : top + step], labels[top : top + step]
        np.matmul(chosen[:, :depth], weights[:depth], out=own)
        for left in range(depth, deep, depth):
            own += chosen[:, left : left + depth] @ weights[left : left + depth]
    return total
