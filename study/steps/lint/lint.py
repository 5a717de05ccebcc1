"""Check a study file without doing anything: what is wrong with it, and what later steps would
refuse as far as that needs no ledger, draw, network or container engine. The checks of a draw and
a registration are these."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

from generators.grading.programs import hidden_inputs
from generators.items import HARBOR
from generators.yaml_lines import Place
from harness.build_model import build_model, endpoint_of
from harness.episode import Mode
from harness.errors import HarnessError, ModelUnavailable
from harness.spending.prices import OWN_PROVIDERS, PriceList, read_prices
from registry.ledger.chain import Ledger
from registry.ledger.records import JudgePin, ModelPin
from registry.provenance import utc_now
from registry.stores import open_store
from study.catalogue import contributions
from study.errors import StudyFileError
from study.protocol.draw_checks import design_shortfalls, draw_faults, tested_models
from study.protocol.plan_section import Faults
from study.protocol.protocol import Protocol, examine_protocol
from study.protocol.sections import PANEL
from study.protocol.yaml import fault_at, read_yaml
from study.steps.lint.later_refusals import (
    context_faults,
    few_instances,
    file_faults,
    key_faults,
    pool_faults,
    price_faults,
    unproved_tasks,
    weak_questions,
)
from study.steps.sweep.manifests import drift
from study.steps.sweep.spending import example_of
from study.workspace.study import Study

Watch = Callable[[str, int, int], None]  # what, done, of
_BUILT_IN = "scripted"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
LEAST_FROZEN_RUNS = 8  # with 2 a fault of 5 points was seen in 27 % of looks


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a study file that is wrong, or that a later step will ask for."""

    level: str  # "error" or "warning"
    file: str
    line: int
    key: str  # "" for the file as a whole
    message: str

    @classmethod
    def of(cls, level: str, fault: StudyFileError) -> Finding:
        """The finding of an error."""
        return cls(level, fault.file, fault.line, fault.key, fault.message)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " + (f"{self.key}: " if self.key else "")
        return f"{place}{'warning: ' if self.level == 'warning' else ''}{self.message}"


def lint_study(path: Path, environment: Mapping[str, str], watch: Watch) -> list[Finding]:
    """Return the findings on a study file, in the order of its lines. Errors inside a section hide
    what could be found between sections, and errors hide what leaves the study without an answer,
    which takes a simulation. Raises StudyError for a file that cannot be read."""
    try:
        protocol, faults = examine_protocol(path.parent, path.name)
    except StudyFileError as error:
        protocol, faults = None, [error]
    if protocol is None:
        found = [Finding.of("error", fault) for fault in faults]
        return sorted(dict.fromkeys(found), key=lambda finding: finding.line)
    nowhere = open_store("memory:")
    study = Study(path.parent, protocol, nowhere, Ledger(nowhere))
    document = read_yaml(path)
    errors = [("error", *error) for error in chain(find_errors(study), _changed_since(study))]
    needs = chain(find_needs(study, environment), draw_faults(protocol, today()))
    unproved = (
        (("tasks",), f"{name}: {'; '.join(faults)}")
        for name, faults in unproved_tasks(protocol, watch)
    )
    lacks = () if errors else chain(unproved, find_shortfalls(protocol, watch))
    findings = [
        Finding.of(level, fault_at(document, place, message))
        for level, place, message in (*errors, *(("warning", *need) for need in (*needs, *lacks)))
    ]
    return sorted(findings, key=lambda finding: finding.line)


def find_errors(study: Study) -> Faults:
    """Yield what no step would accept on any machine."""
    return chain(
        _unbuilt(study),
        _sandbox_errors(study.protocol),
        key_faults(study),
        context_faults(study),
        price_faults(study),
        file_faults(study),
        few_instances(study.protocol),
        pool_faults(study.protocol),
        *(find(study.protocol) for find in contributions("sibling_faults")),
    )


def _changed_since(study: Study) -> Faults:
    """Yield what changed since the plan was registered or a wave begun, if the store is a folder
    here."""
    store = study.protocol.store
    if "://" not in store and (folder := study.folder / store).is_dir():
        yield from drift(study.protocol, Ledger(open_store(f"file:{folder.absolute()}")))


def find_needs(study: Study, environment: Mapping[str, str]) -> Faults:
    """Yield what a sweep will need and this machine or the price file lacks, and what weakens an
    answer: idle models, panels that providers may keep, and few runs of frozen models."""
    return chain(
        _unbuilt(study, environment),
        _price_needs(study),
        _idle_models(study.protocol),
        _burned_panels(study.protocol),
        _few_frozen_runs(study.protocol),
        weak_questions(study.protocol),
    )


def find_shortfalls(protocol: Protocol, watch: Watch) -> Faults:
    """Yield what leaves the study without an answer."""
    return chain(
        design_shortfalls(protocol),
        *(find(protocol, watch) for find in contributions("shortfalls")),
    )


def today() -> date:
    """The day, UTC."""
    return date.fromisoformat(utc_now()[:10])


