"""What a worker has for its cells: the run's context; models, sandboxes and store, opened once."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Self

from generators.catalog import INSTALLED, Catalog
from generators.family import kept_by_family
from generators.seed import Seed
from generators.task import Family, TaskInstance
from harness.agent.agent import ModelOrAgent
from harness.agent.limits import Ceiling, read_ceiling
from harness.build_model import build_model
from harness.episode import Cell
from harness.errors import HarnessError
from harness.model import close_model
from harness.sandboxes.open import open_provider
from harness.sandboxes.sandbox import SandboxProvider
from harness.spending.budget import PricedModel, Spend, SpendingLimits
from harness.spending.prices import Price
from harness.spending.purchases import CallKind, Charge, Payer, ReplyStore
from harness.storage import hex_of, result_key
from harness.sweep.epochs import Epochs
from harness.sweep.outbox import OutboxStore, StorePause
from harness.sweep.purchases import Purchases
from harness.sweep.schedule import Schedule, WaveInstance, WavePlan, schedule_cells
from registry.errors import RegistryError
from registry.ledger.begun import BegunList, begun_folder
from registry.ledger.records import ModelPin
from registry.provenance import code_digest, find_other_packages, utc_now
from registry.sealing import CellKey, Keys, run_name
from registry.stores import open_store
from registry.stores.base import Store

_WARM = 16  # containers kept ready by a worker, at most
_INSTANCES = 16  # kept by a worker: with those that it may lease ahead, no more than 64


@dataclass(frozen=True, slots=True)
class RunContext:
    """Everything that a worker needs to know about a run. It holds no arm and no study key."""

    plan: WavePlan
    run: str  # digest of the RunManifest
    store: str  # uri
    recipients: tuple[str, ...]  # the study's
    trusted: frozenset[str]  # public keys that sign for the study
    run_recipient: str
    run_identity: str = field(repr=False)  # "" in a worker, to which a cell brings its own key
    sandbox: str  # "docker", "pods" or "local"
    runtime: str
    image_tag: str
    image_digest: str
    parallel: int  # episodes at once in one worker
    folder: str  # of the study, for files that models read
    code: str  # digest of the source that the driver runs
    packages: tuple[tuple[str, str], ...] = ()  # name, version of the driver's that shape results
    templates: tuple[tuple[str, str, str], ...] = ()  # names, texts and values of template files
    prices: tuple[PricedModel, ...] = ()  # of the models
    creating: int = 0  # sandboxes at once; 0 for the usual
    executing: int = 0  # programs in them at once
    memory_bytes: int = 0  # limit on all sandboxes of a machine together
    limits: SpendingLimits | None = None
    allow_unknown_price: bool = False
    # Amounts that judges and probes have cost the wave already.
    spent_elsewhere: tuple[tuple[PricedModel, Spend], ...] = ()

    @property
    def readers(self) -> tuple[str, ...]:
        """The recipients that may read what the run writes of more than one cell."""
        return (*self.recipients, self.run_recipient)

    @property
    def run_keys(self) -> Keys:
        """The keys of what the run writes of more than one cell. Needs the run's key."""
        return Keys(self.readers, (self.run_identity,), trusted=self.trusted)

    def keys_of(self, cell: Cell) -> Keys:
        """The keys of what the run writes of a cell, and of no other."""
        return _keys_of(cell.episode, cell.key, self.run_identity, self.run_recipient)

    def replies(self, cell: Cell, store: Store) -> ReplyStore:
        """Return the paid replies of a cell, of all its attempts."""
        payer = Payer.of(self.pin(cell.model))
        charge = Charge(CallKind.EPISODE, payer, cell.episode, self.plan.wave)
        return ReplyStore(store, charge, self.keys_of(cell))

    def lease(self, cell: Cell) -> Cell:
        """Return a cell with its key. Needs the run's key."""
        own = self.keys_of(cell).cell
        return cell if own is None else replace(cell, key=own.secret.hex())

    @property
    def epochs(self) -> Epochs:
        """The epochs of the run. Needs its key."""
        store = open_store(self.store)
        return Epochs(store, self.run_recipient, self.readers, (self.run_identity,))

    def begun_list(self, store: Store, worker: str) -> BegunList:
        """Return the list of the attempts that a worker of the run begins."""
        return BegunList(store, begun_folder(self.run_recipient), worker, utc_now)

    def schedule(self, instances: Iterable[WaveInstance]) -> Schedule:
        """Return the cells of the run on its instances. Needs the run's key."""
        return schedule_cells(self.plan, instances, self.run_identity)

    @property
    def priced(self) -> dict[str, PricedModel]:
        """The models by name, with their prices."""
        return {model.name: model for model in self.prices}

    def price(self, model: str) -> Price | None:
        """Return what a model costs, if that is known."""
        return self.priced[model].price if model in self.priced else None

    def pin(self, model: str) -> ModelPin:
        """Return the pin of a model."""
        return next(pin for pin in self.plan.models if pin.name == model)

    def ceiling(self, model: str) -> Ceiling:
        """Return the limits on tokens and cost of an episode of a model. Raises HarnessError."""
        price = self.price(model)
        return read_ceiling(self.pin(model), None if price is None else price.cost)


