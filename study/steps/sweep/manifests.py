"""The manifest of a wave: what it runs and with which code, promised before its first episode."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from generators.yaml_lines import Place
from harness.agent.rules import rules_digest
from harness.sandboxes.image import ImagePin
from harness.storage import instances_key, run_key_key
from harness.sweep.schedule import INSTANCES_CODEC, WaveInstance
from registry.canonical import digest_value
from registry.errors import BrokenPromise
from registry.ledger.chain import Ledger
from registry.ledger.records import (
    ELSEWHERE,
    Preregistration,
    Provenance,
    RunManifest,
    answering_pin,
    record_body,
)
from registry.provenance import check_tree, read_provenance
from registry.sealing import encrypt, new_identity
from study.errors import StudyError
from study.protocol.plan_section import Faults
from study.protocol.protocol import FILE_NAME, Protocol
from study.protocol.yaml import read_yaml
from study.steps.register.draw import entropy_of
from study.workspace.grading import grading_digest
from study.workspace.setup import changed_plan, find_registration, registration_of, value_words
from study.workspace.snapshot import instances_of
from study.workspace.study import CHECKOUT, Study, manifest_of

if TYPE_CHECKING:
    from study.steps.sweep.sweep import SweepRequest

logger = logging.getLogger(__name__)


def begin_wave(
    study: Study, request: SweepRequest, image: ImagePin, now: Callable[[], str], prices: str = ""
) -> RunManifest:
    """Return the wave's manifest: the one in the ledger, or a new one, appended now, which records
    the code and environment that run it, and how its models are asked. ``prices`` is the digest of
    the price file.

    Raises BrokenPromise for a dirty tree that is not allowed, and for instances, grading or a plan
    that differ from the registered ones; another commit is no reason."""
    registered = registration_of(study)
    provenance = read_provenance(CHECKOUT, image.digest)
    check_tree(provenance, request.allow_dirty)
    if (begun := manifest_of(study.ledger, request.wave)) is None:
        _check_names(study, request.wave)
    if begun is None or provenance.dirty or begun.provenance != provenance:
        check_grading(study, registered)
        drawn = check_instances(study, request.wave)
    if begun is None:
        first = _new_manifest(study, request, registered, provenance, prices, drawn)
        entry, fresh = study.ledger.append_unless(
            first,
            now(),
            lambda entry: entry.kind == "run-manifest" and entry.body["wave"] == request.wave,
        )
        if fresh:
            return first
        begun = entry.record  # of a sweep that began in the meantime: one wave, one run key
    check_resumed(study, begun)
    record = replace(
        begun,
        models=study.protocol.wave_models(request.wave),
        provenance=provenance,
        prices=prices,
        retention=study.protocol.wave_retention(request.wave),
    )
    if record != begun:
        study.ledger.append(record, now())
    return record


def check_here(begun: RunManifest | None) -> None:
    """Raise StudyError for a wave that another harness runs."""
    if begun is not None and begun.sandbox == ELSEWHERE:
        raise StudyError(
            f"wave {begun.wave} was exported to be run elsewhere: `dosimeter import` takes its "
            "logs; to run models here plan another wave"
        )


def check_grading(study: Study, registered: Preregistration) -> None:
    """Raise BrokenPromise if known answers are graded otherwise than at the registration."""
    now = grading_digest(study.protocol.tasks, study.protocol.catalog)
    if registered.grading and now != registered.grading:
        raise BrokenPromise(
            "known answers to the study's tasks are graded otherwise than when the plan was "
            f"registered: grading is {now}, registered {registered.grading}; run the commit and "
            "library versions that the study is registered with"
        )


def check_instances(study: Study, wave: int) -> tuple[WaveInstance, ...]:
    """Return the drawn instances. Raise BrokenPromise if one of a wave would be generated otherwise
    than it was drawn: files, prompt, answer key and rubric, which its id pins. Needs the study's
    key or the operator's."""
    tranches = {0}.union(*study.protocol.wave_tranches(wave).values())
    catalog, drawn = study.protocol.catalog, study.instances()
    logger.info("wave %d: comparing its instances with the draw", wave)
    for each in (instance for instance in drawn if instance.tranche in tranches):
        family = catalog.family(each.spec.family, each.spec.version)
        if family.generate(each.spec.difficulty, each.seed).id != each.instance:
            raise BrokenPromise(
                f"wave {wave} is not begun: {each.spec.stratum} is generated "
                "otherwise than it was drawn; run the commit and library versions that the "
                "study is registered with"
            )
    return drawn


