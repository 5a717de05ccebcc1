"""Checks of study.yaml before anything is drawn or registered: what a later step would refuse, and
what leaves the study without an answer. They end with the registration, since waves are added to
the file afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from itertools import chain

from analysis.plan.presets import bridging_models, control_models, least_p, look_alpha
from harness.spending.prices import OWN_PROVIDERS
from study.protocol.plan_section import Faults
from study.protocol.protocol import Protocol

LEAST_CONTROL_RUNS = 8  # of pre-exposure models on an instance
_STATE = "write `retention: none`, or kept, training or unknown, which burn the panel"


def draw_faults(protocol: Protocol, today: date) -> Faults:
    """Yield what a later step would refuse, or what must be stated before anything is drawn."""
    return chain(
        _look_faults(protocol),
        _control_faults(protocol),
        _date_faults(protocol, today),
        _retention_faults(protocol),
        _release_faults(protocol),
        _hopeless_faults(protocol),
    )


def design_shortfalls(protocol: Protocol) -> Faults:
    """Yield what leaves the study, or a model, without an answer, whatever the number of
    instances."""
    tested = tested_models(protocol)
    if not any(tested) and protocol.plan.looks is None:
        yield (
            ("waves",),
            "no wave tests a model: all of them are controls; add a wave with models to test, or "
            "state the `looks` of the plan and open their waves later",
        )
    later = {name for models in tested[1:] for name in models}
    for name in tested[0]:
        if name not in later:
            yield (
                ("waves", 0, protocol.waves[0].index(name)),
                f"{name!r} runs in wave 0 alone, which is before the release: no verdict follows; "
                "name it in a later wave",
            )
    runs = control_runs(protocol)
    if runs is not None and runs < LEAST_CONTROL_RUNS:
        yield (
            ("plan", "controls", "pre_exposure"),
            f"{runs} control runs on each instance, where {LEAST_CONTROL_RUNS} are needed: name "
            "four pre-exposure models and write `runs: 2` beside them",
        )


def control_runs(protocol: Protocol) -> int | None:
    """Return the runs of pre-exposure models on an instance; None for a plan without controls."""
    rules = protocol.registered_plan().standard
    if rules is None:
        return None
    return len(rules.pre_exposure) * rules.control_runs


def tested_models(protocol: Protocol) -> list[tuple[str, ...]]:
    """Return the models of each wave that are no controls."""
    controls = control_models(protocol.registered_plan())
    return [tuple(name for name in wave if name not in controls) for wave in protocol.waves]


def missing_controls(protocol: Protocol, wave: int) -> Iterator[tuple[str, str]]:
    """Yield each frozen or spiked control that a wave with models to test leaves out, and what
    follows from it at this look."""
    rules, models = protocol.registered_plan().standard, protocol.waves[wave]
    if rules is None or not tested_models(protocol)[wave]:
        return
    bridging = ", ".join(bridging_models(rules, models))
    follows = f"{bridging} bridges it" if bridging else "all verdicts will be inconclusive"
    for name in rules.frozen:
        if name not in models:
            yield f"frozen control {name!r}", follows
    for name in rules.spiked:
        if name not in models:
            yield f"spiked control {name!r}", "all verdicts will be withheld"


def _hopeless_faults(protocol: Protocol) -> Faults:
    """Yield too few instances for any p that the plan would call a finding."""
    plan = protocol.tested_plan()
    least, alpha = least_p(plan, protocol.reserve), look_alpha(plan)
    if least > alpha:
        yield (
            ("seeds_per_arm",),
            f"no score could be a finding: the least p is {least:.2g}, and a claim at one of "
            f"{plan.looks} looks needs {alpha:.2g}; write more instances, or fewer looks",
        )


def _look_faults(protocol: Protocol) -> Faults:
    """Yield too few looks for the waves after the first, which may be before the release."""
    looks = protocol.registered_plan().looks
    waves = sum(1 for models in tested_models(protocol)[1:] if models)
    if waves > looks:
        yield (
            ("plan", "looks"),
            f"{looks} looks, but {waves} waves test models after wave 0: the last would be "
            f"exploratory; write `looks: {waves}` or more, or leave waves out",
        )


def _control_faults(protocol: Protocol) -> Faults:
    """Yield controls that are named and not run: every verdict that rests on them is withheld."""
    rules = protocol.registered_plan().standard
    if rules is None:
        return
    for index, name in enumerate(rules.pre_exposure):
        if name not in protocol.planned:
            place = ("plan", "controls", "pre_exposure", index)
            yield place, f"{name!r} is in no wave: name it in wave 0, or leave it out here"
    for wave in range(len(protocol.waves)):
        for control, _ in missing_controls(protocol, wave):
            message = f"the {control} is missing: name it in every wave that tests a model"
            yield ("waves", wave), message


def _date_faults(protocol: Protocol, today: date) -> Faults:
    """Yield documented dates that cannot be: controls of the future, training after release."""
    rules = protocol.registered_plan().standard
    before = () if rules is None else (*rules.pre_exposure, *rules.frozen)
    for fact in protocol.facts:
        if fact.model in before and fact.released >= today.isoformat():
            yield (
                ("models", fact.model, "released"),
                f"{fact.released} is not before today: a negative control was released before the "
                "publication; give the documented date, or name another control",
            )
        if fact.cutoff and fact.released and fact.cutoff > fact.released:
            yield (
                ("models", fact.model, "cutoff"),
                f"{fact.cutoff} is after the model's release on {fact.released}: correct the date "
                "that is wrong",
            )


def _retention_faults(protocol: Protocol) -> Faults:
    """Yield tested models with nothing stated of what their provider keeps."""
    stated = {name for name, _ in protocol.retention}
    providers = {pin.name: pin.provider for pin in protocol.models}
    for name in dict.fromkeys(name for models in tested_models(protocol) for name in models):
        if name not in stated and providers[name] not in OWN_PROVIDERS:
            yield (
                ("models", name),
                f"what its provider keeps is not stated: {_STATE} (docs/waves.md)",
            )


def _release_faults(protocol: Protocol) -> Faults:
    """Yield spiked agents that read another folder than the one that is published."""
    for pin in protocol.models:
        settings = {key: json.loads(value) for key, value in pin.settings}
        if pin.name not in protocol.planned or settings.get("agent") != "spiked":
            continue
        if settings["release"] != protocol.release.folder:
            yield (
                ("models", pin.name, "release"),
                f"the study publishes into {protocol.release.folder!r}, and this agent reads "
                f"{settings['release']!r}: write one of them in both places",
            )
