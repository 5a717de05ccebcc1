"""How large a leak the instrument sees: a known part of the public arm, known on purpose.

spec/statistics.md, C2. A clean model's stored scores are the ground. In every replicate the arms
are dealt anew, which changes nothing where there is no leak, and each public instance is known with
probability f: its outcomes become what knowing is worth. The plan's rule of one look is run on each
(``detection.py``). So the rate at dose 0 is the test's size, and no luck of one draw or one run of
the model stays in the others.

The rates are joined by detection(f) = Φ(b·f − z), with z the quantile of the look's alpha, shared
by the models that p is adjusted over: a test of this size whose statistic grows with the dose. Its
one parameter is fitted by likelihood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.errors import AnalysisError
from analysis.plan import ModelScores, Studies, apply_rule, look_alpha
from analysis.stats import Bools, Floats, Ints, blocks_of, estimate_gap, permutation_seed, wilson
from registry.ledger import Plan

DOSES = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
REPLICATES = 20
WANTED = 0.8  # detection
BLANK, LIMIT = 1.645, 3.29  # SEs: 5 % of blanks lie beyond the first, 5 % of the second below it


@dataclass(frozen=True, slots=True, eq=False)
class CleanScores:
    """A clean model's seed means: ``values`` (n, outcomes), NaN where missing; ``covariate``
    (n, outcomes), None where the plan adjusts nothing; ``stratum``, ``public`` (n,), and
    ``tranche`` (n,), None where there is one; ``missing`` and ``runs`` (n,) count runs lost and
    owed, None if none is lost. ``companions`` are the look's other models on the same instances; if
    ``replaces``, the model takes the place of one of them."""

    values: Floats
    covariate: Floats | None
    stratum: Ints
    public: Bools
    tranche: Ints | None = None
    missing: Ints | None = None
    runs: Ints | None = None
    companions: ModelScores | None = None
    replaces: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DoseTrials:
    """Studies to put to the plan's test, a column each, and the dose of each."""

    studies: Studies
    doses: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Dose:
    """What came of one dose; ``gap`` is the mean over replicates, adjusted as the plan says, and
    ``fitted`` the rate on the curve, None where no curve can be fitted."""

    dose: float
    replicates: int
    detected: int
    rate: float
    interval: tuple[float, float]  # Wilson, 95 %
    gap: float
    fitted: float | None
    unbound: int = 0  # not detected since the claim hung on missing runs (D4)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scores as shares of 1. ``se`` is that of the gap without a leak (P2), ``spread`` the SD of
    the blanks' gaps; ``blank`` and ``limit`` are 1.645 and 3.29 SE, ``limit_dose`` the dose whose
    gap that is, None where no dose makes it. ``enough`` is the dose detected with probability 0.8;
    None where that lies beyond what was tried, as an end of ``enough_interval`` (95 %) is. p is
    adjusted over ``family`` models."""

    alpha: float
    doses: tuple[Dose, ...]
    n_public: int
    n_private: int
    se: float | None
    spread: float | None
    blank: float | None
    limit: float | None
    limit_dose: float | None
    enough: float | None
    enough_interval: tuple[float | None, float | None]
    family: int = 1

    @property
    def size(self) -> float:
        """How often a clean model is called at most: the look's alpha, shared by its models."""
        return shared_alpha(self.alpha, self.family)


def check_doses(doses: Sequence[float], replicates: int) -> tuple[float, ...]:
    """The doses in order, the blank among them. Raises AnalysisError."""
    for dose in doses:
        if not 0 <= dose <= 1:
            raise AnalysisError(f"dose {dose:g} is no share of the public arm; give 0 to 1")
    if not any(doses):
        raise AnalysisError("doses: give at least one above 0")
    if not 1 <= replicates <= 10_000:
        raise AnalysisError(f"{replicates} replicates cannot be run; give 1 to 10000")
    return tuple(sorted({0.0, *map(float, doses)}))


def calibrate(
    plan: Plan,
    ground: CleanScores,
    *,
    doses: Sequence[float] = DOSES,
    replicates: int = REPLICATES,
    known: Sequence[Floats] | None = None,
    registration: str,
    place: str,
) -> Calibration:
    """Known leaks of several doses put to the plan's rule of one look.

    ``known``: for each stratum the outcomes (m, outcomes) that knowing an instance may bring,
    drawn from at random; None for full marks. ``registration`` and ``place`` seed the draws.
    Raises AnalysisError for doses that are none, and for a ground without both arms.
    """
    order = check_doses(doses, replicates)
    _check_ground(ground)
    seed = permutation_seed(registration, "C2", "calibrate", place)
    stream = np.random.Generator(np.random.PCG64(seed))
    trials = inject(ground, [d for d in order for _ in range(replicates)], known, stream)
    return measure(plan, trials, seed)


