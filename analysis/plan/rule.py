"""The primary rule of a look: the claim of contamination, and what its missing runs could change.

``apply_rule`` decides of B studies at once: a look is one study, power and calibration are many. A
plan without the rules of standard-v1 (basic-v1) runs the same rule with no covariate and no tipping
points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.plan.missing import CURVE, FilledTest, filled_tests, tipping_share
from analysis.plan.presets import look_alpha
from analysis.plan.primary import FamilyTest, Studies, family_tests
from analysis.stats.permutation import Bools, Floats
from registry.ledger.records import Plan


@dataclass(frozen=True, slots=True, eq=False)
class FilledClaim:
    """A model's test with its missing runs filled: ``gaps`` (steps, outcomes) and adjusted ``p``
    (steps,) at each share of ``CURVE``, and the tipping point of its claim, None if it has no claim
    or holds whatever they were."""

    study: int
    place: int
    gaps: Floats
    p: Floats
    share: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """The rule's result by study and model (B, M). ``claimed``: adjusted p at or below the look's
    alpha; ``undone``: the missing runs could undo the claim. ``filled`` has the tests of models
    with missing runs, where they were asked for."""

    test: FamilyTest
    claimed: Bools
    undone: Bools
    filled: tuple[FilledClaim, ...] = ()

    @property
    def contaminated(self) -> Bools:
        """True for each model that the plan calls contaminated (B, M)."""
        return self.claimed & ~self.undone


def apply_rule(
    plan: Plan, studies: Studies, values: Floats, seed: int, *, first_only: bool = False
) -> Decisions:
    """The plan's rule of one look on each study. ``values`` (n, columns, outcomes) are the scores
    as adjusted; all studies share the permutations that ``seed`` draws.

    ``first_only`` examines the missing runs of the first model of each study only, and only if it
    is claimed, at both ends: enough for its verdict, and much quicker over many studies.
    """
    test, alpha = family_tests(plan, values, studies, seed), look_alpha(plan)
    claimed = test.adjusted <= alpha
    undone = np.zeros_like(claimed)
    if plan.standard is None:
        return Decisions(test, claimed, undone)
    concerned = np.asarray(studies.scores.counts[0].any(axis=0))[studies.members]
    if first_only:
        concerned = concerned & claimed
        concerned[:, 1:] = False
    filled: list[FilledClaim] = []
    for study, place, tested in filled_tests(plan, studies, values, concerned, seed):
        if first_only:
            undone[study, place] = max(tested.p(0.0), tested.p(1.0)) > alpha
            continue
        filled.append(_filled_claim(study, place, tested, alpha, claimed[study, place]))
        undone[study, place] = filled[-1].share is not None
    return Decisions(test, claimed, undone, tuple(filled))


def _filled_claim(
    study: int, place: int, tested: FilledTest, alpha: float, claimed: bool
) -> FilledClaim:
    share = tipping_share(lambda t: tested.p(t) <= alpha) if claimed else None
    gaps = np.array([tested.gaps(t) for t in CURVE])
    return FilledClaim(study, place, gaps, np.array([tested.p(t) for t in CURVE]), share)
