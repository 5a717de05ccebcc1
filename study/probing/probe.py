"""Exposure probes of a wave's models: paid for once, stored for good, blind to the arms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from generators.catalog import Catalog
from generators.task import TaskInstance
from harness.build_model import build_model
from harness.errors import HarnessError
from harness.external_agents import ExternalAgent
from harness.model import Model, close_model
from harness.probing import (
    Probe,
    probe_call,
    probe_digest,
    probe_messages,
    read_probe,
    run_probe,
)
from harness.spending import Account, Budget, CallKind, ReplyStore
from registry.ledger import ModelPin
from registry.sealing import SealedEntry
from study.errors import StudyError
from study.paid_calls import Caller
from study.probing.ask import (
    ProbeKind,
    ProbeOutcome,
    Prober,
    Watch,
    instance_of,
    probe_entries,
    stored_probes,
)
from study.probing.records import record_probed
from study.probing.texts import (
    check_sending,
    note_unreported,
    text_entries,
    text_kind,
    text_options,
)
from study.sweeps import Pricing, check_prices, lock_budget, open_budget, price_models
from study.workspace import Study, registration_of


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """Which models to probe: without ``models``, every model of the wave that can be asked one
    question. With ``texts``, also the likelihood of each instance's text; ``burn`` allows sending
    private text to providers that may keep it."""

    wave: int
    models: tuple[str, ...] = ()
    parallel: int = 4
    allow_unknown_price: bool = False
    texts: bool = False
    burn: bool = False


@dataclass(frozen=True, slots=True)
class ProbedWave:
    """The probes of a wave's models."""

    models: tuple[ProbeOutcome, ...]
    skipped: tuple[str, ...]  # models that have no single question
    strata: tuple[str, ...]  # without a closed-book form
    accounts: tuple[Account, ...] = ()
    texts: tuple[ProbeOutcome, ...] = ()
    notes: tuple[str, ...] = ()  # on models without log-probabilities
    plain: tuple[str, ...] = ()  # strata without a text of their own

    @property
    def complete(self) -> bool:
        """Whether nothing more is owed."""
        return all(each.complete for each in (*self.models, *self.texts))

    @property
    def over_budget(self) -> bool:
        """Whether the budget does not pay for what is still owed."""
        return any(each.over_budget for each in (*self.models, *self.texts))


def probe_wave(
    study: Study, request: ProbeRequest, watch: Watch, now: Callable[[], str]
) -> ProbedWave:
    """Ask each model of a wave about every instance of both arms that it was not asked about, as
    far as the wave's budget goes, and record it in the ledger if that is done. Killed at any
    moment, it resumes when called again.

    Raises StudyError, RegistryError, HarnessError (a model that cannot be built).
    """
    registration_of(study)
    pins, skipped = _pins(study, request)
    options, notes = text_options(study, pins) if request.texts else ({}, ())
    if options:
        check_sending(study, request.wave, [p for p in pins if p.name in options], request.burn)
    allow = request.allow_unknown_price
    pricing = check_prices(
        price_models(study.folder, study.protocol, pins, allow, lambda pin: 1), study.folder
    )
    with ExitStack() as stack:
        models = [_open_model(study, pin, stack) for pin in pins]
        lock_budget(study, (request.wave,), stack)
        askable, silent = _askable(study)
        budget = open_budget(study, request.wave, pricing, CallKind.PROBE, pins, lambda _: True)
        probing = _Probing(study, request, pricing, budget, watch, now)
        questions = tuple(
            _with_mean(probing, pin, probing.probe(pin, model, QUESTIONS, askable), askable)
            for pin, model in zip(pins, models, strict=True)
        )
        readable, plain = text_entries(study) if options else ((), ())
        texts = tuple(
            probing.probe(pin, model, text_kind(options[pin.name]), readable)
            for pin, model in zip(pins, models, strict=True)
            if pin.name in options
        )
        accounts = budget.accounts() if budget is not None else ()
        return ProbedWave(questions, skipped, silent, accounts, texts, notes, plain)


