"""The power of the levels of a study."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from analysis.data.table import ResultTable
from analysis.levels.levels import measured_tau
from analysis.levels.power import LevelDesign, LevelPower, level_power
from study.protocol.protocol import Protocol
from study.protocol.units import units_of_looks


def level_powers(
    protocol: Protocol, base: LevelDesign, gap: float, table: ResultTable | None
) -> Iterator[LevelPower]:
    """Yield the power of each level of the study's units, in a design that is ``base`` but for the
    units. τ is that of the table's models, of its controls if it has three; else the largest with
    which the level is tested."""
    plan, units = protocol.tested_plan(), protocol.units
    models = set() if table is None else set(table["model"].tolist())
    early = models & set(plan.standard.pre_exposure if plan.standard else ())
    some = early if len(early) > 2 else models
    measured = {} if table is None else measured_tau(table, units, some)
    for level, compared in units_of_looks(units):
        tau = measured.get(level)
        own = replace(base, level=level, areas=tuple(unit.area for unit in compared))
        own = replace(own, measured=tau is not None, tau=plan.most_tau if tau is None else tau)
        yield level_power(plan, own, gap)
