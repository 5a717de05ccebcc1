"""Forty pairs, twenty units and agents of known training: ``python -m examples.levels.dressed
[FOLDER]``.

Ten dressings of each of the ten built-in families make four pairs a family, one sibling of which
is released, and two units of an area, half of which are. Each step is a command of ``dosimeter``.
The agents are built in: four of before the release, one that has seen nothing, one that remembers
the released instances, and one that has learnt the released dressings and remembers no instance.
About half an hour.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from examples.calibration.run import dosimeter
from generators.catalog import Catalog

PAIRED, ALONE, DIFFICULTY = 8, 2, "easy"
CONTROLS = {"before-1": 0.1, "before-2": 0.2, "before-3": 0.3, "before-4": 0.4}
TESTED: dict[str, dict[str, Any]] = {
    "honest": {"agent": "honest", "error_rate": 0.3},
    "memory": {"agent": "spiked", "error_rate": 0.5, "release": "release"},
    "variant": {"agent": "spiked", "error_rate": 0.5, "release": "release", "generalises": True},
}
REASON = "it is a demonstration"


def main() -> None:
    """Run every step in the folder, by default dressed-study."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dressed-study")
    at = ("--study", str(folder))
    if not (folder / "study.yaml").exists():
        dosimeter("init", str(folder))
        for family in Catalog.built_in().newest():
            out = str(folder / "dressings" / family.name)
            dosimeter("tasks", "dress", family.name, "--n", str(PAIRED + ALONE), "--out", out)
        write_study(folder)
    dosimeter("register", *at, "--underpowered", REASON)
    dosimeter("sweep", *at, "--wave", "0", "--allow-dirty")
    dosimeter("publish", *at)
    dosimeter("sweep", *at, "--wave", "1", "--allow-dirty")
    dosimeter("report", *at)


def write_study(folder: Path) -> None:
    """Write study.yaml: each two dressings that follow each other are a pair, but for the last."""
    tasks = []
    for drafts in sorted((folder / "dressings").iterdir()):
        for number, path in enumerate(sorted(drafts.iterdir())):
            own = {"template": str(path.relative_to(folder)), "questions": [DIFFICULTY]}
            pair = {"pair": f"{drafts.name}-{number // 2 + 1}"}
            tasks.append(own | (pair if number < PAIRED else {"area": "dressings"}))
    before = {
        name: {"agent": "honest", "error_rate": rate, "released": "2024-01-01"}
        for name, rate in CONTROLS.items()
    }
    controls = {"pre_exposure": [*CONTROLS], "frozen": [*CONTROLS]}
    study = {
        "study": "dressed-levels",
        "tasks": tasks,
        "seeds_per_arm": 1,
        "models": {n: {"provider": "scripted"} | own for n, own in (before | TESTED).items()},
        "waves": [[*CONTROLS], [*CONTROLS, *TESTED]],
        "plan": {"preset": "standard-v1", "looks": 1, "controls": controls},
        "sandbox": {"kind": "docker"},
        # Fixed, so that everybody sees the same study. One that matters says `entropy: system`.
        "entropy": "fixed:1e7e150000000000000000000000000000000000000000000000000000000040",
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
