"""Stratified permutation of arm labels, common to all outcomes and models of a look.

Labels are permuted within strata, with each arm's count fixed, over the union of the instances
that any model has; each model then uses the instances that it has. A missing cell stays with its
instance, so the test is exact under the hypothesis that arm touches neither score nor missingness.
(spec/statistics.md, P1, P3.)
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from analysis.labels import Block, Labels, draw_labels, product, rows_at_once
from analysis.threads import in_chunks

TOLERANCE = 1e-9  # on z: sums of the same numbers in another order count as equal
_NO_SPREAD = 1e-12  # an SD below this is rounding of a constant


@dataclass(frozen=True, slots=True, eq=False)
class Permuted:
    """Gaps (public minus private mean, averaged over strata) under the observed labels,
    ``observed`` (models, outcomes), and others, ``permuted`` (rows, models, outcomes). Where
    ``exact``, the rows are all allocations, the observed one among them."""

    observed: NDArray[np.float64]
    permuted: NDArray[np.float64]
    exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The max-T statistic M over outcomes: ``observed`` (models,), ``permuted`` (rows, models)."""

    observed: NDArray[np.float64]
    permuted: NDArray[np.float64]
    exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Stratum:
    columns: slice  # of the units, which are sorted by stratum
    size: int
    public: int
    sums: NDArray[np.float64]  # (size, models x outcomes): centred values, 0 where absent
    weighted: NDArray[np.float64]  # the sums x (1/public + 1/private)
    present: NDArray[np.float64]  # (size, models)
    complete: bool


def permutation_seed(registration: str, *path: str) -> int:
    """First 8 bytes of SHA-256("registration|path|…"). The path is model and look, or, where
    the models of a look share their permutations, the look alone."""
    text = "|".join((registration, *path))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def count_allocations(stratum: NDArray[np.int64], public: NDArray[np.bool_]) -> int:
    """In how many ways the labels can fall: the product over strata of n choose public."""
    return math.prod(
        math.comb(int((stratum == h).sum()), int(public[stratum == h].sum()))
        for h in np.unique(stratum)
    )


def permute_gaps(
    values: NDArray[np.float64],
    stratum: NDArray[np.int64],
    public: NDArray[np.bool_],
    *,
    permutations: int,
    enumerate_up_to: int,
    seed: int,
) -> Permuted:
    """Gaps under permuted labels: all allocations where there are ``enumerate_up_to`` or fewer,
    else ``permutations`` drawn ones. ``values`` (n, models, outcomes), NaN where absent.

    Memory does not grow with ``permutations`` but for the gaps returned. ``draw_labels`` says
    which words of PCG64(seed) a row takes; a block is a stratum. The number of threads, which
    are as many as the cores, moves nothing.
    """
    order = np.argsort(stratum, kind="stable")
    strata = _split(values[order], stratum[order], public[order])
    shape = (-1, *values.shape[1:])
    labels = public[order][None].astype(np.float64)
    observed = _gaps(strata, (labels[:, part.columns] for part in strata), values.shape[1:])
    exact = count_allocations(stratum, public) <= enumerate_up_to
    rows = _enumerate(strata, values) if exact else _sample(strata, values, permutations, seed)
    return Permuted(observed.reshape(shape)[0], rows.reshape(shape), exact)


def max_t(gaps: Permuted) -> Statistics:
    """M = max over outcomes of gap / SD, the SD over permuted rows and the observed one. An
    outcome without spread gives 0 in every row."""
    every = gaps.permuted
    if not gaps.exact:
        every = np.concatenate([gaps.observed[None], gaps.permuted])
    sd = every.std(axis=0)
    scale = np.where(sd > _NO_SPREAD, 1.0 / np.maximum(sd, _NO_SPREAD), 0.0)
    observed, permuted = gaps.observed * scale, gaps.permuted * scale
    return Statistics(_largest(observed), _largest(permuted), gaps.exact)


