"""Stratified permutation of arm labels, common to all outcomes and models of a look.

Labels are permuted within strata, with each arm's count fixed, over the union of the instances
that any model has; each model then uses the instances that it has. A missing cell stays with its
instance, so the test is exact under the hypothesis that arm touches neither score nor missingness.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, NotRequired, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Labels = NDArray[np.float64]  # (rows, n): 1 public, 0 private
Keys = NDArray[np.unsignedinteger[Any]]  # (rows, n)

_SHORT, _LONG = np.dtype("<u2"), np.dtype("<u4")
_SHORT_UP_TO = 1 << 12  # units: with more, too many rows would hold equal keys of 16 bits
_PERIOD = 1 << 128  # of PCG64
_CHUNK = 1 << 16  # labels at a time: as many as fit in a processor's cache
_PRODUCT = 1 << 18  # multiplications at a time: up to here, OpenBLAS starts no threads
_CHUNKS_A_THREAD = 4  # at least: fewer are not worth a thread
_ROWS = 16  # at a time at least, if a product is cut; thinner ones are slow


@dataclass(frozen=True, slots=True)
class Block:
    """Units that are permuted among each other: their columns, and how many are public."""

    columns: slice
    public: int

    @property
    def size(self) -> int:
        """Number of units."""
        return int(self.columns.stop - self.columns.start)


def rows_at_once(blocks: Sequence[Block]) -> int:
    """Number of rows to ask of ``draw_labels`` at a time."""
    return max(1, _CHUNK // max(block.size for block in blocks))


def draw_labels(seed: int, blocks: Sequence[Block], first: int, rows: int) -> Iterator[Bools]:
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


def smallest(keys: Keys, count: int) -> tuple[Bools, NDArray[np.intp]]:
    """Flag the ``count`` smallest keys of each row; return also the rows without a clear answer,
    because equal keys straddle the count: there, more are flagged."""
    if count in (0, keys.shape[1]):
        return np.full(keys.shape, count > 0), np.empty(0, dtype=np.intp)
    last = np.partition(keys, count - 1, axis=1)[:, count - 1, None]
    chosen: Bools = keys <= last
    if np.count_nonzero(chosen) == count * len(keys):
        return chosen, np.empty(0, dtype=np.intp)
    sizes = np.bitwise_count(np.packbits(chosen, axis=1)).sum(axis=1)  # quicker than their sum
    return chosen, np.flatnonzero(sizes != count)


class _Source:
    """Source of the keys of a draw, for one thread."""

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


def product(labels: Labels, weights: Floats) -> Floats:
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


def _multiply(labels: Labels, weights: Floats, depth: int, out: Floats) -> None:
    """A stack of products, each of ``depth`` places at a time."""
    np.matmul(labels[:, :, :depth], weights[:depth], out=out)
    for left in range(depth, len(weights), depth):
        out += labels[:, :, left : left + depth] @ weights[left : left + depth]


TOLERANCE = 1e-9  # on z: sums of the same numbers in another order count as equal
NO_SPREAD = 1e-12  # an SD below this is rounding of a constant
NO_VARIANCE = 1e-24  # the same of a variance


class Draws(TypedDict):
    """The way labels are permuted: all allocations if there are ``enumerate_up_to`` or fewer, else
    ``permutations`` drawn ones, from PCG64(``seed``). ``studentise`` holds the level if arms differ
    in size and in variance; of arms of one size it changes nothing."""

    permutations: int
    enumerate_up_to: int
    seed: int
    studentise: NotRequired[bool]


@dataclass(frozen=True, slots=True, eq=False)
class Permuted:
    """Gaps (public minus private mean, averaged over strata) under the observed labels,
    ``observed`` (models, outcomes), and others, ``permuted`` (rows, models, outcomes). Where
    ``exact``, the rows are all allocations, the observed one among them.

    Studentised, the permuted gaps stand divided by their own standard errors and times that of the
    observed gap (Janssen 1997; Chung and Romano 2013)."""

    observed: Floats
    permuted: Floats
    exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The max-T statistic M over outcomes: ``observed`` (models,), ``permuted`` (rows, models)."""

    observed: Floats
    permuted: Floats
    exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Stratum:
    columns: slice  # of the units, which are sorted by stratum
    size: int
    public: int
    sums: Floats  # (size, models x outcomes): centred values, 0 where absent
    weighted: Floats  # the sums x (1/public + 1/private)
    present: Floats  # (size, models)
    complete: bool
    errors: bool  # whether differences come with their variances


