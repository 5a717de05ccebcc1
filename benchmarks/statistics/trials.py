"""What benchmarks/statistics/run.py counts: what the plan says of simulated studies whose truth is
known, and what other analyses of the same scores say. Each function returns hits by name, of so
many studies.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from analysis.plan.standard import run_standard
from analysis.plan.verdict import CONTAMINATED
from analysis.power.power import (
    PowerDesign,
    PowerSetting,
    chance_cleared,
    first_rejections,
    power_at,
)
from analysis.power.variance_components import Components, SimulationSize, estimate_components
from analysis.stats.adjustment import fit_slope
from benchmarks.statistics.mixed_strata import (
    CONTROL_RUNS,
    CONTROLS,
    CRITERIA,
    KINDS,
    TOP,
    Bools,
    Floats,
    Model,
    Panel,
    Runs,
    draw_panel,
    run_model,
    true_difficulty,
)
from benchmarks.statistics.planned_studies import (
    ModelRuns,
    as_table,
    control_scores,
    controls_at,
    decide_look,
    draw_controls,
    estimate_ends,
    make_plan,
)
from registry.ledger.records import Plan

Hits = Counter[str]
Stream = np.random.Generator

ALPHA, Z = 0.025, 1.959964
BATCH = 25  # studies that share a draw of permutations
PILOT = 20  # studies that share a pilot
LOOKS = (6, 1, 6, 1, 3, 2, 3, 2)  # models of each look: 24 in eight looks of unequal size
LOOK_PERMUTATIONS = 1599  # 5 of 1600 is the alpha of one of eight looks
LOST = 0.049  # the share of runs lost, just below what the first plan looked at


def sizes(count: int, batch: int = BATCH) -> Iterator[int]:
    """Batches of studies of that size."""
    for start in range(0, count, batch):
        yield min(batch, count - start)


def seed_of(stream: Stream) -> int:
    """A seed of permutations."""
    return int(stream.integers(1 << 62))


def registration_of(stream: Stream) -> str:
    """The digest of a registration, which seeds its permutations."""
    return f"sha256:{seed_of(stream):064x}"


# One model at one look


def count_one_model(
    per_arm: int, gap: float, lost: tuple[float, float], count: int, stream: Stream
) -> Hits:
    """One model at full alpha, with shares of the public and private runs lost at random: claims of
    the plan, without calibration, and with the true difficulty taken off."""
    hits: Hits = Counter()
    plan, model = make_plan(per_arm), Model("new", gap=gap)
    for size in sizes(count):
        panel = draw_panel(per_arm, size, stream)
        control, seed = control_scores(panel, stream), seed_of(stream)
        values = _runs_left(panel, model, lost, stream)
        truth = np.repeat(true_difficulty(panel, model)[:, :, None], 2, axis=2)
        claims = {
            name: decide_look(plan, panel, values, x, seed)
            for name, x in (("plan", control), ("uncalibrated", None), ("oracle", truth))
        }
        hits.update({name: int(decided.claimed.sum()) for name, decided in claims.items()})
        hits["contaminated"] += int(claims["plan"].contaminated.sum())
    return hits


def count_coverage(
    per_arm: int, gap: float, lost: tuple[float, float], count: int, stream: Stream
) -> Hits:
    """95 % intervals of one model's gap that hold it, and one-sided 95 % bounds below it."""
    hits: Hits = Counter()
    for size in sizes(count):
        panel = draw_panel(per_arm, size, stream)
        control = control_scores(panel, stream)
        values = _runs_left(panel, Model("new", gap=gap), lost, stream)
        low, high = estimate_ends(panel, values, control, 0.025)
        hits["coverage"] += int(((low <= gap) & (gap <= high)).sum())
        hits["above the bound"] += int((estimate_ends(panel, values, control, 0.05)[1] < gap).sum())
    return hits


def _runs_left(panel: Panel, model: Model, lost: tuple[float, float], stream: Stream) -> Floats:
    """Scores (n, B, 1, 2) of a model of which shares of the public and private runs are lost."""
    values = run_model(panel, model, stream).means
    share = np.where(panel.public, *lost)
    values[stream.random(values.shape[:2]) < share[:, None]] = np.nan
    return values[:, :, None]


