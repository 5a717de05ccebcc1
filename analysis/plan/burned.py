"""Burned private instances: how many there are, and which leave the primary test.

A burned instance is a private one whose input the provider of a model may have kept, or that has
leaked. If it was learnt, the private arm is no longer clean and hides a gap: that makes no false
alarm, but no proof of anything small either. By the rule ``leave-out`` such instances leave P1,
with the public ones of their tranche, so that labels are still permuted as they were allotted.
If a stratum would be left without ``LEAST`` unexposed instances in each arm, the model keeps all
of its own, and ``note_burned`` withholds the claim that they no longer support. Nothing here looks
at a score.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from analysis.data.table import ResultTable, codes_of, one_of
from analysis.plan.presets import LEAVE_OUT, RegisteredPlan, plan_draws
from analysis.plan.primary import LookData
from analysis.plan.sensitivity import BurnTest, SensitivityResult, compare_burned
from analysis.plan.verdict import INCONCLUSIVE, NO_INFLATION, Verdict
from analysis.stats.permutation import Bools, Ints, holm
from registry.result_row import Arm

LEAST = 2  # instances in each arm of each stratum that a model runs


@dataclass(frozen=True, slots=True)
class BurnedSeeds:
    """A model's private instances at a wave: numbers of burned and unexposed ones, and of
    the burned ones that are left out of P1."""

    wave: int
    model: str
    burned: int
    unexposed: int
    left_out: int

    @property
    def staying(self) -> int:
        """Burned instances that stay in P1."""
        return self.burned - self.left_out


@dataclass(frozen=True, slots=True, eq=False)
class RetainedRows:
    """Rows that stay in P1, and rows that stay in the monitoring of the study (P4), which permutes
    labels in whole tranches over all looks."""

    primary: Bools
    monitored: Bools
    seeds: tuple[BurnedSeeds, ...]


def keep_rows(table: ResultTable, rule: str, controls: Collection[str] = ()) -> RetainedRows:
    """The rows of one grader that the rule retains. Every row of a control stays: a gap of its is
    no finding. Blind to scores."""
    every = np.ones(len(table), dtype=bool)
    if not table["burned"].any():
        return RetainedRows(every, every, ())
    instance = codes_of(table["instance"])[1]
    primary, monitored, seeds = every.copy(), every.copy(), list[BurnedSeeds]()
    fresh = ~one_of(table["model"], controls) if controls else every
    for wave in np.unique(table["wave"][(table["burned"] == 1) & fresh]).tolist():
        here = np.flatnonzero((table["wave"] == wave) & fresh)
        models = codes_of(table["model"][here])[0]
        units = [_units(table, instance, here, model) for model in models]
        scattered = _scattered(units) if rule == LEAVE_OUT else frozenset()
        for part in units:
            apart = np.isin(part.unit, sorted(scattered))
            leaves = rule == LEAVE_OUT and part.lasts_without(part.whole | apart)
            lost = part.whole & leaves
            gone, rows = lost | apart, part.rows
            monitored[rows[np.isin(instance[rows], part.unit[lost])]] = False
            primary[rows[np.isin(instance[rows], part.unit[gone])]] = False
            if part.burned.any():
                seeds.append(part.count(wave, gone))
    return RetainedRows(primary, monitored, tuple(seeds))


def note_burned(verdict: Verdict, seeds: BurnedSeeds | None) -> Verdict:
    """The verdict with a note on burned instances. No inflation above the margin becomes
    inconclusive if burned instances stay in the test, since they may hide a gap."""
    if seeds is None or not seeds.burned:
        return verdict
    words = burned_words(seeds)
    note = f"{verdict.note}; {words}" if verdict.note else words
    if seeds.staying and verdict.verdict == NO_INFLATION:
        return replace(verdict, verdict=INCONCLUSIVE, note=note)
    return replace(verdict, note=note)


def burned_words(seeds: BurnedSeeds) -> str:
    """A clause on a model's burned instances."""
    total = seeds.burned + seeds.unexposed
    words = f"{seeds.burned} of {total} private instances are burned"
    if not seeds.staying:
        return f"{words} and left out of the test"
    some = "" if not seeds.left_out else f"{seeds.staying} of them "
    return f"{words} and {some}stay in the test, where they may hide a gap and make none"


