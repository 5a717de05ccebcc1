"""Run the calibration study: python -m examples.calibration.run [FOLDER].

Each step is a command of ``dosimeter``, as a user would type it. Interrupted, the same command goes
on. Needs dosimeter[spike].
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

EXAMPLE = Path(__file__).with_name("study.yaml")
DOSES, SEEDS = "0,1,2,4,8,16", 3
REASON = "it is a demonstration: a dose with a small gap may stay unfound"
_MAIN = "import sys; from study.cli.main import main; sys.argv[0] = 'dosimeter'; main()"


def main() -> None:
    """Run every step in the folder, by default calibration-study."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "calibration-study")
    if not (folder / "study.yaml").exists():
        dosimeter("init", str(folder))
        (folder / "study.yaml").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    run_study(folder, DOSES, SEEDS)


def run_study(folder: Path, doses: str, seeds: int) -> None:
    """Run the study in a folder that has its study.yaml."""
    at = ("--study", str(folder))
    bases = train(*at, "--base", "--training-seeds", str(seeds))
    if not (folder / "release").exists():
        write_models(folder, bases, [list(bases), list(bases)])
    dosimeter("register", *at, "--underpowered", REASON)
    dosimeter("sweep", *at, "--wave", "0", "--allow-dirty")
    dosimeter("publish", *at)
    models = train(*at, "--doses", doses, "--mixed", "--training-seeds", str(seeds))
    write_models(folder, models, [list(bases), [name for name in models if name not in bases]])
    dosimeter("sweep", *at, "--wave", "1", "--allow-dirty")
    dosimeter("report", *at)
    dosimeter("calibrate", "report", *at)


def write_models(folder: Path, models: dict[str, Any], waves: list[list[str]]) -> None:
    """Put the models and waves into study.yaml."""
    path = folder / "study.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    document |= {"models": models, "waves": waves}
    text = yaml.safe_dump(document, sort_keys=False, width=100)
    path.write_text(text, encoding="utf-8")


def train(*arguments: str) -> dict[str, Any]:
    """Train models; return their sections of study.yaml by name."""
    command = [sys.executable, "-c", _MAIN, "calibrate", "train", *arguments, "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    models: dict[str, Any] = json.loads(done.stdout)["models"]
    return models


def dosimeter(*arguments: str) -> None:
    """Run a command of the program."""
    subprocess.run([sys.executable, "-c", _MAIN, *arguments], check=True)


if __name__ == "__main__":
    main()