def _new_manifest(
    study: Study,
    request: SweepRequest,
    registered: Preregistration,
    provenance: Provenance,
    prices: str,
    drawn: tuple[WaveInstance, ...],
) -> RunManifest:
    """Return a new manifest, after storing its run key and instances: both are sealed, so a crash
    before the record is in the ledger reveals nothing."""
    protocol, wave = study.protocol, request.wave
    identity, recipient = new_identity()
    manifest = RunManifest(
        study=protocol.name,
        wave=wave,
        plan=digest_value(record_body(registered)),
        instances_root=registered.sealed_root,
        judges=protocol.judges,
        schedule_seed=entropy_of(protocol).draw(32, "schedule", wave).hex(),
        run_recipient=recipient,
        run_key=run_key_key(recipient),
        provenance=provenance,
        prices=prices,
        retention=protocol.wave_retention(wave),
        agent_rules=rules_digest(),
        **_terms(protocol, wave),
    )
    study.store.put(manifest.run_key, encrypt(identity.encode(), study.readers()))
    instances = instances_of(drawn, manifest)
    own = study.keys()
    keys = replace(own, recipients=(*own.recipients, recipient))
    INSTANCES_CODEC.write(study.store, instances_key(recipient), instances, keys)
    return manifest


def _terms(protocol: Protocol, wave: int) -> dict[str, Any]:
    """Return what a manifest states that may not change once its wave is begun."""
    return {
        "models": protocol.wave_models(wave),
        # () if every model runs the panel only
        "tranches": protocol.tranches[wave] if protocol.tranches else (),
        "replicates": protocol.wave_replicates(wave),
        "single_turn": protocol.single_turn[wave],
        "sandbox": protocol.sandbox.kind,
        "runtime": protocol.sandbox.runtime,
    }


def _check_names(study: Study, wave: int) -> None:
    """Raise BrokenPromise if a name stands for another model than in an earlier wave. Where and how
    patiently it is asked may change, which the report shows."""
    earlier = {
        pin.name: (entry.record.wave, pin)
        for entry in study.ledger.find("run-manifest")
        for pin in entry.record.models
    }
    for now in study.protocol.wave_models(wave):
        before, then = earlier.get(now.name, (wave, now))
        if answering_pin(now) != answering_pin(then):
            raise BrokenPromise(
                f"{study.folder / FILE_NAME}: models: {now.name!r} ran in wave {before} with "
                "another provider, version or settings (see `dosimeter log`): restore them, or "
                "give this model a name of its own"
            )


def check_resumed(study: Study, begun: RunManifest) -> None:
    """Raise BrokenPromise if study.yaml changes what a begun wave runs. How its models are asked
    may change: address, key variable, timeouts, retries."""
    for place, problem in changed_terms(study.protocol, begun):
        raise BrokenPromise(f"{read_yaml(study.folder / FILE_NAME).place(place)}: {problem}")


def drift(protocol: Protocol, ledger: Ledger) -> Faults:
    """Yield what study.yaml plans otherwise than it is registered, or begun in a wave that is not
    closed."""
    if (registered := find_registration(ledger)) is not None:
        yield from changed_plan(protocol, registered)
    closed = {entry.record.wave for entry in ledger.find("wave-closed")}
    manifests = {entry.record.wave: entry.record for entry in ledger.find("run-manifest")}
    for wave in sorted(manifests.keys() - closed):
        if wave >= len(protocol.waves):
            yield ("waves",), f"wave {wave} was begun and is not here: restore it"
        elif manifests[wave].sandbox != ELSEWHERE:
            yield from changed_terms(protocol, manifests[wave])


def changed_terms(protocol: Protocol, begun: RunManifest) -> Faults:
    """Yield what study.yaml states otherwise than the wave was begun with, though answers follow
    from it."""
    wave = begun.wave
    terms = _terms(protocol, wave)
    now, then = (_by_key(terms, wave) for terms in (terms, {k: getattr(begun, k) for k in terms}))
    for place in dict.fromkeys((*now, *then)):
        here, there = now.get(place), then.get(place)
        if here != there:
            yield (
                place,
                f"here is {value_words(here)}, and wave {wave} was begun with "
                f"{value_words(there)}: restore it, or plan another wave",
            )


def _by_key(terms: dict[str, Any], wave: int) -> dict[Place, object]:
    """Return the terms of a wave by their places in study.yaml."""
    names = [pin.name for pin in terms["models"]]
    if own := terms["tranches"]:
        pairs = zip(names, own, strict=True)
        names = [f"{name}: {', '.join(map(str, tranches))}" for name, tranches in pairs]
    values: dict[Place, object] = {
        ("waves", wave): names,
        ("waves", wave, "modes"): terms["single_turn"],
        ("replicates",): terms["replicates"],
        ("sandbox", "kind"): terms["sandbox"],
        ("sandbox", "runtime"): terms["runtime"],
    }
    for pin in map(answering_pin, terms["models"]):
        place = ("models", pin.name)
        values |= {(*place, "provider"): pin.provider, (*place, "model"): pin.version}
        values |= {(*place, name): json.loads(text) for name, text in pin.settings}
    return values
