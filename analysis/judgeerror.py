"""A judge whose errors differ between the arms: whether they do, and the gap freed of them
(spec/statistics.md, C3).

Of criteria of which the share π is met, a judge of sensitivity se and specificity sp passes the
share p = se·π + (1 − sp)(1 − π), so that π = (p + sp − 1)/J with J = se + sp − 1 (Rogan and Gladen
1978). Errors that are alike in both arms only shrink a gap, to J times what it is; it is enough
to divide by J. Errors that differ make one: a judge that wrongly passes 3 % more on public ones
adds up to 3 points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.rates import Rate, Z, rate_of
from analysis.resample import permute_gaps
from analysis.twosided import two_sided_p

LABELS = 400  # criteria labelled by hand that a correction asks for
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class CorrectedByArm:
    """The gap of what is met, by the rates of each arm, with its standard error and 95 % interval,
    which count the errors of the means and of the rates; ``skill`` is J by arm, public first."""

    gap: float
    se: float
    interval: tuple[float, float]
    skill: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Errors:
    """A judge's rates over some labelled criteria."""

    sensitivity: Rate
    specificity: Rate

    @property
    def labels(self) -> int:
        return self.sensitivity.answers + self.specificity.answers


@dataclass(frozen=True, slots=True)
class ErrorsByArm:
    """A judge's rates in either arm, and the two-sided p of their being the same, by permutation
    of whole answer sheets. ``enough`` says that there are 400 labels, and some of each kind in
    either arm."""

    public: Errors
    private: Errors
    p_sensitivity: float
    p_specificity: float
    enough: bool

    @property
    def differ(self) -> bool:
        """Whether either rate is shown to differ; the smaller p is held against half of .05."""
        return min(self.p_sensitivity, self.p_specificity) < LEVEL / 2


def correct_by_arm(
    public: tuple[float, float], private: tuple[float, float], errors: ErrorsByArm
) -> CorrectedByArm | None:
    """The gap where each arm has its own errors: π of public minus π of private, with an interval
    by the delta method. ``public`` and ``private`` are an arm's mean and its standard error.

    None where an arm has no rates, or rates that do not rule out a judge no better than chance.
    """
    first, second = (
        _corrected(*arm, own) for arm, own in ((public, errors.public), (private, errors.private))
    )
    if first is None or second is None:
        return None
    gap, se = first[0] - second[0], math.sqrt(first[1] + second[1])
    return CorrectedByArm(gap, se, (gap - Z * se, gap + Z * se), (first[2], second[2]))


def compare_errors(
    truth: NDArray[np.bool_],
    verdict: NDArray[np.float64],
    sheet: NDArray[np.int64],
    public: NDArray[np.bool_],
    *,
    permutations: int,
    enumerate_up_to: int,
    seed: int,
) -> ErrorsByArm:
    """A judge's errors by arm, from criteria labelled by hand.

    All (criteria,): what is true, what the judge said (1, 0, NaN where it left it ungraded), whose
    answer sheet and which arm. The test permutes the arm over sheets, since criteria of one sheet
    go together: its statistic, for each of the two rates, is the gap of a sheet's right verdicts
    less what the pooled rate foretells. Raises AnalysisError where all sheets are of one arm, or a
    sheet is of both.
    """
    first, codes = np.unique(sheet, return_index=True, return_inverse=True)[1:]
    arm = public[first]
    if (arm[codes] != public).any():
        raise AnalysisError("an answer sheet has labelled criteria in both arms")
    if arm.all() or not arm.any():
        raise AnalysisError("labelled criteria of one arm only: both are wanted to compare errors")
    excess = np.stack([_excess(truth == kind, truth, verdict, codes) for kind in (True, False)], 1)
    gaps = permute_gaps(
        excess[:, :, None], np.zeros(len(arm), dtype=np.int64), arm,
        permutations=permutations, enumerate_up_to=enumerate_up_to, seed=seed,
    )  # fmt: skip
    p = two_sided_p(gaps)
    by_arm = [measure_errors(truth[m], verdict[m], sheet[m]) for m in (public, ~public)]
    rates = [rate for each in by_arm for rate in (each.sensitivity, each.specificity)]
    enough = sum(each.labels for each in by_arm) >= LABELS and all(r.answers for r in rates)
    return ErrorsByArm(by_arm[0], by_arm[1], float(p[0]), float(p[1]), enough)


def measure_errors(
    truth: NDArray[np.bool_], verdict: NDArray[np.float64], sheet: NDArray[np.int64]
) -> Errors:
    """Sensitivity and specificity of verdicts, as in ``compare_errors``, with intervals that know
    which criteria share a sheet."""
    said = [None if np.isnan(v) else bool(v) for v in verdict.tolist()]
    rows = list(zip(sheet.tolist(), truth.tolist(), said, strict=True))
    sensitivity, specificity = (
        rate_of((s, None if v is None else v is t) for s, t, v in rows if t is kind)
        for kind in (True, False)
    )
    return Errors(sensitivity, specificity)


def _excess(
    kind: NDArray[np.bool_],
    truth: NDArray[np.bool_],
    verdict: NDArray[np.float64],
    codes: NDArray[np.int64],
) -> NDArray[np.float64]:
    """By sheet, right verdicts on criteria of a kind less their number times the pooled rate."""
    own, sheets = kind & ~np.isnan(verdict), int(codes.max()) + 1
    right = ((verdict > 0.5) == truth).astype(np.float64)
    y = np.bincount(codes[own], weights=right[own], minlength=sheets)
    m = np.bincount(codes[own], minlength=sheets)
    excess: NDArray[np.float64] = y - m * (y.sum() / max(m.sum(), 1))
    return excess


def _corrected(mean: float, se: float, errors: Errors) -> tuple[float, float, float] | None:
    """π of an arm, its variance, and J."""
    met, unmet = errors.sensitivity, errors.specificity
    if met.mean is None or unmet.mean is None:
        return None
    skill, noise = met.mean + unmet.mean - 1, (_variance(met), _variance(unmet))
    if skill <= Z * math.sqrt(sum(noise)):
        return None
    rate = (mean + unmet.mean - 1) / skill
    known = rate**2 * noise[0] + (1 - rate) ** 2 * noise[1]
    return rate, (se**2 + known) / skill**2, skill


def _variance(rate: Rate) -> float:
    """Of a rate, from Wilson's interval: not 0 where all verdicts were right."""
    low, high = rate.interval or (0.0, 1.0)
    return ((high - low) / (2 * Z)) ** 2