def permutation_seed(registration: str, *path: str) -> int:
    """First 8 bytes of SHA-256("registration|path|…"). The path is model and look, or, where
    the models of a look share their permutations, the look alone."""
    text = "|".join((registration, *path))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def count_allocations(stratum: Ints, public: Bools) -> int:
    """Number of allocations of the labels: the product over strata of n choose public."""
    return math.prod(
        math.comb(int((stratum == h).sum()), int(public[stratum == h].sum()))
        for h in np.unique(stratum)
    )


def permute_gaps(values: Floats, stratum: Ints, public: Bools, **draws: Unpack[Draws]) -> Permuted:
    """Gaps under permuted labels: all allocations where there are ``enumerate_up_to`` or fewer,
    else ``permutations`` drawn ones. ``values`` (n, models, outcomes), NaN where absent.

    Memory does not grow with ``permutations`` but for the gaps returned. ``draw_labels`` says
    which words of PCG64(seed) a row takes; a block is a stratum. The number of threads, which
    are as many as the cores, moves nothing.
    """
    order = np.argsort(stratum, kind="stable")
    strata = _split(values[order], stratum[order], public[order], draws)
    shape = (-1, *values.shape[1:])
    labels = public[order][None].astype(np.float64)
    observed = _gaps(strata, (labels[:, part.columns] for part in strata), values.shape[1:])
    if exact := count_allocations(stratum, public) <= draws["enumerate_up_to"]:
        rows = _enumerate(strata, values)
    else:
        rows = _sample(strata, values, draws["permutations"], draws["seed"])
    if strata[0].errors:
        (observed, own), (rows, variances) = (
            np.split(gaps, 2, axis=1) for gaps in (observed, rows)
        )
        rows *= np.sqrt(np.maximum(own, NO_VARIANCE) / np.maximum(variances, NO_VARIANCE))
    return Permuted(observed.reshape(shape)[0], rows.reshape(shape), exact)


def permutation_sd(gaps: Permuted) -> Floats:
    """The SD (models, outcomes) of gaps over the permuted rows and the observed one."""
    every = gaps.permuted
    if not gaps.exact:
        every = np.concatenate([gaps.observed[None], gaps.permuted])
    return np.asarray(every.std(axis=0))


def max_t(gaps: Permuted, sd: Floats | None = None) -> Statistics:
    """M = max over outcomes of gap / SD, the SD that of ``permutation_sd``. An outcome without
    spread gives 0 in every row."""
    sd = permutation_sd(gaps) if sd is None else sd
    scale = np.where(sd > NO_SPREAD, 1.0 / np.maximum(sd, NO_SPREAD), 0.0)
    observed, permuted = gaps.observed * scale, gaps.permuted * scale
    return Statistics(_largest(observed), _largest(permuted), gaps.exact)


def _largest(z: Floats) -> Floats:
    """Over outcomes. They are few, for which numpy's own ``max`` is slow."""
    return np.asarray(functools.reduce(np.maximum, np.moveaxis(z, -1, 0)))


def p_values(statistics: Statistics) -> Floats:
    """One-sided p by model: (1 + #{M_b ≥ M_obs}) / (P + 1) when drawn, # / total when all."""
    hits = (statistics.permuted >= statistics.observed - TOLERANCE).sum(axis=0)
    return rate(hits, len(statistics.permuted), statistics.exact)


def rate(hits: Ints, rows: int, exact: bool) -> Floats:
    """Hits as a p-value; the observed allocation counts itself once."""
    value: Floats = hits / rows if exact else (hits + 1) / (rows + 1)
    return value


def p_floor(gaps: Permuted | Statistics) -> float:
    """The least p that the rows can show: that of the observed allocation alone."""
    rows = len(gaps.permuted)
    return 1.0 / (rows if gaps.exact else rows + 1)


def _split(values: Floats, stratum: Ints, public: Bools, draws: Draws) -> list[_Stratum]:
    starts = [*np.unique(stratum, return_index=True)[1].tolist(), len(stratum)]
    arms = [(int(public[a:b].sum()), int((~public[a:b]).sum())) for a, b in pairwise(starts)]
    unequal = any(n != m for n, m in arms) and min(map(min, arms)) > 1
    parts = [(slice(a, b), values[a:b], public[a:b]) for a, b in pairwise(starts)]
    return [_stratum(*part, errors=unequal and draws.get("studentise", False)) for part in parts]


