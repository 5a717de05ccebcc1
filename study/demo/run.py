"""``dosimeter demo``: the main job, on embedded defaults, resumable at any point."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from harness.rayenv import prepare_ray
from registry.clock import utc_now
from study import pipeline
from study.calibrate import FOLDER, CalibrateRequest, calibrate_study, write_calibration
from study.calibrations import record_calibration
from study.console import progress_watch, sweep_watch
from study.folder import Study, is_study
from study.runs import SweepRequest, closed_wave
from study.setup import init_study

if TYPE_CHECKING:
    from analysis.report import Report

DEMO_TASKS = "[count_circles/medium, compute_average/medium]"  # the lines to switch
DEMO_SEEDS, DEMO_MODELS = "seeds_per_arm: 12", "models:\n"
DEMO_WAVE = "[before-1, honest-2, mild-2, strong-2]"

_GROUND = "before-4"  # the clean agent with most to gain by knowing

# A real model of this machine takes part beside the agents. It takes minutes where they take
# moments, so the study is smaller.
_LOCAL_SEEDS = "seeds_per_arm: 2"
_LOCAL_TASKS = "[compute_average/easy]"
_LOCAL_MODEL = "models:\n  {name}: {{provider: local, model: {name}, max_tokens: 200}}\n"
_LOCAL_WAVE = "[before-1, honest-2, mild-2, strong-2, {name}]"


def run_demo(
    folder: Path, sandbox: str, tasks: Sequence[str] = (), model: str | None = None
) -> tuple[Report, Path]:
    """Run the demo's study in a folder, from wherever it stands; its report and the file.

    ``sandbox``, ``tasks`` ("family/difficulty"; none for the demo's own) and ``model``, a local
    one that takes part, are for a new one. Raises HarnessError where its weights are not here.
    """
    say = Console(stderr=True, highlight=False).print
    if not is_study(folder):
        text = (files("study.demo") / "study.yaml").read_text(encoding="utf-8")
        text = text.replace("{kind: docker}", f"{{kind: {sandbox}}}")
        if model is not None:
            text = _with_model(text, model)
        if tasks:
            text = text.replace(DEMO_TASKS, f"[{', '.join(tasks)}]")
            text = text.replace(_LOCAL_TASKS, f"[{', '.join(tasks)}]")
        init_study(folder, text)
    study = pipeline.open_study(folder)
    with progress_watch("drawing") as watch:
        sealed, _ = pipeline.draw(study, watch)
    say(f"drawn and sealed: {sealed.count} seeds in {len(sealed.strata)} strata")
    with progress_watch("registering") as watch:
        registered, _ = pipeline.register(study, watch)
    say(f"registered: {pipeline.describe(registered)}")
    with ExitStack() as session:
        if any(closed_wave(study, wave) is None for wave in range(len(study.protocol.waves))):
            prepare_ray(None)
            from harness.actors import ray_session

            say("starting Ray on this machine")
            session.enter_context(ray_session(None))
        _sweep(study, 0)
        _calibrate(study)
        with progress_watch("publishing") as watch:
            release, _ = pipeline.publish(study, None, watch)
        say(f"released: {release.count} public instances in {folder / release.location}")
        last = len(study.protocol.waves) - 1
        for wave in range(1, last + 1):
            _sweep(study, wave)
            if wave < last:
                _, page = pipeline.report(study, wave)
                say(f"a look through wave {wave}: {page}")
    return pipeline.report(study)


def _calibrate(study: Study) -> None:
    """How large a leak the first wave's scores would show: known before anything is released."""
    made = calibrate_study(study, CalibrateRequest(wave=0, model=_GROUND))
    record_calibration(study, made, utc_now())
    write_calibration(study.folder / FOLDER, made)


def _with_model(text: str, name: str) -> str:
    """The demo's protocol with a local model in its last wave."""
    from harness.models.weights import find_weights

    find_weights(name)
    for old, new in (
        (DEMO_TASKS, _LOCAL_TASKS),
        (DEMO_SEEDS, _LOCAL_SEEDS),
        (DEMO_MODELS, _LOCAL_MODEL.format(name=name)),
        (DEMO_WAVE, _LOCAL_WAVE.format(name=name)),
    ):
        text = text.replace(old, new)
    return text


def _sweep(study: Study, wave: int) -> None:
    # A demo is run from wherever its reader stands: what is not as registered is recorded.
    request = SweepRequest(wave, allow_dirty=True)
    with sweep_watch(f"wave {wave}: {', '.join(study.protocol.waves[wave])}") as watch:
        pipeline.sweep(study, request, watch)
