"""Studies of ``mixed_strata`` brought before the plan's own code.

``as_table`` makes the result table of one study, for ``run_standard``; ``decide_look`` applies the
rule of a look to many studies at once, which is quicker. A test holds both to the same claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from analysis.data.table import SCHEMA, ResultTable
from analysis.plan.presets import standard_plan
from analysis.plan.primary import ModelScores, Studies
from analysis.plan.rule import apply_rule
from analysis.stats.clearing import clear_models, find_doubts
from analysis.stats.intervals import estimate_gaps
from benchmarks.statistics.mixed_strata import (
    CONTROL_RUNS,
    CONTROLS,
    KINDS,
    Bools,
    Floats,
    Panel,
    Runs,
    run_model,
)
from registry.ledger.records import Plan
from registry.result_row import GRADER, Arm, Status

_CRITERIA = 1000  # of a run: its count of passed ones holds the fraction
_BLANK: dict[str, tuple[object, type]] = {
    "string": ("", object),
    "int64": (0, np.int64),
    "int64?": (np.nan, np.float64),
    "float64": (0.0, np.float64),
    "float64?": (np.nan, np.float64),
}


@dataclass(frozen=True, slots=True, eq=False)
class ModelRuns:
    """A model's runs at a wave; a score of NaN is a run that was lost."""

    wave: int
    model: str
    runs: Runs


def make_plan(
    per_arm: int, *, looks: int = 1, permutations: int = 799, frozen: Sequence[str] = ()
) -> Plan:
    """The plan standard-v1 on the four strata with eight control runs, without its sensitivity
    analyses, which decide nothing."""
    return standard_plan(
        KINDS,
        per_arm,
        outcomes=("score", "fraction"),
        looks=looks,
        permutations=permutations,
        pre_exposure=[model.name for model in CONTROLS],
        frozen=frozen,
        control_runs=CONTROL_RUNS,
        sensitivity=(),
    )


def draw_controls(panel: Panel, stream: np.random.Generator, fault: float = 0.0) -> list[Runs]:
    """The runs of the control models on a panel."""
    return [run_model(panel, m, stream, runs=CONTROL_RUNS, fault=fault) for m in CONTROLS]


def controls_at(wave: int, controls: Sequence[Runs]) -> list[ModelRuns]:
    """The control models' runs as those of a wave."""
    return [ModelRuns(wave, m.name, runs) for m, runs in zip(CONTROLS, controls, strict=True)]


def control_scores(panel: Panel, stream: np.random.Generator, fault: float = 0.0) -> Floats:
    """The seed means (n, B, models, 2) of newly run control models."""
    return np.stack([runs.means for runs in draw_controls(panel, stream, fault)], axis=2)


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """The plan's rule on one look of B studies: (B, models)."""

    claimed: Bools  # whatever missing runs could undo
    contaminated: Bools
    cleared: Bools


def decide_look(
    plan: Plan, panel: Panel, values: Floats, control: Floats | None, seed: int
) -> Decided:
    """Apply the rule to ``values`` (n, B, models, 2) with NaN for lost runs, calibrated unless
    ``control`` is None: by the scores of control models (n, B, controls, 2), or by a mean of theirs
    (n, B, 2). The studies share the permutations."""
    _, studies, models, outcomes = values.shape
    scores = _scores(values, control)
    members = np.arange(studies * models).reshape(studies, models)
    tranche = np.zeros_like(panel.stratum)
    drawn = Studies(scores, members, panel.public[:, None], panel.stratum, tranche)
    residuals = scores.adjusted(panel.stratum).residuals
    rule = apply_rule(plan, drawn, residuals, seed, first_only=models == 1)
    by_model = residuals.reshape(len(residuals), studies, models, outcomes)
    given = control if control is not None and control.ndim == by_model.ndim else None
    doubts = find_doubts(by_model, panel.stratum, panel.public, given)
    gaps = estimate_gaps(by_model, panel.stratum, panel.public)
    cleared = clear_models(gaps, plan.margin, doubts).cleared & ~rule.contaminated
    return Decided(rule.claimed, rule.contaminated, cleared)


def estimate_ends(
    panel: Panel, values: Floats, control: Floats, level: float
) -> tuple[Floats, Floats]:
    """The one-sided bounds at that level (columns,), lower and upper, of the first outcome's gap in
    each column of ``values`` (n, B, models, 2), calibrated by ``control``."""
    residuals = _scores(values, control).adjusted(panel.stratum).residuals
    gaps = estimate_gaps(residuals[..., 0], panel.stratum, panel.public)
    half = gaps.se * stdtrit(gaps.df, 1 - level)
    return gaps.gap - half, gaps.gap + half


def _scores(values: Floats, control: Floats | None) -> ModelScores:
    """A column for each study and model, calibrated by its study's control models."""
    n, studies, models, outcomes = values.shape
    flat = values.reshape(n, studies * models, outcomes)
    lost = np.isnan(flat[:, :, 0]).astype(np.int64)
    if control is not None and control.ndim == values.ndim:
        control = control.mean(axis=2)
    wide = None if control is None else np.repeat(control, models, axis=1)
    return ModelScores(flat, wide, lost, np.ones_like(lost))


def as_table(panel: Panel, study: int, parts: Sequence[ModelRuns]) -> ResultTable:
    """The result rows of one study."""
    columns = [_columns(panel, study, part) for part in parts]
    joined = {name: np.concatenate([part[name] for part in columns]) for name in SCHEMA}
    return ResultTable(MappingProxyType(joined))


def _columns(panel: Panel, study: int, part: ModelRuns) -> dict[str, NDArray[Any]]:
    outcomes, failed = part.runs.outcomes[:, study], part.runs.failed[:, study].ravel()
    n, runs, _ = outcomes.shape
    score, fraction = outcomes.reshape(-1, 2).T
    lost = np.isnan(score)
    status = np.where(lost, Status.MISSING, np.where(failed, Status.MODEL_FAILURE, Status.SCORED))
    instances = np.array([f"i{place}" for place in range(n)], dtype=object)
    arms = np.where(panel.public, Arm.PUBLIC, Arm.PRIVATE).astype(object)
    columns = {name: np.full(n * runs, *_BLANK[kind]) for name, kind in SCHEMA.items()}
    columns["wave"][:], columns["model"][:], columns["grader"][:] = part.wave, part.model, GRADER
    columns["arm"], columns["instance"] = arms.repeat(runs), instances.repeat(runs)
    columns["stratum"] = np.array(KINDS, dtype=object)[panel.stratum].repeat(runs)
    columns["replicate"], columns["status"] = np.tile(np.arange(runs), n), status.astype(object)
    columns["score"], columns["passed"] = score, np.round(_CRITERIA * fraction)
    columns["total"] = np.where(lost, np.nan, float(_CRITERIA))
    return columns
