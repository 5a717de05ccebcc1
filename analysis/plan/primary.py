"""The primary test of a look: adjust, permute within blocks, max-T, p, multiplicity.

``family_tests`` tests B studies at once: a look is one study, power and calibration are many.
``rule.py`` decides by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.data.seed_means import SeedMeans
from analysis.plan.presets import plan_draws
from analysis.stats.adjustment import Adjusted, calibrate, control_means, unadjusted
from analysis.stats.missing import adverse_fill, fill_lost, lost_share
from analysis.stats.permutation import (
    NO_SPREAD,
    Bools,
    Draws,
    Floats,
    Ints,
    Permuted,
    blocks_of,
    count_allocations,
    holm,
    max_t,
    p_floor,
    p_values,
    permutation_sd,
    permute_blocks,
    westfall_young,
)
from registry.ledger.records import Plan

_MOST = 8_000_000  # permuted gaps in memory at once


@dataclass(frozen=True, slots=True, eq=False)
class ModelScores:
    """Seed means of models on the same instances: ``values`` (n, columns, outcomes), NaN if
    missing; ``covariate``, the control models' means, (n, outcomes) or of the values' shape, None
    where nothing is calibrated;
    ``missing`` and ``runs`` (n, columns) count lost runs and owed runs, None if none is lost."""

    values: Floats
    covariate: Floats | None = None
    missing: Ints | None = None
    runs: Ints | None = None

    @property
    def counts(self) -> tuple[Ints, Ints]:
        """Lost runs and owed runs (n, columns); one run a score if they are not given."""
        if self.missing is not None and self.runs is not None:
            return self.missing, self.runs
        there = (~np.isnan(self.values[:, :, 0])).astype(np.int64)
        return np.zeros_like(there), there

    def pick(self, columns: Ints) -> ModelScores:
        """The scores of some columns."""
        x, (missing, runs) = self.covariate, self.counts
        chosen = x if x is None or x.ndim == 2 else x[:, columns]
        return ModelScores(self.values[:, columns], chosen, missing[:, columns], runs[:, columns])

    def join(self, other: ModelScores) -> ModelScores:
        """These columns, then those of another value."""
        values = np.concatenate([self.values, other.values], axis=1)
        missing, runs = (
            np.concatenate(parts, axis=1) for parts in zip(self.counts, other.counts, strict=True)
        )
        if self.covariate is None and other.covariate is None:
            return ModelScores(values, None, missing, runs)
        x = np.concatenate([self._wide_covariate(), other._wide_covariate()], axis=1)
        return ModelScores(values, x, missing, runs)

    def adjusted(self, stratum: Ints) -> Adjusted:
        """The scores calibrated by the control models, as they are without them."""
        if self.covariate is None:
            return unadjusted(self.values)
        return calibrate(self.values, self.covariate, stratum)

    def _wide_covariate(self) -> Floats:
        """The covariate in the shape of the values; NaN, which adjusts nothing, without one."""
        x = self.covariate
        if x is None:
            return np.full(self.values.shape, np.nan)
        return np.broadcast_to(x[:, None] if x.ndim == 2 else x, self.values.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Studies:
    """B studies of M models each, on the same instances.

    ``members`` (B, M) are each study's columns of ``scores``, over which its p are adjusted;
    studies may share columns. ``public`` (n, B) are the labels of each study, or (n, 1) if all
    have the same; every study has the same count of public instances in each tranche of each
    stratum. ``stratum`` and ``tranche`` are (n,).
    """

    scores: ModelScores
    members: Ints
    public: Bools
    stratum: Ints
    tranche: Ints

    @property
    def block(self) -> Ints:
        """Codes (n,) of the blocks within which labels are permuted."""
        return blocks_of(self.stratum, self.tranche)

    def labels(self, study: int) -> Bools:
        """The labels (n,) of one study."""
        return self.public[:, study if self.public.shape[1] > 1 else 0]

    def pick(self, studies: Ints) -> Studies:
        """Some of the studies."""
        public = self.public[:, studies] if self.public.shape[1] > 1 else self.public
        return replace(self, members=self.members[studies], public=public)


@dataclass(frozen=True, slots=True, eq=False)
class FamilyTest:
    """P1 and P3 by study and model: ``gaps`` and ``z`` (gap over its permutation SD) are
    (B, M, outcomes), ``p`` and ``adjusted`` (B, M). ``floor`` is the least p that the permutations
    can show."""

    gaps: Floats
    z: Floats
    p: Floats
    adjusted: Floats
    floor: float = 0.0


def family_tests(plan: Plan, values: Floats, studies: Studies, seed: int) -> FamilyTest:
    """The permutation test of each model of each study, and p adjusted over the models of a study.
    ``values`` (n, columns, outcomes) take the place of the studies' scores."""
    shape = (*studies.members.shape, values.shape[2])
    floor = 0.0
    tests = FamilyTest(np.empty(shape), np.zeros(shape), np.empty(shape[:2]), np.empty(shape[:2]))
    for study, gaps in enumerate(permuted_studies(plan, values, studies, seed)):
        sd, floor = permutation_sd(gaps), p_floor(gaps)
        statistics = max_t(gaps, sd)
        tests.gaps[study] = gaps.observed
        np.divide(gaps.observed, sd, out=tests.z[study], where=sd > NO_SPREAD)
        p = tests.p[study] = p_values(statistics)
        by_holm = plan.multiplicity == "holm"
        tests.adjusted[study] = holm(p) if by_holm else westfall_young(statistics)
    return replace(tests, floor=floor)


