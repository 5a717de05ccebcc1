"""Whether a finding hangs on one task, and whether private instances have leaked
(spec/statistics.md, S3, B1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.dimensions import drop_one_armed
from analysis.errors import AnalysisError
from analysis.estimators import GapEstimate, estimate_gap
from analysis.multiplicity import westfall_young
from analysis.resample import (
    Permuted,
    count_allocations,
    max_t,
    p_values,
    permutation_seed,
    permute_gaps,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_Part = tuple[Permuted, int]  # the gaps of some strata, and how many these are


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """The test again without each stratum (or task) in turn: ``strata`` (k,) holds their codes,
    ``gaps`` (k, models) the gap of the first outcome over the others, ``p`` (k, models) P1's on
    them."""

    strata: Ints
    gaps: Floats
    p: Floats

    @property
    def least_gap(self) -> Floats:
        """The smallest gap that any one stratum's absence leaves (models,)."""
        return np.asarray(self.gaps.min(axis=0))

    @property
    def largest_p(self) -> Floats:
        """The largest p that any one stratum's absence gives (models,)."""
        return np.asarray(self.p.max(axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class BurnTest:
    """Private seeds that a provider may have kept against private seeds that it never saw.

    Per model (models,): ``gaps`` estimate burned minus virgin on the first outcome, ``p``
    one-sided, ``p_adjusted`` over the models. ``burned`` and ``virgin`` count seeds in the
    ``strata`` strata that hold both.
    """

    gaps: tuple[GapEstimate | None, ...]
    p: Floats
    p_adjusted: Floats
    burned: int
    virgin: int
    strata: int


def leave_one_stratum_out(
    values: Floats,
    stratum: Ints,
    public: Bools,
    *,
    permutations: int,
    enumerate_up_to: int,
    seed: int,
) -> LeftOut:
    """P1 without each stratum in turn (spec/statistics.md, S3). ``values`` (n, models, outcomes).

    Strata are permuted apart from each other, so that a row's gap without some is made of the
    others' parts: it costs little more than the test itself. What is left is enumerated where
    that is small enough. Raises AnalysisError where nothing would be left.
    """
    return _leave_out(values, stratum, public, stratum, permutations, enumerate_up_to, seed)


def leave_one_task_out(
    values: Floats,
    stratum: Ints,
    public: Bools,
    task: Ints,
    *,
    permutations: int,
    enumerate_up_to: int,
    seed: int,
) -> LeftOut:
    """The same without all strata of each task in turn; ``task`` (n,) is one to a stratum."""
    return _leave_out(values, stratum, public, task, permutations, enumerate_up_to, seed)


def compare_burned(
    values: Floats,
    stratum: Ints,
    public: Bools,
    burned: Bools,
    *,
    permutations: int,
    enumerate_up_to: int,
    seed: int,
) -> BurnTest | None:
    """Burned against virgin private seeds, one-sided, by stratified permutation
    (spec/statistics.md, B1).

    ``values`` (n, models, outcomes); ``burned`` (n,) marks private instances whose inputs a
    provider may have kept. None where no stratum holds both kinds. Raises AnalysisError where a
    public instance is called burned.
    """
    if (burned & public).any():
        raise AnalysisError("burned seeds are private ones: a public seed is public from the start")
    own = ~public & _strata_with_both(stratum, public, burned)
    if not own.any():
        return None
    held, labels, kept = stratum[own], burned[own], values[own]
    permuted = permute_gaps(
        kept, held, labels,
        permutations=permutations, enumerate_up_to=enumerate_up_to, seed=seed,
    )  # fmt: skip
    statistics = max_t(permuted)
    first, _ = drop_one_armed(kept[:, :, :1], held, labels)
    gaps = tuple(_estimate(first[:, m, 0], held, labels) for m in range(kept.shape[1]))
    return BurnTest(
        gaps, p_values(statistics), westfall_young(statistics),
        int(labels.sum()), int((~labels).sum()), len(np.unique(held)),
    )  # fmt: skip


def keep_virgin(public: Bools, burned: Bools) -> Bools:
    """Which instances stay in P1: burned private ones leave it (spec/statistics.md, B1)."""
    return np.asarray(public | ~burned)


def _alone(
    values: Floats, stratum: Ints, public: Bools, own: Bools, enumerate_up_to: int
) -> Permuted:
    """All allocations of some strata: nothing is drawn."""
    return permute_gaps(
        values[own], stratum[own], public[own],
        permutations=0, enumerate_up_to=enumerate_up_to, seed=0,
    )  # fmt: skip


def _leave_out(
    values: Floats,
    stratum: Ints,
    public: Bools,
    group: Ints,
    permutations: int,
    enumerate_up_to: int,
    seed: int,
) -> LeftOut:
    codes = np.unique(group)
    if len(codes) < 2:
        raise AnalysisError("leaving the only stratum or task out leaves nothing to test")
    rest = [group != g for g in codes]
    small = [count_allocations(stratum[r], public[r]) <= enumerate_up_to for r in rest]
    parts: list[_Part] = []
    if not all(small):
        parts = [_part(values, stratum, public, group == g, permutations, seed) for g in codes]
    found = [
        _alone(values, stratum, public, own, enumerate_up_to) if few else _without(parts, place)
        for place, (own, few) in enumerate(zip(rest, small, strict=True))
    ]
    gaps = np.array([each.observed[:, 0] for each in found])
    return LeftOut(codes, gaps, np.array([p_values(max_t(each)) for each in found]))


def _part(
    values: Floats, stratum: Ints, public: Bools, own: Bools, permutations: int, seed: int
) -> _Part:
    """The gaps of some strata, under rows of labels that are drawn for them alone."""
    strata = np.unique(stratum[own])
    gaps = permute_gaps(
        values[own], stratum[own], public[own],
        permutations=permutations, enumerate_up_to=0,
        seed=permutation_seed(str(seed), *map(str, strata.tolist())),
    )  # fmt: skip
    return gaps, len(strata)


def _without(parts: list[_Part], place: int) -> Permuted:
    others = parts[:place] + parts[place + 1 :]
    observed = np.zeros_like(others[0][0].observed)
    permuted = np.zeros_like(others[0][0].permuted)
    for gaps, strata in others:
        observed += gaps.observed * strata
        permuted += gaps.permuted * strata
    total = sum(strata for _, strata in others)
    return Permuted(observed / total, permuted / total, False)


def _strata_with_both(stratum: Ints, public: Bools, burned: Bools) -> Bools:
    has_burned = np.isin(stratum, stratum[burned])
    return np.asarray(has_burned & np.isin(stratum, stratum[~public & ~burned]))


def _estimate(scores: Floats, stratum: Ints, labels: Bools) -> GapEstimate | None:
    there = ~np.isnan(scores)
    return estimate_gap(scores[there], stratum[there], labels[there]) if there.any() else None
