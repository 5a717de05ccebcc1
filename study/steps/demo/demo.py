"""``dosimeter demo``: the main job, on embedded defaults, resumable at any point."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from harness.sweep.worker_process import prepare_ray
from study.catalogue import contributions
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.sweep.sweep import SweepRequest
from study.workspace.snapshot import closed_wave
from study.workspace.study import Study, is_study

if TYPE_CHECKING:
    from analysis.report.report import Report
    from harness.sweep.leases import Progress

DEMO_TASKS = "[count_circles/medium, compute_average/medium]"  # the lines to switch
DEMO_SEEDS, DEMO_MODELS = "seeds_per_arm: 12", "models:\n"
DEMO_REASON = "it is a demonstration, made small to run in minutes"
DEMO_WAVE = "[before-1, honest-2, mild-2, strong-2]"


# A real model of this machine takes part beside the agents. It takes minutes where they take
# moments, so the study is smaller.
_LOCAL_SEEDS = "seeds_per_arm: 2"
_LOCAL_TASKS = "[compute_average/easy]"
_LOCAL_MODEL = "models:\n  {name}: {{provider: local, model: {name}, max_tokens: 200}}\n"
_LOCAL_WAVE = "[before-1, honest-2, mild-2, strong-2, {name}]"

# A judge without meaningful verdicts: nothing follows from its grades.
_AGENTS_TEXT = "one that remembers all of it.\n"
_JUDGE_TEXT = """\
  A judge is asked for a second opinion. It reads carelessly and, as its maker changes what is
  served, has read the release itself from the day that it is out.
"""
_WAVES = "\nwaves:\n"
_JUDGE = """\

# No judge to trust: it looks whether a number stands in an answer, and not of what it is said.
judges:
  {name}:
    {{provider: scripted, agent: {name}, release: release, family: {name}, released: 2025-02-01}}
"""
_PRESET = "  preset: standard-v1\n"
_JUDGE_RULES = """\
  second_grader: {name}
  judges:
    {name}: {{min_sensitivity: 0.9, min_specificity: 0.9, min_kappa: 0.8}}
"""


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """A new demo: ``model`` is a local model that takes part, ``judge`` a built-in judge as second
    grader."""

    sandbox: str
    model: str | None = None
    judge: str | None = None


@dataclass(frozen=True, slots=True)
class Display:
    """Output of a demo: a line of text, the progress of a step or of a sweep."""

    line: Callable[[str], None]
    progress: Callable[[str], AbstractContextManager[Callable[[str, int, int], None]]]
    sweep: Callable[[str], AbstractContextManager[Callable[[Progress], None]]]


def run_demo(folder: Path, request: DemoRequest, display: Display) -> tuple[Report, Path]:
    """Run the demo's study in a folder, or resume it, which takes nothing of the request. Return
    its report and the page. Raises HarnessError if the model's weights are not on this machine."""
    if not is_study(folder):
        init_study(folder, _protocol(request))
    study = pipeline.open_study(folder)
    with display.progress("drawing") as watch:
        sealed, _ = pipeline.draw(study, watch, DEMO_REASON)
    display.line(f"drawn and sealed: {sealed.count} seeds in {len(sealed.strata)} strata")
    with display.progress("registering") as watch:
        registered, _ = pipeline.register(study, watch)
    display.line(f"registered: {pipeline.describe(registered)}")
    with ExitStack() as session:
        if any(
            closed_wave(study.ledger, wave) is None for wave in range(len(study.protocol.waves))
        ):
            address = study.protocol.sweep.address
            prepare_ray(address)
            from harness.sweep.ray_cluster import ray_session

            display.line(f"connecting to Ray at {address}" if address else "starting Ray here")
            session.enter_context(ray_session(address))
        _sweep(study, 0, display)
        _after(study, 0, display)
        with display.progress("publishing") as watch:
            release, _ = pipeline.publish(study, None, watch)
        display.line(f"released: {release.count} public instances in {folder / release.location}")
        last = len(study.protocol.waves) - 1
        for wave in range(1, last + 1):
            _sweep(study, wave, display)
            _after(study, wave, display)
            if wave < last:
                _, page = pipeline.report(study, wave)
                display.line(f"a look through wave {wave}: {page}")
    return pipeline.report(study)


def _after(study: Study, wave: int, display: Display) -> None:
    """Have the extras do what they do with a wave that is closed."""
    for act in contributions("after_demo_wave"):
        act(study, wave, display)


def _protocol(request: DemoRequest) -> str:
    """The text of a demo's study.yaml."""
    text = (files("study.steps.demo") / "demo.yaml").read_text(encoding="utf-8")
    text = text.replace("{kind: docker}", f"{{kind: {request.sandbox}}}")
    if request.model is not None:
        text = _with_model(text, request.model)
    if request.judge is not None:
        text = with_judge(text, request.judge)
    return text


def _with_model(text: str, name: str) -> str:
    """The demo's protocol with a local model in its last wave."""
    from harness.models.local import find_weights

    find_weights(name)
    for old, new in (
        (DEMO_TASKS, _LOCAL_TASKS),
        (DEMO_SEEDS, _LOCAL_SEEDS),
        (DEMO_MODELS, _LOCAL_MODEL.format(name=name)),
        (DEMO_WAVE, _LOCAL_WAVE.format(name=name)),
    ):
        text = text.replace(old, new)
    return text


def with_judge(text: str, name: str) -> str:
    """The demo's protocol with a built-in judge as its second grader."""
    for old, more in ((_AGENTS_TEXT, _JUDGE_TEXT), (_PRESET, _JUDGE_RULES.format(name=name))):
        text = text.replace(old, old + more)
    return text.replace(_WAVES, _JUDGE.format(name=name) + _WAVES)


def _sweep(study: Study, wave: int, display: Display) -> None:
    # A demo may run in any working tree: deviations from the registration are recorded.
    request = SweepRequest(wave, allow_dirty=True)
    with display.sweep(f"wave {wave}: {', '.join(study.protocol.waves[wave])}") as watch:
        pipeline.sweep(study, request, watch)
