"""Burned against virgin private instances at a look: has the private arm leaked?
(spec/statistics.md, B1.)"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from analysis.asides import Aside
from analysis.load import Table
from analysis.multiplicity import holm
from analysis.resample import permutation_seed
from analysis.sensitivity import BurnTest, compare_burned
from analysis.tested import Data
from registry.records import Plan

NAME = "burned-versus-virgin"
LEVEL = 0.05
_LEAKED = "burned private instances are answered better than virgin ones: they may have leaked"

Mask = NDArray[np.bool_]


def compare_look(
    plan: Plan, table: Table, data: Data, wave: int, registration: str
) -> Iterator[Aside]:
    """A row for each model of a look that ran burned and virgin private instances of one stratum;
    p is adjusted over these models. ``data`` is of all instances that were run."""
    found: list[tuple[str, BurnTest, int]] = []
    for number, (burned, ran, models) in enumerate(_groups(table, data, wave)):
        cube = data.cube
        test = compare_burned(
            data.adjusted.residuals[ran][:, models], cube.stratum[ran], cube.public[ran],
            burned[ran], permutations=plan.permutations, enumerate_up_to=plan.enumerate_up_to,
            seed=permutation_seed(registration, "B1", str(wave), str(number)),
        )  # fmt: skip
        if test is not None:
            found += ((cube.columns[m].model, test, place) for place, m in enumerate(models))
    one = len({id(test) for _, test, _ in found}) == 1
    over = holm(np.array([test.p[place] for _, test, place in found])) if found else np.empty(0)
    for row, (model, test, place) in enumerate(found):
        adjusted = float(test.p_adjusted[place] if one else over[row])
        yield _aside(wave, model, test, place, adjusted)


def _groups(table: Table, data: Data, wave: int) -> Iterator[tuple[Mask, Mask, list[int]]]:
    """Models of one look that ran the same instances, of which the same are burned for them: the
    burned, the run, and the models' columns."""
    cube = data.cube
    groups: dict[tuple[bytes, bytes], tuple[Mask, Mask, list[int]]] = {}
    for m, column in enumerate(cube.columns):
        here = (table["wave"] == wave) & (table["model"] == column.model) & (table["burned"] == 1)
        burned = np.asarray(np.isin(cube.unit.astype(str), table["instance"][here].astype(str)))
        ran = (cube.scored[:, m] + cube.missing[:, m]) > 0
        key = burned.tobytes(), ran.tobytes()
        groups.setdefault(key, (burned & ran, ran, []))[2].append(m)
    yield from groups.values()


def _aside(wave: int, model: str, test: BurnTest, place: int, adjusted: float) -> Aside:
    gap = test.gaps[place]
    return Aside(
        NAME, wave, model, f"{test.burned} burned, {test.virgin} virgin",
        None if gap is None else gap.gap, None if gap is None else gap.interval,
        float(test.p[place]), adjusted, _LEAKED if adjusted <= LEVEL else "",
    )  # fmt: skip
