"""``dosimeter demo``: the main job, on embedded defaults, resumable at any point."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.judge.error_rates import shortfall
from harness.sweep.worker_process import prepare_ray
from registry.ledger.records import JudgePin
from registry.provenance import utc_now
from study.extras.calibrate.from_scores import (
    FOLDER,
    CalibrateRequest,
    calibrate_study,
    record_calibration,
    write_calibration,
)
from study.extras.judge.check import CheckRequest, check_judge
from study.extras.judge.grade import GradeRequest, grade_study
from study.extras.judge.records import rates_of
from study.steps import pipeline
from study.steps.sweep.sweep import SweepRequest
from study.workspace.setup import init_study
from study.workspace.snapshot import closed_wave
from study.workspace.study import Study, is_study

if TYPE_CHECKING:
    from analysis.report.report import Report
    from harness.sweep.leases import Progress

DEMO_TASKS = "[count_circles/medium, compute_average/medium]"  # the lines to switch
DEMO_SEEDS, DEMO_MODELS = "seeds_per_arm: 12", "models:\n"
DEMO_REASON = "it is a demonstration, made small to run in minutes"
DEMO_WAVE = "[before-1, honest-2, mild-2, strong-2]"

_GROUND = "before-4"  # the clean agent with most to gain by knowing

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
    """A new demo. ``tasks`` are "family/difficulty", none for the demo's own; ``model`` is a local
    model that takes part, ``judge`` a built-in judge as second grader."""

    sandbox: str
    tasks: tuple[str, ...] = ()
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
        judge_wave(study, 0, display)
        _calibrate(study)
        with display.progress("publishing") as watch:
            release, _ = pipeline.publish(study, None, watch)
        display.line(f"released: {release.count} public instances in {folder / release.location}")
        last = len(study.protocol.waves) - 1
        for wave in range(1, last + 1):
            _sweep(study, wave, display)
            judge_wave(study, wave, display)
            if wave < last:
                _, page = pipeline.report(study, wave)
                display.line(f"a look through wave {wave}: {page}")
    return pipeline.report(study)


def _protocol(request: DemoRequest) -> str:
    """The text of a demo's study.yaml."""
    text = (files("study") / "demo.yaml").read_text(encoding="utf-8")
    text = text.replace("{kind: docker}", f"{{kind: {request.sandbox}}}")
    if request.model is not None:
        text = _with_model(text, request.model)
    if request.judge is not None:
        text = with_judge(text, request.judge)
    if request.tasks:
        text = text.replace(DEMO_TASKS, f"[{', '.join(request.tasks)}]")
        text = text.replace(_LOCAL_TASKS, f"[{', '.join(request.tasks)}]")
    return text


def _calibrate(study: Study) -> None:
    """Record the size of leak that the first wave's scores would show, before any release."""
    made = calibrate_study(study, CalibrateRequest(wave=0, model=_GROUND))
    record_calibration(study, made, utc_now())
    write_calibration(study.folder / FOLDER, made)


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
    for old, more in (
        (_AGENTS_TEXT, _JUDGE_TEXT),
        (_PRESET, _JUDGE_RULES.format(name=name)),
    ):
        text = text.replace(old, old + more)
    return text.replace(_WAVES, _JUDGE.format(name=name) + _WAVES)


def judge_wave(study: Study, wave: int, display: Display) -> None:
    """Have the study's judges, if it has any, grade a wave: measured before the first, and at a
    later one's look asked once more about the first wave's answers."""
    for pin in study.protocol.judges:
        if wave == 0:
            _measure(study, pin, display)
        _grade(study, GradeRequest((pin.name,), wave), display)
        if wave:
            _grade(study, GradeRequest((pin.name,), again_at=wave), display)
        again = ", and the answers of wave 0 again" if wave else ""
        display.line(f"judge {pin.name}: has graded wave {wave}{again}")


def _grade(study: Study, request: GradeRequest, display: Display) -> None:
    with display.progress("grading") as watch:
        grade_study(study, request, watch, utc_now)


def _measure(study: Study, pin: JudgePin, display: Display) -> None:
    if rates_of(study, pin) is None:
        with display.progress("checking the judge") as watch:
            check_judge(study, CheckRequest(pin.name), watch, utc_now)
    rates = rates_of(study, pin)
    missed = [
        shortfall(rule, rates)
        for rule in study.protocol.registered_plan().judges
        if rule.name == pin.name
    ]
    display.line(
        f"judge {pin.name}: {'; '.join(filter(None, missed)) or 'as good as the plan asks'}"
    )


def _sweep(study: Study, wave: int, display: Display) -> None:
    # A demo may run in any working tree: deviations from the registration are recorded.
    request = SweepRequest(wave, allow_dirty=True)
    with display.sweep(f"wave {wave}: {', '.join(study.protocol.waves[wave])}") as watch:
        pipeline.sweep(study, request, watch)