def inject(
    ground: CleanScores,
    doses: Sequence[float],
    known: Sequence[Floats] | None,
    stream: np.random.Generator,
) -> DoseTrials:
    """A study for each of the doses, each with arms dealt anew and known instances of its own.
    What is missing stays missing: knowing an answer mends no server."""
    values, labels = [], []
    scores, codes = ground.values, np.unique(ground.stratum, return_inverse=True)[1].reshape(-1)
    tranche = np.zeros_like(ground.stratum) if ground.tranche is None else ground.tranche
    block = blocks_of(ground.stratum, tranche)
    for dose in doses:
        public = ground.public[_deal(block, stream)]
        knows = public & (stream.random(len(scores)) < dose)
        gained = np.ones_like(scores) if known is None else _drawn(codes, known, stream)
        values.append(np.where(knows[:, None] & ~np.isnan(scores), gained, scores))
        labels.append(public)
    there = (~np.isnan(scores[:, 0])).astype(np.int64)
    missing = np.zeros_like(there) if ground.missing is None else ground.missing
    runs = there if ground.runs is None else ground.runs
    count = len(doses)
    model = ModelScores(
        np.stack(values, axis=1), ground.covariate, _repeat(missing, count), _repeat(runs, count)
    )
    public = np.stack(labels, axis=1)
    studies = one_model_studies(
        model, public, ground.stratum, tranche, ground.companions, replaces=ground.replaces
    )
    return DoseTrials(studies, tuple(doses))


def one_model_studies(
    model: ModelScores,
    public: Bools,
    stratum: Ints,
    tranche: Ints,
    companions: ModelScores | None = None,
    *,
    replaces: bool = False,
) -> Studies:
    """A study for each column of ``model``, with labels of its own (n, columns).

    ``companions`` are the look's other models, the same in all studies; if ``replaces``, the model
    takes the place of one of them, of each in turn.
    """
    count = model.values.shape[1]
    others = 0 if companions is None else companions.values.shape[1]
    kept = [
        [o for o in range(others) if not replaces or o != study % others] for study in range(count)
    ]
    members = np.array([[study, *(count + o for o in own)] for study, own in enumerate(kept)])
    scores = model if companions is None else model.join(companions)
    return Studies(scores, members, public, stratum, tranche)


def measure(plan: Plan, trials: DoseTrials, seed: int) -> Calibration:
    """The plan's rule on each study, and the detection rates by dose. Raises AnalysisError if a
    model lacks an arm of a stratum."""
    studies = trials.studies
    values = studies.scores.adjusted(studies.stratum).residuals
    gaps = [
        _gap(values[:, members[0], 0], studies.stratum, studies.labels(study))
        for study, members in enumerate(studies.members)
    ]
    decisions = apply_rule(plan, studies, values, seed, first_only=True)
    results = [
        _Trial(dose, bool(decisions.contaminated[s, 0]), bool(decisions.unbound[s, 0]), *gaps[s])
        for s, dose in enumerate(trials.doses)
    ]
    public = studies.labels(0)
    n = int(public.sum()), int((~public).sum())
    return _sum_up(results, look_alpha(plan), studies.members.shape[1], n)


@dataclass(frozen=True, slots=True)
class _Trial:
    dose: float
    detected: bool
    unbound: bool
    gap: float
    se: float | None


def _gap(scores: Floats, stratum: Ints, public: Bools) -> tuple[float, float | None]:
    there = ~np.isnan(scores)
    _check_arms(stratum[there], public[there], len(np.unique(stratum)))
    estimate = estimate_gap(scores[there], stratum[there], public[there])
    return estimate.gap, estimate.se


