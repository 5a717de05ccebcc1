"""Gaps of parts of the score, and the parts that publication cannot help with
(spec/statistics.md, S2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from analysis.stats import (
    Draws,
    GapEstimate,
    Statistics,
    estimate_gap,
    max_t,
    p_values,
    permute_gaps,
    two_sided_p,
    westfall_young,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CategoryGaps:
    """Gaps by model and category (models, categories), public minus private, averaged over the
    ``strata`` that have the category in both arms; NaN where none has.

    ``p`` is one-sided, ``p_adjusted`` step-down max-T over the model's categories, ``p_any``
    (models,) that of the largest: whether any category has a gap. 1 where there is nothing to test.
    """

    gaps: Floats
    p: Floats
    p_adjusted: Floats
    p_any: Floats
    strata: NDArray[np.int64]
    exact: bool


@dataclass(frozen=True, slots=True)
class Contrast:
    """One model: the gap of criteria that need the instance's own answer key, of those that are
    the same in every instance (static), and of key minus static.

    Knowing published instances cannot help with what all instances share, so that ``p_static``
    (two-sided) is a control: a small one shows a fault. The other p are one-sided. An estimate
    is None where an arm of every stratum lacks both kinds.
    """

    key: GapEstimate | None
    static: GapEstimate | None
    excess: GapEstimate | None
    p_key: float
    p_static: float
    p_excess: float


def max_t_over_categories(
    values: Floats, stratum: NDArray[np.int64], public: NDArray[np.bool_], **draws: Unpack[Draws]
) -> CategoryGaps:
    """Max-T over categories of the rubric, model by model (spec/statistics.md, S2).

    ``values`` (n, models, categories) are seed means, NaN where an instance has no criterion of
    the category or no scored run. Labels are permuted as in P1, in common to all.
    """
    models, categories = values.shape[1:]
    retained, strata = drop_one_armed(values, stratum, public)
    gaps = permute_gaps(retained.reshape(len(retained), -1, 1), stratum, public, **draws)
    single = max_t(gaps)  # one outcome each: nothing is maximised yet
    p = p_values(single).reshape(models, categories)
    adjusted = np.array([westfall_young(_of_model(single, m, categories)) for m in range(models)])
    adjusted = adjusted.reshape(models, categories)
    rescaled = _rescaled(gaps.observed[:, 0].reshape(models, categories), strata, stratum)
    return CategoryGaps(rescaled, p, adjusted, adjusted.min(axis=1), strata, gaps.exact)


def contrast_key_with_static(
    key: Floats,
    static: Floats,
    stratum: NDArray[np.int64],
    public: NDArray[np.bool_],
    **draws: Unpack[Draws],
) -> tuple[Contrast, ...]:
    """Answer-key against seed-invariant criteria, a Contrast for each model (spec/statistics.md,
    S2). ``key`` and ``static`` (n, models) are shares passed, NaN where there are none."""
    stacked = np.concatenate([key, static, key - static], axis=1)
    retained, _ = drop_one_armed(stacked[:, :, None], stratum, public)
    gaps = permute_gaps(retained, stratum, public, **draws)
    p, both = p_values(max_t(gaps)), two_sided_p(gaps)
    models = key.shape[1]
    estimates = [_estimate(retained[:, c, 0], stratum, public) for c in range(3 * models)]
    return tuple(
        Contrast(
            estimates[m],
            estimates[models + m],
            estimates[2 * models + m],
            float(p[m]),
            float(both[models + m]),
            float(p[2 * models + m]),
        )
        for m in range(models)
    )


def drop_one_armed(
    values: Floats, stratum: NDArray[np.int64], public: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.int64]]:
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


def _of_model(single: Statistics, model: int, categories: int) -> Statistics:
    columns = slice(model * categories, (model + 1) * categories)
    return Statistics(single.observed[columns], single.permuted[:, columns], single.exact)


def _rescaled(gaps: Floats, strata: NDArray[np.int64], stratum: NDArray[np.int64]) -> Floats:
    """From a mean over all strata, to which those without count 0, to one over those with."""
    mean_gaps = np.full(gaps.shape, np.nan)
    np.divide(gaps * len(np.unique(stratum)), strata, out=mean_gaps, where=strata > 0)
    return mean_gaps


def _estimate(
    scores: Floats, stratum: NDArray[np.int64], public: NDArray[np.bool_]
) -> GapEstimate | None:
    there = ~np.isnan(scores)
    return estimate_gap(scores[there], stratum[there], public[there]) if there.any() else None
