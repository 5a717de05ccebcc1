"""Exposure probes of a wave's models: bought once, kept for ever, blind to the arms."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial

from generators.catalog import family
from generators.seed import Seed
from generators.task import TaskInstance
from harness.budget import Account, Purse, Spend, Tariff, attempt_bound, read_bought, spend_of
from harness.errors import AttemptFailed, Boundary, HarnessError, name_error
from harness.judgement import Probe
from harness.judgepurse import JudgePurse, spend_on
from harness.keys import PROBES, hex_of, probe_reply_key
from harness.model import Model, close_model
from harness.models.build import build_model
from harness.outside import OutsideAgent
from harness.probing import ProbeStore, probe_call, probe_messages, read_probe, run_probe
from registry.errors import RegistryError
from registry.records import ModelPin, record_digest
from registry.seal import SealedEntry
from study.alone import alone
from study.errors import StudyError
from study.folder import Study
from study.judgemoney import spent_by_judges
from study.money import Money, check_prices, money_of
from study.parallel import run_each
from study.probemoney import bought_probes, probe_tariff
from study.runs import cells_of, manifest_of
from study.setup import registration_of

Watch = Callable[[str, int, int], None]  # what, done, of

# Failures of a provider that the next question would meet as well.
_HOPELESS = frozenset(("auth", "quota", "connection", "bad_request"))
_NOT_TRIED = "not tried after that"
HELD = "not paid for by the budget"


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """``models`` none is every model of the wave that can be asked one question."""

    wave: int
    models: tuple[str, ...] = ()
    parallel: int = 4
    allow_unknown_price: bool = False


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """One model's probes. No arm is looked at here: the report tells them apart."""

    wave: int
    model: str
    owed: int
    done: int
    fresh: int  # of them, now
    mean_score: float | None  # over both arms; None while any is owed
    failures: tuple[tuple[str, int], ...]  # why probes are still owed, and how often
    failed_tries: tuple[tuple[str, int], ...]
    cost_usd: float | None  # of the replies bought now; None where that is unknown


@dataclass(frozen=True, slots=True)
class ProbedWave:
    models: tuple[ProbeOutcome, ...]
    skipped: tuple[str, ...]  # models that have no single question
    strata: tuple[str, ...]  # without a closed-book form
    accounts: tuple[Account, ...] = ()

    @property
    def complete(self) -> bool:
        return all(each.done == each.owed for each in self.models)

    @property
    def held(self) -> bool:
        """Whether the budget does not pay for what is still owed."""
        return any(HELD in dict(each.failures) for each in self.models)


@dataclass(frozen=True, slots=True)
class _Owed:
    """One probe to be asked. Its repr shows no secret."""

    call: str
    entry: SealedEntry = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Bench:
    """One model to be asked, and what it is paid from."""

    study: Study
    pin: ModelPin
    model: Model
    wave: int
    money: Money
    purse: JudgePurse | None
    recipients: tuple[str, ...]
    identities: tuple[str, ...] = field(repr=False)
    stop: threading.Event
    held: threading.Event

    def journal(self, call: str) -> ProbeStore:
        return ProbeStore(
            self.study.store, self.pin, self.wave, call, self.recipients, self.identities
        )


@dataclass(frozen=True, slots=True)
class _Tried:
    """What came of one probe: why it is still owed, "" where it is done."""

    failure: str = ""
    failed: tuple[str, ...] = ()
    spend: Spend = field(default_factory=Spend)


def probe_wave(study: Study, request: ProbeRequest, watch: Watch) -> ProbedWave:
    """Ask each model of a wave about every instance of both arms that it was not asked about, as
    far as the wave's budget goes. Killed at any moment, it goes on where it was.

    Raises StudyError, RegistryError, HarnessError (a model that cannot be built).
    """
    registration_of(study)
    pins, skipped = _pins(study, request)
    money = _money(study, pins, request.allow_unknown_price)
    with ExitStack() as stack:
        models: list[Model] = []
        for pin in pins:
            made = build_model(pin, folder=str(study.folder.resolve()))
            stack.callback(close_model, made)
            if isinstance(made, OutsideAgent):  # _pins has left these out
                raise HarnessError(f"model {pin.name!r} cannot be asked one question")
            models.append(made)
        _lock(study, request.wave, stack)
        entries, silent = _askable(study)
        purse = _purse(study, request.wave, money, entries)
        outcomes = [
            _probe_model(_bench(study, pin, model, request.wave, money, purse),
                         entries_of_model(study, request.wave, pin, entries),
                         request.parallel, watch)
            for pin, model in zip(pins, models, strict=True)
        ]  # fmt: skip
        return ProbedWave(
            tuple(outcomes), skipped, silent, purse.accounts() if purse is not None else ()
        )


def probes_there(
    study: Study, wave: int, pin: ModelPin, entries: Sequence[SealedEntry]
) -> dict[str, Probe]:
    """A model's kept probes at a wave, by instance. Needs the study's key."""
    done, identities, digest = _done(study, pin), study.identities(), record_digest(pin)
    found = {}
    for entry in entries:
        call = probe_call(study.protocol.name, wave, pin, entry.instance)
        if call in done:
            probe = read_probe(study.store, digest, call, identities)
            if probe is not None:
                found[entry.instance] = probe
    return found


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
    stack.enter_context(alone(study.folder / ".grade.lock", others))
    sweep = f"a sweep of wave {wave}, whose budget is this one's too,"
    stack.enter_context(alone(study.folder / f".sweep-{wave}.lock", sweep))