@dataclass(frozen=True, slots=True)
class _Probing:
    """What the probes of all models of a wave have in common."""

    study: Study
    request: ProbeRequest
    pricing: Pricing
    budget: Budget | None
    watch: Watch
    now: Callable[[], str]

    def probe(
        self, pin: ModelPin, model: Model, kind: ProbeKind, entries: Sequence[SealedEntry]
    ) -> ProbeOutcome:
        """Put one kind of probe to a model, and promise it in the ledger if nothing more is
        owed."""
        study, wave = self.study, self.request.wave
        asked = entries_of_model(study, wave, pin, entries)
        priced = next(priced for priced in self.pricing.models if priced.name == pin.name)
        prober = Prober(
            study=study,
            pin=pin,
            model=model,
            wave=wave,
            kind=kind,
            bound=priced.bound,
            caller=Caller("probe", priced.price, self.budget),
            recipients=study.recipients(),
            identities=study.identities(),
        )
        outcome = probe_entries(prober, asked, self.request.parallel, self.watch)
        outcome = note_unreported(outcome)
        if asked and outcome.complete:
            calls = [prober.name(entry) for entry in asked]
            record_probed(study, pin, wave, kind, calls, outcome.done, self.now)
        return outcome


def _open_model(study: Study, pin: ModelPin, stack: ExitStack) -> Model:
    model = build_model(pin, folder=str(study.folder.resolve()))
    stack.callback(close_model, model)
    if isinstance(model, ExternalAgent):  # _pins has left these out
        raise HarnessError(f"model {pin.name!r} cannot be asked one question")
    return model


def _with_mean(
    probing: _Probing, pin: ModelPin, outcome: ProbeOutcome, entries: Sequence[SealedEntry]
) -> ProbeOutcome:
    """The outcome with the mean score over both arms, if nothing is owed."""
    if outcome.done < outcome.owed:
        return outcome
    asked = entries_of_model(probing.study, outcome.wave, pin, entries)
    scores = [p.score for p in read_probes(probing.study, outcome.wave, pin, asked).values()]
    return replace(outcome, mean_score=sum(scores) / len(scores) if scores else None)


def _ask_question(
    instance: TaskInstance, catalog: Catalog, model: Model, replies: ReplyStore
) -> None:
    messages = probe_messages(instance, catalog)
    if messages is None:
        raise HarnessError(f"{instance.spec.family}: an instance has no closed-book form")
    run_probe(instance, messages, model, replies, catalog)


QUESTIONS = ProbeKind("questions", probe_digest(), probe_call, _ask_question)


def read_probes(
    study: Study, wave: int, pin: ModelPin, entries: Sequence[SealedEntry]
) -> dict[str, Probe]:
    """Return a model's stored probes at a wave, by instance. Needs the study's key."""
    return stored_probes(study, wave, pin, entries, probe_call, read_probe)


def entries_of_model(
    study: Study, wave: int, pin: ModelPin, entries: Sequence[SealedEntry]
) -> tuple[SealedEntry, ...]:
    """Return those of the entries that are in tranches that a model runs at a wave: a question
    would burn the others as a run does (spec/statistics.md, B1)."""
    tranches = study.protocol.wave_tranches(wave)[pin.name]
    return tuple(entry for entry in entries if entry.tranche in tranches)


def askable_entries(study: Study) -> tuple[SealedEntry, ...]:
    """Return the instances of both arms in strata with a closed-book form."""
    return _askable(study)[0]


def _pins(study: Study, request: ProbeRequest) -> tuple[tuple[ModelPin, ...], tuple[str, ...]]:
    """The models to ask, and those of the wave that cannot be asked. Raises StudyError."""
    known = {pin.name: pin for pin in study.protocol.wave_models(request.wave)}
    for name in request.models:
        if name not in known:
            raise StudyError(
                f"wave {request.wave} has no model {name!r}; it has {', '.join(known)}"
            )
        if known[name].provider == "agent_server":
            raise StudyError(
                f"{name!r} is an agent behind a server, with tools of its own: it cannot be asked "
                "from memory alone"
            )
    wanted = request.models or tuple(known)
    skipped = tuple(name for name in wanted if known[name].provider == "agent_server")
    return tuple(known[name] for name in wanted if name not in skipped), skipped


def _askable(study: Study) -> tuple[tuple[SealedEntry, ...], tuple[str, ...]]:
    """The instances that can be asked about, and the strata that cannot."""
    entries = study.entries()
    first, catalog = {entry.stratum: entry for entry in entries}, study.protocol.catalog
    silent = tuple(
        stratum
        for stratum, entry in first.items()
        if probe_messages(instance_of(entry, catalog), catalog) is None
    )
    return tuple(entry for entry in entries if entry.stratum not in silent), silent
