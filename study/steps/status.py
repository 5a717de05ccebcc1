"""The status of a study: its steps, what is done and what is owed."""

from __future__ import annotations

import click

from generators.yaml_lines import key_of
from registry.errors import RegistryError
from registry.ledger.records import ELSEWHERE
from study.options import json_option, study_option
from study.printing import print_records
from study.protocol.draw_checks import tested_models
from study.steps.sweep.failing import failing_words, stored_failures
from study.workspace.setup import find_registration
from study.workspace.snapshot import StudySnapshot, take_snapshot
from study.workspace.study import Study

_SHOWN = 10


def read_status(study: Study) -> list[dict[str, object]]:
    """Return a record for each step, in the order of a study."""
    snapshot = take_snapshot(study)
    drawn = snapshot.ledger.last("sealed-set")
    registered = find_registration(snapshot.ledger)
    steps = [
        _step("draw", drawn is not None, f"{drawn.body['count']} seeds" if drawn else ""),
        _step("register", registered is not None, registered.plan.name if registered else ""),
    ]
    waves = [_wave(snapshot, number) for number in range(len(study.protocol.waves))]
    release = snapshot.ledger.last("release")
    released = _step("publish", release is not None, release.body["location"] if release else "")
    report = snapshot.ledger.last("report")
    through = f"through wave {report.body['through_wave']}" if report else ""
    # The first wave with models to test comes after the release.
    early = next((n for n, m in enumerate(tested_models(study.protocol)) if m), len(waves))
    waves.insert(early, released)
    return [*steps, *waves, _step("report", report is not None, through)]


def _step(step: str, done: bool, about: str) -> dict[str, object]:
    return {"step": step, "state": "done" if done else "to do", "about": about}


def _wave(study: StudySnapshot, number: int) -> dict[str, object]:
    step = f"sweep --wave {number}"
    models = ", ".join(study.protocol.waves[number])
    wave = study.waves.get(number)
    if wave is not None and wave.manifest.sandbox == ELSEWHERE:
        step = f"import --wave {number}"
    if wave is None:
        return _step(step, False, models)
    if closed := wave.closed:
        return _step(step, True, f"{models}: {closed.finished} scored, {closed.missing} missing")
    # With numpy, for a wave at work only.
    from study.steps.sweep.manifests import changed_terms
    from study.steps.sweep.wave_command import sweep_state

    try:
        about = f"{models}: {len(wave.cells) - wave.owed} of {len(wave.cells)} episodes"
        if changed := [key_of(place) for place, _ in changed_terms(study.protocol, wave.manifest)]:
            about = f"{about}; changed since it was begun: {', '.join(changed)}"
        if state := sweep_state(study, number):
            about = f"{about}; {state}"
        failing = failing_words(wave.manifest.models, stored_failures(wave))
        about = "; failed: ".join([about, *failing[:_SHOWN]])
    except RegistryError:
        about = f"{models}: episodes can be counted with the study's key only"
    return {"step": step, "state": "begun", "about": about}


@click.command()
@study_option
@json_option
def status(study: Study, as_json: bool) -> None:
    """Show the steps of a study: what is done, and what is owed.

    \b
    Example:
      dosimeter status
    """
    print_records(read_status(study), as_json, title="Study")
