"""`dosimeter calibrate --run`: agents that know a part of a release, through the real pipeline.

A scratch study of its own, in a folder of its own, with its own key and its own seeds: same tasks,
seeds an arm, replicates, sandbox and plan. An honest agent before the release; after it, agents
that have read the release and remember a share of it each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.calibrate.calibration import (
    DOSES,
    DoseTrials,
    check_doses,
    measure,
    one_model_studies,
)
from analysis.data.seed_means import make_seed_means
from analysis.plan.presets import STANDARD
from analysis.plan.primary import look_data
from analysis.stats.permutation import permutation_seed
from generators.templates.library import NAMES
from harness.sweep.worker_process import prepare_ray
from registry.ledger.records import Plan, record_digest
from registry.provenance import utc_now
from registry.result_row import GRADER
from study.errors import WorkOwedError
from study.extras.calibrate.from_scores import Calibrated, most_tested
from study.protocol.protocol import FILE_NAME
from study.protocol.yaml import read_yaml
from study.steps.init.folder import init_study
from study.steps.publish.release import publish_arm
from study.steps.register.draw import draw_seeds
from study.steps.sweep.exposure_ledger import exact_table
from study.steps.sweep.sweep import SweepRequest, sweep_wave
from study.workspace.address import open_study
from study.workspace.setup import register_plan, registration_of
from study.workspace.snapshot import closed_wave, take_snapshot
from study.workspace.study import Study, is_study

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from harness.sweep.leases import Progress

HONEST = "honest"
ERROR_RATE = 0.35  # of agents, where the study has none of its own
_SHARED = ("tasks", "seeds_per_arm", "replicates", "sandbox", "sweep")
_LEFT_OUT = ("judges", "second_grader", "controls", "sensitivity")

Watching = Callable[[str], "AbstractContextManager[Callable[[Progress], None]]"]


def _unwatched(step: str, done: int, of: int) -> None:
    """Report no progress: a scratch study's steps other than its sweeps take seconds."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A calibration by agents that remember a share of a release."""

    doses: tuple[float, ...] = DOSES
    replicates: int = 1


@dataclass(frozen=True, slots=True)
class Scratch:
    """A scratch study: folder, text of its study.yaml, and the share that each agent knows."""

    folder: Path
    text: str
    agents: tuple[tuple[str, float], ...]
    episodes: int


def plan_run(study: Study, request: RunRequest, folder: Path) -> Scratch:
    """Return the scratch study, its folder named by the digest of its text, so that the same
    request resumes it. Nothing is written. Raises StudyError, AnalysisError."""
    doses = check_doses(request.doses, request.replicates)
    registered = registration_of(study)
    agents = tuple(
        (f"known-{round(1e4 * dose):05d}-{number:02d}", dose)
        for dose in doses
        for number in range(1, request.replicates + 1)
    )
    registration = record_digest(registered)
    body = _protocol(study, registered.plan, agents, registration)
    text = json.dumps(body, indent=1, ensure_ascii=False) + "\n"
    name = hashlib.sha256(text.encode()).hexdigest()[:8]
    instances = 2 * study.protocol.seeds_per_arm * len(study.protocol.tasks)
    episodes = instances * study.protocol.replicates * (1 + len(agents))
    return Scratch(folder / f"scratch-{name}", text, agents, episodes)


def run_calibration(
    study: Study, scratch: Scratch, request: RunRequest, watching: Watching
) -> Calibrated:
    """Run or resume the scratch study, and the registered test on each agent. Raises as the steps
    of a study do."""
    if not is_study(scratch.folder):
        init_study(scratch.folder, scratch.text)
    scratch_study = open_study(scratch.folder)
    draw_seeds(scratch_study, _unwatched, utc_now)
    register_plan(scratch_study, _unwatched, utc_now())
    with ExitStack() as session:
        if any(closed_wave(scratch_study.ledger, wave) is None for wave in (0, 1)):
            address = scratch_study.protocol.sweep.address
            prepare_ray(address)
            from harness.sweep.ray_cluster import ray_session

            session.enter_context(ray_session(address))
        _sweep(scratch_study, 0, watching)
        publish_arm(scratch_study, False, _unwatched, utc_now)
        _sweep(scratch_study, 1, watching)
    return _measure(study, scratch_study, scratch)


