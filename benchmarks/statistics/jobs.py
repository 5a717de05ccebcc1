"""The simulations behind docs/statistics.md, by name."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.statistics import borders, trials
from benchmarks.statistics.trials import Hits, Look, Stream

NOTHING_LOST, UNEVENLY_LOST = (0.0, 0.0), (0.02, 0.06)
FAULTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.10)
ABOVE_MARGIN = 0.055
SEVERAL = 3  # models of a look
MODEL, CONTROLS, STUDY = "the model", "the control models", "all 24 models of a study"
COVERAGE, FORECAST = "coverage", "forecast"


@dataclass(frozen=True, slots=True)
class Job:
    """One simulation. It makes ``part`` of the replications asked for."""

    count: Callable[[int, Stream], Hits]
    part: float = 1.0

    def studies(self, replications: int) -> int:
        """The number of studies of these replications."""
        return max(20, round(replications * self.part))

    def run(self, replications: int, name: str) -> dict[str, Any]:
        """The rates of what was counted, each with its Monte-Carlo error, and of how many studies,
        by a stream of the job's own."""
        of = self.studies(replications)
        hits = self.count(of, stream_of(name))
        cells = {key: (round(n / of, 6), _error(n / of, of)) for key, n in sorted(hits.items())}
        return {"of": of, "cells": cells}


def stream_of(name: str) -> Stream:
    """A job's own stream, by its name."""
    return np.random.Generator(np.random.PCG64(int(hashlib.sha256(name.encode()).hexdigest(), 16)))


def _error(rate: float, of: int) -> float:
    """Of a rate, never 0: none of 2000 is not never."""
    kept = min(max(rate, 1 / of), 1 - 1 / of)
    return round(math.sqrt(kept * (1 - kept) / of), 6)


def one_key(per_arm: int, gap: float, lost: tuple[float, float], what: str = "one model") -> str:
    """The name of a simulation of one model, or of its intervals."""
    return f"{what}, {per_arm}, {gap:g}, lost {lost[0]:g} and {lost[1]:g}"


def looks_key(per_arm: int, fault: float, kind: str = "plan") -> str:
    """The name of a simulation of eight looks under a shared fault."""
    return f"eight looks, {per_arm}, fault {fault:g}, {kind}"


def verdicts_key(look: Look, what: str = "verdicts") -> str:
    """The name of a simulation of verdicts, or of their forecast."""
    return f"{what}, {look.per_arm}, looks {look.looks}, {look.gaps[0]:g} of {len(look.gaps)}"


def fault_key(fault: float, frozen: int) -> str:
    """The name of a simulation of a fault of one look."""
    return f"fault of one look, {fault:g}, frozen {frozen}"


def loss_key(per_arm: int, of: str = MODEL) -> str:
    """The name of a simulation of runs that are lost by their score."""
    return f"selective loss of {of}, {per_arm}"


def random_loss_key(share: float) -> str:
    """The name of a simulation of control runs that are lost at random."""
    return f"random loss of {CONTROLS}, {share:g}"


ONE = [(n, 0.0, lost) for n in (4, 16, 64) for lost in (NOTHING_LOST, UNEVENLY_LOST)]
POWER = [(n, gap, NOTHING_LOST) for n in (16, 64, 128) for gap in (0.05, 0.10)]
SHARED = [(n, fault, "plan") for n in (16, 64) for fault in FAULTS]
UNPROTECTED = [(64, f, kind) for kind in ("fitted slope", "uncalibrated") for f in (0.03, 0.05)]
VERDICTS = [
    Look(per_arm, looks, (gap, *[0.0] * (models - 1)))
    for looks, models in ((1, 1), (8, SEVERAL))
    for per_arm in (16, 64, 128)
    for gap in (0.0, 0.05, 0.10)
]
CLEARING = [Look(per_arm, 8, (ABOVE_MARGIN,) * SEVERAL) for per_arm in (16, 64, 128)]
LOOK_FAULTS = [(fault, frozen) for frozen in (0, 1, 4) for fault in (0.0, 0.02, 0.05, 0.10)]
SELECTIVE = [*((n, of) for of in (MODEL, CONTROLS) for n in (16, 64)), (16, STUDY)]
RANDOM_LOSS = (0.0, 0.01, 0.02, 0.05)


