"""Setting up a study: its folder, its draw, its registered plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path

from generators.yaml_lines import Place
from harness.mode import Mode
from harness.sandboxes.image import ImagePin, ensure_image, pinned_digest
from registry.errors import BrokenPromise
from registry.files import write_whole
from registry.ledger.chain import Ledger
from registry.ledger.draw_records import Parties, SealedSet, Underpowered, Unproved
from registry.ledger.records import Plan, Preregistration
from registry.provenance import read_provenance
from study.errors import StudyError
from study.protocol.plan_section import ControlsSection, Faults
from study.protocol.protocol import FILE_NAME, Protocol
from study.protocol.yaml import read_yaml
from study.workspace.study import CHECKOUT, Study

Watch = Callable[[str, int, int], None]  # what, done, of
# Raises StudyError for a plan that cannot answer, and for questions that are not proved, unless
# there is a reason, such as that of the draw.
Gate = Callable[[str, str], tuple[Underpowered | None, Unproved | None]]

NO_IMAGE = ImagePin("", "none")  # of the local sandbox
_OUTSIDE = ("seeds_per_arm", "reserve", "replicates")  # values of the plan that stand beside it
REGISTRATION = "registration.json"


def open_gate(underpowered: str, unproved: str) -> tuple[None, None]:
    """Let any plan pass."""
    return None, None


def register_plan(
    study: Study, watch: Watch, now: str, gate: Gate = open_gate, simulate: Callable[[], str] = str
) -> tuple[Preregistration, bool]:
    """Register the plan, if the gate lets it pass, with the chances that ``simulate`` returns in
    words. Return the record, and whether it is new. Raises BrokenPromise if another plan is
    registered."""
    if (registered := find_registration(study.ledger)) is not None:
        check_plan(study, registered)
        return registered, False
    # Imported here: `status` asks for the registration, and grades nothing.
    from study.workspace.grading import grading_digest

    sealed = check_drawn(study)
    study.own_identities()  # before a simulation that may take minutes
    underpowered, unproved = gate(
        sealed.underpowered.reason if sealed.underpowered else "",
        sealed.unproved.reason if sealed.unproved else "",
    )
    record = Preregistration(
        study=study.protocol.name,
        plan=replace(study.protocol.registered_plan(), chances=simulate()),
        sealed_root=sealed.root,
        provenance=read_provenance(CHECKOUT, pinned_image(study.protocol, watch).digest),
        tasks=_pinned_tasks(study.protocol),
        grading=grading_digest(study.protocol.tasks, study.protocol.catalog),
        underpowered=underpowered,
        unproved=unproved,
    )
    entry, fresh = study.ledger.append_unless(
        record, now, lambda entry: entry.kind == "preregistration"
    )
    if not fresh:  # another process registered in the meantime
        check_plan(study, entry.record)
    return entry.record, fresh


def write_registration(study: Study, record: Preregistration) -> Path:
    """Write the registered plan into the study's folder, in the fields of an OSF preregistration.
    All of it may be published. Raises OSError."""
    # Imported here: `status` asks for the registration, and needs no numpy.
    from analysis.report.registration import registration_json

    form = registration_json(record, study.sealed_set(), study.protocol.description)
    path = study.folder / REGISTRATION
    write_whole(path, json.dumps(form, indent=2, ensure_ascii=False) + "\n")
    return path


def pinned_image(protocol: Protocol, watch: Watch = lambda what, done, of: None) -> ImagePin:
    """Return the image of a study on this machine; the project's own is built if it is missing.
    Raises HarnessError without an engine or the image."""
    if protocol.sandbox.kind == "local":
        return NO_IMAGE
    if protocol.sandbox.kind == "pods":
        image = protocol.sandbox.image or ""
        return ImagePin(image, pinned_digest(image))
    if protocol.sandbox.image is not None:
        from harness.sandboxes.docker import image_digest

        return ImagePin(protocol.sandbox.image, image_digest(protocol.sandbox.image))
    return ensure_image(lambda line: watch(f"sandbox image: {line}", 0, 0))


def find_registration(ledger: Ledger) -> Preregistration | None:
    """Return the registered plan; None before it is registered."""
    entry = ledger.last("preregistration")
    return None if entry is None else entry.record


def registration_of(study: Study) -> Preregistration:
    """Return the registered plan, checked against the protocol. Raises StudyError,
    BrokenPromise."""
    if (registered := find_registration(study.ledger)) is None:
        raise StudyError(
            f"{study.folder}: no plan is registered yet; run `dosimeter register` first"
        )
    check_plan(study, registered)
    return registered


def check_plan(study: Study, registered: Preregistration) -> None:
    """Raise BrokenPromise if study.yaml plans another analysis than the registered one, or has
    other versions of its tasks (an edited template file, for instance)."""
    for place, problem in changed_plan(study.protocol, registered):
        raise BrokenPromise(f"{_placed(study, place)}: {problem}")


def changed_plan(protocol: Protocol, registered: Preregistration) -> Faults:
    """Yield what study.yaml plans otherwise than it is registered."""
    plans = protocol.registered_plan(), registered.plan
    now, then = (asdict(plan) for plan in plans)
    rules, promised_rules = now.get("standard"), registered.plan.standard
    if rules and promised_rules and protocol.plan.sensitivity is None:
        # "All sensitivity analyses" means those of the day of registration.
        now["standard"] = rules | {"sensitivity": promised_rules.sensitivity}
    for key in Plan.__dataclass_fields__:
        if key == "chances":  # no rule, but what was simulated then
            continue
        for name, planned, promised in differences(key, now.get(key), then.get(key)):
            yield (
                _key_of_plan(name),
                f"here is {value_words(planned)}, and registered is {value_words(promised)}: "
                "restore it; a new plan needs a new study",
            )
    if (tasks := _pinned_tasks(protocol)) != registered.tasks:
        here = ", ".join(task for task in tasks if task not in registered.tasks) or "none"
        gone = ", ".join(task for task in registered.tasks if task not in tasks) or "none"
        yield (
            ("tasks",),
            f"not registered: {here}; registered, and not here: {gone}: restore template files, "
            "versions and order; others need a new study",
        )


def differences(name: str, now: object, then: object) -> Iterator[tuple[str, object, object]]:
    """Yield the name of each value that differs, and both values."""
    if isinstance(now, Mapping) and isinstance(then, Mapping):
        for key in sorted({*now, *then}):
            yield from differences(key, now.get(key), then.get(key))
    elif now != then:
        yield name, now, then


def value_words(value: object) -> str:
    """Return a value of study.yaml as it is written, in one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, value))}]"
    return "nothing" if value in (None, "") else str(value)


