"""Whether a look would call a model contaminated: the plan's rule, on many dealt studies at once.

The rule is that of ``tested.run_tests`` for one model of a look: P1 on common permutations,
adjusted over the look's models (P3), against the look's alpha; and where missing runs ask for it,
the same with all of them filled against the claim (D4). Each column here is a study of its own,
with its own labels. Rows of permuted labels are the same whatever labels they are held against, so
that the other models' are drawn once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analysis.blocks import blocks_of, permute_blocks
from analysis.covariate import adjust
from analysis.missingness import adverse_bounds, lost_share
from analysis.multiplicity import holm, westfall_young
from analysis.plan import look_alpha
from analysis.resample import Permuted, max_t, p_values
from analysis.twosided import two_sided_p
from registry.records import Plan

_MOST = 8_000_000  # permuted gaps that are held at once

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Seed means of some models on the same instances: ``values`` (n, models, outcomes), NaN where
    missing; ``covariate`` (n, outcomes) or of the values' shape, None where nothing is adjusted;
    ``missing`` and ``runs`` (n, models) count runs that were lost and that were owed."""

    values: Floats
    covariate: Floats | None
    missing: Ints
    runs: Ints

    def pick(self, models: list[int]) -> Scores:
        x = self.covariate
        own = x if x is None or x.ndim == 2 else x[:, models]
        return Scores(self.values[:, models], own, self.missing[:, models], self.runs[:, models])


@dataclass(frozen=True, slots=True, eq=False)
class Studies:
    """Studies of one model each, a column each, with arms of its own: ``public`` (n, columns), of
    one count in each tranche of each stratum; ``stratum``, ``tranche`` (n,). ``beside`` are the
    look's other models, the same in all studies; where ``instead``, the model takes the place of
    one of them, of each in turn."""

    model: Scores
    public: Bools
    stratum: Ints
    tranche: Ints
    beside: Scores | None = None
    instead: bool = False

    @property
    def block(self) -> Ints:
        """Within which labels move."""
        return blocks_of(self.stratum, self.tranche)

    @property
    def family(self) -> int:
        """Over how many models p is adjusted."""
        return 1 + len(self.others(0))

    def others(self, column: int) -> list[int]:
        """Which of the other models a study's look has."""
        count = 0 if self.beside is None else self.beside.values.shape[1]
        gone = column % count if self.instead and count else -1
        return [place for place in range(count) if place != gone]


@dataclass(frozen=True, slots=True, eq=False)
class Detected:
    """By column: adjusted p; whether the plan says contaminated; and whether it would but for the
    adverse bound of missing runs."""

    p: Floats
    found: Bools
    unbound: Bools


def detect(plan: Plan, studies: Studies, seed: int) -> Detected:
    """The verdict on each column's model, by the plan's rule of one look."""
    alpha = look_alpha(plan)
    p = _adjusted_p(plan, studies, seed)
    claimed, unbound = p <= alpha, np.zeros(len(p), dtype=bool)
    needs = _that_need_bounds(plan, studies, np.flatnonzero(claimed), seed)
    unbound[needs] = _bound_p(plan, studies, needs, seed) > alpha
    return Detected(p, claimed & ~unbound, unbound)


def _adjusted_p(plan: Plan, studies: Studies, seed: int) -> Floats:
    values = _residuals(studies.model, studies.stratum)
    beside = None if studies.beside is None else _residuals(studies.beside, studies.stratum)
    rest = None if beside is None else _permuted(plan, beside, studies, seed).permuted
    found = []
    for column, rows in enumerate(_drawn(plan, values, studies, seed)):
        held, permuted, others = values[:, [column]], rows.permuted, studies.others(column)
        if beside is not None and rest is not None:
            held = np.concatenate([held, beside[:, others]], axis=1)
            permuted = np.concatenate([permuted, rest[:, others]], axis=1)
        observed = _observed(held, studies, column)
        found.append(_first_p(plan, Permuted(observed, permuted, rows.exact)))
    return np.array(found)


