"""Gaps between arms that were not allotted at random, held against those of unexposed models.

Such arms may differ in difficulty, so that a clean model too has a gap. The spread of the control
models' gaps, each a placebo against the rest, says how far a gap strays that no leak has made: on
the scale of scores, and on that of log odds, on which models of different ability are alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.plan.presets import look_alpha
from analysis.plan.primary import LookData
from analysis.plan.results import PrimaryResult
from analysis.plan.verdict import BEYOND, ESTIMATE, NOT_COMPARABLE, WITHIN, Verdict
from analysis.stats.adjustment import centre_within, control_means
from analysis.stats.intervals import estimate_gaps
from analysis.stats.permutation import Floats, holm
from registry.ledger.records import Plan

LEAST_CONTROLS = 8
EDGE = 0.005  # a mean score that log odds can be taken of lies so far from 0 and 1


def compare_gaps(
    plan: Plan, data: LookData, names: Sequence[str], results: Sequence[PrimaryResult]
) -> Iterator[PrimaryResult]:
    """The results with verdicts by comparison. ``names`` has the model of each column of the
    control models' scores; p is adjusted over the models of the look by Holm's method."""
    controls, models = data.controls, len({*names})
    if controls is None or models < LEAST_CONTROLS:
        why = f"{models} control models have scores that differ, and it takes {LEAST_CONTROLS}"
        yield from (replace(r, verdict=estimate_only(r.verdict, why)) for r in results)
        return
    own, others = _arm_means(data, data.means.values), _arm_means(data, controls)
    p, given = p_beyond(data, controls), [result.verdict for result in results]
    private = Private(own[1], others[1], models)
    for result, verdict in zip(results, compare(given, p, private, look_alpha(plan)), strict=True):
        yield replace(result, verdict=verdict)


def p_beyond(data: LookData, controls: Floats) -> Floats:
    """One-sided p (models,) of gaps beyond those of the control models, the larger of both scales.
    ``controls`` are their scores (n, columns, outcomes)."""
    own, others = _arm_means(data, data.means.values), _arm_means(data, controls)
    scales = [_p(data, own, others, controls, odds=odds) for odds in (False, True)]
    return np.asarray(np.max(scales, axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class Private:
    """Mean private scores of the models under test, and of the columns of the control models."""

    own: Floats
    others: Floats
    models: int  # control models


def compare(
    verdicts: Sequence[Verdict], p: Floats, private: Private, alpha: float
) -> Iterator[Verdict]:
    """The verdicts by comparison, where ``p`` is that of a gap beyond the control models'."""
    adjusted = holm(np.nan_to_num(p, nan=1.0))
    for m, verdict in enumerate(verdicts):
        word = BEYOND if adjusted[m] <= alpha else WITHIN
        note = f"beside the gaps of {private.models} control models, by points and by log odds"
        if not private.others.min() <= private.own[m] <= private.others.max():
            word, note = NOT_COMPARABLE, "its private scores lie outside the control models' range"
        own, over_all = float(p[m]), float(adjusted[m])
        yield replace(verdict, verdict=word, note=note, p=own, p_adjusted=over_all, p_floor=0.0)


def adjust_over_models(verdicts: Sequence[Verdict], alpha: float) -> Iterator[Verdict]:
    """Verdicts on models each compared by itself, with p adjusted over those of a wave by Holm's
    method; ``alpha`` is that of a look."""
    for wave in sorted({verdict.wave for verdict in verdicts}):
        here = [verdict for verdict in verdicts if verdict.wave == wave]
        for verdict, p in zip(here, holm(np.array([v.p for v in here])).tolist(), strict=True):
            lost = verdict.verdict == BEYOND and p > alpha
            yield replace(verdict, verdict=WITHIN if lost else verdict.verdict, p_adjusted=p)


def placebo_p(gap: Floats, error: Floats, others: Floats, sampling: float) -> Floats:
    """One-sided p of gaps beyond ``others``, those of control models, whose sampling variance is
    ``sampling``: Student's t of the distance from their mean, over its standard ``error`` and their
    spread beyond sampling."""
    from scipy.special import stdtr

    count = len(others)
    spread = max(float(others.var(ddof=1) - sampling), 0.0) * (1 + 1 / count)
    return np.asarray(stdtr(count - 1, -(gap - others.mean()) / np.sqrt(error**2 + spread)))


def estimate_only(verdict: Verdict, why: str) -> Verdict:
    """The verdict's numbers without a word on the model."""
    note = f"the arms were not allotted at random; {why}"
    return replace(verdict, verdict=ESTIMATE, note=note, p=1.0, p_adjusted=1.0)


def _arm_means(data: LookData, values: Floats) -> Floats:
    """Mean first scores (2, models), public and private, averaged over strata."""
    stratum, public = data.means.stratum, data.means.public
    arms = ([arm & (stratum == h) for h in np.unique(stratum)] for arm in (public, ~public))
    means = [[np.nanmean(values[at, :, 0], axis=0) for at in arm] for arm in arms]
    return np.asarray(np.mean(means, axis=1))


def _p(data: LookData, own: Floats, others: Floats, controls: Floats, *, odds: bool) -> Floats:
    """One-sided p (models,) of gaps beyond those of the control models."""
    from scipy.special import logit

    stratum, public, count = data.means.stratum, data.means.public, controls.shape[1]
    apart = centre_within(controls, stratum) - control_means(controls, stratum)[:, None]
    scores = (data.adjusted.residuals, apart)
    errors = [estimate_gaps(part[:, :, 0], stratum, public).se for part in scores]
    if odds:
        own, others = np.clip(own, EDGE, 1 - EDGE), np.clip(others, EDGE, 1 - EDGE)
        middle = (part.mean(axis=0) for part in (own, others))
        errors = [se / (p * (1 - p)) for se, p in zip(errors, middle, strict=True)]
        own, others = logit(own), logit(others)
    sampling = float(np.nanmean(errors[1] ** 2)) * count / (count - 1)
    return placebo_p(own[0] - own[1], errors[0], others[0] - others[1], sampling)