def permuted_studies(
    plan: Plan, values: Floats, studies: Studies, seed: int, *, studentise: bool = True
) -> Iterator[Permuted]:
    """Gaps of each study's members, observed under its labels and permuted.

    The permuted labels do not depend on the observed ones, whose counts are the same in all
    studies: one draw serves every column, and a column that studies share is permuted once.
    """
    members, own_labels = studies.members, studies.public.shape[1] > 1
    if not members.size:
        return
    uses = np.bincount(members.ravel(), minlength=values.shape[1])
    common = np.flatnonzero(uses > 1)

    def permute(columns: Ints, study: int, draws: Draws) -> Permuted:
        chosen, labels = values[:, columns], studies.labels(study)
        return permute_blocks(chosen, studies.stratum, studies.tranche, labels, **draws)

    draws, one_draw = plan_draws(plan, seed), Draws(permutations=1, enumerate_up_to=0, seed=0)
    draws["studentise"] = studentise
    shared = permute(common, 0, draws) if len(common) else None
    alone = int((uses[members] == 1).sum(axis=1).max())
    allocations = count_allocations(studies.block, studies.labels(0))
    rows = allocations if allocations <= plan.enumerate_up_to else plan.permutations
    step = max(1, _MOST // (rows * values.shape[2] * max(alone, 1)))
    place = np.empty(values.shape[1], dtype=np.int64)
    for start in range(0, len(members), step):
        chunk = members[start : start + step]
        single = chunk[uses[chunk] == 1]
        drawn = shared if shared is not None and not len(single) else permute(single, 0, draws)
        observed, permuted = drawn.observed, drawn.permuted
        if shared is not None and len(single):
            observed = np.concatenate([observed, shared.observed])
            permuted = np.concatenate([permuted, shared.permuted], axis=1)
        place[np.concatenate([single, common])] = np.arange(len(single) + len(common))
        for study, columns in enumerate(chunk, start=start):
            gaps = observed[place[columns]]
            if own_labels:
                gaps = permute(columns, study, one_draw).observed
            yield Permuted(gaps, permuted[:, place[columns]], drawn.exact)


# The data of a look


@dataclass(frozen=True, slots=True, eq=False)
class LookData:
    """A look's instances with the seed means of its models, as they are and adjusted."""

    means: SeedMeans
    adjusted: Adjusted
    covariate: Floats | None  # the control models' means (n, outcomes)
    covered: float  # share of instances that have such a mean; 0 if nothing is calibrated
    controls: Floats | None = None  # the control models' scores (n, columns, outcomes)

    def studies(self, columns: Sequence[int]) -> Studies:
        """The look as one study of some of its columns."""
        means = self.means
        runs = means.missing + means.scored
        scores = ModelScores(means.values, self.covariate, means.missing, runs)
        members = np.array([columns], dtype=np.int64)
        return Studies(scores, members, means.public[:, None], means.stratum, means.tranche)


def look_data(
    means: SeedMeans,
    tested: Sequence[int],
    controls: Sequence[int] = (),
    *,
    against_claim: bool | None = None,
) -> LookData:
    """The tested columns, calibrated by those of control models; as they are without any.

    The missing runs of the control models stay missing; or each is filled with the score that
    speaks most against a claim of contamination, or (False) against its absence.
    """
    chosen, rows = means.pick(tested), means.rows(tested)
    if controls and tested:
        columns = list(controls)
        values, missing = means.values[rows][:, columns], means.missing[rows][:, columns]
        if against_claim is not None:
            share = lost_share(missing, missing + means.scored[rows][:, columns])
            fill = adverse_fill(means.public[rows], against_claim=not against_claim)
            values = fill_lost(values, share, fill)
        x = control_means(values, means.stratum[rows])
        covered = float((~np.isnan(x[:, 0])).mean())
        if covered:
            adjusted = calibrate(chosen.values, x, chosen.stratum)
            return LookData(chosen, adjusted, x, covered, values)
    return LookData(chosen, unadjusted(chosen.values), None, 0.0)
