"""Labels are permuted within the tranches of a stratum, and a gap stays that of the strata."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.stats.intervals import estimate_gap
from analysis.stats.permutation import (
    blocks_of,
    max_t,
    p_values,
    permute_blocks,
    permute_gaps,
    weigh_blocks,
)

DRAWN = {"permutations": 99, "enumerate_up_to": 20_000, "seed": 5}


def design(sizes: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stratum, tranche and arm of instances: ``sizes`` per arm, by stratum and tranche."""
    cells = [
        (h, k, arm)
        for h, own in enumerate(sizes)
        for k, size in enumerate(own)
        for arm in (1, 0)
        for _ in range(size)
    ]
    stratum, tranche, public = (np.array(column) for column in zip(*cells, strict=True))
    return stratum, tranche, public.astype(bool)


def pooled_gap(scores: np.ndarray, stratum: np.ndarray, public: np.ndarray) -> float:
    there = ~np.isnan(scores)
    gaps = [
        scores[there & public & (stratum == h)].mean()
        - scores[there & ~public & (stratum == h)].mean()
        for h in np.unique(stratum)
    ]
    return float(np.mean(gaps))


def all_labels(block: np.ndarray, public: np.ndarray) -> list[np.ndarray]:
    """Every label that keeps the count of each block."""
    choices = [
        list(combinations(np.flatnonzero(block == b).tolist(), int(public[block == b].sum())))
        for b in np.unique(block)
    ]
    found = []
    for chosen in product(*choices):
        label = np.zeros(len(public), dtype=bool)
        label[[i for own in chosen for i in own]] = True
        found.append(label)
    return found


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.lists(st.integers(1, 2), min_size=2, max_size=2), min_size=1, max_size=2),
    present=st.sampled_from([(0, 1), (0,), (1,)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_it_is_every_allocation_within_blocks_of_the_pooled_gap(
    sizes: list[list[int]], present: tuple[int, ...], seed: int
) -> None:
    stratum, tranche, public = design(sizes)
    values = np.random.default_rng(seed).random((len(stratum), 2, 1))
    values[~np.isin(tranche, present), 1] = np.nan  # the second model ran some tranches only
    found = permute_blocks(values, stratum, tranche, public, **DRAWN)
    assert found.exact
    for m in range(2):
        gaps = [pooled_gap(values[:, m, 0], stratum, label)
                for label in all_labels(blocks_of(stratum, tranche), public)]  # fmt: skip
        assert np.allclose(np.sort(found.permuted[:, m, 0]), np.sort(gaps), atol=1e-12)
        own = pooled_gap(values[:, m, 0], stratum, public)
        assert found.observed[m, 0] == pytest.approx(own, abs=1e-12)
        there = ~np.isnan(values[:, m, 0])
        told = estimate_gap(values[there, m, 0], stratum[there], public[there])
        assert told.gap == pytest.approx(own, abs=1e-12)


def test_one_tranche_changes_nothing() -> None:
    stratum, tranche, public = design([[6], [6]])
    values = np.random.default_rng(1).random((len(stratum), 3, 2))
    one = permute_blocks(values, stratum, tranche + 4, public, **DRAWN)
    other = permute_gaps(values, stratum, public, **DRAWN)
    assert np.array_equal(one.observed, other.observed)
    assert np.array_equal(one.permuted, other.permuted)
    assert weigh_blocks(values, stratum, blocks_of(stratum, tranche)) is values


def test_models_on_other_tranches_are_tested_as_if_alone() -> None:
    """Permuted over the whole stratum, their arms would be of random sizes."""
    stratum, tranche, public = design([[3, 3]])
    values = np.random.default_rng(3).random((len(stratum), 2, 1))
    values[tranche == 1, 0] = values[tranche == 0, 1] = np.nan
    both = p_values(max_t(permute_blocks(values, stratum, tranche, public, **DRAWN)))
    for m in range(2):
        own = tranche == m
        alone = permute_gaps(values[own][:, [m]], stratum[own], public[own], **DRAWN)
        assert both[m] == pytest.approx(p_values(max_t(alone))[0])