def _buyers(protocol: Protocol) -> Iterator[tuple[Place, ModelPin | JudgePin]]:
    """Yield the place and pin of each model and judge that is not built in."""
    for section, pins in (("models", protocol.models), ("judges", protocol.judges)):
        for pin in pins:
            if pin.provider != _BUILT_IN:
                yield (section, pin.name), pin


def _build(pin: ModelPin | JudgePin, environment: Mapping[str, str], folder: Path) -> None:
    """Build a model or judge, which makes no request. Raises HarnessError."""
    if isinstance(pin, JudgePin):
        for build in contributions("build_judge"):
            build(pin, str(folder), environment)
    else:
        build_model(pin, environment, str(folder))


def _unbuilt(study: Study, environment: Mapping[str, str] | None = None) -> Faults:
    """Yield settings that no machine could use, such as an unknown region; or, with the environment
    of this machine, what models need and it lacks: keys, libraries, weights."""
    for place, pin in _buyers(study.protocol):
        try:
            keys = {endpoint_of(pin)[1]: "key"} if environment is None else environment
            _build(pin, keys, study.folder)
        except HarnessError as error:
            if isinstance(error, ModelUnavailable) == (environment is not None):
                yield place, str(error)


def _sandbox_errors(protocol: Protocol) -> Faults:
    """Yield models whose programs would run in a sandbox that does not isolate: what an agent runs,
    and the programs of answers."""
    pooled = {source.family for source in protocol.pools}
    for place, pin in _buyers(protocol):
        settings = dict(pin.settings)
        if settings.get("agent") and protocol.sandbox.kind == "pods":
            yield place, "its program runs inside of a sandbox: set `sandbox: {kind: docker}`"
        elif HARBOR in pooled and (settings.get("agent") or settings.get("tree") == '"host"'):
            yield (
                place,
                "its program is not in the images of agent tasks: a plain model works in them, and "
                "an agent's server with `tree: bridge`",
            )
    if protocol.sandbox.kind != "local":
        return
    for place, pin in _buyers(protocol):
        loops = pin.provider != "agent_server"
        tasks = () if isinstance(pin, JudgePin) else protocol.tasks_of(pin.name)
        if any(
            (loops and task.mode is Mode.AGENTIC)
            or hidden_inputs(example_of(task, protocol.catalog).rubric)
            for task in tasks
        ):
            yield (
                place,
                "it is not built in, and the local sandbox does not isolate what it runs: set "
                "`sandbox: {kind: docker}`",
            )


def _price_needs(study: Study) -> Faults:
    """Yield the models and judges that must be paid for and have no price, in a study without a
    budget, which would be an error; and those with a price of 0 that run on a server elsewhere."""
    named = study.protocol.prices
    try:
        prices = PriceList("", "", ()) if named is None else read_prices(study.folder / named)
    except HarnessError:
        return  # an error
    for place, pin in _buyers(study.protocol):
        price = prices.of(pin.provider, pin.version)
        address = json.loads(dict(pin.settings).get("base_url", '""'))
        if price is not None and not (price.input or price.output or _is_here(address)):
            yield (
                place,
                "its price is 0, and its server is not on this machine: state the price in "
                f"{prices.path}, unless it is free",
            )
        owed = price is None and pin.provider not in OWN_PROVIDERS
        if owed and study.protocol.budget is None:
            lacks = "no `prices:` file is named" if named is None else "no price is known"
            yield (
                place,
                f"{lacks} for {pin.version} of {pin.provider}: state it (docs/money.md), or give "
                "the sweep --allow-unknown-price",
            )


def _idle_models(protocol: Protocol) -> Faults:
    """Yield models that are in no wave."""
    for pin in protocol.models:
        if pin.name not in protocol.planned:
            yield ("models", pin.name), "it is in no wave, so it never runs"


def _burned_panels(protocol: Protocol) -> Faults:
    """Yield tested models that send the panel more than once to a provider that may keep it."""
    kept = {name for name, retention in protocol.retention if retention != "none"}
    waves = list(enumerate(tested_models(protocol)))
    for name in dict.fromkeys(name for _, models in waves for name in models if name in kept):
        runs = [wave for wave, models in waves if name in models]
        panels = [wave for wave in runs if set(PANEL) & set(protocol.wave_tranches(wave)[name])]
        if len(panels) > 1:
            yield (
                ("models", name),
                "its provider may keep the panel, so that from its second look on it cannot be "
                "cleared: draw reserve tranches (docs/waves.md)",
            )


def _few_frozen_runs(protocol: Protocol) -> Faults:
    """Yield too few runs of frozen models to tell a fault of one look from chance."""
    if (rules := protocol.registered_plan().standard) is None:
        return
    if (runs := len(rules.frozen) * rules.control_runs) < LEAST_FROZEN_RUNS:
        yield (
            ("plan", "controls", "frozen"),
            f"{runs} runs of frozen models on an instance at each look: a fault of one look alone "
            f"may pass for a leak (docs/statistics.md); {LEAST_FROZEN_RUNS} show it, such as four "
            "models named here and in every wave, with `runs: 2`",
        )


def _is_here(base_url: str) -> bool:
    """Report whether an address is one of this machine's own."""
    try:
        return urlsplit(base_url).hostname in _LOOPBACK
    except ValueError:
        return False
