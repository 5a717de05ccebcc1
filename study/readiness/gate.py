"""The gate before a draw and a registration: nothing is sealed that later steps would refuse, and
no plan that cannot answer, unless a reason is given for the ledger and the report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from itertools import chain

from generators.yaml_lines import Place, key_of
from harness.errors import HarnessError
from registry.ledger import Underpowered
from registry.provenance import utc_now
from study.errors import StudyError
from study.protocol import (
    FILE_NAME,
    PANEL,
    Faults,
    Protocol,
    design_shortfalls,
    draw_faults,
    lint_protocol,
    read_yaml,
    tested_models,
)
from study.readiness.later_refusals import (
    context_faults,
    guessable_questions,
    key_faults,
    price_faults,
)
from study.readiness.target_power import LEAST_POWER, find_power, find_remedies, points
from study.workspace import Study

Watch = Callable[[str, int, int], None]  # what, done, of
OPTION = "--underpowered REASON"


def check_ready(study: Study, reason: str, watch: Watch) -> Underpowered | None:
    """Return the shortfalls of a study that is drawn or registered with a reason all the same; None
    if it has none. Raises StudyError, in one line with place and remedy, for what a later step
    would refuse, and for shortfalls without a reason."""
    if reason and not (reason.strip() and reason.isprintable()):  # it stays for good, and is public
        raise StudyError("--underpowered: give the reason in words, on one line")
    for fault in find_faults(study):
        raise StudyError(fault)
    shortfalls = tuple(find_shortfalls(study.protocol, watch, remedies=not reason))
    if not shortfalls:
        return None
    if not reason:
        lines = "; ".join(_placed(study, shortfalls))
        raise StudyError(f"{lines}; or go on with {OPTION}, which ledger and report show")
    return Underpowered(reason.strip(), tuple(f"{key_of(p)}: {what}" for p, what in shortfalls))


def find_faults(study: Study) -> Iterator[str]:
    """Yield what later steps would refuse, each with file, line and key."""
    protocol, today = study.protocol, date.fromisoformat(utc_now()[:10])
    yield from _lint(study, "error")
    yield from _placed(
        study,
        chain(
            draw_faults(protocol, today),
            key_faults(study),
            context_faults(study),
            price_faults(study),
        ),
    )


def find_shortfalls(protocol: Protocol, watch: Watch, *, remedies: bool) -> Faults:
    """Yield what leaves the study without an answer; with the simulated remedies for a lack of
    power if they are asked for."""
    return chain(
        design_shortfalls(protocol),
        guessable_questions(protocol),
        _power_shortfalls(protocol, watch, remedies),
    )


def find_warnings(study: Study) -> Iterator[str]:
    """Yield what a later step will need, and what weakens an answer, a line each."""
    protocol = study.protocol
    yield from _lint(study, "warning")
    for name in _burned_panels(protocol):
        yield (
            f"{name}: its provider may keep the panel, so that from its second look on it cannot "
            "be cleared: draw reserve tranches (docs/waves.md)"
        )
    if protocol.sandbox.kind == "docker" and (lacking := _engine_problem()):
        yield f"{lacking}; `dosimeter register` needs it"


def _lint(study: Study, level: str) -> Iterator[str]:
    """Yield the findings of `dosimeter lint` of a level, each with file, line and key."""
    findings = lint_protocol(study.folder / FILE_NAME, os.environ)
    return (f"{found.place}: {found.message}" for found in findings if found.level == level)


def _placed(study: Study, problems: Iterable[tuple[Place, str]]) -> Iterator[str]:
    document = read_yaml(study.folder / FILE_NAME)
    for place, message in problems:
        yield f"{document.place(place)}: {message}"


def _power_shortfalls(protocol: Protocol, watch: Watch, remedies: bool) -> Faults:
    watch("simulating the plan", 0, 1)
    found = find_power(protocol)
    watch("simulating the plan", 1, 1)
    if found.suffices:
        return
    target = points(protocol.plan.target_gap)
    mended = ", or ".join(find_remedies(protocol, watch)) if remedies else ""
    would = f": enough would be {mended}" if mended else ""
    yield (
        ("seeds_per_arm",),
        f"{target} in one model would be found with probability {found}, and {LEAST_POWER:.2f} is "
        f"needed{would}",
    )


def _burned_panels(protocol: Protocol) -> Iterator[str]:
    """Yield tested models that send the panel more than once to a provider that may keep it."""
    kept = {name for name, retention in protocol.retention if retention != "none"}
    waves = list(enumerate(tested_models(protocol)))
    for name in dict.fromkeys(name for _, models in waves for name in models if name in kept):
        runs = [wave for wave, models in waves if name in models]
        panels = [wave for wave in runs if set(PANEL) & set(protocol.wave_tranches(wave)[name])]
        if len(panels) > 1:
            yield name


def _engine_problem() -> str:
    """Return why no Docker engine answers; "" if one does."""
    from harness.sandboxes.docker import connect

    try:
        connect(timeout=5).close()
    except HarnessError as error:
        return str(error)
    return ""
