"""Variance components of scores (instances, models, runs), and seed means drawn from them.

Within a stratum the score of model m on run r of instance s is a mean plus shared_s + own_sm +
run_smr: the difficulty of an instance for every model, for this one, and the luck of a run. All
are estimated blind to the arms, so estimating them is no look at the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.data.seed_means import outcome_of
from analysis.data.table import ResultTable, codes_of
from analysis.errors import AnalysisError
from analysis.stats.permutation import Bools, Floats, Ints
from registry.ledger.records import Plan
from registry.result_row import Status


@dataclass(frozen=True, slots=True)
class Components:
    """``sd`` of a run's score within a stratum, by outcome; ``seed_share`` of its variance stays
    with the instance, ``shared`` of that with all models; ``correlation`` of the other outcomes
    with the first. ``raised`` is the inflation of each outcome by a leak that raises the first by
    1, () if by 1 too.

    What a leak can raise has a floor and a ceiling: who knows an answer gains nothing where a guess
    is right, in a share ``guessed`` of all runs; and no score rises by more than it ``lacks`` of
    full marks, where earlier runs show that."""

    sd: tuple[float, ...]
    seed_share: float
    shared: float
    correlation: float = 0.0
    raised: tuple[float, ...] = ()
    guessed: float = 0.0
    lacks: float = 1.0

    @property
    def parts(self) -> tuple[float, float, float]:
        """Shares of the variance: every model's, the model's own, the run's."""
        everyone = self.seed_share * self.shared
        return everyone, self.seed_share - everyone, 1 - self.seed_share


# Weighted score and fraction of criteria of published results (the fraction and its correlation
# from rubrics simulated after them), and the credit for headline values that ``weigh_criteria``
# gives the four physics families.
ARTICLE = Components(sd=(0.267, 0.215, 0.35), seed_share=0.04, shared=0.6, correlation=0.79)

# Correlation of any two criteria of a run. With criteria that half of the runs pass, the rubrics of
# the four physics families then have these SDs to within 10 % and this correlation to within 15 %,
# by a test.
CRITERION_CORRELATION = 0.17


def weigh_criteria(rubrics: Sequence[Floats]) -> Components:
    """Components of outcomes that are weighted means of criteria: ``rubrics`` has for each stratum
    the weights (outcomes, criteria), each row with sum 1.

    Criteria are passed with probability 1/2, at which they vary most, and any two of a run have the
    correlation ``CRITERION_CORRELATION``; the variance is the mean over strata. What stays with the
    instance is the share of published results.
    """
    r = CRITERION_CORRELATION
    within = np.mean([weights @ weights.T for weights in rubrics], axis=0)
    covariance = (r + (1 - r) * within) / 4
    sd = np.sqrt(np.diag(covariance))
    return replace(ARTICLE, sd=tuple(sd.tolist()), correlation=_with_first(covariance))


def _with_first(covariance: Floats) -> float:
    """The mean correlation of the other outcomes with the first; 1 without others."""
    sd = np.sqrt(np.diag(covariance))
    others = covariance[0, 1:] / (sd[0] * sd[1:])
    return min(float(others.mean()), 1.0) if len(others) else 1.0


@dataclass(frozen=True, slots=True)
class PilotVariance:
    """Components from rows, and their basis. ``notes`` name the components that could not be
    separated."""

    components: Components
    runs: int
    instances: int
    models: tuple[str, ...]
    repeats: int  # runs beyond the first of an instance and model
    pairs: int  # of models on an instance
    cost_usd: float | None  # mean of an episode; None where no row has a price
    notes: tuple[str, ...]