def _sum_up(trials: Sequence[_Trial], alpha: float, family: int, n: tuple[int, int]) -> Calibration:
    doses = sorted({trial.dose for trial in trials})
    groups = [[trial for trial in trials if trial.dose == dose] for dose in doses]
    hits = np.array([sum(t.detected for t in group) for group in groups])
    tried = np.array([len(group) for group in groups])
    size = shared_alpha(alpha, family)
    enough, interval = fit_detection(np.array(doses), hits, tried, size)
    gaps = [float(np.mean([t.gap for t in group])) for group in groups]
    ses = [t.se for t in groups[0] if t.se is not None]
    se = float(np.mean(ses)) if ses else None
    slope = _slope(doses, gaps)
    return Calibration(
        alpha=alpha,
        doses=tuple(
            Dose(
                dose,
                int(m),
                int(k),
                float(k / m),
                wilson(float(k / m), float(m)),
                gap,
                None if enough is None else detection(dose, enough, size),
                sum(t.unbound for t in group),
            )
            for dose, k, m, gap, group in zip(doses, hits, tried, gaps, groups, strict=True)
        ),
        n_public=n[0],
        n_private=n[1],
        se=se,
        spread=_spread([t.gap for t in groups[0]]),
        blank=None if se is None else BLANK * se,
        limit=None if se is None else LIMIT * se,
        limit_dose=None if se is None or slope <= LIMIT * se else LIMIT * se / slope,
        enough=enough,
        enough_interval=interval,
        family=family,
    )


def shared_alpha(alpha: float, models: int) -> float:
    """What of alpha one of so many models has, were they independent (Šidák 1967)."""
    return float(-np.expm1(np.log1p(-alpha) / models))


def detection(dose: float, enough: float, alpha: float) -> float:
    """The curve's rate at a dose, where ``enough`` is detected with probability 0.8; ``alpha`` is
    its rate at dose 0."""
    from scipy.special import ndtr

    z = _quantile(1 - alpha)
    return float(ndtr((z + _quantile(WANTED)) * dose / enough - z))


def fit_detection(
    doses: Floats, hits: Ints, tried: Ints, alpha: float
) -> tuple[float | None, tuple[float | None, float | None]]:
    """The dose that is detected with probability 0.8, and its 95 % interval by the likelihood
    ratio. None for what lies beyond 1, or where the rates do not bound it."""
    from scipy.special import log_ndtr

    grid = np.geomspace(1e-4, 1e3, 14_001)
    z = _quantile(1 - alpha)
    x = (z + _quantile(WANTED)) / grid[:, None] * doses - z
    likelihood = log_ndtr(x) @ hits + log_ndtr(-x) @ (tried - hits)
    best = int(np.argmax(likelihood))
    inside = np.flatnonzero(likelihood >= likelihood[best] - 0.5 * 3.841458820694124)
    low, high = int(inside[0]), int(inside[-1])
    bounded = 0 < best < len(grid) - 1 and _climbs(likelihood, best)
    enough = float(grid[best]) if bounded and grid[best] <= 1 else None
    return enough, (
        float(grid[low]) if low > 0 else None,
        float(grid[high]) if grid[high] <= 1 else None,
    )


def _climbs(likelihood: Floats, best: int) -> bool:
    """Whether the likelihood falls off to both sides, and is no plateau."""
    falls = 1e-6
    return bool(likelihood[0] < likelihood[best] - falls > likelihood[-1])


def _slope(doses: Sequence[float], gaps: Sequence[float]) -> float:
    """What a dose of 1 adds to the gap: least squares through the blank."""
    x, y = np.array(doses) - doses[0], np.array(gaps) - gaps[0]
    return float((x * y).sum() / (x * x).sum()) if (x * x).sum() else 0.0


def _spread(gaps: Sequence[float]) -> float | None:
    return float(np.std(gaps, ddof=1)) if len(gaps) > 1 else None


def _quantile(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(level))


def _repeat(column: Ints, count: int) -> Ints:
    return np.repeat(column[:, None], count, axis=1)


def _deal(codes: Ints, stream: np.random.Generator) -> Ints:
    """Places, shuffled within codes."""
    shuffled = np.lexsort((stream.random(len(codes)), codes))
    dealt = np.empty(len(codes), dtype=np.int64)
    dealt[np.argsort(codes, kind="stable")] = shuffled
    return dealt


def _drawn(codes: Ints, known: Sequence[Floats], stream: np.random.Generator) -> Floats:
    """For each instance the outcomes of one of its stratum that is known."""
    shares = stream.random(len(codes))
    sizes = np.array([len(pool) for pool in known])[codes]
    places = np.minimum((shares * sizes).astype(np.int64), sizes - 1)
    return np.stack([known[h][at] for h, at in zip(codes, places, strict=True)])


