"""Exposure probes of a wave's models: paid for once, stored for good, blind to the arms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from harness.build_model import build_plain_model
from harness.errors import HarnessError
from harness.model import Model, close_model
from harness.spending.budget import Account, Budget, PricedModel
from harness.spending.purchases import CallKind, ReplyStore
from harness.storage import probe_replies, reply_key
from harness.sweep.schedule import WaveInstance
from harness.sweep.workbench import instance_of
from registry.canonical import digest_value
from registry.ledger.inventory import probe_objects, write_inventory
from registry.ledger.records import ModelPin, Probed, pin_digest, record_body
from study.errors import StudyError
from study.extras.probe.kinds import (
    MARKERS,
    QUESTIONS,
    ProbeKind,
    done_calls,
    instances_of_kind,
    instances_of_model,
    notes_on_sent,
    stored_probes,
)
from study.steps.sweep.spending import (
    Caller,
    CallResult,
    CallTotals,
    lock_budget,
    open_budget,
    price_pins,
    sum_calls,
)
from study.workspace.setup import Watch, registration_of
from study.workspace.study import Study


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """Models to probe, and how: without ``models``, every model of the wave that can be asked one
    question. With ``markers``, for the marker of each title instead of the questions."""

    wave: int
    models: tuple[str, ...] = ()
    allow_unknown_price: bool = False
    markers: bool = False


@dataclass(frozen=True, slots=True)
class ProbeOutcome(CallTotals):
    """One model's probes over both arms, which only the report distinguishes."""

    model: str
    owed: int
    done: int
    mean_score: float | None  # of answers, over both arms; None while any is owed
    what: str = "questions"

    @property
    def complete(self) -> bool:
        """True if nothing more is owed."""
        return self.done == self.owed


@dataclass(frozen=True, slots=True)
class ProbedWave:
    """The probes of a wave's models."""

    models: tuple[ProbeOutcome, ...]  # of questions, or of markers
    skipped: tuple[str, ...]  # models that have no single question
    strata: tuple[str, ...]  # without a closed-book form
    notes: tuple[str, ...]  # on models with a doubtful control
    accounts: tuple[Account, ...]

    @property
    def complete(self) -> bool:
        """True if nothing more is owed."""
        return all(outcome.complete for outcome in self.models)

    @property
    def over_budget(self) -> bool:
        """True if the budget does not pay for the probes still owed."""
        return any(each.over_budget for each in self.models)


def probe_wave(
    study: Study, request: ProbeRequest, watch: Watch, now: Callable[[], str]
) -> ProbedWave:
    """Ask each model of a wave about every instance of both arms that it was not asked about, as
    far as the wave's budget goes, and record it in the ledger if that is done. Killed at any
    moment, it resumes when called again.

    Raises StudyError, RegistryError, HarnessError (a model that cannot be built).
    """
    registration_of(study)
    wave = request.wave
    pins, skipped = _pins(study, request)
    notes = notes_on_sent(study, pins) if request.markers else ()
    pricing = price_pins(study, pins, request.allow_unknown_price, turns=1)
    with ExitStack() as stack:
        models = [_open_model(study, pin, stack) for pin in pins]
        lock_budget(study, (wave,), stack)
        kind: ProbeKind[Any] = MARKERS if request.markers else QUESTIONS
        askable, silent = instances_of_kind(study, kind)
        budget = open_budget(study, wave, pricing, CallKind.PROBE, pins, lambda _: True, stack)
        probers = [
            _Prober(study, request, pin, model, priced, budget, watch, now)
            for pin, model, priced in zip(pins, models, pricing.models, strict=True)
        ]
        questions = tuple(prober.probe_all(kind, askable) for prober in probers)
        accounts = budget.accounts() if budget is not None else ()
        return ProbedWave(
            models=questions, skipped=skipped, strata=silent, notes=notes, accounts=accounts
        )


def _pins(study: Study, request: ProbeRequest) -> tuple[tuple[ModelPin, ...], tuple[str, ...]]:
    """Return the models to ask, and those of the wave that cannot be asked. Raises StudyError."""
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


def _open_model(study: Study, pin: ModelPin, stack: ExitStack) -> Model:
    model = build_plain_model(pin, folder=str(study.folder.resolve()))
    stack.callback(close_model, model)
    return model