def check_components(components: Components) -> Components:
    """The components themselves. Raises AnalysisError where they cannot be any."""
    for sd in components.sd:
        if not 0 < sd <= 0.5:
            raise AnalysisError(f"an SD of {sd:g}: scores in 0…1 have one above 0 and up to 0.5")
    for name in ("seed_share", "shared"):
        value = getattr(components, name)
        if not 0 <= value <= 1:
            raise AnalysisError(f"{name.replace('_', ' ')} {value:g}: a share lies in 0…1")
    if not 0 <= components.guessed < 1 or components.lacks <= 0:
        raise AnalysisError("guesses or earlier runs score full marks, so that no leak can show")
    if not -1 <= components.correlation <= 1:
        raise AnalysisError(f"correlation {components.correlation:g} lies outside -1…1")
    return components


def estimate_components(
    table: ResultTable, outcomes: Sequence[str], strata: Sequence[str]
) -> PilotVariance:
    """Components of one grader's rows, by the method of moments.

    A leak is taken to raise each outcome by the same share of what it lacks of full marks. Runs are
    centred in each wave, model and stratum, blind to the arms. The run's variance is that
    between runs of one model on one instance; the shared one is the mean covariance of two models
    on an instance. Without repeats, and without two models, the seed's part cannot be separated
    from the run's, and counts as shared with other models. Raises AnalysisError for a table without
    two instances in a stratum, or scores without spread.
    """
    scored = table.where(
        np.isin(table["stratum"], list(strata)) & (table["status"] != Status.MISSING)
    )
    if not len(scored):
        raise AnalysisError(f"no scored rows in the strata {', '.join(strata)}: no pilot")
    instance = codes_of(scored["instance"])[1]
    models, model = codes_of(scored["model"])
    cell = _cells(codes_of(scored["wave"])[1], model, codes_of(scored["stratum"])[1])
    unit = _cells(cell, instance)
    y = np.stack([outcome_of(scored, outcome) for outcome in outcomes], axis=1)
    centred, freedom = _centre(y, cell)
    if freedom < 1:
        raise AnalysisError("no stratum has two runs of one model: nothing shows how scores vary")
    covariance = centred.T @ centred / freedom
    variance = np.diag(covariance)
    if flat := [name for name, spread in zip(outcomes, variance, strict=True) if spread <= 1e-12]:
        named = " and ".join(flat)
        raise AnalysisError(
            f"all values of {named} are alike, so nothing shows how they vary: more instances may, "
            "or leave the outcome out"
        )
    within, repeats = _run_variance(y[:, 0], unit)
    between, pairs = _shared_covariance(centred[:, 0], unit, instance, model)
    total = float(variance[0])
    shared = min(max(between, 0.0), total)
    stable = shared if within is None else min(max(total - within, shared), total)
    share = stable / total
    lacking = 1.0 - y.mean(axis=0)
    components = Components(
        tuple(np.sqrt(variance).tolist()),
        share,
        shared / stable if stable else 0.0,
        _with_first(covariance),
        tuple((lacking / lacking[0]).tolist()),
        lacks=float(lacking[0]),
    )
    priced = scored["cost_usd"][~np.isnan(scored["cost_usd"])]
    return PilotVariance(
        components=components,
        runs=len(scored),
        instances=len(np.unique(instance)),
        models=tuple(models),
        repeats=repeats,
        pairs=pairs,
        cost_usd=float(priced.mean()) if len(priced) else None,
        notes=tuple(_notes(repeats, pairs)),
    )


def _notes(repeats: int, pairs: int) -> list[str]:
    notes = []
    if not repeats:
        notes.append(
            "no model has two runs of one instance: what stays with an instance for one model "
            "alone counts as the run's"
        )
    elif repeats < 30:
        notes.append(f"only {repeats} repeated runs: the seed's share is uncertain")
    if not pairs:
        notes.append("no instance has two models: nothing is known of what models share")
    return notes


def _cells(*codes: Ints) -> Ints:
    """One code for each combination."""
    cell = codes[0]
    for more in codes[1:]:
        cell = codes_of(cell * (int(more.max()) + 1) + more)[1]
    return cell


def _centre(y: Floats, cell: Ints) -> tuple[Floats, int]:
    """Scores (runs, outcomes) minus their cell's mean, and the degrees of freedom left."""
    count = np.bincount(cell)
    mean = np.stack([np.bincount(cell, weights=column) / count for column in y.T], axis=1)
    return y - mean[cell], int((count - 1).sum())


