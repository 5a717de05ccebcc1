"""The size of leak that the instrument detects: a known part of the public arm, known on purpose.

A clean model's stored scores are the ground. In every replicate the arms are dealt anew, which
changes nothing where there is no leak, and each public instance is known with probability f: its
outcomes become those of a known instance. The plan's rule of one look is run on each. So the rate
at dose 0 is the test's size, and no luck of one draw or one run of the model stays in the others.

The rates are joined by detection(f) = Φ(b·f − z), with z the quantile of the look's alpha, shared
by the models that p is adjusted over: a test of this size whose statistic grows with the dose. Its
one parameter is fitted by likelihood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import AliasPath, Field, TypeAdapter

from analysis.errors import AnalysisError
from analysis.plan.presets import look_alpha
from analysis.plan.primary import ModelScores, Studies
from analysis.plan.rule import apply_rule
from analysis.stats.intervals import estimate_gap, one_armed
from analysis.stats.permutation import Bools, Floats, Ints, blocks_of, permutation_seed
from analysis.stats.proportions import wilson
from registry.ledger.records import Plan

DOSES = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
REPLICATES = 20
_ONE_ARMED = "a stratum has no scores in one of its arms: nothing to calibrate"
WANTED = 0.8  # detection
BLANK, LIMIT = 1.645, 3.29  # SEs: 5 % of blanks lie beyond the first, 5 % of the second below it


@dataclass(frozen=True, slots=True, eq=False)
class CleanScores:
    """The seed means of a clean model, one column; ``stratum``, ``public`` (n,), and ``tranche``
    (n,), None where there is one. ``companions`` are the look's other models on the same instances;
    if ``replaces``, the model takes the place of one of them."""

    scores: ModelScores
    stratum: Ints
    public: Bools
    tranche: Ints | None = None
    companions: ModelScores | None = None
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Dose:
    """The results of one dose; ``gap`` is the mean over replicates, adjusted as the plan says, and
    ``fitted`` the rate on the curve, None where no curve can be fitted."""

    dose: float
    replicates: int
    detected: int
    rate: float
    interval: tuple[float, float]  # Wilson, 95 %
    gap: float
    fitted: float | None
    # not detected since missing runs could undo the claim
    unbound: Annotated[int, Field(alias="lost_to_missing_runs")] = 0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scores as shares of 1. ``se`` is that of the gap without a leak (P2), ``spread`` the SD of
    the blanks' gaps; ``blank`` and ``limit`` are 1.645 and 3.29 SE, ``limit_dose`` the dose whose
    gap that is, None where no dose makes it. ``enough`` is the dose detected with probability 0.8;
    None if that lies beyond the doses tried, as an end of ``enough_interval`` (95 %) is. p is
    adjusted over ``family`` models. Aliases are the keys of ``calibration.json``."""

    alpha: float
    family: Annotated[int, Field(alias="models_adjusted_over")]
    n_public: int
    n_private: int
    se: float | None
    spread: Annotated[float | None, Field(alias="sd_of_blanks")]
    blank: Annotated[float | None, Field(alias="limit_of_blank")]
    limit: Annotated[float | None, Field(alias="limit_of_detection")]
    limit_dose: Annotated[float | None, Field(alias="dose_at_limit")]
    enough: Annotated[float | None, Field(alias="dose_at_80")]
    enough_interval: Annotated[
        tuple[float | None, float | None], Field(alias="dose_at_80_interval")
    ]
    doses: tuple[Dose, ...]

    @property
    def size(self) -> float:
        """The most often that a clean model is called: the look's alpha, shared by its models."""
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
    if one_armed(ground.scores.values[:, 0, 0], ground.stratum, ground.public):
        raise AnalysisError(_ONE_ARMED)
    seed = permutation_seed(registration, "C2", "calibrate", place)
    stream = np.random.Generator(np.random.PCG64(seed))
    tried = [dose for dose in order for _ in range(replicates)]
    return measure(plan, inject(ground, tried, known, stream), tried, seed)


def inject(
    ground: CleanScores,
    doses: Sequence[float],
    known: Sequence[Floats] | None,
    stream: np.random.Generator,
) -> Studies:
    """A study for each of the doses, each with arms dealt anew and known instances of its own.
    A missing score stays missing: knowing an answer does not repair a server."""
    values, labels = [], []
    scores, count = ground.scores.values[:, 0], len(doses)
    codes = np.unique(ground.stratum, return_inverse=True)[1].reshape(-1)
    tranche = np.zeros_like(ground.stratum) if ground.tranche is None else ground.tranche
    block = blocks_of(ground.stratum, tranche)
    for dose in doses:
        public = ground.public[_deal(block, stream)]
        knows = public & (stream.random(len(scores)) < dose)
        gained = np.ones_like(scores) if known is None else _drawn(codes, known, stream)
        values.append(np.where(knows[:, None] & ~np.isnan(scores), gained, scores))
        labels.append(public)
    columns = ground.scores.pick(np.zeros(count, dtype=np.int64))
    model = replace(columns, values=np.stack(values, axis=1))
    public = np.stack(labels, axis=1)
    return one_model_studies(
        model, public, ground.stratum, tranche, ground.companions, replaces=ground.replaces
    )


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
    beside = 0 if companions is None else companions.values.shape[1]
    kept = [
        [o for o in range(beside) if not replaces or o != study % beside] for study in range(count)
    ]
    members = np.array([[study, *(count + o for o in kept[study])] for study in range(count)])
    scores = model if companions is None else model.join(companions)
    return Studies(scores, members, public, stratum, tranche)