@lru_cache(maxsize=64)  # no more than a lease: a captured worker has no other keys
def _keys_of(episode: str, key: str, run_identity: str, recipient: str) -> Keys:
    """The keys of a cell: the one that it brings, or derived from the run's."""
    if not (key or run_identity):
        raise RegistryError(f"{episode}: a worker has the keys of leased cells only")
    run = run_name(recipient)
    if key:
        return Keys(cell=CellKey(run, bytes.fromhex(key)))
    return Keys(cell=CellKey.of(run_identity, run, hex_of(episode)))


@dataclass(frozen=True, slots=True)
class Workbench:
    """A worker's equipment: opened once, used for every cell."""

    context: RunContext
    store: Store
    models: Mapping[str, ModelOrAgent]
    sandboxes: SandboxProvider
    purchases: Purchases = field(default_factory=Purchases)
    catalog: Catalog = INSTALLED
    # Sealed results by episode that wait to be stored together; None: each is stored at once.
    held: dict[str, bytes] | None = field(default=None, repr=False)
    begun: BegunList | None = None

    @classmethod
    def open(cls, context: RunContext, worker: str = "") -> Self:
        """Open the store, the models and the sandboxes. A ``worker`` holds its results, and keeps a
        list of the attempts that it begins. Raises HarnessError that names this host, StoreError;
        other code or libraries than the driver's, or another sandbox image than the pinned one, are
        refused."""
        purchases = Purchases()
        with _naming_host():
            store = OutboxStore(open_store(context.store), purchases.ended)
            return cls(
                context=context,
                store=store,
                models=_open_models(context),
                sandboxes=open_sandboxes(context),
                purchases=purchases,
                catalog=_catalog_of(context),
                held={} if worker else None,
                begun=context.begun_list(store, worker) if worker else None,
            )

    def keep_result(self, episode: str, sealed: bytes) -> None:
        """Store a result, or hold it until it is asked to be stored. Raises StoreError."""
        if self.held is None:
            self.store.put(result_key(episode), sealed)
        else:
            self.held[episode] = sealed

    def store_held(self, episode: str) -> None:
        """Store the result of an episode if it is held, and not stored already. Raises StoreError,
        WorkStopped."""
        if self.held is not None and (sealed := self.held.get(episode)) is not None:
            self.store.put(result_key(episode), sealed)
            self.held.pop(episode, None)

    def recover(self) -> None:
        """Store what processes of this machine that died could not store. Raises StoreError."""
        if isinstance(self.store, OutboxStore):
            self.store.recover()

    def pause(self) -> StorePause | None:
        """Return why this worker waits for its store or for sandboxes, if it does."""
        if isinstance(self.store, OutboxStore) and (pause := self.store.pause()) is not None:
            return pause
        reason = self.sandboxes.trouble
        return StorePause(socket.gethostname(), reason, lacks="sandbox") if reason else None

    def has_stored_all(self) -> bool:
        """Return True if nothing waits in this machine's outbox."""
        return not isinstance(self.store, OutboxStore) or self.store.is_empty()

    def close(self) -> None:
        """Close the models and the sandboxes."""
        for model in self.models.values():
            close_model(model)
        self.sandboxes.close()