def _largest(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over outcomes. They are few, for which numpy's own ``max`` is slow."""
    return np.asarray(functools.reduce(np.maximum, np.moveaxis(z, -1, 0)))


def p_values(statistics: Statistics) -> NDArray[np.float64]:
    """One-sided p by model: (1 + #{M_b ≥ M_obs}) / (P + 1) when drawn, # / total when all."""
    hits = (statistics.permuted >= statistics.observed - TOLERANCE).sum(axis=0)
    return rate(hits, len(statistics.permuted), statistics.exact)


def rate(hits: NDArray[np.int64], rows: int, exact: bool) -> NDArray[np.float64]:
    """Hits as a p-value; the observed allocation counts itself once."""
    value: NDArray[np.float64] = hits / rows if exact else (hits + 1) / (rows + 1)
    return value


def _split(
    values: NDArray[np.float64], stratum: NDArray[np.int64], public: NDArray[np.bool_]
) -> list[_Stratum]:
    starts = [*np.unique(stratum, return_index=True)[1].tolist(), len(stratum)]
    return [_stratum(slice(a, b), values[a:b], public[a:b]) for a, b in pairwise(starts)]


def _stratum(columns: slice, values: NDArray[np.float64], public: NDArray[np.bool_]) -> _Stratum:
    there = ~np.isnan(values[:, :, 0])
    held = np.where(there[:, :, None], values, 0.0)
    centre = held.sum(axis=0) / np.maximum(there.sum(axis=0), 1)[:, None]  # gaps do not feel it
    sums = np.where(there[:, :, None], held - centre, 0.0).reshape(len(values), -1)
    size, chosen = len(values), int(public.sum())
    weighted = sums * (1 / max(chosen, 1) + 1 / max(size - chosen, 1))
    return _Stratum(
        columns, size, chosen, sums, weighted, there.astype(np.float64), bool(there.all())
    )


def _gaps(
    strata: list[_Stratum], labels: Iterable[Labels], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """(rows, models x outcomes) gaps under rows of labels, given stratum by stratum."""
    parts = (_differences(part, own, shape) for part, own in zip(strata, labels, strict=True))
    total = next(parts)
    for part in parts:
        total += part
    total /= len(strata)
    return total


def _differences(
    part: _Stratum, labels: NDArray[np.float64], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Public minus private mean in one stratum; 0 where a row leaves a model an empty arm."""
    if part.complete:
        return np.asarray(product(labels, part.weighted))  # values are centred: both arms sum to 0
    there, public = part.present.sum(axis=0), product(labels, part.present)
    both = public * (there - public)
    each = there / np.where(both > 0.5, both, np.inf)  # 1/public + 1/private
    chosen = product(labels, part.sums).reshape(len(labels), *shape)
    chosen *= each[:, :, None]  # what one arm gains on the centre, the other has lost
    return chosen.reshape(len(labels), -1)


def _sample(
    strata: list[_Stratum], values: NDArray[np.float64], permutations: int, seed: int
) -> NDArray[np.float64]:
    shape = values.shape[1:]
    gaps = np.empty((permutations, math.prod(shape)))
    blocks = [Block(part.columns, part.public) for part in strata]

    def fill(first: int, rows: int) -> None:
        drawn = draw_labels(seed, blocks, first, rows)
        labels = (flags.astype(np.float64) for flags in drawn)
        gaps[first : first + rows] = _gaps(strata, labels, shape)

    in_chunks(fill, permutations, rows_at_once(blocks))
    return gaps


def _enumerate(strata: list[_Stratum], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gaps of every allocation: each stratum's own, summed over the product of strata."""
    shape = values.shape[1:]
    total = np.zeros((1, math.prod(shape)))
    for part in strata:
        own = _differences(part, _all_labels(part.size, part.public), shape)
        total = (total[:, None] + own[None]).reshape(-1, own.shape[1])
    return total / len(strata)


def _all_labels(size: int, public: int) -> NDArray[np.float64]:
    chosen = np.array(list(combinations(range(size), public)), dtype=np.int64)
    labels = np.zeros((len(chosen), size))
    np.put_along_axis(labels, chosen, 1.0, axis=1)
    return labels
