"""Missing runs of a look: what they could change.

A claim is tested again with the missing runs of its model filled: a share t of each is as adverse
to the claim as a score can be, the rest is the model's mean in the stratum over both arms. The
tipping point is the smallest t that undoes the claim. The adjustment is linear in the scores and
the gap in the fills, so that two permutations, at t = 0 and t = 1, give all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.errors import AnalysisError
from analysis.plan.primary import LookData, ModelScores, Studies, permuted_studies
from analysis.plan.verdict import Word
from analysis.stats.missing import adverse_fill, blind_fill, centred_ranks, fill_lost, lost_share
from analysis.stats.permutation import (
    Bools,
    Floats,
    Ints,
    Permuted,
    Statistics,
    holm,
    max_t,
    p_values,
    two_sided_p,
    westfall_young,
)
from registry.ledger.records import Plan

CURVE = tuple(step / 10 for step in range(11))
_NEAR = 0.01  # a tipping point is found to so much of the missing runs


@dataclass(frozen=True, slots=True)
class TippingStep:
    """A decision's numbers with a ``share`` of each missing run as adverse as can be: the gap, and
    the adjusted p of the claim or of the clearing."""

    share: float
    gap: float
    p: float


@dataclass(frozen=True, slots=True)
class TippingPoint:
    """How much of a model's missing runs would undo its decision: the least ``share`` that does if
    as adverse as can be, the others blind to the arms, and the number of ``runs`` that it makes;
    None if the decision holds whatever they were."""

    decision: Word
    share: float | None
    runs: int | None
    curve: tuple[TippingStep, ...]


@dataclass(frozen=True, slots=True)
class MissingRuns:
    """A model's missing runs by arm, and what they could change.

    ``p`` is of a difference of the shares; ``rank_p`` of a difference of the instances that lost
    runs, by the ranks of the control models' scores on them (means by arm, 0 hardest, 1 easiest).
    ``blind_gap`` and ``blind_p`` (adjusted) are with every missing run at its stratum's mean.
    """

    public: int
    private: int
    share_public: float
    share_private: float
    p: float
    rank_public: float | None = None
    rank_private: float | None = None
    rank_p: float | None = None
    blind_gap: float | None = None
    blind_p: float | None = None
    tipping: TippingPoint | None = None


NO_RULE = MissingRuns(0, 0, math.nan, math.nan, 1.0)  # of a plan without one


def missingness_tests(plan: Plan, studies: Studies, seed: int) -> list[MissingRuns]:
    """Missingness by arm of each model of one study, without its consequences: the gap of the
    instances' shares of lost runs, averaged over blocks, and that of the shares times the rank of
    the control models' score, under the labels of P1. A share is NaN if no run was owed; ranks are
    None without control scores or missing runs. Raises AnalysisError if more runs are missing than
    were owed."""
    missing, runs = studies.scores.counts
    if (missing > runs).any() or (missing < 0).any():
        raise AnalysisError("missing runs must lie between 0 and the runs that were owed")
    share, ranks = lost_share(missing, runs), _control_ranks(studies)
    whole = replace(studies, stratum=studies.block, tranche=np.zeros_like(studies.tranche))
    columns, public = studies.members[0].tolist(), studies.labels(0)

    def p_of(values: Floats) -> list[float]:
        if not missing[:, columns].any():
            return [1.0] * len(columns)
        (gaps,) = permuted_studies(plan, values[:, :, None], whole, seed, studentise=False)
        return [float(p) for p in two_sided_p(gaps)]

    p, tests = p_of(share), list[MissingRuns]()
    rank_p = None if ranks is None else p_of(share * ranks)
    for place, column in enumerate(columns):
        by_arm: dict[str, Any] = {}
        for arm, rows in (("public", public), ("private", ~public)):
            gone, owed = missing[rows, column], int(runs[rows, column].sum())
            lost = int(gone.sum())
            by_arm |= {arm: lost, f"share_{arm}": lost / owed if owed else math.nan}
            if ranks is not None and rank_p is not None and lost:
                ranked = float((gone * (ranks[rows, column] + 0.5)).sum()) / lost
                by_arm |= {f"rank_{arm}": ranked, "rank_p": rank_p[place]}
        tests.append(MissingRuns(p=p[place], **by_arm))
    return tests


def _control_ranks(studies: Studies) -> Floats | None:
    """Ranks (n, columns) of the covariate's first outcome; None without one."""
    x = studies.scores.covariate
    if x is None:
        return None
    columns = studies.scores.values.shape[1]
    if x.ndim == 2:
        ranks = centred_ranks(x[:, 0], studies.stratum)
        return np.broadcast_to(ranks[:, None], (len(ranks), columns))
    return np.stack([centred_ranks(x[:, m, 0], studies.stratum) for m in range(columns)], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Fills:
    """Adjusted scores of some columns with their missing runs filled (n, columns, outcomes): blind
    to the arms, and as adversely as scores allow."""

    blind: Floats
    adverse: Floats

    def at(self, share: float) -> Floats:
        """The scores with a share of each missing run as adverse as can be, the rest blind."""
        return (1.0 - share) * self.blind + share * self.adverse


def fill_missing(
    scores: ModelScores, stratum: Ints, public: Bools, *, against_claim: bool
) -> Fills:
    """The scores with all that is missing filled before they are adjusted; ``against_claim`` of
    contamination, or else against a claim that there is no inflation."""
    share = lost_share(*scores.counts)
    fills = blind_fill(scores.values, stratum), adverse_fill(public, against_claim=against_claim)
    blind, adverse = (
        replace(scores, values=fill_lost(scores.values, share, fill)).adjusted(stratum).residuals
        for fill in fills
    )
    return Fills(blind, adverse)


def fill_look(data: LookData) -> LookData:
    """The look with every missing run of its models as adverse to a claim as a score can be; a
    model without any score stays without."""
    means = data.means
    scores = data.studies(range(len(means.columns))).scores
    fills = fill_missing(scores, means.stratum, means.public, against_claim=True)
    tested = np.asarray(means.scored.any(axis=0))
    residuals = np.where(tested[:, None], fills.adverse, np.nan)
    return replace(data, adjusted=replace(data.adjusted, residuals=residuals))


@dataclass(frozen=True, slots=True, eq=False)
class FilledTest:
    """The test of a study in which the missing runs of one model, its ``place`` among the
    ``models``, are filled; ``blind`` and ``adverse`` are that model's gaps alone."""

    models: Statistics
    place: int
    blind: Permuted
    adverse: Permuted
    by_holm: bool

    def gaps(self, share: float) -> Floats:
        """The model's gap in each outcome."""
        gaps = (1.0 - share) * self.blind.observed + share * self.adverse.observed
        return np.asarray(gaps[0])

    def p(self, share: float) -> float:
        """The model's p, adjusted over the models of the study."""
        observed, permuted = (
            (1.0 - share) * blind + share * adverse
            for blind, adverse in (
                (self.blind.observed, self.adverse.observed),
                (self.blind.permuted, self.adverse.permuted),
            )
        )
        filled = max_t(Permuted(observed, permuted, self.models.exact))
        every = Statistics(
            self._with(self.models.observed, filled.observed),
            self._with(self.models.permuted, filled.permuted),
            self.models.exact,
        )
        adjusted = holm(p_values(every)) if self.by_holm else westfall_young(every)
        return float(adjusted[self.place])

    def _with(self, models: Floats, filled: Floats) -> Floats:
        changed = models.copy()
        changed[..., self.place] = filled[..., 0]
        return changed


def filled_tests(
    plan: Plan, studies: Studies, values: Floats, concerned: Bools, seed: int
) -> Iterator[tuple[int, int, FilledTest]]:
    """Each study and place among its models that ``concerned`` (B, M) marks, with its filled test.

    Every test has the permutations of ``family_tests`` by the same seed.
    """
    pairs = np.argwhere(concerned)
    if not len(pairs):
        return
    parts, members, labels = [values], [], []
    for number, (study, place) in enumerate(pairs):
        column, public = studies.members[study, place], studies.labels(study)
        scores = studies.scores.pick(np.array([column]))
        fills = fill_missing(scores, studies.stratum, public, against_claim=True)
        parts += [fills.blind, fills.adverse]
        first = values.shape[1] + 2 * number
        members.append([*studies.members[study], first, first + 1])
        labels.append(public)
    public = np.stack(labels, axis=1) if studies.public.shape[1] > 1 else studies.public
    wide = replace(studies, members=np.array(members), public=public)
    every = permuted_studies(plan, np.concatenate(parts, axis=1), wide, seed)
    for (study, place), gaps in zip(pairs.tolist(), every, strict=True):
        models, blind, adverse = (
            Permuted(gaps.observed[part], gaps.permuted[:, part], gaps.exact)
            for part in (slice(None, -2), slice(-2, -1), slice(-1, None))
        )
        by_holm = plan.multiplicity == "holm"
        yield study, place, FilledTest(max_t(models), place, blind, adverse, by_holm)


def tipping_share(holds: Callable[[float], bool]) -> float | None:
    """The smallest share at which a decision no longer holds, by bisection; None if it holds with
    every missing run as adverse as can be.

    Gap over standard error and upper bound have no low, or high, between both ends, so that a
    decision that holds at 0 and is undone at 1 turns once.
    """
    if not holds(0.0):
        return 0.0
    if holds(1.0):
        return None
    low, high = 0.0, 1.0
    while high - low > _NEAR:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high