def _check_ground(ground: CleanScores) -> None:
    there = ~np.isnan(ground.values[:, 0])
    strata = len(np.unique(ground.stratum))
    _check_arms(ground.stratum[there], ground.public[there], strata)


def _check_arms(stratum: Ints, public: Bools, strata: int) -> None:
    if len(set(zip(stratum.tolist(), public.tolist(), strict=True))) < 2 * strata:
        raise AnalysisError("a stratum has no scores in one of its arms: nothing to calibrate")


def calibration_json(calibration: Calibration) -> dict[str, object]:
    """As plain JSON values."""
    return {
        "alpha": calibration.alpha,
        "models_adjusted_over": calibration.family,
        "n_public": calibration.n_public,
        "n_private": calibration.n_private,
        "se": calibration.se,
        "sd_of_blanks": calibration.spread,
        "limit_of_blank": calibration.blank,
        "limit_of_detection": calibration.limit,
        "dose_at_limit": calibration.limit_dose,
        "dose_at_80": calibration.enough,
        "dose_at_80_interval": list(calibration.enough_interval),
        "doses": [
            {
                "dose": dose.dose,
                "replicates": dose.replicates,
                "detected": dose.detected,
                "rate": dose.rate,
                "interval": list(dose.interval),
                "gap": dose.gap,
                "fitted": dose.fitted,
                "lost_to_missing_runs": dose.unbound,
            }
            for dose in calibration.doses
        ],
    }


RESAMPLED, RUN = "resampled", "run"


@dataclass(frozen=True, slots=True)
class RecordedCalibration:
    """Size of the leak that a study detects, and its basis.

    ``known`` is the score gained by knowing an instance, ``beside`` the look's other models,
    ``body`` the whole result as ``calibrate --json`` prints it, ``result`` its digest in the
    ledger, ``made`` the time of the first run.
    """

    how: str  # RESAMPLED or RUN
    model: str
    wave: int
    known: str
    beside: tuple[str, ...]
    multiplicity: str  # of the plan
    notes: tuple[str, ...]
    found: Calibration
    body: Mapping[str, Any]
    result: str
    made: str

    def as_json(self) -> dict[str, Any]:
        """As a report's JSON has it."""
        return {"result": self.result, "made": self.made, **self.body}


def read_calibration(
    body: Mapping[str, Any], place: str, result: str, made: str
) -> RecordedCalibration:
    """What ``calibrate --json`` wrote. Raises AnalysisError where it has not that form."""
    try:
        return RecordedCalibration(
            how=str(body["how"]),
            model=str(body["model"]),
            wave=int(body["wave"]),
            known=str(body["known"]),
            beside=tuple(map(str, body["beside"])),
            multiplicity=str(body["plan"]["multiplicity"]),
            notes=tuple(map(str, body["notes"])),
            found=_read_found(body),
            body=body,
            result=result,
            made=made,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise AnalysisError(f"{place}: not a calibration: {error!r}") from error


def _read_found(body: Mapping[str, Any]) -> Calibration:
    low, high = body["dose_at_80_interval"]
    return Calibration(
        alpha=float(body["alpha"]),
        doses=tuple(map(_read_dose, body["doses"])),
        n_public=int(body["n_public"]),
        n_private=int(body["n_private"]),
        se=_maybe(body["se"]),
        spread=_maybe(body["sd_of_blanks"]),
        blank=_maybe(body["limit_of_blank"]),
        limit=_maybe(body["limit_of_detection"]),
        limit_dose=_maybe(body["dose_at_limit"]),
        enough=_maybe(body["dose_at_80"]),
        enough_interval=(_maybe(low), _maybe(high)),
        family=int(body["models_adjusted_over"]),
    )


def _read_dose(body: Mapping[str, Any]) -> Dose:
    low, high = body["interval"]
    return Dose(
        dose=float(body["dose"]),
        replicates=int(body["replicates"]),
        detected=int(body["detected"]),
        rate=float(body["rate"]),
        interval=(float(low), float(high)),
        gap=float(body["gap"]),
        fitted=_maybe(body["fitted"]),
        unbound=int(body["lost_to_missing_runs"]),
    )


def _maybe(value: Any) -> float | None:
    return None if value is None else float(value)