def check_host(context: RunContext) -> None:
    """Raise HarnessError that names this host if it cannot work on a run: it has other code,
    libraries or sandbox image than the driver, or lacks the key, library or weights of a model.
    Opens nothing, and needs no key of the run."""
    with _naming_host():
        for model in _open_models(context).values():
            close_model(model)
        if context.sandbox == "docker":
            from harness.sandboxes.docker import image_digest

            _check_image(context, image_digest(context.image_tag))


@contextmanager
def _naming_host() -> Iterator[None]:
    """Put the name of this host before the text of a HarnessError."""
    try:
        yield
    except HarnessError as error:
        raise type(error)(f"{socket.gethostname()}: {error}") from None


def _open_models(context: RunContext) -> dict[str, ModelOrAgent]:
    """Return the models of a run by name. Raises HarnessError, also for other code or libraries
    than the driver's."""
    if code_digest() != context.code:
        raise HarnessError(
            "it runs other code than the driver of this sweep: bring both to the same commit, or "
            "to the same prebuilt image"
        )
    if other := find_other_packages(context.packages):
        raise HarnessError(
            f"it has other libraries than the driver of this sweep ({', '.join(other)}): install "
            "what requirements.lock names on both"
        )
    for pin in context.plan.models:
        context.ceiling(pin.name)
    return {
        pin.name: build_model(pin, folder=context.folder, sources=context.templates)
        for pin in context.plan.models
    }


def open_sandboxes(context: RunContext) -> SandboxProvider:
    """The sandbox provider of a run, checked against its pin."""
    provider = open_provider(
        context.sandbox,
        context.image_tag,
        runtime=context.runtime,
        warm=min(context.parallel, _WARM),
        creating=context.creating,
        executing=context.executing,
        memory_bytes=context.memory_bytes,
        run=context.run,
    )
    try:
        _check_image(context, provider.image)
    except HarnessError:
        provider.close()
        raise
    return provider


def _check_image(context: RunContext, digest: str) -> None:
    if digest != context.image_digest:
        raise HarnessError(
            f"sandbox image {context.image_tag} is {digest} on this machine, but the run "
            f"is pinned to {context.image_digest}: build or copy the pinned image here"
        )


@kept_by_family(_INSTANCES)
def _generate(family: Family, difficulty: str, seed: Seed) -> TaskInstance:
    return family.generate(difficulty, seed)


def instance_of(cell: Cell | WaveInstance, catalog: Catalog) -> TaskInstance:
    """Generate a cell's instance again from its seed; the last ones are kept, few since they are
    secret. Raises HarnessError if it is another than the one drawn."""
    family = catalog.family(cell.spec.family, cell.spec.version)
    instance = _generate(family, cell.spec.difficulty, cell.seed)
    if instance.id != cell.instance:
        raise HarnessError(
            f"{cell.spec.stratum}: the generator here makes another instance than the one drawn; "
            "run the commit and library versions that the study is registered with"
        )
    return instance


def _catalog_of(context: RunContext) -> Catalog:
    if not context.templates:
        return INSTALLED
    # Imported here: a worker holds 6 MB less where no cell is of a template file.
    from generators.dressings.family import catalog_with

    return catalog_with(context.templates)