def _stratum(columns: slice, values: Floats, public: Bools, *, errors: bool) -> _Stratum:
    there = ~np.isnan(values[:, :, 0])
    filled = np.where(there[:, :, None], values, 0.0)
    centre = filled.sum(axis=0) / np.maximum(there.sum(axis=0), 1)[:, None]  # gaps do not feel it
    sums = np.where(there[:, :, None], filled - centre, 0.0).reshape(len(values), -1)
    size, chosen = len(values), int(public.sum())
    weighted = sums * (1 / max(chosen, 1) + 1 / max(size - chosen, 1))
    return _Stratum(
        columns=columns,
        size=size,
        public=chosen,
        sums=sums,
        weighted=weighted,
        present=there.astype(np.float64),
        complete=bool(there.all()),
        errors=errors,
    )


def _gaps(strata: list[_Stratum], labels: Iterable[Labels], shape: tuple[int, ...]) -> Floats:
    """(rows, models x outcomes) gaps under rows of labels, given stratum by stratum; beside them
    their variances, to a common factor, if these are asked for."""
    parts = (
        _differences(part, allocation, shape)
        for part, allocation in zip(strata, labels, strict=True)
    )
    total = next(parts)
    for part in parts:
        total += part
    total /= len(strata)
    return total


def _differences(part: _Stratum, labels: Floats, shape: tuple[int, ...]) -> Floats:
    """Public minus private mean in one stratum; 0 where a row leaves a model an empty arm."""
    if part.complete and not part.errors:
        return np.asarray(product(labels, part.weighted))  # values are centred: both arms sum to 0
    there, public = part.present.sum(axis=0), product(labels, part.present)
    both = public * (there - public)
    weights = there / np.where(both > 0.5, both, np.inf)  # 1/public + 1/private
    chosen = product(labels, part.sums).reshape(len(labels), *shape)
    gaps = chosen * weights[:, :, None]  # a gain of one arm over the centre is a loss of the other
    if not part.errors:
        return np.asarray(gaps.reshape(len(labels), -1))
    squares = product(labels, part.sums**2).reshape(chosen.shape)
    rest, variances = (part.sums**2).sum(axis=0).reshape(shape) - squares, np.zeros_like(gaps)
    for count, square in ((public, squares), (there - public, rest)):
        n = np.maximum(count, 2.0)[:, :, None]
        variances += (square - chosen**2 / n) / (n * (n - 1))
    return np.stack([gaps, variances], axis=1).reshape(len(labels), -1)


def _sample(strata: list[_Stratum], values: Floats, permutations: int, seed: int) -> Floats:
    shape = values.shape[1:]
    gaps = np.empty((permutations, math.prod(shape) * (1 + strata[0].errors)))
    blocks = [Block(part.columns, part.public) for part in strata]

    def fill(first: int, rows: int) -> None:
        drawn = draw_labels(seed, blocks, first, rows)
        labels = (flags.astype(np.float64) for flags in drawn)
        gaps[first : first + rows] = _gaps(strata, labels, shape)

    in_chunks(fill, permutations, rows_at_once(blocks))
    return gaps


def _enumerate(strata: list[_Stratum], values: Floats) -> Floats:
    """Gaps of every allocation: each stratum's own, summed over the product of strata."""
    shape = values.shape[1:]
    total = np.zeros((1, math.prod(shape) * (1 + strata[0].errors)))
    for part in strata:
        gaps = _differences(part, _all_labels(part.size, part.public), shape)
        total = (total[:, None] + gaps[None]).reshape(-1, gaps.shape[1])
    return total / len(strata)


def _all_labels(size: int, public: int) -> Floats:
    chosen = np.array(list(combinations(range(size), public)), dtype=np.int64)
    labels = np.zeros((len(chosen), size))
    np.put_along_axis(labels, chosen, 1.0, axis=1)
    return labels


def permute_blocks(
    values: Floats, stratum: Ints, tranche: Ints, public: Bools, **draws: Unpack[Draws]
) -> Permuted:
    """``permute_gaps`` with labels permuted within the tranches of each stratum. ``values``
    (n, models, outcomes), NaN where absent; ``tranche`` (n,). With one tranche it is the same."""
    block = blocks_of(stratum, tranche)
    return permute_gaps(weigh_blocks(values, stratum, block), block, public, **draws)


