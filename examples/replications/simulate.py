"""Size and power for given items, with the spread of a published matrix from problem to problem.

    python -m examples.replications.simulate [--studies N] [--known SHARE ...]

The problems of LiveCodeBench are items of its platforms and difficulties. A study draws one model
to test and four control models, allots the problems to the arms by lot, and runs each model once (a
control model twice) with its published chances of passing. A known share of the public problems is
always passed. A line of JSON for each share: how often the registered test of one look calls the
model contaminated, at its one-sided .025.
"""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

import numpy as np
import pandas as pd

from analysis.data.table import SCHEMA, table_of_frame
from analysis.plan.look import analyse
from analysis.plan.presets import standard_plan
from analysis.plan.verdict import CONTAMINATED
from examples.replications.run import livecodebench
from registry.result_row import GRADER

CONTROLS = 4


def published() -> tuple[pd.DataFrame, pd.Series]:
    """The chance of passing, a row a problem and a column a model; and the stratum of each."""
    table, _ = livecodebench()
    wide = table.pivot(index="instance", columns="model", values="score").dropna(axis=1)
    return wide, table.drop_duplicates("instance").set_index("instance")["stratum"].loc[wide.index]


def rows_of(
    random: np.random.Generator, chances: pd.DataFrame, stratum: pd.Series, known: float
) -> pd.DataFrame:
    """The rows of a study; the first column of ``chances`` is the model that knows a share."""
    lots = pd.Series(random.random(len(stratum)), stratum.index).groupby(stratum).rank()
    half = stratum.map(stratum.value_counts()) / 2
    public = (lots <= half).to_numpy()
    leaked = public & (random.random(len(public)) < known)
    blank = {"string": "", "int64": 0, "float64": np.nan}
    parts = []
    for place, (model, chance) in enumerate(chances.items()):
        for run in range(1 + (place > 0)):
            passed = (random.random(len(chance)) < chance.to_numpy()) | (leaked & (place == 0))
            parts.append(
                pd.DataFrame({"instance": chance.index, "stratum": stratum.to_numpy()}).assign(
                    model=str(model),
                    replicate=run,
                    score=passed.astype(float),
                    arm=np.where(public, "public", "private"),
                )
            )
    rows = pd.concat(parts, ignore_index=True)
    absent: dict[str, Any] = {name: blank.get(kind, np.nan) for name, kind in SCHEMA.items()}
    absent |= {"status": "scored", "grader": GRADER, "unit": "", "date": None}
    return rows.assign(**{name: value for name, value in absent.items() if name not in rows})


def is_called(seed: int, chances: pd.DataFrame, stratum: pd.Series, known: float) -> bool:
    """Whether the test calls a model of one study."""
    random = np.random.default_rng(seed)
    drawn = random.permutation(chances.columns)[: CONTROLS + 1]
    rows = rows_of(random, chances[[*drawn]], stratum, known)
    strata = sorted(set(stratum))
    sizes = tuple(int(n) // 2 for n in stratum.value_counts().loc[strata])
    rule = {"outcomes": ("score",), "looks": 1, "permutations": 999}
    plan = standard_plan(strata, sizes, pre_exposure=drawn[1:].tolist(), sensitivity=(), **rule)
    (verdict,) = analyse(plan, table_of_frame(rows, "rows"), f"sha256:{seed}").verdicts
    return verdict.verdict == CONTAMINATED


def main() -> None:
    """Print a line for each share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--known", type=float, nargs="+", default=[0.0, 0.05, 0.1])
    given = parser.parse_args()
    chances, stratum = published()
    for known in given.known:
        calls = [is_called(seed, chances, stratum, known) for seed in range(given.studies)]
        rate = float(np.mean(calls))
        error = math.sqrt(max(rate * (1 - rate), 1 / len(calls)) / len(calls))
        print(
            json.dumps(
                {
                    "items": len(chances),
                    "models": len(chances.columns),
                    "known": known,
                    "studies": len(calls),
                    "called": round(rate, 4),
                    "error": round(error, 4),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