# Eight looks


def count_looks(per_arm: int, fault: float, kind: str, count: int, stream: Stream) -> Hits:
    """Studies of clean models with a false claim of a model, and of the study (P4), in eight looks;
    the harness adds ``fault`` to all public scores, those of the controls included. ``kind`` is
    "plan", or "uncalibrated" or "fitted slope" for other uses of the controls."""
    hits: Hits = Counter()
    plan = make_plan(per_arm, looks=len(LOOKS), permutations=LOOK_PERMUTATIONS)
    for size in sizes(count):
        panel = draw_panel(per_arm, size, stream)
        control = control_scores(panel, stream, fault)
        named, average = np.zeros(size, dtype=bool), []
        for models in LOOKS:
            values = _clean_models(panel, models, fault, stream)
            if kind == "fitted slope":
                values = _fit(values, control.mean(axis=2), panel)
            used = control.mean(axis=2) if kind == "plan" else None
            decisions = decide_look(plan, panel, values, used, seed_of(stream))
            named |= decisions.contaminated.any(axis=1)
            average.append(_average(values, used))
        scores, seed = np.stack(average, axis=2), seed_of(stream)
        rejected = first_rejections(
            scores,
            panel.stratum,
            panel.public,
            alpha=ALPHA,
            permutations=LOOK_PERMUTATIONS,
            seed=seed,
        )
        hits["models"] += int(named.sum())
        hits["study"] += int((rejected > 0).sum())
        z = np.stack([stratified_z(panel, scores[:, :, k, None]) for k in range(len(LOOKS))])
        total = z.cumsum(axis=0) / np.sqrt(np.arange(1, len(LOOKS) + 1))[:, None]
        hits["each look at .025"] += int((z >= Z).any(axis=0).sum())
        hits["sum of looks as independent"] += int((total[-1] >= Z).sum())
    return hits


def _fit(values: Floats, control: Floats, panel: Panel) -> Floats:
    """Scores (n, B, models, 2) minus a fitted multiple of the controls' mean."""
    flat, wide = values.reshape(len(values), -1, 2), np.repeat(control, values.shape[2], axis=1)
    return fit_slope(flat, wide, panel.stratum).residuals.reshape(values.shape)


def _average(values: Floats, control: Floats | None) -> Floats:
    """The mean score (n, B) of a look's models, calibrated where there is a control."""
    mean = values[..., 0].mean(axis=2)
    return np.asarray(mean if control is None else mean - control[..., 0])


def _clean_models(panel: Panel, models: int, fault: float, stream: Stream) -> Floats:
    """Scores (n, B, models, 2) of clean models of different skill."""
    skills = stream.uniform(0.7, 1.6, models)
    runs = [run_model(panel, Model("new", skill), stream, fault=fault) for skill in skills]
    return np.stack([r.means for r in runs], axis=2)


# Verdicts of one look


@dataclass(frozen=True, slots=True)
class Look:
    """One look of a plan: instances an arm and stratum, the plan's looks, and the gaps of the
    look's models, of which the first is counted."""

    per_arm: int
    looks: int
    gaps: tuple[float, ...]

    @property
    def plan(self) -> Plan:
        """The plan with as many permutations as reach its alpha exactly."""
        permutations = LOOK_PERMUTATIONS if self.looks > 1 else 799
        return make_plan(self.per_arm, looks=self.looks, permutations=permutations)


def count_verdicts(look: Look, count: int, stream: Stream) -> Hits:
    """Verdicts on the first model of a look, and looks that call any of its models clean."""
    hits: Hits = Counter()
    for size in sizes(count):
        panel = draw_panel(look.per_arm, size, stream)
        control = control_scores(panel, stream)
        runs = [run_model(panel, Model("new", gap=gap), stream).means for gap in look.gaps]
        decided = decide_look(look.plan, panel, np.stack(runs, axis=2), control, seed_of(stream))
        hits["contaminated"] += int(decided.contaminated[:, 0].sum())
        hits["cleared"] += int(decided.cleared[:, 0].sum())
        hits["any cleared"] += int(decided.cleared.any(axis=1).sum())
    hits["inconclusive"] = count - hits["contaminated"] - hits["cleared"]
    return hits


