"""The power of the levels of a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from analysis.data.table import ResultTable
from analysis.levels.levels import measured_tau
from analysis.levels.power import LevelDesign, LevelPower, level_power
from study.protocol.protocol import Protocol

if TYPE_CHECKING:
    from analysis.power.power import PowerDesign


def level_powers(
    protocol: Protocol, design: PowerDesign, table: ResultTable | None
) -> Iterator[LevelPower]:
    """Yield the power of each level of the study's units. τ is that of the table's models, of its
    controls if it has three; else the largest with which the level is tested."""
    plan, setting, units = design.plan, design.setting, protocol.units
    models = set() if table is None else set(table["model"].tolist())
    early = models & set(plan.standard.pre_exposure if plan.standard else ())
    measured: Mapping[str, float | None] = {}
    if table is not None:
        measured = measured_tau(table, units, early if len(early) > 2 else models)
    for level in dict.fromkeys(unit.level for unit in units):
        tau = measured.get(level)
        levels = LevelDesign(
            level=level,
            areas=tuple(unit.area for unit in units if unit.level == level),
            tau=plan.most_tau if tau is None else tau,
            measured=tau is not None,
            run_sd=design.components.sd[0],
            instances=min(plan.sizes),
            control_models=setting.control_models,
            control_runs=setting.control_runs,
            models=setting.models,
        )
        yield level_power(plan, levels, setting.gap)