def measure(plan: Plan, studies: Studies, tried: Sequence[float], seed: int) -> Calibration:
    """The plan's rule on each study, of a dose of ``tried``, and detection rates by dose. Raises
    AnalysisError if a model lacks an arm of a stratum."""
    values = studies.scores.adjusted(studies.stratum).residuals
    estimates = []
    for study, members in enumerate(studies.members):
        scores, public = values[:, members[0], 0], studies.labels(study)
        if one_armed(scores, studies.stratum, public):
            raise AnalysisError(_ONE_ARMED)
        estimates.append(estimate_gap(scores, studies.stratum, public))
    decisions = apply_rule(plan, studies, values, seed, first_only=True)
    detected, unbound = decisions.contaminated[:, 0], decisions.undone[:, 0]
    alpha, family = look_alpha(plan), studies.members.shape[1]
    size = shared_alpha(alpha, family)
    doses, trial_dose = np.unique(tried, return_inverse=True)
    groups = [np.flatnonzero(trial_dose == place) for place in range(len(doses))]
    hits, runs = np.array([(int(detected[group].sum()), len(group)) for group in groups]).T
    enough, interval = fit_detection(doses, hits, runs, size)
    all_gaps = np.array([estimate.gap for estimate in estimates])
    gaps = np.array([all_gaps[group].mean() for group in groups])
    blanks = [estimates[trial] for trial in groups[0]]
    ses = [blank.se for blank in blanks if blank.se is not None]
    se = float(np.mean(ses)) if ses else None
    slope = _slope(doses, gaps)
    spread = float(np.std([blank.gap for blank in blanks], ddof=1)) if len(blanks) > 1 else None
    return Calibration(
        alpha=alpha,
        family=family,
        n_public=int(studies.labels(0).sum()),
        n_private=int((~studies.labels(0)).sum()),
        se=se,
        spread=spread,
        blank=None if se is None else BLANK * se,
        limit=None if se is None else LIMIT * se,
        limit_dose=None if se is None or slope <= LIMIT * se else LIMIT * se / slope,
        enough=enough,
        enough_interval=interval,
        doses=tuple(
            Dose(
                dose=dose,
                replicates=m,
                detected=k,
                rate=k / m,
                interval=wilson(k / m, float(m)),
                gap=gap,
                fitted=None if enough is None else detection(dose, enough, size),
                unbound=int(unbound[group].sum()),
            )
            for dose, k, m, gap, group in zip(
                doses.tolist(), hits.tolist(), runs.tolist(), gaps.tolist(), groups, strict=True
            )
        ),
    )


def shared_alpha(alpha: float, models: int) -> float:
    """The share of alpha of one of several models, were they independent (Šidák 1967)."""
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
    ratio. None for a value beyond 1, or if the rates do not bound it."""
    from scipy.special import log_ndtr

    grid = np.geomspace(1e-4, 1e3, 14_001)
    z = _quantile(1 - alpha)
    x = (z + _quantile(WANTED)) / grid[:, None] * doses - z
    likelihood = log_ndtr(x) @ hits + log_ndtr(-x) @ (tried - hits)
    best = int(np.argmax(likelihood))
    inside = np.flatnonzero(likelihood >= likelihood[best] - 0.5 * 3.841458820694124)
    low, high = int(inside[0]), int(inside[-1])
    # The likelihood falls off to both sides, and is no plateau.
    peaked = likelihood[0] < likelihood[best] - 1e-6 > likelihood[-1]
    bounded = 0 < best < len(grid) - 1 and peaked
    enough = float(grid[best]) if bounded and grid[best] <= 1 else None
    return enough, (
        float(grid[low]) if low > 0 else None,
        float(grid[high]) if grid[high] <= 1 else None,
    )


def _slope(doses: Floats, gaps: Floats) -> float:
    """The gap that a dose of 1 adds: least squares through the blank."""
    x, y = doses - doses[0], gaps - gaps[0]
    return float((x * y).sum() / (x * x).sum()) if (x * x).sum() else 0.0


def _quantile(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(level))


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


# A calibration as the ledger keeps it, read for a report

_FORM = TypeAdapter(Calibration)


def calibration_json(calibration: Calibration) -> dict[str, Any]:
    """As plain JSON values."""
    body: dict[str, Any] = _FORM.dump_python(calibration, mode="json", by_alias=True)
    return body


RESAMPLED = "resampled"  # the kind of calibration


@dataclass(frozen=True, slots=True)
class RecordedCalibration:
    """Size of the leak that a study detects, and its basis.

    ``known`` is the score gained by knowing an instance, ``beside`` the look's other models,
    ``body`` the whole result as ``calibrate --json`` prints it, ``result`` its digest in the
    ledger, ``made`` the time of the first run.
    """

    model: str
    wave: int
    known: str
    beside: tuple[str, ...]
    multiplicity: Annotated[str, Field(validation_alias=AliasPath("plan", "multiplicity"))]
    notes: tuple[str, ...]
    found: Calibration
    body: Mapping[str, Any]
    result: str
    made: str

    def as_json(self) -> dict[str, Any]:
        """As a report's JSON has it: shares are written as 0.0 and 1.0, which the stored, canonical
        JSON has as whole numbers."""
        found = calibration_json(self.found)
        return {"result": self.result, "made": self.made, **self.body, **found}


def read_calibration(
    body: Mapping[str, Any], place: str, result: str, made: str
) -> RecordedCalibration:
    """Read the output of ``calibrate --json``. Raises AnalysisError if it has another form."""
    record = {**body, "found": body, "body": body, "result": result, "made": made}
    try:
        return TypeAdapter(RecordedCalibration).validate_python(record)
    except ValueError as error:
        raise AnalysisError(f"{place}: not a calibration: {error!r}") from error
