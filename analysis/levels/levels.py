"""The variant and the family level: units that were published or sealed, compared on instances that
nobody has seen.

A unit is a question, a dressing of a family or a group of items. Half of the units of an area, by
lot, are published with instances of theirs, and half stay sealed; the two of a pair are an area of
their own. The registered test runs on a table in which a unit stands for an instance, its area for
a stratum and its lot for the arm: within pairs that is a test by sign flips, within areas a
permutation of units, with the same flip for all models of a look (Westfall and Young 1993).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from analysis.data.seed_means import make_seed_means
from analysis.data.table import ResultTable, one_of, table_of_frame
from analysis.plan.history import WaveHistory
from analysis.plan.presets import control_models, look_alpha
from analysis.plan.primary import look_data
from analysis.plan.results import look_results
from analysis.plan.verdict import CONTAMINATED, NO_INFLATION, WITHHELD, Verdict
from analysis.stats.permutation import count_allocations
from registry.ledger.draw_records import FAMILY, VARIANT, Unit
from registry.ledger.records import Plan
from registry.result_row import GRADER, Arm, Status

Finding = Literal["shown", "excluded", "not shown", "cannot be tested"]
LEVELS = (VARIANT, FAMILY)


@dataclass(frozen=True, slots=True)
class LevelVerdict:
    """One model at one level of a look. ``verdict`` has the numbers, in which published units stand
    for the public arm; ``why`` says what keeps the level from a test, or from excluding. ``units``
    are pairs at the variant level. ``tau`` is the spread of the control models over units, None
    with fewer than three of them."""

    level: str
    verdict: Verdict
    finding: Finding
    units: int
    tau: float | None
    why: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class LevelLook:
    """What the levels of a look follow from, beside the plan: the rows; the units and the names of
    the published ones; the digest of the registration; the waves in their order; by (wave, model),
    the tranches that its provider may have kept; by wave, the sealed units that were public before
    it; and the reason for the (wave, model) whose verdict on instances is withheld."""

    table: ResultTable
    units: Sequence[Unit]
    published: Collection[str]
    registration: str
    history: WaveHistory
    kept: Mapping[tuple[int, str], Collection[int]] = field(default_factory=dict)
    revealed: Mapping[int, Sequence[Unit]] = field(default_factory=dict)
    withheld: Mapping[tuple[int, str], str] = field(default_factory=dict)


def level_verdicts(plan: Plan, look: LevelLook) -> tuple[LevelVerdict, ...]:
    """Test each level that has units, at every look, on the private rows: fresh instances of either
    kind of unit. Raises AnalysisError."""
    private = look.table.where(look.table["arm"] == Arm.PRIVATE)
    return tuple(
        found
        for level in LEVELS
        if (own := [unit for unit in look.units if unit.level == level])
        for found in _level(level, plan, look, unit_rows(private, own, look.published))
    )


def measured_tau(
    table: ResultTable, units: Sequence[Unit], models: Collection[str]
) -> dict[str, float | None]:
    """τ by level, from all rows of some models, as those of a pilot."""
    rows = table.where(one_of(table["model"], models))
    return {
        level: unit_spread(unit_rows(rows, own))
        for level in LEVELS
        if (own := [unit for unit in units if unit.level == level])
    }


def unit_rows(table: ResultTable, units: Sequence[Unit], published: Collection[str] = ()) -> Any:
    """The rows of some units as a data frame, with a unit as an instance, its area as a stratum,
    public for published, and the instance as ``seed``."""
    import pandas as pd

    of = {name: unit for unit in units for name in unit.strata}
    graded = one_of(table["stratum"], of) & (table["grader"] == GRADER)
    frame = pd.DataFrame(dict(table.where(graded).columns))
    unit = frame["stratum"].map(of)
    named = unit.map(lambda each: each.name)
    frame = frame.assign(
        seed=frame["instance"],
        instance=named,
        stratum=unit.map(lambda each: each.area),
        arm=[str(Arm.PUBLIC if name in published else Arm.PRIVATE) for name in named],
        score=frame["score"].mask(frame["status"] == Status.MODEL_FAILURE, 0.0),
        tranche=0,
        burned=0,
    )
    return frame.assign(replicate=frame.groupby(["wave", "model", "instance"]).cumcount())


def _level(level: str, plan: Plan, look: LevelLook, rows: Any) -> Iterator[LevelVerdict]:
    table = table_of_frame(rows, f"units of the {level} level")
    areas = sorted(set(table["stratum"].tolist()))
    own = replace(plan, strata=tuple(areas), outcomes=("score",), alpha=plan.level_alpha)
    controls, rules = control_models(plan), plan.standard
    calibrating = rules.pre_exposure if rules else ()
    means = make_seed_means(table, own.outcomes, areas)
    waves = {column.wave for column in means.columns if column.model not in controls}
    columns = [c for c, column in enumerate(means.columns) if column.model in calibrating]
    tau = unit_spread(rows[rows["model"].isin(calibrating)])
    for wave, number in look.history.number_looks(waves).items():
        fresh = {c.model for c in means.columns if c.wave == wave} - controls
        data = look_data(means, means.where(wave, [*fresh]), columns)
        stratum, public = data.means.stratum, data.means.public
        units = len({*stratum.tolist()}) if level == VARIANT else len(public)
        asked = [unit for unit in look.units if unit.name in data.means.unit]
        why = _refusal(own, units, 1 / count_allocations(stratum, public), tau)
        if number > plan.looks:
            why = f"look {number} is beyond the {plan.looks} registered ones, which have all alpha"
        for result in look_results(own, data, f"{look.registration}|{level}"):
            verdict = replace(result.verdict, hypothesis=level)
            here, finding, reason = (wave, verdict.model), finding_of(verdict), verdict.note
            kept, shown = look.kept.get(here, ()), look.revealed.get(wave, ())
            seen = (each in shown or (kept and each.tranche in (None, *kept)) for each in asked)
            if finding == "excluded" and any(seen):
                finding, reason = "not shown", "what was sealed may have been seen"
            if fault := why or look.withheld.get(here, ""):  # whatever the numbers are
                finding, reason = "cannot be tested", fault
            yield LevelVerdict(level, verdict, finding, units, tau, why=reason)


def least_p(areas: Iterable[str]) -> float:
    """The least p that units can show, of which each has its area here."""
    sizes = Counter(areas).values()
    return float(1 / math.prod(math.comb(size, size // 2) for size in sizes))


def finding_of(verdict: Verdict) -> Finding:
    """Return what a verdict says: without a gap, and where a control failed, it says nothing."""
    if verdict.estimate is None or verdict.verdict == WITHHELD:
        return "cannot be tested"
    return _FINDINGS.get(verdict.verdict, "not shown")


_FINDINGS: Mapping[str, Finding] = {CONTAMINATED: "shown", NO_INFLATION: "excluded"}


def _refusal(plan: Plan, units: int, least: float, tau: float | None) -> str:
    """The reason why a level cannot be tested at a look; "" if it can."""
    if least > look_alpha(plan):
        return f"the least p of {units} is {least:.2g}, and a claim needs {look_alpha(plan):.2g}"
    if tau is not None and tau > plan.most_tau:
        return f"the control models differ over them by {tau:.2f}, above {plan.most_tau:.2f}"
    return ""


def unit_spread(rows: Any) -> float | None:
    """τ: the SD over units, within areas, of a model's score minus the mean of the other models',
    without what sampling makes of it; None with fewer than three models that ran every unit.

    ``rows`` are those of control models as a data frame: ``stratum`` is the area, ``instance`` the
    unit, ``seed`` the instance. For siblings it is that of one of a pair.
    """
    by_seed = rows.groupby(["stratum", "instance", "seed", "model"])["score"].mean()
    cells = by_seed.groupby(level=["stratum", "instance", "model"])
    mean = cells.mean().unstack("model").dropna(axis=1)
    if (models := len(mean.columns)) < 3:
        return None
    more = models / (models - 1)  # of a deviation from all, for one from the other models
    apart = (mean.sub(mean.mean(axis=1), axis=0)) * more
    apart -= apart.groupby(level="stratum").transform("mean")
    freed = len(mean) - mean.index.get_level_values("stratum").nunique()
    if freed < 1:
        return None
    noise = (cells.var() / cells.count()).unstack("model")[mean.columns].stack().mean() * more
    seen = float((apart**2).to_numpy().sum()) / (freed * models)
    return float(np.sqrt(max(seen - float(np.nan_to_num(noise)), 0.0)))
