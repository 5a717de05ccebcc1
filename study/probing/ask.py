"""One kind of probe put to one model: bought once, kept for ever, blind to the arms."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TypeVar

from generators.catalog import Catalog
from generators.seed import Seed
from generators.task import TaskInstance
from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.model import Model
from harness.probing import (
    ProbeStore,
)
from harness.spending import (
    JudgePurse,
    spend_on,
)
from harness.store_keys import PROBES, hex_of, probe_reply_key
from registry.ledger import ModelPin, record_digest
from registry.sealing import SealedEntry
from registry.stores import Store
from study.paid_calls import HELD, HOPELESS, Tried, run_each, try_unless
from study.spending import (
    Money,
)
from study.workspace import Study

P = TypeVar("P")


Watch = Callable[[str, int, int], None]  # what, done, of


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """One model's probes. No arm is looked at here: the report tells them apart."""

    wave: int
    model: str
    owed: int
    done: int
    fresh: int  # of them, now
    mean_score: float | None  # of answers, over both arms; None while any is owed, and of texts
    failures: tuple[tuple[str, int], ...]  # why probes are still owed, and how often
    failed_tries: tuple[tuple[str, int], ...]
    cost_usd: float | None  # of the replies bought now; None where that is unknown
    what: str = "questions"
    note: str = ""  # why nobody need ask again: the model does not tell it

    @property
    def complete(self) -> bool:
        return self.done == self.owed or bool(self.note)

    @property
    def held(self) -> bool:
        """Whether the budget does not pay for what is still owed."""
        return HELD in dict(self.failures)


@dataclass(frozen=True, slots=True)
class ProbeKind:
    """A way to probe. ``name`` gives a probe's name, of study, wave, model and instance; ``ask``
    asks, keeps the reply before it is read, and keeps what it came to. It raises AttemptFailed."""

    what: str
    method: str  # digest of what pins it
    name: Callable[[str, int, ModelPin, str], str]
    ask: Callable[[TaskInstance, Catalog, Model, ProbeStore], object]


@dataclass(frozen=True, slots=True)
class Bench:
    """One model to be asked, and what it is paid from."""

    study: Study
    pin: ModelPin
    model: Model
    wave: int
    money: Money
    purse: JudgePurse | None
    kind: ProbeKind
    recipients: tuple[str, ...]
    identities: tuple[str, ...] = field(repr=False)
    stop: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)

    def call(self, entry: SealedEntry) -> str:
        return self.kind.name(self.study.protocol.name, self.wave, self.pin, entry.instance)

    def journal(self, call: str) -> ProbeStore:
        return ProbeStore(
            self.study.store, self.pin, self.wave, call, self.recipients, self.identities
        )


@dataclass(frozen=True, slots=True)
class _Owed:
    """One probe to be asked. Its repr shows no secret."""

    call: str
    entry: SealedEntry = field(repr=False)


def ask_every(
    bench: Bench, entries: Sequence[SealedEntry], parallel: int, watch: Watch
) -> ProbeOutcome:
    """Put to the model what it was not asked before, as far as the budget goes."""
    every = [_Owed(bench.call(entry), entry) for entry in entries]
    before = done_calls(bench.study, bench.pin)
    # In the order of their names, which know of no arm.
    owed = sorted((o for o in every if o.call not in before), key=lambda o: o.call)
    done = len(every) - len(owed)
    tried: list[Tried] = []
    for each in run_each(partial(_ask, bench), owed, parallel, bench.stop, "probe"):
        tried.append(each)
        done += not each.failure
        watch(f"probing {bench.pin.name}, {bench.kind.what}", done, len(every))
    return _outcome(bench, tried, done, len(every))


def kept_probes(
    study: Study,
    wave: int,
    pin: ModelPin,
    entries: Sequence[SealedEntry],
    name: Callable[[str, int, ModelPin, str], str],
    read: Callable[[Store, str, str, tuple[str, ...]], P | None],
) -> dict[str, P]:
    """A model's kept probes at a wave, by instance; ``name`` as a ProbeKind has it, ``read``
    finds one by the digest of the model's pin and its name. Needs the study's key."""
    done, identities, digest = done_calls(study, pin), study.identities(), record_digest(pin)
    calls = ((each.instance, name(study.protocol.name, wave, pin, each.instance))
             for each in entries)  # fmt: skip
    found = (
        (instance, read(study.store, digest, call, identities))
        for instance, call in calls if call in done
    )  # fmt: skip
    return {instance: probe for instance, probe in found if probe is not None}


def done_calls(study: Study, pin: ModelPin) -> frozenset[str]:
    """The names of a model's probes that are kept."""
    prefix = f"{PROBES}{hex_of(record_digest(pin))}/"
    keys = (key.removeprefix(prefix).removesuffix(".age") for key in study.store.list(prefix))
    return frozenset(f"sha256:{key}" for key in keys if len(key) == 64)


def instance_of(entry: SealedEntry, catalog: Catalog) -> TaskInstance:
    """The instance of an entry. Raises HarnessError where it is another than the one drawn."""
    family = catalog.family(entry.family, entry.version)
    made = family.generate(entry.difficulty, Seed.from_hex(entry.seed))
    if made.id != entry.instance:
        raise HarnessError(
            f"{entry.stratum}: the generator here makes another instance than the one drawn; run "
            "the commit and library versions that the study is registered with"
        )
    return made


def _ask(bench: Bench, owed: _Owed) -> Tried:
    """Ask one question, if that is paid for."""
    catalog = bench.study.protocol.catalog
    return try_unless(
        bench.stop, bench.held, lambda: _ask_paid(bench, owed, instance_of(owed.entry, catalog))
    )


def _ask_paid(bench: Bench, owed: _Owed, instance: TaskInstance) -> Tried:
    name, journal = bench.pin.name, bench.journal(owed.call)
    stored = bench.study.store.exists(probe_reply_key(journal.digest, owed.call))
    pays = bench.purse if not stored else None  # bought before a crash: only to be read
    bound = next(t.bound for t in bench.money.tariffs if t.model == name)
    if pays is not None and not pays.take(name, owed.call, bound):
        bench.held.set()
        return Tried(HELD)
    failure = f"{Boundary.WORKER}:stopped"
    try:
        bench.kind.ask(instance, bench.study.protocol.catalog, bench.model, journal)
        failure = ""
    except AttemptFailed as failed:
        if failed.error_class in HOPELESS:
            bench.stop.set()
        failure = f"{failed.boundary}:{failed.error_class}"
    finally:
        spend = spend_on(journal.bought, bench.money.price_of(name))
        if pays is not None:
            pays.settle(name, owed.call, spend, not failure)
    return Tried(failure, tuple(journal.failed), spend)


def _outcome(bench: Bench, tried: Sequence[Tried], done: int, owed: int) -> ProbeOutcome:
    usd = sum((each.spend.usd for each in tried), Decimal())
    unpriced = bench.model.paid and bench.money.price_of(bench.pin.name) is None
    unknown = unpriced or any(each.spend.unknown for each in tried)
    return ProbeOutcome(
        wave=bench.wave,
        model=bench.pin.name,
        owed=owed,
        done=done,
        fresh=sum(not each.failure for each in tried),
        mean_score=None,
        failures=tuple(sorted(Counter(t.failure for t in tried if t.failure).items())),
        failed_tries=tuple(sorted(Counter(kind for t in tried for kind in t.failed).items())),
        cost_usd=None if unknown else float(usd),
        what=bench.kind.what,
    )
