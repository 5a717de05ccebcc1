"""Model-based sensitivity analyses, through statsmodels. Never primary.

Its warnings are caught and become notes of the result; a failed fit gives a result without
numbers. The logit GEE holds strata as fixed effects and the arm's effect as one; its gap is the
marginal one on the scale of scores, averaged over strata like P2's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from analysis.errors import AnalysisError
from analysis.stats.permutation import Bools, Floats, Ints

_Z = 1.959963984540054  # two-sided 95 %
_NO_SPREAD = 1e-12
_NO_RATIO = 1e-5  # of variances between seeds and runs: 0, as far as a search on the line can tell
_WILD = 15.0  # log odds beyond which a fit runs off to infinity: an arm all right or all wrong

_NUMERICAL = (np.linalg.LinAlgError, ValueError, FloatingPointError, ZeroDivisionError)
# Warnings of future changes of a library, which are not about the data.
_OF_LIBRARIES = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelGap:
    """A statistical model's gap with its 95 % interval and one-sided p; ``notes`` are warnings of
    statsmodels. All None if it cannot be fitted, for the reason in ``notes``."""

    gap: float | None = None
    se: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class GeeFit:
    """Parameters, their covariance, and statsmodels' warnings."""

    parameters: Floats
    covariance: Floats
    notes: tuple[str, ...]


def gee_gap(scores: Floats, seed: Ints, stratum: Ints, public: Bools) -> ModelGap:
    """The gap by generalised estimating equations: logit link, independence, clustered on seed,
    bias-reduced covariance (Mancl and DeRouen 2001).

    Rows are runs or seed means: ``scores`` (rows,) in 0…1, each seed of one stratum and arm.
    A stratum of equal scores shows no effect and counts as a gap of 0. Raises
    AnalysisError for a NaN among the scores.
    """
    if np.isnan(scores).any():
        raise AnalysisError("scores without NaN are wanted: leave missing runs out")
    codes = np.unique(stratum, return_inverse=True)[1]
    strata = int(codes.max()) + 1
    used = np.array([np.ptp(scores[codes == h]) > _NO_SPREAD for h in range(strata)])
    if not used.any():
        return ModelGap(notes=("scores without spread",))
    rows = used[codes]
    design = _design(codes[rows], public[rows])
    try:
        fit = fit_seeds(scores[rows], design, seed[rows])
    except AnalysisError as error:
        return ModelGap(notes=(str(error),))
    if np.abs(fit.parameters[-1]) > _WILD:
        why = "an arm's scores are all 0 or all 1: the odds ratio has no limit"
        return ModelGap(notes=(why,))
    return _marginal(fit, strata)


def fit_seeds(response: Floats, design: Floats, cluster: Ints) -> GeeFit:
    """A binomial GEE with independence as the working correlation and bias-reduced covariance, in
    closed form, if all rows of a cluster have the same regressors: statsmodels inverts a matrix for
    each of thousands of seeds.

    With m such rows of leverage h each, Mancl and DeRouen's correction divides the sum of a
    cluster's residuals by 1 - m h. Raises AnalysisError if there is no finite fit.
    """

    def fit() -> tuple[Floats, Floats]:
        from statsmodels.genmod.families import Binomial  # its ``api`` loads all of statsmodels
        from statsmodels.genmod.generalized_linear_model import GLM

        model = GLM(response, design, family=Binomial())
        parameters = np.asarray(model.fit().params)
        return parameters, _bias_reduced(parameters, response, design, cluster)

    fitted, notes = _quietly(fit)
    if fitted is None or not all(np.isfinite(part).all() for part in fitted):
        raise AnalysisError("; ".join(("not estimable by a GEE", *notes)))
    return GeeFit(*fitted, notes)


def _bias_reduced(parameters: Floats, response: Floats, design: Floats, cluster: Ints) -> Floats:
    mean = _expit(design @ parameters)
    weight = mean * (1 - mean)
    bread = np.linalg.inv(design.T @ (design * weight[:, None]))
    _, first, codes, rows = np.unique(
        cluster, return_index=True, return_inverse=True, return_counts=True
    )
    x = design[first]
    leverage = rows * weight[first] * np.einsum("nk,kl,nl->n", x, bread, x)
    residual = np.bincount(codes.reshape(-1), weights=response - mean)
    score = (x * (residual / (1 - leverage))[:, None]) @ bread
    return np.asarray(score.T @ score)


