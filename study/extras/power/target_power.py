"""The power of a plan to find its target gap in one model, simulated as `dosimeter power` does, and
the changes that would raise it to 80 %."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from analysis.power.power import PowerDesign, chance_cleared, formula_power, power_at
from analysis.power.variance_components import SimulationSize, rate_error
from study.extras.power.planning import registered_design
from study.protocol.plan_section import Faults
from study.protocol.protocol import Protocol

Watch = Callable[[str, int, int], None]  # what, done, of

LEAST_POWER = 0.8
_SEED = 1
_FEW, _MANY = 100, 300  # simulated studies: at first, and if the power may be near 80 %
_LEAST_PERMUTATIONS = 999
_SCORES = 1_000_000  # instances times studies that a simulation may take
_NEAR = 4.0  # Monte-Carlo errors from 80 % that settle the question


@dataclass(frozen=True, slots=True)
class TargetPower:
    """The probability to find the target gap, with its Monte-Carlo error; None if it is that of the
    formula, for a study that is too large to simulate."""

    power: float
    error: float | None

    @property
    def suffices(self) -> bool:
        """True from 80 % on."""
        return self.power >= LEAST_POWER

    def __str__(self) -> str:
        of = " by formula" if self.error is None else f" ± {self.error:.2f}"
        return f"{self.power:.2f}{of}"


def find_power(protocol: Protocol) -> TargetPower:
    """Simulate the power of a study's plan. The same plan gives the same number."""
    return _simulate(registered_design(protocol, protocol.plan.target_gap))


def describe_chances(protocol: Protocol) -> str:
    """Return the power for the target gap in a model, and the chance that a clean model is cleared,
    in words for the registered plan."""
    found, design = find_power(protocol), registered_design(protocol, protocol.plan.target_gap)
    words = f"finds {points(protocol.plan.target_gap)} in one model with probability {found}"
    if found.error is None:
        return words
    cleared = chance_cleared(design, _size(design, _FEW))
    error = rate_error(cleared, _FEW * design.setting.models)
    clearing = f"clears a model without inflation with probability {cleared:.2f} ± {error:.2f}"
    return f"{words}, and {clearing}"


def points(gap: float) -> str:
    """Return a gap in words."""
    return f"{100 * gap:g} points"


@cache
def _simulate(design: PowerDesign) -> TargetPower:
    """Simulate a few studies; if the power may be near 80 %, more. A study with very many instances
    goes by the formula."""
    if _instances(design) * _FEW > _SCORES:
        return TargetPower(formula_power(design), None)
    found = _at(design, _FEW)
    if found.error is None or abs(found.power - LEAST_POWER) > _NEAR * found.error:
        return found
    return _at(design, max(_FEW, min(_MANY, _SCORES // _instances(design))))


def _at(design: PowerDesign, replications: int) -> TargetPower:
    point = power_at(design, _size(design, replications), study=False)
    return TargetPower(point.power, point.error)


def _size(design: PowerDesign, replications: int) -> SimulationSize:
    """Return a size with as many permutations as the plan's alpha needs at a look."""
    least = math.ceil(design.plan.looks / design.plan.alpha) - 1
    return SimulationSize(replications, max(_LEAST_PERMUTATIONS, least), _SEED)


def _instances(design: PowerDesign) -> int:
    return 2 * sum(design.plan.sizes)


def shortfalls(protocol: Protocol, watch: Watch) -> Faults:
    """Yield the lack of power of a plan below 80 %, with its place."""
    watch("simulating the plan", 0, 1)
    found = find_power(protocol)
    watch("simulating the plan", 1, 1)
    if found.suffices:
        return
    target = points(protocol.plan.target_gap)
    yield (
        ("seeds_per_arm",),
        f"{target} in one model would be found with probability {found}, and {LEAST_POWER:.2f} is "
        "needed: `dosimeter power` shows how many instances are enough",
    )
