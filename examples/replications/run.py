"""Published scores, tested again: ``python -m examples.replications.run NAME [--json]`` writes a
table and runs ``dosimeter analyze`` on it. docs/replications.md says what its authors found, and
what we find."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.main import main

if TYPE_CHECKING:
    import pandas as pd

_DATA = Path(__file__).with_name("data")
# A problem of LiveCodeBench is from a contest of a known day. Those before this day are the public
# arm: models that have read texts up to 30 August 2023 may have read them, and none of the others.
_CUT = "2023-09-01"
_FIRST = "2023-04-30"  # no problem is older: models that have read texts up to here know none


def livecodebench(platform: str = "") -> tuple[pd.DataFrame, list[str]]:
    """The table, and the models that cannot have read its problems. Of Codeforces there are too few
    problems: some of its strata have one arm."""
    import pandas as pd

    rows = pd.read_csv(_DATA / "livecodebench-2024.csv.gz")
    rows = rows[rows["platform"] == platform if platform else rows["platform"] != "codeforces"]
    table = pd.DataFrame(
        {
            "model": rows["model"],
            "arm": rows["date"].lt(_CUT).map({True: "public", False: "private"}),
            "stratum": rows["platform"] + "/" + rows["difficulty"],
            "instance": rows["problem"],
            "score": rows["pass_percent"] / 100,
            "allocation": "time",
        }
    )
    # What the data call the release of a model is the last day of what it has read.
    unexposed = rows.loc[rows["release"] < _FIRST, "model"]
    return table, sorted({*unexposed})


def mmlu_cf(shots: str) -> tuple[pd.DataFrame, list[str]]:
    """The counts of one setting; both have the same questions, so that they are no two strata. How
    its authors split the questions is not in the data: here it is taken for random."""
    import pandas as pd

    counts = pd.read_csv(_DATA / "mmlu-cf.csv")
    return counts[counts["stratum"] == shots].assign(allocation="random"), []


REPLICATIONS: Mapping[str, Callable[[], tuple[Any, list[str]]]] = {
    "livecodebench": livecodebench,
    "livecodebench-leetcode": lambda: livecodebench("leetcode"),
    "mmlu-cf": lambda: mmlu_cf("5-shot"),
    "mmlu-cf-0-shot": lambda: mmlu_cf("0-shot"),
}


def run(name: str, *options: str) -> None:
    """Analyse the table of a name. Raises KeyError for an unknown one."""
    table, unexposed = REPLICATIONS[name]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.csv"
        table.to_csv(path, index=False)
        controls = [part for model in unexposed for part in ("--pre-exposure", model)]
        main(["analyze", str(path), *controls, *options], standalone_mode=False)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in REPLICATIONS:
        run(*sys.argv[1:])
    else:
        sys.exit(f"give one of {', '.join(REPLICATIONS)}")
