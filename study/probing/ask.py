"""One kind of probe put to one model: paid for once, stored for good, blind to the arms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import TypeVar

from generators.catalog import Catalog
from generators.seed import Seed
from generators.task import TaskInstance
from harness.errors import HarnessError
from harness.model import Model
from harness.spending import CallKind, Charge, Payer, ReplyStore
from harness.store_keys import PROBES, hex_of, probe_replies, reply_key
from registry.ledger import ModelPin, record_digest
from registry.sealing import SealedEntry
from registry.stores import Store
from study.paid_calls import (
    OVER_BUDGET,
    Caller,
    CallResult,
    cost_usd,
    count_failed_requests,
    count_failures,
)
from study.workspace import Study

P = TypeVar("P")


Watch = Callable[[str, int, int], None]  # what, done, of


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """One model's probes over both arms, which only the report distinguishes."""

    wave: int
    model: str
    owed: int
    done: int
    fresh: int  # of them, now
    mean_score: float | None  # of answers, over both arms; None while any is owed, and for texts
    failures: tuple[tuple[str, int], ...]  # why probes are still owed, and how often
    failed_tries: tuple[tuple[str, int], ...]
    cost_usd: float | None  # of the replies paid for now; None if unknown
    what: str = "questions"
    note: str = ""  # why nothing more is owed: the model does not report it

    @property
    def complete(self) -> bool:
        """Whether nothing more is owed."""
        return self.done == self.owed or bool(self.note)

    @property
    def over_budget(self) -> bool:
        """Whether the budget does not pay for what is still owed."""
        return OVER_BUDGET in dict(self.failures)


@dataclass(frozen=True, slots=True)
class ProbeKind:
    """A kind of probe. ``name`` returns a probe's name from study, wave, model and instance;
    ``ask`` asks, keeps the reply before it is read, and stores its result. It raises
    AttemptFailed."""

    what: str
    method: str  # digest that pins it
    name: Callable[[str, int, ModelPin, str], str]
    ask: Callable[[TaskInstance, Catalog, Model, ReplyStore], object]


@dataclass(frozen=True, slots=True)
class Prober:
    """Puts one kind of probe to one model at a wave."""

    study: Study
    pin: ModelPin
    model: Model
    wave: int
    kind: ProbeKind
    bound: Decimal | None  # the most that a probe can cost
    caller: Caller
    recipients: tuple[str, ...]
    identities: tuple[str, ...] = field(repr=False)

    def name(self, entry: SealedEntry) -> str:
        """Return the name of the probe of an instance."""
        return self.kind.name(self.study.protocol.name, self.wave, self.pin, entry.instance)


@dataclass(frozen=True, slots=True)
class _Owed:
    """A probe to be made. Its repr shows no secret."""

    call: str
    entry: SealedEntry = field(repr=False)


def probe_entries(
    prober: Prober, entries: Sequence[SealedEntry], parallel: int, watch: Watch
) -> ProbeOutcome:
    """Make the probes that were not made before, as far as the budget goes."""
    probes = [_Owed(prober.name(entry), entry) for entry in entries]
    before = done_calls(prober.study, prober.pin)
    # In the order of their names, which do not depend on arms.
    owed = sorted((p for p in probes if p.call not in before), key=lambda p: p.call)
    done = len(probes) - len(owed)
    results: list[CallResult] = []
    for result in prober.caller.call_each(partial(_probe, prober), owed, parallel):
        results.append(result)
        done += not result.failure
        watch(f"probing {prober.pin.name}, {prober.kind.what}", done, len(probes))
    unpriced = prober.model.paid and prober.caller.price is None
    return ProbeOutcome(
        wave=prober.wave,
        model=prober.pin.name,
        owed=len(probes),
        done=done,
        fresh=sum(not result.failure for result in results),
        mean_score=None,
        failures=count_failures(results),
        failed_tries=count_failed_requests(results),
        cost_usd=cost_usd(results, unpriced),
        what=prober.kind.what,
    )


def stored_probes(
    study: Study,
    wave: int,
    pin: ModelPin,
    entries: Sequence[SealedEntry],
    name: Callable[[str, int, ModelPin, str], str],
    read: Callable[[Store, str, str, tuple[str, ...]], P | None],
) -> dict[str, P]:
    """Return a model's stored probes at a wave, by instance; ``name`` as in a ProbeKind, ``read``
    returns one by the digest of the model's pin and its name. Needs the study's key."""
    done, identities, digest = done_calls(study, pin), study.identities(), record_digest(pin)
    probes: dict[str, P] = {}
    for entry in entries:
        call = name(study.protocol.name, wave, pin, entry.instance)
        probe = read(study.store, digest, call, identities) if call in done else None
        if probe is not None:
            probes[entry.instance] = probe
    return probes


def done_calls(study: Study, pin: ModelPin) -> frozenset[str]:
    """Return the names of a model's stored probes."""
    prefix = f"{PROBES}{hex_of(record_digest(pin))}/"
    keys = (key.removeprefix(prefix).removesuffix(".age") for key in study.store.list(prefix))
    return frozenset(f"sha256:{key}" for key in keys if len(key) == 64)


def instance_of(entry: SealedEntry, catalog: Catalog) -> TaskInstance:
    """Return the instance of an entry. Raises HarnessError if it differs from the one drawn."""
    family = catalog.family(entry.family, entry.version)
    made = family.generate(entry.difficulty, Seed.from_hex(entry.seed))
    if made.id != entry.instance:
        raise HarnessError(
            f"{entry.stratum}: the generator here makes another instance than the one drawn; run "
            "the commit and library versions that the study is registered with"
        )
    return made


def _probe(prober: Prober, owed: _Owed) -> CallResult:
    """Make one probe, if the budget pays for it."""
    store, payer = prober.study.store, Payer.of(prober.pin)
    charge = Charge(CallKind.PROBE, payer, owed.call, prober.wave)
    replies = ReplyStore(store, charge, prober.recipients, prober.identities)
    catalog = prober.study.protocol.catalog
    instance = instance_of(owed.entry, catalog)
    caller = prober.caller
    if store.exists(reply_key(probe_replies(payer.pin, owed.call), 0)):
        caller = replace(caller, budget=None)  # paid for before a crash: only to be read
    return caller.pay(
        replies, prober.bound, lambda: prober.kind.ask(instance, catalog, prober.model, replies)
    )
