"""Sensitivity analyses that a plan names (spec/statistics.md, S2, S3): shown, deciding nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.blocks import blocks_of, weigh_blocks
from analysis.cube import Cube
from analysis.dimensions import contrast_key_with_static, max_t_over_categories
from analysis.load import Table, codes_of
from analysis.means import outcome_of
from analysis.mixed import gee_gap, mixed_gap, shrink_gaps
from analysis.negative import LEVEL as CONTROL_LEVEL
from analysis.resample import permutation_seed
from analysis.sensitivity import leave_one_task_out
from analysis.tested import Data, Tested
from registry.records import Plan
from registry.tables import Arm, Status

DIMENSIONS: Mapping[str, str] = {
    "score_sr": "scientific reasoning",
    "score_dh": "data handling",
    "score_im": "image data extraction",
    "score_if": "instruction following",
}

PARTS = ("score_key", "score_static")
_STATIC_NOTE = "two-sided p: a negative control, since knowing an instance cannot help here"
_FAULT_NOTE = "; this small, it tells of something else that differs between the arms"


@dataclass(frozen=True, slots=True)
class Aside:
    """One number beside the test. None where it could not be had; ``note`` then says why."""

    analysis: str
    wave: int
    model: str
    detail: str  # the stratum left out, the dimension; "" for the whole
    estimate: float | None
    interval: tuple[float, float] | None  # two-sided 95 %
    p: float | None  # one-sided, unless the note says otherwise
    p_adjusted: float | None
    note: str


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What the analyses of one look need."""

    plan: Plan
    registration: str
    wave: int
    data: Data
    tested: tuple[Tested, ...]
    newest: bool  # models are fitted at the newest look alone: earlier reports hold the others
    rows: Table  # of the tested models at the wave, one grader's
    parts: Cube  # the same columns, outcomes DIMENSIONS and PARTS

    @property
    def models(self) -> list[str]:
        return [column.model for column in self.data.cube.columns]


def run_asides(look: Look) -> tuple[Aside, ...]:
    """Every sensitivity analysis that the plan names, in the plan's order."""
    rules = look.plan.standard
    named = () if rules is None else rules.sensitivity
    return tuple(aside for name in named for aside in _ANALYSES[name](look))


def _unadjusted(look: Look) -> Iterator[Aside]:
    for each in look.tested:
        if each.unadjusted is not None:
            yield Aside(
                "unadjusted", look.wave, each.verdict.model, "", each.unadjusted.gap,
                each.unadjusted.interval, each.p_unadjusted, each.p_adjusted_unadjusted, "",
            )  # fmt: skip


def _leave_one_out(look: Look) -> Iterator[Aside]:
    cube = look.data.cube
    name = "leave-one-stratum-out"
    if not look.newest or len(np.unique(cube.stratum)) < 2:
        return
    block = blocks_of(cube.stratum, cube.tranche)
    found = leave_one_task_out(
        weigh_blocks(look.data.adjusted.residuals, cube.stratum, block), block, cube.public,
        cube.stratum, **_permuting(look, name),
    )  # fmt: skip
    for row, code in enumerate(found.strata.tolist()):
        for m, model in enumerate(look.models):
            yield Aside(
                name, look.wave, model, f"without {cube.strata[code]}",
                float(found.gaps[row, m]), None, float(found.p[row, m]), None, "",
            )  # fmt: skip


def _by_dimension(look: Look) -> Iterator[Aside]:
    cube = look.parts
    there = [
        o
        for o, name in enumerate(cube.outcomes)
        if name in DIMENSIONS and not np.isnan(cube.values[:, :, o]).all()
    ]
    if not there:
        return
    found = max_t_over_categories(
        cube.values[:, :, there], blocks_of(cube.stratum, cube.tranche), cube.public,
        **_permuting(look, "dimensions"),
    )  # fmt: skip
    for m, column in enumerate(cube.columns):
        for place, o in enumerate(there):
            gap = float(found.gaps[m, place])
            if not np.isnan(gap):
                yield Aside(
                    "dimensions", look.wave, column.model, DIMENSIONS[cube.outcomes[o]], gap, None,
                    float(found.p[m, place]), float(found.p_adjusted[m, place]), "",
                )  # fmt: skip