def _askable(study: Study) -> tuple[tuple[SealedEntry, ...], tuple[str, ...]]:
    """The instances that can be asked about, and the strata that cannot."""
    entries = study.entries()
    first = {entry.stratum: entry for entry in entries}
    silent = tuple(
        stratum for stratum, entry in first.items() if probe_messages(_instance(entry)) is None
    )
    return tuple(entry for entry in entries if entry.stratum not in silent), silent


def _instance(entry: SealedEntry) -> TaskInstance:
    """The instance of an entry. Raises HarnessError where it is another than the one drawn."""
    made = family(entry.family, entry.version).generate(entry.difficulty, Seed.from_hex(entry.seed))
    if made.id != entry.instance:
        raise HarnessError(
            f"{entry.stratum}: the generator here makes another instance than the one drawn; run "
            "the commit and library versions that the study is registered with"
        )
    return made


def _purse(
    study: Study, wave: int, money: Money, entries: Sequence[SealedEntry]
) -> JudgePurse | None:
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
    manifest = manifest_of(study, wave)
    if manifest is None:
        return
    priced = money_of(study.folder, study.protocol, manifest.models, True, bounds=False)
    tariffs = {each.model: each for each in priced.tariffs if each.price is not None}
    identities = study.identities()
    for cell in cells_of(study, manifest):
        tariff = tariffs.get(cell.model)
        if tariff is not None and tariff.price is not None:
            bought = read_bought(study.store, identities, cell.episode, tariff.provider)
            yield tariff, spend_of(bought, tariff.price)


def _bench(
    study: Study, pin: ModelPin, model: Model, wave: int, money: Money, purse: JudgePurse | None
) -> _Bench:
    return _Bench(
        study, pin, model, wave, money, purse, study.recipients(), study.identities(),
        threading.Event(), threading.Event(),
    )  # fmt: skip


def _done(study: Study, pin: ModelPin) -> frozenset[str]:
    """The names of a model's probes that are kept."""
    prefix = f"{PROBES}{hex_of(record_digest(pin))}/"
    keys = (key.removeprefix(prefix).removesuffix(".age") for key in study.store.list(prefix))
    return frozenset(f"sha256:{key}" for key in keys if len(key) == 64)


def _probe_model(
    bench: _Bench, entries: Sequence[SealedEntry], parallel: int, watch: Watch
) -> ProbeOutcome:
    name = bench.study.protocol.name
    every = [
        _Owed(probe_call(name, bench.wave, bench.pin, entry.instance), entry) for entry in entries
    ]
    before = _done(bench.study, bench.pin)
    # In the order of their names, which know of no arm.
    owed = sorted((o for o in every if o.call not in before), key=lambda o: o.call)
    done = len(every) - len(owed)
    tried: list[_Tried] = []
    for each in run_each(partial(_ask, bench), owed, parallel, bench.stop, "probe"):
        tried.append(each)
        done += not each.failure
        watch(f"probing {bench.pin.name}", done, len(every))
    return _outcome(bench, entries, tried, done, len(every))


def _ask(bench: _Bench, owed: _Owed) -> _Tried:
    """Ask one question, if that is paid for."""
    if bench.stop.is_set():
        return _Tried(_NOT_TRIED)
    if bench.held.is_set():
        return _Tried(HELD)
    try:
        instance = _instance(owed.entry)
        return _ask_paid(bench, owed, instance)
    except (HarnessError, RegistryError):
        raise
    except Exception as bug:  # what it says may quote an instance
        return _Tried(f"{Boundary.WORKER}:{name_error(bug)}")


def _ask_paid(bench: _Bench, owed: _Owed, instance: TaskInstance) -> _Tried:
    name, journal = bench.pin.name, bench.journal(owed.call)
    messages = probe_messages(instance)
    if messages is None:
        raise HarnessError(f"{owed.entry.stratum}: an instance has no closed-book form")
    stored = bench.study.store.exists(probe_reply_key(journal.digest, owed.call))
    pays = bench.purse if not stored else None  # bought before a crash: only to be read
    bound = next(t.bound for t in bench.money.tariffs if t.model == name)
    if pays is not None and not pays.take(name, owed.call, bound):
        bench.held.set()
        return _Tried(HELD)
    failure = f"{Boundary.WORKER}:stopped"
    try:
        run_probe(instance, messages, bench.model, journal)
        failure = ""
    except AttemptFailed as failed:
        if failed.error_class in _HOPELESS:
            bench.stop.set()
        failure = f"{failed.boundary}:{failed.error_class}"
    finally:
        spend = spend_on(journal.bought, bench.money.price_of(name))
        if pays is not None:
            pays.settle(name, owed.call, spend, not failure)
    return _Tried(failure, tuple(journal.failed), spend)


def _outcome(
    bench: _Bench, entries: Sequence[SealedEntry], tried: Sequence[_Tried], done: int, owed: int
) -> ProbeOutcome:
    mean = None
    if done == owed:
        scores = [
            p.score for p in probes_there(bench.study, bench.wave, bench.pin, entries).values()
        ]
        mean = sum(scores) / len(scores) if scores else None
    usd = sum((each.spend.usd for each in tried), Decimal())
    unpriced = bench.model.paid and bench.money.price_of(bench.pin.name) is None
    unknown = unpriced or any(each.spend.unknown for each in tried)
    return ProbeOutcome(
        wave=bench.wave,
        model=bench.pin.name,
        owed=owed,
        done=done,
        fresh=sum(not each.failure for each in tried),
        mean_score=mean,
        failures=tuple(sorted(Counter(t.failure for t in tried if t.failure).items())),
        failed_tries=tuple(sorted(Counter(kind for t in tried for kind in t.failed).items())),
        cost_usd=None if unknown else float(usd),
    )
