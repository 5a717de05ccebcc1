"""Size and power of the tests of levels, from a process of its own: a line of JSON a setting.

    python -m examples.levels.size [--studies N] [--jobs N] [NAME ...]

A score is the share of three points that an instance gives, by chances that differ from unit to
unit, from model to model, and from unit to unit within a model by τ: Student's t with three degrees
of freedom. Units have 2 to 20 instances of their own; half of them are published, by lot.
"""

from __future__ import annotations

import argparse
import json
import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from analysis.data.table import SCHEMA, table_of_frame
from analysis.levels.levels import LevelLook, LevelVerdict, level_verdicts
from analysis.plan.history import NO_HISTORY
from analysis.plan.look import analyse
from analysis.plan.presets import standard_plan
from analysis.plan.verdict import CONTAMINATED
from registry.ledger.draw_records import FAMILY, VARIANT, Unit
from registry.ledger.records import Plan
from registry.result_row import GRADER, Arm

CONTROLS = tuple(f"control-{n}" for n in range(4))
ALPHA, POINTS, RUNS = 0.025, 3, 2  # of a test; of a score; runs of a control model
LOOKS, MODELS = 8, 3  # of the family-wise rate


@dataclass(frozen=True, slots=True)
class Setting:
    """Units of a level, their τ, the instances of each at least and at most, and the gap of the
    one new model; ``lists`` areas."""

    level: str
    units: int  # pairs at the variant level
    tau: float
    gap: float = 0.0
    instances: tuple[int, int] = (2, 20)
    areas: int = 1
    normal: bool = False  # units differ by the normal distribution, not by t

    @property
    def made(self) -> list[Unit]:
        """The units."""
        if self.level == VARIANT:
            names = [(f"p{n:03d}{side}", f"p{n:03d}") for n in range(self.units) for side in "ab"]
        else:
            names = [(f"u{n:03d}", f"area {n % self.areas}") for n in range(self.units)]
        return [Unit(name, self.level, area, (f"{name}/easy",)) for name, area in names]


SETTINGS = {
    **{f"size, {n} pairs": Setting(VARIANT, n, 0.10) for n in (6, 9, 24, 40)},
    **{f"size, {n} units": Setting(FAMILY, n, 0.15) for n in (8, 40, 200)},
    "size, 40 units in four areas": Setting(FAMILY, 40, 0.15, areas=4),
    **{
        f"power, {n} pairs, τ {tau}": Setting(VARIANT, n, tau, 0.1, (15, 15), normal=True)
        for n, tau in ((11, 0.04), (24, 0.10), (71, 0.20))
    },
    "power, 40 pairs, τ 0.03": Setting(VARIANT, 40, 0.03, 0.1, (15, 15), normal=True),
    "power, 40 pairs, τ 0.1": Setting(VARIANT, 40, 0.10, 0.1, (15, 15), normal=True),
    "power, 35 families, τ 0.1": Setting(FAMILY, 35, 0.10, 0.1, (15, 15), normal=True),
    "power, 10 families, τ 0.1": Setting(FAMILY, 10, 0.10, 0.1, (15, 15), normal=True),
}
WHOLE = "three levels, eight looks of three models"


def plan_of(looks: int, permutations: int) -> Plan:
    """A plan whose levels have ``ALPHA`` each; τ is never too large."""
    rule = {"outcomes": ("score",), "looks": looks, "permutations": permutations}
    made = standard_plan(("a",), 8, pre_exposure=CONTROLS, sensitivity=(), **rule)
    return replace(made, level_alpha=ALPHA, most_tau=1.0)


def rows_of(
    random: np.random.Generator, each: Setting, out: set[str], wave: int, models: list[str]
) -> Any:
    """The rows of a wave as a data frame: fresh instances of each unit for all models."""
    import pandas as pd

    units, columns = each.made, {}
    counts = random.integers(each.instances[0], each.instances[1] + 1, len(units))
    unit = np.repeat(np.arange(len(units)), counts)
    # Siblings are as hard as one another; units of an area are not.
    areas = np.unique([one.area for one in units], return_inverse=True)[1]
    hard = random.uniform(0.3, 0.7, len(units))[areas if each.level == VARIANT else slice(None)]
    own = random.normal(0, 0.08, len(unit))  # of an instance
    shown = np.array([one.name in out for one in units])
    for model in models:
        new = model not in CONTROLS
        draws = random.standard_normal if each.normal else _heavy(random)
        chance = hard + random.uniform(-0.1, 0.1) + each.tau * draws(len(units))
        chance = np.clip((chance + each.gap * new * shown)[unit] + own, 0.0, 1.0)
        columns[model] = [
            random.binomial(POINTS, chance) / POINTS for _ in range(1 if new else RUNS)
        ]
    runs = [(model, run, own) for model, each in columns.items() for run, own in enumerate(each)]
    count, strata = len(unit), np.array([one.strata[0] for one in units], dtype=object)[unit]
    blank = {"string": "", "int64": 0, "float64": np.nan}
    absent: dict[str, Any] = {name: blank.get(kind, np.nan) for name, kind in SCHEMA.items()}
    absent |= {"arm": str(Arm.PRIVATE), "status": "scored", "grader": GRADER, "date": None}
    given = {
        "instance": [f"{wave} {name} {i}" for i, name in enumerate(strata)] * len(runs),
        "stratum": np.tile(strata, len(runs)),
        "model": np.repeat([model for model, _, _ in runs], count),
        "replicate": np.repeat([run for _, run, _ in runs], count),
        "score": np.concatenate([own for _, _, own in runs]),
        "wave": wave,
    }
    return pd.DataFrame(absent | given)


