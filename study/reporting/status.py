"""What is done of a study, and what is owed."""

from __future__ import annotations

from registry.errors import RegistryError
from study.sweeps import cells_of, closed_wave, finished_of, manifest_of
from study.workspace import Study, find_registration

Record = dict[str, object]


def read_status(study: Study) -> list[Record]:
    """One record a step, in the order in which they are done."""
    drawn = study.ledger.last("sealed-set")
    registered = find_registration(study)
    steps = [
        _step("draw", drawn is not None, f"{drawn.body['count']} seeds" if drawn else ""),
        _step("register", registered is not None, registered.plan.name if registered else ""),
    ]
    waves = [_wave(study, wave) for wave in range(len(study.protocol.waves))]
    release = study.ledger.last("release")
    released = _step("publish", release is not None, release.body["location"] if release else "")
    report = study.ledger.last("report")
    through = f"through wave {report.body['through_wave']}" if report else ""
    return [*steps, *waves, released, _step("report", report is not None, through)]


def _step(step: str, done: bool, about: str) -> Record:
    return {"step": step, "state": "done" if done else "to do", "about": about}


def _wave(study: Study, wave: int) -> Record:
    step = f"sweep --wave {wave}"
    models = ", ".join(study.protocol.waves[wave])
    closed = closed_wave(study, wave)
    if closed is not None:
        return _step(step, True, f"{models}: {closed.finished} scored, {closed.missing} missing")
    manifest = manifest_of(study, wave)
    if manifest is None:
        return _step(step, False, models)
    try:
        cells = cells_of(study, manifest)
        about = f"{models}: {len(finished_of(study, cells))} of {len(cells)} episodes"
    except RegistryError:
        about = f"{models}: episodes can be counted with the study's key only"
    return {"step": step, "state": "begun", "about": about}