def _run_variance(y: Floats, unit: Ints) -> tuple[float | None, int]:
    """Between runs of one model on one instance; None without repeats."""
    centred, repeats = _centre(y[:, None], unit)
    return (float((centred**2).sum() / repeats) if repeats else None), repeats


def _shared_covariance(
    centred: Floats, unit: Ints, instance: Ints, model: Ints
) -> tuple[float, int]:
    """The mean product of two models' means on one instance, of whatever waves, and the number of
    such pairs. A model's runs at two waves are no pair: they share its own part too."""
    count = np.bincount(unit)
    mean = np.bincount(unit, weights=centred) / count
    first = np.unique(unit, return_index=True)[1]
    place, cell = instance[first], _cells(instance, model)[first]
    every, same = (_products(mean, codes) for codes in (place, cell))
    pairs = every[1] - same[1]
    return ((every[0] - same[0]) / pairs if pairs else 0.0), pairs // 2


def _products(mean: Floats, codes: Ints) -> tuple[float, int]:
    """Sums over groups of the products of all ordered pairs, a value with itself among them."""
    total, n = np.bincount(codes, weights=mean), np.bincount(codes)
    return float((total**2).sum()), int((n**2).sum())


_CELLS = 1 << 21  # scores at a time
_SHARING = 20  # replications on one draw of permutations; they share its error


def allocation(plan: Plan) -> tuple[Ints, Bools]:
    """Strata and arms of the plan's instances (n,), sorted by stratum."""
    halves = np.repeat(plan.sizes, 2)  # public, private, of each stratum
    stratum = np.repeat(np.arange(len(halves)) // 2, halves)
    return stratum, np.repeat(np.arange(len(halves)) % 2 == 0, halves)


def draw_normal(
    components: Components, outcomes: int, shape: Sequence[int], stream: np.random.Generator
) -> Floats:
    """Normal deviates (…, outcomes) with the outcomes' SDs; all correlate alike with the first."""
    drawn = stream.standard_normal((*shape, outcomes))
    r = components.correlation
    drawn[..., 1:] = r * drawn[..., :1] + math.sqrt(1 - r * r) * drawn[..., 1:]
    return np.asarray(drawn * np.array(components.sd[:outcomes]))


def draw_shared(
    components: Components, outcomes: int, shape: Sequence[int], stream: np.random.Generator
) -> Floats:
    """The part of instances' scores that all models share (n, B, outcomes)."""
    everyone, _, _ = components.parts
    return math.sqrt(everyone) * draw_normal(components, outcomes, shape, stream)


@dataclass(frozen=True, slots=True)
class SimulationSize:
    """The size of a simulation. ``permutations`` take the place of the plan's: fewer are enough to
    tell power, and cost it a little. Of the study's power, which takes longer and is mostly near
    1, a quarter of the replications is made, or 100."""

    replications: int = 400
    permutations: int = 1999
    seed: int = 1

    @property
    def studies(self) -> int:
        """Replications for the study's power."""
        return min(self.replications, max(100, self.replications // 4))


def batches(
    seed: int, name: str, wanted: int, size: int
) -> Iterator[tuple[int, np.random.Generator, int]]:
    """Batches of replications that fit in memory, each with a stream and a permutation seed;
    ``size`` is how many scores one replication has."""
    step = max(1, min(_SHARING, _CELLS // max(size, 1)))
    for start in range(0, wanted, step):
        stream = np.random.Generator(np.random.PCG64([seed, start, *name.encode()]))
        yield min(step, wanted - start), stream, int(stream.integers(1 << 62))


def rate_error(rate: float, of: int) -> float:
    """The Monte-Carlo error of a rate, never 0."""
    kept = min(max(rate, 1 / of), 1 - 1 / of)
    return math.sqrt(kept * (1 - kept) / of)