NOTHING = (0.0,) * 5  # shares of public instances that four control models and the model know
_LEAKS = {
    "all four controls and the model leak by 10 points": (0.2,) * 5,
    "one control of four leaks by 30 points, the model by 10": (0.6, 0.0, 0.0, 0.0, 0.2),
    "nothing leaks": NOTHING,
}
_STRATA = {"one stratum of 12 is known to 90 %": 0.9, "twelve strata, nothing leaks": 0.0}
_UNEQUAL = {
    "100 public instances × 1 run, 1,000 private × 10": ((100, 1), (1000, 10)),
    "20 public instances × 1 run, 400 private × 5": ((20, 1), (400, 5)),
    "400 public instances × 5 runs, 20 private × 1": ((400, 5), (20, 1)),
}
_TABLES = {
    "a tenth of the rows is absent by score: a clean model contaminated": "absent, clean",
    "a tenth of the rows is absent by score: a leaking model cleared": "absent, leaking",
    "half of the public instances known, one stratum of 1 + 3: not found": "tiny stratum",
    "a model that answers nothing: cleared": "no answers",
    "public instances are older and easier: an alarm on a clean model": "by time",
    "the same, half of them known: found": "by time, leaking",
}
BORDERS = {
    f"{what}: cleared, 4 × {n}": Job(partial(borders.count_clearing, leaks, 0.0, 4, n), 4)
    for what, leaks in _LEAKS.items()
    for n in (64, 128, 256)
}
for _what, _leak in _STRATA.items():
    BORDERS[f"{_what}: cleared"] = Job(partial(borders.count_clearing, NOTHING, _leak, 12, 64), 2)
for _what, _arms in _UNEQUAL.items():
    BORDERS[f"{_what}: a false alarm"] = Job(partial(borders.count_unequal, *_arms), 4)
for _what, _arms in _UNEQUAL.items():
    _what = f"the same in four looks, {_what}: a false alarm of the study"
    BORDERS[_what] = Job(partial(borders.count_monitored, *_arms), 2)
for _n in (5, 20):
    _what = f"documents of {_n} questions are allotted: a false alarm"
    BORDERS[_what] = Job(partial(borders.count_units, _n, 1.5), 4)
for _n in (8, 12, 20):
    for _tails, _freedom in (("normal", 1e9), ("heavy-tailed", 3.0)):
        _what = f"{_n} control models with {_tails} gaps of their own: an alarm on one more"
        BORDERS[_what] = Job(partial(borders.count_placebos, _n, _freedom), 8)
BORDERS |= {what: Job(partial(borders.count_tables, case), 0.1) for what, case in _TABLES.items()}


def all_jobs() -> dict[str, Job]:
    """All simulations by name, in the order of the page."""
    one = trials.count_one_model
    jobs = {one_key(*case): Job(partial(one, *case), 2) for case in (*ONE, *POWER)}
    for case in (*ONE, *POWER):
        jobs[one_key(*case, COVERAGE)] = Job(partial(trials.count_coverage, *case), 10)
    jobs |= {looks_key(*c): Job(partial(trials.count_looks, *c), 2) for c in SHARED}
    jobs |= {looks_key(*c): Job(partial(trials.count_looks, *c), 0.4) for c in UNPROTECTED}
    for look in VERDICTS:
        part = 4 if look.looks == 1 else 2
        jobs[verdicts_key(look)] = Job(partial(trials.count_verdicts, look), part)
        jobs[verdicts_key(look, FORECAST)] = Job(partial(trials.forecast_verdicts, look), part)
    jobs |= {verdicts_key(look): Job(partial(trials.count_verdicts, look), 2) for look in CLEARING}
    for fault, frozen in LOOK_FAULTS:
        of = partial(trials.count_look_fault, fault, frozen)
        jobs[fault_key(fault, frozen)] = Job(of, 0.4 if fault else 1)
    lost = trials.count_selective_loss, trials.count_control_loss, trials.count_study_loss
    counts = dict(zip((MODEL, CONTROLS, STUDY), lost, strict=True))
    parts = {MODEL: 1.0, CONTROLS: 0.4, STUDY: 0.2}
    jobs |= {loss_key(n, of): Job(partial(counts[of], n), parts[of]) for n, of in SELECTIVE}
    for share in RANDOM_LOSS:
        count = partial(trials.count_control_loss, 64, gap=0.10, at_random=share)
        jobs[random_loss_key(share)] = Job(count, 0.4)
    return jobs | BORDERS | {"wrong units": Job(trials.count_wrong_units)}