def forecast_verdicts(look: Look, count: int, stream: Stream) -> Hits:
    """What ``power`` forecasts of the same look, from the control models' runs on 4 × 64 instances
    an arm as its pilot, blind to the arms; a pilot of its own for every ``PILOT`` studies. Claims
    on the first model if it leaks, else its clearing."""
    hits: Hits = Counter()
    for size in sizes(count, PILOT):
        pilot = draw_panel(64, 1, stream)
        table = as_table(pilot, 0, controls_at(0, draw_controls(pilot, stream)))
        components = estimate_components(table, look.plan.outcomes, KINDS).components
        hits.update(_count_forecast(look, components, size, stream))
    return hits


def _count_forecast(look: Look, components: Components, count: int, stream: Stream) -> Hits:
    setting = PowerSetting(
        len(look.gaps), control_models=len(CONTROLS), control_runs=CONTROL_RUNS, gap=look.gaps[0]
    )
    effort = SimulationSize(count, look.plan.permutations, seed_of(stream))
    design = PowerDesign(look.plan, components, setting)
    if not any(look.gaps):
        return Counter({"cleared": round(chance_cleared(design, effort) * count)})
    point = power_at(design, effort, study=False)
    return Counter({"contaminated": round(point.power * count)})


def count_selective_loss(per_arm: int, count: int, stream: Stream) -> Hits:
    """Claims on a clean model of which the worst public runs and the best private ones were lost;
    "at random" takes the runs that are left for all there were."""
    hits: Hits = Counter()
    for size in sizes(count):
        panel = draw_panel(per_arm, size, stream)
        control = control_scores(panel, stream)
        values = run_model(panel, Model("new"), stream).means
        values[_lost_by_score(values[..., 0], panel.public, 1)] = np.nan
        decided = decide_look(
            make_plan(per_arm), panel, values[:, :, None], control, seed_of(stream)
        )
        hits["contaminated"] += int(decided.contaminated.sum())
        hits["at random"] += int(decided.claimed.sum())
    return hits