def _that_need_bounds(plan: Plan, studies: Studies, columns: Ints, seed: int) -> Ints:
    """Of some columns those whose claim must survive the adverse bound (D4)."""
    rules, model = plan.standard, studies.model
    if rules is None or not model.missing[:, columns].any():
        return columns[:0]
    share = lost_share(model.missing, model.runs)[:, columns, None]
    needs = []
    whole = replace(studies, stratum=studies.block, tranche=np.zeros_like(studies.tranche))
    for place, rows in enumerate(_drawn(plan, share, whole, seed)):
        column = int(columns[place])
        public = studies.public[:, column]
        observed = _observed(share[:, [place]], whole, column)
        p = two_sided_p(Permuted(observed, rows.permuted, rows.exact))[0]
        lost, owed = model.missing[:, column], model.runs[:, column]
        shares = [lost[arm].sum() / max(owed[arm].sum(), 1) for arm in (public, ~public)]
        needs.append(p < rules.missing_alpha or max(shares) > rules.missing_share)
    return np.asarray(columns[np.array(needs, dtype=bool)])


def _bound_p(plan: Plan, studies: Studies, columns: Ints, seed: int) -> Floats:
    """Adjusted p with all that is missing filled against the claim, of the others too."""
    found = []
    for column in columns.tolist():
        public = studies.public[:, column]
        parts = [_filled(studies.model.pick([column]), studies.stratum, public)]
        if studies.beside is not None:
            rest = studies.beside.pick(studies.others(column))
            parts.append(_filled(rest, studies.stratum, public))
        held = np.concatenate(parts, axis=1)
        rows = _permuted(plan, held, studies, seed)
        observed = _observed(held, studies, column)
        found.append(_first_p(plan, Permuted(observed, rows.permuted, rows.exact)))
    return np.array(found)


def _drawn(plan: Plan, values: Floats, studies: Studies, seed: int) -> Iterator[Permuted]:
    """The permuted rows of each column, which share their draw; many are made at once."""
    step = max(1, _MOST // (plan.permutations * values.shape[2]))
    for start in range(0, values.shape[1], step):
        rows = _permuted(plan, values[:, start : start + step], studies, seed)
        for place in range(rows.permuted.shape[1]):
            own = slice(place, place + 1)
            yield Permuted(rows.observed[own], rows.permuted[:, own], rows.exact)


def _filled(scores: Scores, stratum: Ints, public: Bools) -> Floats:
    share = lost_share(scores.missing, scores.runs)
    lowest, _ = adverse_bounds(scores.values, public, share)
    return (
        lowest if scores.covariate is None else adjust(lowest, scores.covariate, stratum).residuals
    )


def _residuals(scores: Scores, stratum: Ints) -> Floats:
    if scores.covariate is None:
        return scores.values
    return adjust(scores.values, scores.covariate, stratum).residuals


def _first_p(plan: Plan, gaps: Permuted) -> float:
    statistics = max_t(gaps)
    if plan.multiplicity == "holm":
        return float(holm(p_values(statistics))[0])
    return float(westfall_young(statistics)[0])


def _permuted(plan: Plan, values: Floats, studies: Studies, seed: int) -> Permuted:
    """Gaps under permuted labels, which any column's serve to count."""
    return permute_blocks(
        values, studies.stratum, studies.tranche, studies.public[:, 0],
        permutations=plan.permutations, enumerate_up_to=plan.enumerate_up_to, seed=seed,
    )  # fmt: skip


def _observed(values: Floats, studies: Studies, column: int) -> Floats:
    """Gaps (models, outcomes) under a study's own labels."""
    found = permute_blocks(
        values, studies.stratum, studies.tranche, studies.public[:, column],
        permutations=1, enumerate_up_to=0, seed=0,
    )  # fmt: skip
    return found.observed