def _heavy(random: np.random.Generator) -> Any:
    return lambda size: random.standard_t(3, size) / math.sqrt(3)


def published(random: np.random.Generator, units: list[Unit]) -> set[str]:
    """Half of the units of each area, rounded up, by lot."""
    areas: dict[str, list[str]] = {}
    for unit in units:
        areas.setdefault(unit.area, []).append(unit.name)
    lots = (random.permutation(own)[: -(-len(own) // 2)] for own in areas.values())
    return {str(name) for lot in lots for name in lot}


def found(
    plan: Plan, units: list[Unit], out: set[str], frame: Any, seed: int
) -> list[LevelVerdict]:
    """The verdicts of levels on rows."""
    table = table_of_frame(frame, "rows")
    return [*level_verdicts(plan, LevelLook(table, units, out, f"sha256:{seed}", NO_HISTORY))]


def one_study(each: Setting, seed: int) -> bool:
    """Whether the one new model of a study is called."""
    random, units = np.random.default_rng([seed, each.units]), each.made
    out = published(random, units)
    frame = rows_of(random, each, out, 1, [*CONTROLS, "new"])
    (verdict,) = found(plan_of(1, 999), units, out, frame, seed)
    return bool(verdict.verdict.p_adjusted is not None and verdict.verdict.p_adjusted <= ALPHA)


def whole_study(seed: int) -> bool:
    """Whether any of three models of any of eight looks is called at any level."""
    import pandas as pd

    random = np.random.default_rng([seed, 777])
    levels = [
        Setting(VARIANT, 12, 0.08, instances=(6, 6)),
        Setting(FAMILY, 14, 0.12, instances=(6, 6)),
    ]
    units = [unit for each in levels for unit in each.made]
    out = published(random, units)
    looks = []
    for wave in range(1, LOOKS + 1):
        models = [*CONTROLS, *(f"new-{wave}-{n}" for n in range(MODELS))]
        looks += [rows_of(random, each, out, wave, models) for each in levels]
    private = pd.concat(looks, ignore_index=True)
    # Arms of the instance level: half of the instances of each published unit and wave.
    strata = sorted({f"{name}/easy" for name in out})
    own = private[private["stratum"].isin(strata)].drop_duplicates("instance")
    lots = own.groupby(["wave", "stratum"])["instance"].apply(lambda names: [*names])
    public = {str(name) for names in lots for name in random.permutation(names)[: len(names) // 2]}
    arms = private.assign(arm=np.where(private["instance"].isin(public), "public", "private"))
    plan = replace(plan_of(LOOKS, 3_999), level_alpha=ALPHA / 2)
    registered = replace(plan, strata=tuple(strata), seeds_per_arm=3)
    of_instances = analyse(
        registered, table_of_frame(arms[arms["stratum"].isin(strata)], "rows"), "sha256:0"
    )
    called = any(each.verdict == CONTAMINATED for each in of_instances.verdicts)
    return called or any(each.finding == "shown" for each in found(plan, units, out, private, seed))


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {[*SETTINGS, WHOLE]}")
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs) as pool:
        for name in given.names or [*SETTINGS, WHOLE]:
            one = whole_study if name == WHOLE else partial(one_study, SETTINGS[name])
            of = given.studies if name != WHOLE else max(20, given.studies // 5)
            rate = float(np.mean([*pool.map(one, range(of), chunksize=10)]))
            error = math.sqrt(max(rate, 1 / of) * (1 - min(rate, 1 - 1 / of)) / of)
            row = {
                "setting": name,
                "studies": of,
                "called": round(rate, 4),
                "error": round(error, 4),
            }
            print(json.dumps(row, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
