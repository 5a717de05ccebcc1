"""``dosimeter demo``: the main job, on embedded defaults, resumable at any point."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from analysis.report.report import Report
from study.catalogue import contributions
from study.printing import progress_watch
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.sweep.live import sweep_watch
from study.steps.sweep.sweep import SweepRequest
from study.workspace.study import is_study

DEMO_REASON = "it is a demonstration, made small to run in minutes"


def run_demo(folder: Path, sandbox: str, address: str | None = None) -> tuple[Report, Path]:
    """Run the demo's study in a folder, or resume it, then in its own ``sandbox``; on this machine,
    or on the cluster at an ``address``. Return its report and the page."""
    if not is_study(folder):
        write_demo(folder, sandbox)
    study = pipeline.open_study(folder)
    with progress_watch("drawing") as watch:
        sealed, _ = pipeline.draw(study, watch, DEMO_REASON)
    _say(f"drawn and sealed: {sealed.count} seeds in {len(sealed.strata)} strata")
    with progress_watch("registering") as watch:
        registered, _ = pipeline.register(study, watch)
    _say(f"registered: {pipeline.describe(registered)}")
    for wave, models in enumerate(study.protocol.waves):
        # A demo may run in any working tree: deviations from the registration are recorded.
        request = SweepRequest(wave, allow_dirty=True, address=address)
        with sweep_watch(f"wave {wave}: {', '.join(models)}") as watch:
            pipeline.sweep(study, request, watch)
        for act in contributions("after_demo_wave"):
            act(study, wave)
        if not wave:
            with progress_watch("publishing") as watch:
                release, _ = pipeline.publish(study, None, watch)
            _say(f"released: {release.count} public instances in {folder / release.location}")
        elif wave < len(study.protocol.waves) - 1:
            _, page = pipeline.report(study, wave)
            _say(f"a look through wave {wave}: {page}")
    return pipeline.report(study)


def write_demo(folder: Path, sandbox: str) -> None:
    """Write the folder of the demo's study, with the pairs of tasks that extras make for it."""
    text = (files("study.steps.demo") / "demo.yaml").read_text(encoding="utf-8")
    text = text.replace("{kind: docker}", f"{{kind: {sandbox}}}")
    more = "".join(line for make in contributions("demo_pairs") for line in make(folder))
    init_study(folder, text.replace("seeds_per_arm: 2", f"{more}seeds_per_arm: {1 if more else 2}"))


def _say(line: str) -> None:
    click.echo(line, err=True)