def blocks_of(stratum: Ints, tranche: Ints) -> Ints:
    """Codes of stratum and tranche together (n,); those of the strata where one tranche is all."""
    if not len(tranche) or (tranche == tranche[0]).all():
        return stratum
    return np.asarray(stratum * (int(tranche.max()) + 1) + tranche, dtype=np.int64)


def weigh_blocks(values: Floats, stratum: Ints, block: Ints) -> Floats:
    """Values such that the mean of their gaps over blocks is the mean over strata of gaps in which
    each block counts by the instances that the model has in it."""
    if block is stratum:
        return values
    there = (~np.isnan(values[:, :, 0])).astype(np.float64)
    share = sum_within(there, block) / np.maximum(sum_within(there, stratum), 1.0)
    blocks, strata = len(np.unique(block)), len(np.unique(stratum))
    return np.asarray(values * (share * (blocks / strata))[:, :, None])


def sum_within(values: Floats, groups: NDArray[Any]) -> Floats:
    """For each row of values (n, …) the sum over the rows of its group (n,)."""
    codes = np.unique(groups, return_inverse=True)[1].reshape(-1)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return np.asarray(np.add.reduceat(values[order], starts, axis=0)[codes])


def fold(gaps: Permuted) -> Statistics:
    """M = max over outcomes of |gap| / SD, the SD as in ``max_t``: max-T over each outcome and
    its negative."""
    return max_t(Permuted(_both_signs(gaps.observed), _both_signs(gaps.permuted), gaps.exact))


def two_sided_p(gaps: Permuted) -> Floats:
    """Two-sided p by model, over all outcomes at once. 1 where no outcome has any spread."""
    return p_values(fold(gaps))


def _both_signs(values: Floats) -> Floats:
    return np.concatenate([values, -values], axis=-1)


def westfall_young(statistics: Statistics) -> Floats:
    """Step-down max-T adjusted p by model (Westfall and Young 1993, algorithm 4.1): each model,
    from the largest statistic down, against the maximum over itself and those below it."""
    order = np.argsort(-statistics.observed, kind="stable")
    permuted = statistics.permuted[:, order]
    below = np.maximum.accumulate(permuted[:, ::-1], axis=1)[:, ::-1]
    hits = (below >= statistics.observed[order] - TOLERANCE).sum(axis=0)
    stepped = np.maximum.accumulate(rate(hits, len(permuted), statistics.exact))
    return _restore(stepped, order)


def holm(p: Floats) -> Floats:
    """Step-down Bonferroni adjusted p (Holm 1979).

    Not statsmodels' ``multipletests``, which collects all garbage at every call: power and
    calibration call this once a simulated study."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _restore(np.minimum(stepped, 1.0), order)


def _restore(values: Floats, order: Ints) -> Floats:
    restored = np.empty_like(values)
    restored[order] = values
    return restored


def in_chunks(work: Callable[[int, int], None], rows: int, step: int) -> None:
    """``work(first, count)`` for every ``step`` of ``rows``, in any order and some at once. Its
    exceptions are raised. It must release Python's lock (as numpy does) to gain from this."""
    firsts = range(0, rows, step)
    threads = min(cores(), len(firsts) // _CHUNKS_A_THREAD)
    chunks = ((first, min(step, rows - first)) for first in firsts)
    if threads < 2:
        for first, count in chunks:
            work(first, count)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="analysis") as pool:
        for _ in pool.map(lambda chunk: work(*chunk), chunks):
            pass


def cores() -> int:
    """Number of cores this process may use: OMP_NUM_THREADS if it is set, as for numpy's own
    libraries (Ray sets it in its workers), else those that the system allows."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdecimal() and int(limit) > 0:
        return int(limit)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def drop_one_armed(values: Floats, stratum: Ints, public: Bools) -> tuple[Floats, Ints]:
    """``values`` (n, models, k) with NaN in the strata that have a model's k-th in one arm only,
    and (models, k) the number of strata that have it in both."""
    retained, strata = values.copy(), np.zeros(values.shape[1:], dtype=np.int64)
    for h in np.unique(stratum):
        rows = stratum == h
        there = ~np.isnan(values[rows])
        both = there[public[rows]].any(axis=0) & there[~public[rows]].any(axis=0)
        retained[rows] = np.where(both, values[rows], np.nan)
        strata += both
    return retained, strata