def mixed_gap(scores: Floats, seed: Ints, stratum: Ints, public: Bools) -> ModelGap:
    """The gap by a linear mixed model with a random intercept for each seed, by REML, where seeds
    have more than one run.

    Rows are runs, as for ``gee_gap``. If no seed has two runs, the variances of seeds and runs
    cannot be separated, and there is no result. Raises AnalysisError for a NaN among the scores.
    """
    if np.isnan(scores).any():
        raise AnalysisError("scores without NaN are wanted: leave missing runs out")
    if len(np.unique(seed)) == len(seed):
        why = "no seed has two runs: variance between seeds and runs cannot be parted"
        return ModelGap(notes=(why,))
    codes = np.unique(stratum, return_inverse=True)[1]
    design = _design(codes, public)
    rest = scores - design @ np.linalg.lstsq(design, scores, rcond=None)[0]
    unit = float(rest.std())
    if unit < _NO_SPREAD:
        return ModelGap(notes=("scores without spread",))

    # In units of the SD: statsmodels detects the boundary by the absolute size of a variance.
    fitted, notes = _quietly(lambda: _fit_mixed(scores / unit, design, seed))
    if fitted is None or not np.isfinite(fitted).all() or not fitted[1] > 0:
        return ModelGap(notes=("not estimable by a mixed model", *notes))
    if fitted[2] == 0:
        notes = (*notes, "no variance between seeds was found: least squares of runs")
    gap, se = fitted[0] * unit, fitted[1] * unit
    return ModelGap(gap, se, _interval(gap, se), _upper_tail(gap / se), notes)


def shrink_gaps(gaps: Floats, ses: Floats) -> tuple[Floats, Floats]:
    """Empirical-Bayes shrinkage of models' gaps towards their mean: gap_m ~ N(mu, tau2), seen with
    error se_m. Returns posterior means and standard deviations (models,) with tau2 as estimated
    and mu's error counted. For display, not for tests.

    ``gaps`` and ``ses`` (models,); an SE that is NaN or 0 is not known and its model left out, as
    NaN. tau2 is Paule and Mandel's (1982). Below two models with a known SE all are NaN. The models
    share their seeds, so their errors are not independent: the posterior SDs are rather too small.
    """
    known = np.isfinite(gaps) & np.isfinite(ses) & (ses > 0)
    drawn, sd = np.full(len(gaps), np.nan), np.full(len(gaps), np.nan)
    if known.sum() < 2:
        return drawn, sd
    y, v = gaps[known], ses[known] ** 2
    tau2 = _paule_mandel(y, v)
    w = 1.0 / (v + tau2)
    mu, mu_variance = float(w @ y / w.sum()), float(1.0 / w.sum())
    pull = v / (v + tau2)  # towards mu
    drawn[known] = pull * mu + (1 - pull) * y
    sd[known] = np.sqrt((1 - pull) * v + pull**2 * mu_variance)
    return drawn, sd


def _fit_mixed(y: Floats, design: Floats, seed: Ints) -> tuple[float, float, float]:
    """The last parameter, its SE, and the variance between seeds. Where that is 0, which
    statsmodels cannot fit, REML is least squares."""
    from statsmodels.regression.linear_model import OLS
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

    ratio = _variance_ratio(y, design, seed)
    if ratio < _NO_RATIO:
        plain = OLS(y, design).fit()
        return float(plain.params[-1]), float(plain.bse[-1]), 0.0
    start = MixedLMParams.from_components(
        fe_params=np.zeros(design.shape[1]), cov_re=np.array([[ratio]])
    )
    result = MixedLM(y, design, groups=seed).fit(reml=True, start_params=start)
    if not result.converged:
        raise ValueError("no maximum of the likelihood was reached")
    seeds = float(np.asarray(result.cov_re)[0, 0])
    return float(result.fe_params[-1]), float(result.bse_fe[-1]), seeds


