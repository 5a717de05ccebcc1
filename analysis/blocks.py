"""Permutation within tranches: labels move only where the draw could have put them
(spec/statistics.md, D1).

Each tranche of a stratum was split 1:1 on its own. Where models of a look ran several tranches, or
not the same ones, labels are therefore permuted in blocks of one stratum and one tranche; the gap
stays that of P1, averaged over strata. Within a stratum the blocks count by the instances that
a model has there, which is the pooled difference where arms are balanced.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.resample import Permuted, permute_gaps

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def permute_blocks(
    values: Floats,
    stratum: Ints,
    tranche: Ints,
    public: NDArray[np.bool_],
    *,
    permutations: int,
    enumerate_up_to: int,
    seed: int,
) -> Permuted:
    """``permute_gaps`` with labels permuted within the tranches of each stratum. ``values``
    (n, models, outcomes), NaN where absent; ``tranche`` (n,). With one tranche it is the same."""
    block = blocks_of(stratum, tranche)
    return permute_gaps(
        weigh_blocks(values, stratum, block), block, public,
        permutations=permutations, enumerate_up_to=enumerate_up_to, seed=seed,
    )  # fmt: skip


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
    there = ~np.isnan(values[:, :, 0])
    codes = np.unique(block, return_inverse=True)[1].reshape(-1)
    strata = np.unique(stratum, return_inverse=True)[1].reshape(-1)
    in_block, in_stratum = _counts(there, codes), _counts(there, strata)
    share = in_block[codes] / np.maximum(in_stratum[strata], 1.0)
    return np.asarray(values * (share * (len(in_block) / len(in_stratum)))[:, :, None])


def _counts(there: NDArray[np.bool_], codes: Ints) -> Floats:
    """How many instances of each code every model has (codes, models)."""
    found = np.zeros((int(codes.max(initial=-1)) + 1, there.shape[1]))
    np.add.at(found, codes, there)
    return found
