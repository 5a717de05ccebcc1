"""The status of a study: its steps, what is done and what is owed."""

from __future__ import annotations

import click

from generators.yaml_lines import key_of
from registry.errors import RegistryError
from registry.ledger.chain import Ledger
from registry.ledger.records import ELSEWHERE
from study.options import json_option, study_option
from study.printing import print_records
from study.protocol.draw_checks import tested_models
from study.workspace.setup import find_registration
from study.workspace.study import Study, closed_wave, manifest_of

_SHOWN = 10


def read_status(study: Study) -> list[dict[str, object]]:
    """Return a record for each step, in the order of a study."""
    ledger = study.ledger.held(grows=False)
    drawn = ledger.last("sealed-set")
    registered = find_registration(ledger)
    steps = [
        _step("draw", drawn is not None, f"{drawn.body['count']} seeds" if drawn else ""),
        _step("register", registered is not None, registered.plan.name if registered else ""),
    ]
    waves = [_wave(study, ledger, number) for number in range(len(study.protocol.waves))]
    release = ledger.last("release")
    released = _step("publish", release is not None, release.body["location"] if release else "")
    report = ledger.last("report")
    through = f"through wave {report.body['through_wave']}" if report else ""
    # The first wave with models to test comes after the release.
    early = next((n for n, m in enumerate(tested_models(study.protocol)) if m), len(waves))
    waves.insert(early, released)
    return [*steps, *waves, _step("report", report is not None, through)]


def _step(step: str, done: bool, about: str) -> dict[str, object]:
    return {"step": step, "state": "done" if done else "to do", "about": about}


def _wave(study: Study, ledger: Ledger, number: int) -> dict[str, object]:
    models = ", ".join(study.protocol.waves[number])
    manifest = manifest_of(ledger, number)
    step = f"{'import' if manifest and manifest.sandbox == ELSEWHERE else 'sweep'} --wave {number}"
    if manifest is None:
        return _step(step, False, models)
    if closed := closed_wave(ledger, number):
        return _step(step, True, f"{models}: {closed.finished} scored, {closed.missing} missing")
    # With numpy, for a wave at work only.
    from study.steps.sweep.failing import failing_words, stored_failures
    from study.steps.sweep.manifests import changed_terms
    from study.steps.sweep.wave_command import sweep_state
    from study.workspace.snapshot import take_snapshot

    wave = take_snapshot(study).waves[number]
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