def _variance_ratio(y: Floats, design: Floats, seed: Ints) -> float:
    """REML's variance between seeds over that between runs, found along the line. statsmodels
    starts its search there, and is many times quicker for it."""
    from scipy.optimize import minimize_scalar

    order = np.argsort(seed, kind="stable")
    starts = np.flatnonzero(np.diff(seed[order], prepend=seed.min() - 1))
    both = np.column_stack([design, y])
    sums = np.add.reduceat(both[order], starts, axis=0)
    n, inner, p = np.diff(starts, append=len(y)), both.T @ both, design.shape[1]

    def loss(share: float) -> float:
        ratio = share / (1 - share)
        moments = inner - (sums * (ratio / (1 + n * ratio))[:, None]).T @ sums
        beta = np.linalg.solve(moments[:p, :p], moments[:p, p])
        rest = max(float(moments[p, p] - moments[:p, p] @ beta), 1e-300)
        size = float(np.log1p(n * ratio).sum() + np.linalg.slogdet(moments[:p, :p])[1])
        return float((len(y) - p) * math.log(rest) + size)

    share = float(minimize_scalar(loss, bounds=(0.0, 1 - 1e-6), method="bounded").x)
    return 0.0 if loss(0.0) <= loss(share) else float(share / (1 - share))


def _design(codes: Ints, public: Bools) -> Floats:
    """An intercept for each stratum, and the arm."""
    strata = (codes[:, None] == np.unique(codes)).astype(np.float64)
    return np.column_stack([strata, public.astype(np.float64)])


def _marginal(fit: GeeFit, strata: int) -> ModelGap:
    """From log odds to the gap of means over strata, its SE by the delta method."""
    levels, effect = fit.parameters[:-1], float(fit.parameters[-1])
    public, private = _expit(levels + effect), _expit(levels)
    gap = float((public - private).sum()) / strata
    slope_public, slope_private = public * (1 - public), private * (1 - private)
    gradient = np.append(slope_public - slope_private, slope_public.sum()) / strata
    variance, arm_variance = gradient @ fit.covariance @ gradient, fit.covariance[-1, -1]
    if not (variance > 0 and arm_variance > 0):
        return ModelGap(notes=("the bias-reduced variance is not positive",))
    se = math.sqrt(variance)
    p = _upper_tail(effect / math.sqrt(arm_variance))
    return ModelGap(gap, se, _interval(gap, se), p, fit.notes)


def _paule_mandel(y: Floats, v: Floats) -> float:
    """The tau2 ≥ 0 at which Σ w (y − mu)² is its expectation, models − 1."""

    def excess(tau2: float) -> float:
        w = 1.0 / (v + tau2)
        return float(w @ (y - w @ y / w.sum()) ** 2) - (len(y) - 1)

    if excess(0.0) <= 0:
        return 0.0
    from scipy.optimize import brentq

    most = float(((y - y.mean()) ** 2).sum()) / (len(y) - 1)  # where every w is below 1/tau2
    return float(brentq(excess, 0.0, most, xtol=1e-14, rtol=1e-12))


def _quietly(fit: Callable[[], T]) -> tuple[T | None, tuple[str, ...]]:
    """The fit's result, None if it fails, and its warnings in words."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        result: T | None = None
        notes: list[str] = []
        try:
            result = fit()
        except Exception as error:
            of_statsmodels = type(error).__module__.startswith("statsmodels")
            if not of_statsmodels and not isinstance(error, _NUMERICAL):
                raise
            notes.append(_line(error))
    notes += [_line(w.message) for w in caught if not issubclass(w.category, _OF_LIBRARIES)]
    return result, tuple(dict.fromkeys(notes))


def _line(message: object) -> str:
    return " ".join(str(message).split()) or type(message).__name__


def _interval(gap: float, se: float) -> tuple[float, float]:
    return gap - _Z * se, gap + _Z * se


def _upper_tail(z: float) -> float:
    return 0.5 * math.erfc(z / math.sqrt(2))


def _expit(x: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(x), dtype=np.float64)
