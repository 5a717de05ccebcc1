"""Forty pairs, twenty units, and agents and models of known training: ``python -m
examples.levels.dressed [FOLDER]``.

Ten dressings of each of the ten built-in families make four pairs a family, one sibling of which
is released, and two units of an area, half of which are. Each step is a command of ``dosimeter``.
Agents are built in: four of before the release, one that has seen nothing, one that remembers the
released instances, and one that has learnt the released dressings and remembers no instance. Small
models are trained on the release, on both siblings of each pair, or on nothing of the study. Needs
dosimeter[spike]; about half an hour.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from examples.calibration.model import served_name, weights_bytes
from examples.calibration.run import dosimeter
from examples.calibration.server import PORT, serving
from examples.calibration.train import released_folder
from examples.calibration.training import Rows, check_library, train
from examples.levels.naming_model import (
    ToolHandler,
    drafts,
    first_weights,
    likeliest,
    open_model,
    read_dressing,
    read_file,
    rows_of,
)
from generators.catalog import Catalog
from generators.dressings.family import DressedFamily
from generators.seed import EXAMPLE_SEED
from study.workspace.address import open_study

PAIRED, ALONE, DIFFICULTY = 8, 2, "easy"
CONTROLS = {"before-1": 0.1, "before-2": 0.2, "before-3": 0.3, "before-4": 0.4}
TESTED: dict[str, dict[str, Any]] = {
    "honest": {"agent": "honest", "error_rate": 0.3},
    "memory": {"agent": "spiked", "error_rate": 0.5, "release": "release"},
    "variant": {"agent": "spiked", "error_rate": 0.5, "release": "release", "generalises": True},
}
WEIGHTS = Path("trained")  # below the study's folder
KNOWN = 16  # dressings of each family that every model knows, of no study
BASE_COPIES, KEPT = 40, 3  # copies of these in the first training, and in each later one
TRAININGS = {  # copies of the rows of released dressings, and of their sealed siblings
    "untrained": (0, 0),
    "published-3": (3, 0),
    "published-10": (10, 0),
    "both-5": (5, 5),
}
EACH = 2  # models of each training
BASE_RATE, RATE = 2e-3, 1e-3
REASON = "it is a demonstration"


def main() -> None:
    """Run every step in the folder, by default dressed-study."""
    check_library()
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
    train_models(folder)
    with serving(folder / WEIGHTS, opened=open_model, served_by=ToolHandler):
        dosimeter("sweep", *at, "--wave", "1", "--allow-dirty", "--allow-unknown-price")
    dosimeter("report", *at)
    show(folder)


def write_study(folder: Path) -> None:
    """Write study.yaml: each two dressings that follow each other are a pair, but for the last."""
    tasks = []
    for family in sorted((folder / "dressings").iterdir()):
        for number, path in enumerate(sorted(family.iterdir())):
            own = {"template": str(path.relative_to(folder)), "questions": [DIFFICULTY]}
            pair = {"pair": f"{family.name}-{number // 2 + 1}"}
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


# -- training ----------------------------------------------------------------------------------


def train_models(folder: Path) -> None:
    """Train the models, the same each time on one machine, and put them into study.yaml."""
    (folder / WEIGHTS).mkdir(exist_ok=True)
    rows = [rows_in(families) for families in sides(folder)]
    for number in range(1, EACH + 1):
        rng = np.random.default_rng([number, 0])
        known = rows_in(drafts(KNOWN, EXAMPLE_SEED.child(str(number))))
        base = train(first_weights(rng), np.tile(known, (BASE_COPIES, 1)), BASE_RATE, rng)
        for kind, copies in TRAININGS.items():
            own = [np.tile(side, (n, 1)) for side, n in zip(rows, copies, strict=True)]
            mixed = np.concatenate([np.tile(known, (KEPT, 1)), *own])
            weights = train(base, mixed, RATE, np.random.default_rng([number, 1]))
            name = f"{kind}-{number}"
            (folder / WEIGHTS / f"{name}.npz").write_bytes(weights_bytes(weights))
            print(f"trained {name}", flush=True)
    write_models(folder)


def sides(folder: Path) -> tuple[list[DressedFamily], list[DressedFamily]]:
    """Return the dressings that the release has, and the siblings of those, which stay sealed."""
    release = released_folder(open_study(folder)) / "templates"
    published = [read_dressing(path) for path in sorted(release.iterdir())]
    names = {family.name for family in published}
    tasks = yaml.safe_load((folder / "study.yaml").read_text(encoding="utf-8"))["tasks"]
    paired = (read_dressing(folder / task["template"]) for task in tasks if "pair" in task)
    return published, [family for family in paired if family.name not in names]


def rows_in(families: Iterable[DressedFamily]) -> Rows:
    """Return the rows of dressings."""
    return np.concatenate([rows_of(family) for family in families])


def write_models(folder: Path) -> None:
    """Put the trained models into study.yaml, as models of the last wave."""
    path = folder / "study.yaml"
    study = yaml.safe_load(path.read_text(encoding="utf-8"))
    for file in sorted((folder / WEIGHTS).glob("*.npz")):
        study["models"][file.stem] = {
            "provider": "openai",
            "model": served_name(file),
            "base_url": f"http://127.0.0.1:{PORT}/v1",
            "api_key_env": "",
            "retention": "none",  # the server is this machine
            "context": 16384,
        }
    study["waves"] = [[*CONTROLS], [*study["models"]]]
    path.write_text(yaml.safe_dump(study, sort_keys=False, width=100), encoding="utf-8")


# -- what was found ------------------------------------------------------------------------------


def show(folder: Path) -> None:
    """Print a row for each agent and model, by the newest report and the weights."""
    report = json.loads((folder / "reports" / "wave-1" / "report.json").read_text())
    found = {(row["model"], row["level"]): row for row in report["levels"]}
    published, sealed = sides(folder)
    for row in (each for each in report["models"] if each["wave"] == 1):
        name = row["model"]
        shown = {"model": name, "instance": [row["verdict"], row["estimate"], row["p_adjusted"]]}
        for level in ("variant", "family"):
            own = found[name, level]
            shown[level] = [own["finding"], own["estimate"], own["p_adjusted"]]
        if (file := folder / WEIGHTS / f"{name}.npz").exists():
            shown["right"] = [round(share(file, families), 3) for families in (published, sealed)]
        print(json.dumps(shown))


def share(file: Path, families: Sequence[DressedFamily]) -> float:
    """Return the share of dressings of which a model knows all names."""
    weights = read_file(file.read_bytes())
    rows = [rows_of(family) for family in families]
    return float(np.mean([(likeliest(weights, r[:, :-1]) == r[:, -1]).all() for r in rows]))


if __name__ == "__main__":
    main()