def _key_and_static(look: Look) -> Iterator[Aside]:
    """Over the instances that have criteria of both kinds, so that the third row is the first less
    the second."""
    cube, name = look.parts, "key-static"
    key, static = (cube.values[:, :, cube.outcomes.index(part)] for part in PARTS)
    both = ~np.isnan(key) & ~np.isnan(static)
    if not both.any():
        return
    found = contrast_key_with_static(
        np.where(both, key, np.nan), np.where(both, static, np.nan),
        blocks_of(cube.stratum, cube.tranche), cube.public, **_permuting(look, name),
    )  # fmt: skip
    for column, each in zip(cube.columns, found, strict=True):
        fault = each.p_static < CONTROL_LEVEL
        rows = (
            ("answer key", each.key, each.p_key, ""),
            ("static", each.static, each.p_static, _STATIC_NOTE + (_FAULT_NOTE if fault else "")),
            ("answer key minus static", each.excess, each.p_excess, ""),
        )
        for part, gap, p, note in rows:
            if gap is not None:
                interval = None if gap.se is None else gap.interval  # all alike: no spread to tell
                yield Aside(name, look.wave, column.model, part, gap.gap, interval, p, None, note)


def _gee(look: Look) -> Iterator[Aside]:
    for model, runs in _runs(look) if look.newest else ():
        fit = gee_gap(*runs)
        note = "; ".join(fit.notes)
        yield Aside("gee", look.wave, model, "", fit.gap, fit.interval, fit.p, None, note)


def _mixed(look: Look) -> Iterator[Aside]:
    for model, runs in _runs(look) if look.newest else ():
        fit = mixed_gap(*runs)
        note = "; ".join(fit.notes)
        yield Aside("mixed", look.wave, model, "", fit.gap, fit.interval, fit.p, None, note)


def _shrinkage(look: Look) -> Iterator[Aside]:
    """Gaps of the look's models, drawn towards their mean."""
    known = [each for each in look.tested if each.verdict.estimate is not None]
    gaps = np.array([each.verdict.estimate for each in known], dtype=np.float64)
    ses = np.array(
        [np.nan if each.verdict.se is None else each.verdict.se for each in known],
        dtype=np.float64,
    )
    found = shrink_gaps(gaps, ses)
    if found is None:
        return
    for place, each in enumerate(known):
        gap, se = float(found.gaps[place]), float(found.ses[place])
        if not np.isnan(gap):
            yield Aside(
                "shrinkage", look.wave, each.verdict.model, "", gap,
                (gap - 1.96 * se, gap + 1.96 * se), None, None, "",
            )  # fmt: skip


_ANALYSES: Mapping[str, Callable[[Look], Iterator[Aside]]] = {
    "unadjusted": _unadjusted,
    "leave-one-stratum-out": _leave_one_out,
    "dimensions": _by_dimension,
    "key-static": _key_and_static,
    "gee": _gee,
    "mixed": _mixed,
    "shrinkage": _shrinkage,
}

Runs = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]


def _runs(look: Look) -> Iterator[tuple[str, Runs]]:
    """Each model's scored runs: scores, seeds, strata, arms."""
    table = look.rows
    scores = outcome_of(table, look.plan.outcomes[0])
    _, seeds = codes_of(table["instance"])
    _, strata = codes_of(table["stratum"])
    public = np.asarray(table["arm"] == Arm.PUBLIC, dtype=bool)
    there = (table["status"] != Status.MISSING) & ~np.isnan(scores)
    for model in look.models:
        own = there & (table["model"] == model)
        if own.any():
            yield model, (scores[own], seeds[own], strata[own], public[own])


def _permuting(look: Look, name: str) -> dict[str, int]:
    return {
        "permutations": look.plan.permutations,
        "enumerate_up_to": look.plan.enumerate_up_to,
        "seed": permutation_seed(look.registration, name, str(look.wave)),
    }
