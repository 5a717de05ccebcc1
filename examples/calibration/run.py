"""Run the calibration study: python -m examples.calibration.run [FOLDER].

Each step is a command of ``dosimeter``, as a user would type it, but for the training and its own
report (``train`` and ``report`` beside this file). The models are served over HTTP during a sweep.
Interrupted, the same command goes on. Needs dosimeter[spike].
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from examples.calibration import report
from examples.calibration.server import PORT, serving
from examples.calibration.train import FOLDER, TrainedModel, train_models
from study.workspace.address import open_study

EXAMPLE = Path(__file__).with_name("study.yaml")
URL = f"http://127.0.0.1:{PORT}/v1"
DOSES, SEEDS = (0, 1, 2, 4, 8, 16), 3
REASON = "it is a demonstration: a dose with a small gap may stay unfound"
_MAIN = "import sys; from study.main import main; sys.argv[0] = 'dosimeter'; main()"


def main() -> None:
    """Run every step in the folder, by default calibration-study."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "calibration-study")
    if not (folder / "study.yaml").exists():
        dosimeter("init", str(folder))
        (folder / "study.yaml").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    run_study(folder, DOSES, SEEDS)


def run_study(folder: Path, doses: Sequence[int], seeds: int) -> None:
    """Run the study in a folder that has its study.yaml."""
    at = ("--study", str(folder))
    bases = train_models(open_study(folder), (), seeds)
    if not (folder / "release").exists():
        write_models(folder, bases, [list(bases), list(bases)])
    dosimeter("register", *at, "--underpowered", REASON)
    sweep(folder, 0)
    dosimeter("publish", *at)
    models = train_models(open_study(folder), doses, seeds)
    write_models(folder, models, [list(bases), [name for name in models if name not in bases]])
    sweep(folder, 1)
    dosimeter("report", *at)
    dosed = report.report_doses(folder)
    report.write_doses(folder, dosed)
    report.show(dosed)


def sweep(folder: Path, wave: int) -> None:
    """Sweep a wave of the models in the folder, which are served meanwhile."""
    with serving(folder / FOLDER):
        at = ("--study", str(folder), "--wave", str(wave))
        dosimeter("sweep", *at, "--allow-dirty", "--allow-unknown-price")


def section(model: TrainedModel, url: str) -> dict[str, object]:
    """Return a model's section of study.yaml."""
    return {
        "provider": "openai",
        "model": model.served,
        "base_url": url,
        "api_key_env": "",  # the server takes none
        "max_tokens": 256,
        "context": 4096,
        "retention": "none",  # the server is this machine
    }


def write_models(
    folder: Path, models: Mapping[str, TrainedModel], waves: Sequence[Sequence[str]], url: str = URL
) -> None:
    """Put the models and waves into study.yaml."""
    path = folder / "study.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    document["models"] = {name: section(model, url) for name, model in models.items()}
    document["waves"] = [list(wave) for wave in waves]
    text = yaml.safe_dump(document, sort_keys=False, width=100)
    path.write_text(text, encoding="utf-8")


def dosimeter(*arguments: str) -> None:
    """Run a command of the program."""
    subprocess.run([sys.executable, "-c", _MAIN, *arguments], check=True)


if __name__ == "__main__":
    main()