@dataclass(frozen=True, slots=True, eq=False)
class _Units:
    """A model's instances at a wave: columns by instance; ``whole`` marks those, of both arms,
    of a tranche all of whose private ones in the stratum are burned."""

    model: str
    rows: Ints
    unit: Ints
    stratum: Ints
    public: Bools
    burned: Bools
    whole: Bools

    def lasts_without(self, gone: Bools) -> bool:
        """Reports if the test can do without some instances."""
        for h in np.unique(self.stratum):
            for arm in (self.public, ~self.public):
                here = arm & (self.stratum == h)
                if (here & ~gone).sum() < min(LEAST, int(here.sum())):
                    return False
        return True

    def count(self, wave: int, gone: Bools) -> BurnedSeeds:
        burned, private = int(self.burned.sum()), int((~self.public).sum())
        left = int((self.burned & gone).sum())
        return BurnedSeeds(wave, self.model, burned, private - burned, left)


def _units(table: ResultTable, instance: Ints, here: Ints, model: str) -> _Units:
    rows = here[table["model"][here] == model]
    unit, first = np.unique(instance[rows], return_index=True)
    at = rows[first]
    burned = np.isin(unit, instance[rows[table["burned"][rows] == 1]])
    stratum = codes_of(table["stratum"][at])[1]
    public = np.asarray(table["arm"][at] == Arm.PUBLIC, dtype=bool)
    tranche = table["tranche"][at]
    block = stratum * (int(tranche.max(initial=0)) + 1) + tranche
    unexposed = np.isin(block, block[~public & ~burned])
    whole = ~unexposed & np.isin(block, block[burned])
    return _Units(model, rows, unit, stratum=stratum, public=public, burned=burned, whole=whole)


def _scattered(units: Sequence[_Units]) -> frozenset[int]:
    """Burned instances among unexposed ones of their tranche: they leave the look for all of its
    models, or labels could not be permuted in common; none if a model would not last."""
    scattered = frozenset(
        int(unit) for part in units for unit in part.unit[part.burned & ~part.whole].tolist()
    )
    gone = sorted(scattered)
    last = all(part.lasts_without(np.isin(part.unit, gone)) for part in units)
    return scattered if last else frozenset()


NAME = "burned-versus-virgin"
LEVEL = 0.05
_LEAKED = "burned private instances are answered better than unexposed ones: they may have leaked"


def compare_look(
    registered: RegisteredPlan, table: ResultTable, data: LookData, wave: int
) -> Iterator[SensitivityResult]:
    """A row for each model of a look that ran burned and unexposed private instances of one
    stratum; p is adjusted over these models. ``data`` is of all instances that were run."""
    means = data.means
    compared: list[tuple[str, BurnTest, int]] = []
    for number, (burned, ran, models) in enumerate(_groups(table, data, wave)):
        test = compare_burned(
            data.adjusted.residuals[ran][:, models],
            means.stratum[ran],
            means.public[ran],
            burned[ran],
            **plan_draws(registered.plan, registered.seed("B1", str(wave), str(number))),
        )
        if test is not None:
            compared += ((means.columns[m].model, test, place) for place, m in enumerate(models))
    together = len({id(test) for _, test, _ in compared}) == 1
    over_groups = holm(np.array([test.p[place] for _, test, place in compared]))
    row = partial(SensitivityResult, NAME, wave)
    for number, (model, test, place) in enumerate(compared):
        gap, p = test.gaps[place], float(test.p[place])
        adjusted = float(test.p_adjusted[place] if together else over_groups[number])
        estimate, interval = (None, None) if gap is None else (gap.gap, gap.interval)
        detail = f"{test.burned} burned, {test.unexposed} unexposed"
        note = _LEAKED if adjusted <= LEVEL else ""
        yield row(model, detail, estimate, interval, p, adjusted, note=note, p_floor=test.floor)


def _groups(
    table: ResultTable, data: LookData, wave: int
) -> Iterator[tuple[Bools, Bools, list[int]]]:
    """Models of one look that ran the same instances, of which the same are burned for them: the
    burned, the run, and the models' columns."""
    means = data.means
    groups: dict[tuple[bytes, bytes], tuple[Bools, Bools, list[int]]] = {}
    for m, column in enumerate(means.columns):
        here = (table["wave"] == wave) & (table["model"] == column.model) & (table["burned"] == 1)
        burned = np.asarray(np.isin(means.unit.astype(str), table["instance"][here].astype(str)))
        ran = (means.scored[:, m] + means.missing[:, m]) > 0
        key = burned.tobytes(), ran.tobytes()
        groups.setdefault(key, (burned & ran, ran, []))[2].append(m)
    yield from groups.values()
