"""Exposure probes of a wave's models: bought once, kept for ever, blind to the arms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from generators.catalog import Catalog
from generators.task import TaskInstance
from harness.build_model import build_model
from harness.errors import HarnessError
from harness.external_agents import ExternalAgent
from harness.model import Model, close_model
from harness.probing import (
    ProbeStore,
    probe_call,
    probe_digest,
    probe_messages,
    read_probe,
    run_probe,
)
from harness.spending import (
    Account,
    JudgePurse,
    Probe,
    Purse,
    Spend,
    Tariff,
    attempt_bound,
    read_bought,
    spend_of,
    spend_on,
)
from registry.ledger import ModelPin
from registry.sealing import SealedEntry
from study.errors import StudyError
from study.probing.ask import (
    Bench,
    ProbeKind,
    ProbeOutcome,
    Watch,
    ask_every,
    instance_of,
    kept_probes,
)
from study.probing.records import record_probed
from study.probing.texts import (
    check_sending,
    explain_untold,
    text_entries,
    text_kind,
    text_ways,
)
from study.spending import (
    Money,
    bought_probes,
    check_prices,
    money_of,
    probe_tariff,
    spent_by_judges,
)
from study.workspace import Study, cells_of, exclusive, manifest_of, registration_of

# --- One kind of probe put to one model: bought once, kept for ever, blind to the arms ---


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """``models`` none is every model of the wave that can be asked one question. With ``texts``
    models are also asked how likely they find each instance's text; ``burn`` allows to send
    private text to providers that may keep it."""

    wave: int
    models: tuple[str, ...] = ()
    parallel: int = 4
    allow_unknown_price: bool = False
    texts: bool = False
    burn: bool = False


@dataclass(frozen=True, slots=True)
class ProbedWave:
    models: tuple[ProbeOutcome, ...]
    skipped: tuple[str, ...]  # models that have no single question
    strata: tuple[str, ...]  # without a closed-book form
    accounts: tuple[Account, ...] = ()
    texts: tuple[ProbeOutcome, ...] = ()
    notes: tuple[str, ...] = ()  # on models that tell no log-probabilities
    plain: tuple[str, ...] = ()  # strata without a text of their own

    @property
    def complete(self) -> bool:
        return all(each.complete for each in (*self.models, *self.texts))

    @property
    def held(self) -> bool:
        """Whether the budget does not pay for what is still owed."""
        return any(each.held for each in (*self.models, *self.texts))


def probe_wave(
    study: Study, request: ProbeRequest, watch: Watch, now: Callable[[], str]
) -> ProbedWave:
    """Ask each model of a wave about every instance of both arms that it was not asked about, as
    far as the wave's budget goes, and put it into the ledger where that is done. Killed at any
    moment, it goes on where it was.

    Raises StudyError, RegistryError, HarnessError (a model that cannot be built).
    """
    registration_of(study)
    pins, skipped = _pins(study, request)
    ways, notes = text_ways(study, pins) if request.texts else ({}, ())
    if ways:
        check_sending(study, request.wave, [p for p in pins if p.name in ways], request.burn)
    money = _money(study, pins, request.allow_unknown_price)
    with ExitStack() as stack:
        asked = tuple((pin, _opened(study, pin, stack)) for pin in pins)
        _lock(study, request.wave, stack)
        entries, silent = _askable(study)
        purse = _purse(study, request.wave, money)
        party = _Party(study, request, money, purse, watch, now)
        found = tuple(_with_mean(party, pin, _probe(party, pin, model, QUESTIONS, entries), entries)
                      for pin, model in asked)  # fmt: skip
        read, plain = text_entries(study) if ways else ((), ())
        texts = tuple(
            _probe(party, pin, model, text_kind(ways[pin.name]), read)
            for pin, model in asked
            if pin.name in ways
        )
        accounts = purse.accounts() if purse is not None else ()
        return ProbedWave(found, skipped, silent, accounts, texts, notes, plain)


@dataclass(frozen=True, slots=True)
class _Party:
    """What the probes of all models of a wave have in common."""

    study: Study
    request: ProbeRequest
    money: Money
    purse: JudgePurse | None
    watch: Watch
    now: Callable[[], str]


def _opened(study: Study, pin: ModelPin, stack: ExitStack) -> Model:
    made = build_model(pin, folder=str(study.folder.resolve()))
    stack.callback(close_model, made)
    if isinstance(made, ExternalAgent):  # _pins has left these out
        raise HarnessError(f"model {pin.name!r} cannot be asked one question")
    return made


def _probe(
    party: _Party, pin: ModelPin, model: Model, kind: ProbeKind, entries: Sequence[SealedEntry]
) -> ProbeOutcome:
    """One kind of probe put to a model, and promised in the ledger where nothing more is owed."""
    study, wave = party.study, party.request.wave
    own = entries_of_model(study, wave, pin, entries)
    bench = Bench(study, pin, model, wave, party.money, party.purse, kind, study.recipients(),
                  study.identities())  # fmt: skip
    outcome = explain_untold(ask_every(bench, own, party.request.parallel, party.watch))
    if own and outcome.complete:
        calls = [bench.call(entry) for entry in own]
        record_probed(study, pin, wave, kind, calls, outcome.done, party.now)
    return outcome


def _with_mean(
    party: _Party, pin: ModelPin, outcome: ProbeOutcome, entries: Sequence[SealedEntry]
) -> ProbeOutcome:
    """With the mean score over both arms, where nothing is owed."""
    if outcome.done < outcome.owed:
        return outcome
    own = entries_of_model(party.study, outcome.wave, pin, entries)
    scores = [p.score for p in probes_there(party.study, outcome.wave, pin, own).values()]
    return replace(outcome, mean_score=sum(scores) / len(scores) if scores else None)


def _ask_question(
    instance: TaskInstance, catalog: Catalog, model: Model, journal: ProbeStore
) -> None:
    messages = probe_messages(instance, catalog)
    if messages is None:
        raise HarnessError(f"{instance.spec.family}: an instance has no closed-book form")
    run_probe(instance, messages, model, journal, catalog)


QUESTIONS = ProbeKind("questions", probe_digest(), probe_call, _ask_question)


def probes_there(
    study: Study, wave: int, pin: ModelPin, entries: Sequence[SealedEntry]
) -> dict[str, Probe]:
    """A model's kept probes at a wave, by instance. Needs the study's key."""
    return kept_probes(study, wave, pin, entries, probe_call, read_probe)


def entries_of_model(
    study: Study, wave: int, pin: ModelPin, entries: Sequence[SealedEntry]
) -> tuple[SealedEntry, ...]:
    """Of some entries, those of the tranches that a model runs at a wave: a question would burn
    the others as a run does (spec/statistics.md, B1)."""
    own = study.protocol.wave_tranches(wave)[pin.name]
    return tuple(entry for entry in entries if entry.tranche in own)


def askable_entries(study: Study) -> tuple[SealedEntry, ...]:
    """The instances of both arms whose stratum has a closed-book form."""
    return _askable(study)[0]


def _pins(study: Study, request: ProbeRequest) -> tuple[tuple[ModelPin, ...], tuple[str, ...]]:
    """The models to ask, and those of the wave that cannot be asked. Raises StudyError."""
    here = {pin.name: pin for pin in study.protocol.wave_models(request.wave)}
    for name in request.models:
        if name not in here:
            raise StudyError(f"wave {request.wave} has no model {name!r}; it has {', '.join(here)}")
        if here[name].provider == "agent_server":
            raise StudyError(
                f"{name!r} is an agent behind a server, with tools of its own: it cannot be asked "
                "from memory alone"
            )
    wanted = request.models or tuple(here)
    skipped = tuple(name for name in wanted if here[name].provider == "agent_server")
    return tuple(here[name] for name in wanted if name not in skipped), skipped


def _money(study: Study, pins: Sequence[ModelPin], allow: bool) -> Money:
    """What one question to each may cost."""
    made = check_prices(
        money_of(study.folder, study.protocol, pins, allow, bounds=False), study.folder
    )
    by_name = {pin.name: pin for pin in pins}
    tariffs = tuple(
        t if t.price is None else replace(t, bound=attempt_bound(by_name[t.model], t.price, 1))
        for t in made.tariffs
    )
    return replace(made, tariffs=tariffs)


def _lock(study: Study, wave: int, stack: ExitStack) -> None:
    """Keep out who would buy the same, or buys from the same budget."""
    others = "a `dosimeter grade`, `judge check` or `probe` of this study"
    stack.enter_context(exclusive(study.folder / ".grade.lock", others))
    sweep = f"a sweep of wave {wave}, whose budget is this one's too,"
    stack.enter_context(exclusive(study.folder / f".sweep-{wave}.lock", sweep))


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


def _purse(study: Study, wave: int, money: Money) -> JudgePurse | None:
    """The wave's budget, with all that was spent of it; None without one."""
    if money.budget is None:
        return None
    purse = Purse.open(money.budget, money.tariffs, money.allow_unknown)
    prior: dict[tuple[str, str], Spend] = {}
    own = {tariff.model: tariff for tariff in money.tariffs}
    for pin, call, usage in bought_probes(study, wave):
        tariff = own.get(pin.name) or probe_tariff(money.prices, pin)
        spend = spend_on([usage], tariff.price)
        if pin.name in own:
            purse.settle(f"{pin.name}/{call}", pin.name, spend, finished=True)
            prior[pin.name, call] = spend
        else:
            purse.charge(tariff, spend)
    for tariff, spend in (*spent_by_judges(study, wave, money.prices), *_swept(study, wave, money)):
        purse.charge(tariff, spend)
    return JudgePurse(purse, prior)


def _swept(study: Study, wave: int, money: Money) -> Iterator[tuple[Tariff, Spend]]:
    """What the episodes of the wave have cost."""
    manifest = manifest_of(study.ledger, wave)
    if manifest is None:
        return
    priced = money_of(study.folder, study.protocol, manifest.models, True, bounds=False)
    tariffs = {each.model: each for each in priced.tariffs if each.price is not None}
    identities = study.identities()
    for cell in cells_of(study.entries(), manifest):
        tariff = tariffs.get(cell.model)
        if tariff is not None and tariff.price is not None:
            bought = read_bought(study.store, identities, cell.episode, tariff.provider)
            yield tariff, spend_of(bought, tariff.price)