@dataclass(frozen=True, slots=True)
class _Prober:
    """Puts probes to one model at a wave."""

    study: Study
    request: ProbeRequest
    pin: ModelPin
    model: Model
    priced: PricedModel
    budget: Budget | None
    watch: Watch
    now: Callable[[], str]

    def probe_all(self, kind: ProbeKind[Any], instances: Iterable[WaveInstance]) -> ProbeOutcome:
        """Make the probes of a kind that were not made before, as far as the budget goes, and
        promise them in the ledger if nothing more is owed."""
        study, wave, pin = self.study, self.request.wave, self.pin
        asked = instances_of_model(study, wave, pin, instances)
        probes = {kind.name(study.protocol.name, wave, pin, each.instance): each for each in asked}
        # In the order of their names, which do not depend on arms.
        owed = sorted(probes.keys() - done_calls(study, pin))
        done = len(probes) - len(owed)
        price = self.priced.price
        caller = Caller(study, CallKind.PROBE, pin, wave, price, budget=self.budget)

        def probe(call: str) -> CallResult:
            return self._probe(kind, caller, call, probes[call])

        results: list[CallResult] = []
        for result in caller.call_each(probe, owed):
            results.append(result)
            done += not result.failure
            self.watch(f"probing {pin.name}, {kind.what}", done, len(probes))
        calls = sum_calls(results, self.model.paid and price is None)
        mean = None
        if done == len(probes):
            stored = stored_probes(study, wave, pin, asked, kind)
            mean = fmean(probe.score for probe in stored.values()) if stored else None
        outcome = ProbeOutcome(
            model=pin.name,
            owed=len(probes),
            done=done,
            mean_score=mean,
            what=kind.what,
            **asdict(calls),
        )
        if asked and outcome.complete:
            _record_probed(study, wave, pin, kind, probes, done, self.now)
        return outcome

    def _probe(
        self, kind: ProbeKind[Any], caller: Caller, call: str, drawn: WaveInstance
    ) -> CallResult:
        """Make one probe, if the budget pays for it."""
        study = self.study
        instance = instance_of(drawn, study.protocol.catalog)
        if study.store.exists(reply_key(probe_replies(pin_digest(self.pin), call), 0)):
            caller = replace(caller, budget=None)  # paid for before a crash: only to be read

        def ask(replies: ReplyStore) -> None:
            content = kind.content(instance, study.protocol.catalog)
            if content is None:
                raise HarnessError(
                    f"{drawn.spec.stratum}: an instance has no {kind.what} to be asked"
                )
            kind.ask(instance, content, self.model, replies, study.protocol.catalog)

        return caller.pay(call, self.priced.bound, ask)


def _record_probed(
    study: Study,
    wave: int,
    pin: ModelPin,
    kind: ProbeKind[Any],
    calls: Collection[str],
    done: int,
    now: Callable[[], str],
) -> None:
    """Promise a model's stored probes of a wave, named ``calls``, and the replies that they rest on
    in the ledger. To be called once all are ``done``, or as many as the model answers."""
    plan = digest_value(record_body(registration_of(study)))
    known = find_probed(study, pin, wave, kind.what)
    if known is not None and (known.method, known.probes) == (kind.method, done):
        return
    inventory = write_inventory(study.store, probe_objects(study.store, pin_digest(pin), calls))
    tranches = study.protocol.wave_tranches(wave)[pin.name]
    record = Probed(
        wave=wave,
        plan=plan,
        model=pin,
        what=kind.what,
        method=kind.method,
        probes=done,
        objects=inventory.objects,
        objects_root=inventory.objects_root,
        retention=dict(study.protocol.retention).get(pin.name, ""),
        tranches=() if tranches == (0,) else tranches,
    )
    study.ledger.append_once(record, now())


def find_probed(study: Study, pin: ModelPin, wave: int, what: str) -> Probed | None:
    """Return the newest record that a model was probed in this way at a wave, if any."""
    records: list[Probed] = [entry.record for entry in study.ledger.find("probed")]
    records = [r for r in records if pin_digest(r.model) == pin_digest(pin)]
    return next((r for r in reversed(records) if (r.wave, r.what) == (wave, what)), None)