def count_control_loss(
    per_arm: int, count: int, stream: Stream, *, gap: float = 0.0, at_random: float | None = None
) -> Hits:
    """The same of a model that has all of its runs, if of the control models the best public runs
    and the worst private ones were lost, or a share of all of them ``at_random``."""
    hits: Hits = Counter()
    plan, model = make_plan(per_arm), Model("new", gap=gap)
    for _ in range(count):
        panel = draw_panel(per_arm, 1, stream)
        controls, new = draw_controls(panel, stream), run_model(panel, model, stream)
        outcomes = np.stack([runs.outcomes[:, 0] for runs in controls], axis=1)
        runs = outcomes.reshape(-1, 2)
        if at_random is None:
            public = panel.public.repeat(len(runs) // len(panel.public))
            lost = _lost_by_score(runs[:, :1], public, -1)[:, 0]
        else:
            lost = stream.random(len(runs)) < at_random
        runs[lost] = np.nan
        left = [replace(c, outcomes=outcomes[:, None, m]) for m, c in enumerate(controls)]
        parts = [*controls_at(0, left), ModelRuns(1, "new", new)]
        (verdict,) = run_standard(plan, as_table(panel, 0, parts), registration_of(stream)).verdicts
        hits["contaminated"] += verdict.verdict == CONTAMINATED
        hits["at random"] += verdict.p_adjusted <= verdict.alpha
    return hits


def count_study_loss(per_arm: int, count: int, stream: Stream) -> Hits:
    """Claims on studies as a whole (P4) of three clean models at each of eight looks, of which the
    worst public and the best private runs were lost."""
    hits: Hits = Counter()
    plan = make_plan(per_arm, looks=8, permutations=LOOK_PERMUTATIONS)
    for _ in range(count):
        panel = draw_panel(per_arm, 1, stream)
        parts = controls_at(0, draw_controls(panel, stream))
        for wave, place in itertools.product(range(1, 9), range(3)):
            runs = run_model(panel, Model("new"), stream)
            runs.outcomes[_lost_by_score(runs.outcomes[:, :, 0, 0], panel.public, 1)] = np.nan
            parts.append(ModelRuns(wave, f"new {place}", runs))
        result = run_standard(plan, as_table(panel, 0, parts), registration_of(stream))
        found = result.monitored
        hits["contaminated"] += found.rejected_at is not None
        hits["at random"] += found.rejected_at is not None or bool(found.note)
    return hits


def _lost_by_score(scores: Floats, public: Bools, sign: int) -> Bools:
    """Marks the share ``LOST`` of the runs (n, B) of each arm: with ``sign`` 1 the worst public and
    the best private ones, with -1 the converse."""
    lost = np.zeros(scores.shape, dtype=bool)
    for arm, way in ((public, sign), (~public, -sign)):
        order = np.argsort(way * scores[arm], axis=0, kind="stable")[: int(LOST * arm.sum())]
        lost[np.flatnonzero(arm)[order], np.arange(scores.shape[1])] = True
    return lost


def count_look_fault(fault: float, frozen: int, count: int, stream: Stream) -> Hits:
    """Verdicts on a clean model at one look at which the harness adds ``fault`` to public scores;
    the controls ran before the fault, and `frozen` of them once more at the look."""
    hits: Hits = Counter()
    plan = make_plan(64, frozen=[model.name for model in CONTROLS[:frozen]])
    for _ in range(count):
        panel = draw_panel(64, 1, stream)
        before, again = draw_controls(panel, stream), draw_controls(panel, stream, fault)
        new = run_model(panel, Model("new"), stream, fault=fault)
        parts = [*controls_at(0, before), *controls_at(1, again)[:frozen], ModelRuns(1, "new", new)]
        result = run_standard(plan, as_table(panel, 0, parts), registration_of(stream))
        hits[result.verdicts[0].verdict] += 1
        hits["harness changed"] += result.looks[0].changed
    return hits


# Units that are none


def count_wrong_units(count: int, stream: Stream) -> Hits:
    """False claims, at one-sided .025, of tests that take criteria or runs for instances: 16
    instances an arm and stratum, six runs of each. And those of the plan on the same scores."""
    hits: Hits = Counter()
    plan = make_plan(16)
    for size in sizes(count):
        panel = draw_panel(16, size, stream)
        runs = run_model(panel, Model("new"), stream, runs=6)
        control = control_scores(panel, stream)
        hits["criteria"] += int((pooled_z(panel, runs) >= Z).sum())
        hits["runs"] += int((stratified_z(panel, runs.outcomes[..., 0]) >= Z).sum())
        decisions = decide_look(plan, panel, runs.means[:, :, None], control, seed_of(stream))
        hits["plan"] += int(decisions.claimed.sum())
    return hits


def pooled_z(panel: Panel, runs: Runs) -> Floats:
    """z (B,) of two proportions of criteria, every criterion a trial: about Fisher's test."""
    criteria = np.array(CRITERIA, dtype=np.float64)[panel.stratum, None, None]
    passed = runs.outcomes[..., 1] / TOP * criteria
    public, private = (passed[arm].sum(axis=(0, 2)) for arm in (panel.public, ~panel.public))
    trials = float(criteria.sum()) * passed.shape[2] / 2
    rate = (public + private) / trials / 2
    return np.asarray((public - private) / trials / np.sqrt(2 * rate * (1 - rate) / trials))


def stratified_z(panel: Panel, scores: Floats) -> Floats:
    """z (B,) of the gap averaged over strata, every score of ``scores`` (n, B, R) a unit."""
    gap, variance = 0.0, 0.0
    for code in np.unique(panel.stratum):
        here = panel.stratum == code
        for arm, sign in ((here & panel.public, 1), (here & ~panel.public, -1)):
            units = np.moveaxis(scores[arm], 1, 0).reshape(scores.shape[1], -1)
            gap = gap + sign * units.mean(axis=1)
            variance = variance + units.var(axis=1, ddof=1) / units.shape[1]
    return np.asarray(gap / np.sqrt(variance))