def _sweep(scratch_study: Study, wave: int, watching: Watching) -> None:
    # A scratch study promises no commit: the ledger records the one that it ran with.
    wanted = SweepRequest(wave, allow_dirty=True)
    with watching(f"wave {wave} of the scratch study") as watch:
        outcome = sweep_wave(scratch_study, wanted, watch, utc_now)
    if outcome.closed is None:
        raise WorkOwedError(
            f"{scratch_study.folder}: wave {wave}: episodes failed on every attempt; the same "
            f"command tries them again, and `dosimeter sweep --wave {wave} --close-missing` gives "
            "them up"
        )


def _measure(study: Study, scratch_study: Study, scratch: Scratch) -> Calibrated:
    registered = registration_of(study)
    plan, registration = registered.plan, record_digest(registered)
    snapshot = take_snapshot(scratch_study)
    table = exact_table(snapshot, snapshot.closed_waves)
    means = make_seed_means(table.where(table["grader"] == GRADER), plan.outcomes, plan.strata)
    doses = dict(scratch.agents)
    tested = means.where(1, list(doses))
    controls = [] if plan.standard is None else means.where(0, [HONEST])
    data = look_data(means, tested, controls)
    tested_means = data.means
    labels = np.repeat(tested_means.public[:, None], len(tested), axis=1)
    scores = data.studies(range(len(tested))).scores
    studies = one_model_studies(scores, labels, tested_means.stratum, tested_means.tranche)
    trials = DoseTrials(studies, tuple(doses[name] for name in tested_means.models))
    seed = permutation_seed(registration, "C2", "calibrate", "run")
    calibration = measure(plan, trials, seed)
    notes = (
        "Replicates share one draw of instances and arms; agents of one dose differ in what they "
        "remember and in their luck.",
        "Each agent is tested alone: a look with several models adjusts p over them, and is a "
        "little blunter.",
    )
    return Calibrated(
        how="run",
        study=study.protocol.name,
        registration=registration,
        plan=plan,
        model="built-in agents",
        wave=1,
        known="what the agents do",
        covered=data.covered,
        notes=notes,
        found=calibration,
        tested=max(most_tested(study, plan), 1),
    )


def _protocol(
    study: Study, plan: Plan, agents: tuple[tuple[str, float], ...], registration: str
) -> dict[str, Any]:
    """Return study.yaml of the scratch study."""
    document = read_yaml(study.folder / FILE_NAME).value
    rate = _error_rate(study)
    models: dict[str, Any] = {HONEST: _agent("honest", rate)}
    for name, dose in agents:
        models[name] = _agent("spiked", rate) | {"release": "release", "share": dose}
    section = {k: v for k, v in (document.get("plan") or {}).items() if k not in _LEFT_OUT}
    section["looks"] = plan.looks  # alpha is shared among as many
    if plan.name == STANDARD:
        section["controls"] = {"pre_exposure": [HONEST], "spiked": [name for name, _ in agents]}
    draw = hashlib.sha256(f"{registration}|C2|calibrate|scratch".encode()).hexdigest()
    shared = {key: document[key] for key in _SHARED if key in document}
    return shared | {
        "study": f"{study.protocol.name[:50]}-calibration",
        "tasks": [_task(study, task) for task in document["tasks"]],
        "models": models,
        "waves": [[HONEST], [name for name, _ in agents]],
        "plan": section,
        "entropy": f"fixed:{draw}",
    }


def _agent(kind: str, rate: float) -> dict[str, Any]:
    return {"provider": "scripted", "agent": kind, "error_rate": rate}


def _error_rate(study: Study) -> float:
    """Return the error rate of the study's own built-in agents, if it has any."""
    for pin in study.protocol.models:
        settings = dict(pin.settings)
        if pin.provider == "scripted" and settings.get("agent") == '"honest"':
            return float(settings.get("error_rate", ERROR_RATE))
    return ERROR_RATE


def _task(study: Study, task: Any) -> Any:
    """Return a task as study.yaml has it, with an absolute path to its template file."""
    if isinstance(task, str):
        return _place(study, task) if task.endswith((".yml", ".yaml")) else task
    if isinstance(task, dict) and "template" in task:
        return task | {"template": _place(study, str(task["template"]))}
    return task


def _place(study: Study, template: str) -> str:
    path = study.folder / template
    if not path.is_file() and template in NAMES:
        return template
    return str(path.resolve())