def _key_of_plan(name: str) -> Place:
    """Return the place of a value of the plan or the draw, by its name in the ledger."""
    places: Mapping[str, Place] = {"name": ("plan", "preset"), "strata": ("tasks",)}
    if name in ControlsSection.model_fields:
        return ("plan", "controls", name)
    return places.get(name, (name,) if name in _OUTSIDE else ("plan", name))


def _placed(study: Study, place: Place) -> str:
    """Return file, line and key of a value of study.yaml."""
    return read_yaml(study.folder / FILE_NAME).place(place)


def _pinned_tasks(protocol: Protocol) -> tuple[str, ...]:
    return tuple(
        f"{task.family}@{task.version}/{task.difficulty}"
        + ("/single_turn" if task.mode is Mode.SINGLE_TURN else "")
        for task in protocol.tasks
    )


def check_drawn(study: Study) -> SealedSet:
    """Return the record of the draw. Raises BrokenPromise if study.yaml plans another one."""
    sealed = study.sealed_set()
    strata = tuple(task.stratum for task in study.protocol.tasks)
    planned = (strata, study.protocol.seeds_per_arm, study.protocol.reserve)
    drawn = (sealed.strata, sealed.seeds_per_arm, sealed.reserve)
    for name, now, then in zip(("strata", "seeds_per_arm", "reserve"), planned, drawn, strict=True):
        if now != then:
            raise BrokenPromise(
                f"{_placed(study, _key_of_plan(name))}: here is {value_words(now)}, and drawn is "
                f"{value_words(then)}: restore it; another draw needs a new study, or "
                "`register --again` before that"
            )
    units = tuple(replace(unit, digest="") for unit in sealed.units)
    if units != study.protocol.units:
        drawn_units = ", ".join(f"{unit.name} ({unit.level}, {unit.area})" for unit in units)
        raise BrokenPromise(
            f"{_placed(study, ('tasks',))}: its units are not those that were drawn, "
            f"{drawn_units or 'none'}: restore `pair`, `unit`, `area` and `tranche`"
        )
    check_parties(study)
    return sealed


def check_parties(study: Study) -> None:
    """Raise StudyError if study.yaml names another operator than the ledger's first record."""
    if (announced := study.announcement()) is None:
        return
    for field in fields(Parties):
        now, then = (getattr(p, field.name) for p in (study.protocol.parties, announced.parties))
        if now != then:
            raise StudyError(
                f"{_placed(study, ('operator',))}: `operator:` is not that of the ledger's first"
                f" record, and cannot change after it: here is {value_words(now)[:12]}…, and"
                f" there {value_words(then)[:12]}…"
            )
