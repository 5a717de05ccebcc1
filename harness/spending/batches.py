"""Replies paid for by a provider's batch interface, each stored as a paid reply like any other.

A batch is recorded before it is submitted, and its id once the provider returns it. A process that
dies at any moment leaves a batch that the next one goes on with: by its id, or by its mark if the
id was never stored. Only a batch that the provider does not know is submitted again. What is stored
of a batch names requests by digests, and is encrypted; it quotes none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from harness.errors import AttemptFailed, Boundary, HarnessError, WorkStopped
from harness.model import Model, ModelRequest, ModelWrapper, Reply, Try, Usage
from harness.models.providers.base import ProviderModel
from harness.models.providers.batch import EXPIRED, BatchAnswer, BatchService, Outgoing
from harness.models.providers.retry import ProviderError
from harness.spending.budget import Budget, attempt_bound, sum_spend
from harness.spending.prices import Price
from harness.spending.purchases import Journal, Payer
from harness.storage import Codec, hex_of
from registry.canonical import digest_value
from registry.ledger.records import ModelPin
from registry.sealing import Keys
from registry.stores.base import Store

BATCHES = "batches/"
NOT_PAID = "budget"  # class of a request that the budget does not pay for
_END = ".age"
_MARK_DIGITS = 40
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch that is to be submitted: the mark that it carries, the names of its requests, and
    the time, in seconds since 1970."""

    payer: Payer
    scope: str
    mark: str
    calls: tuple[str, ...]
    time: float


@dataclass(frozen=True, slots=True)
class BatchNote:
    """What became of a batch: the provider's id, or "done"."""

    text: str


RECORD_CODEC: Codec[BatchRecord] = Codec("batch", 1, BatchRecord)
NOTE_CODEC: Codec[BatchNote] = Codec("batch-note", 1, BatchNote)


def uses_batches(pin: ModelPin) -> bool:
    """Return True if a model's single turns and probes are bought by the batch interface."""
    return dict(pin.settings).get("batch") == "true"


@dataclass(frozen=True, slots=True)
class BatchedModel(ModelWrapper):
    """A model of which replies are bought in batches only: asked by itself, it fails."""

    model: Model

    def respond(self, request: ModelRequest) -> Reply:
        """Raise AttemptFailed: the batch did not bring this reply."""
        raise AttemptFailed(Boundary.PROVIDER, "batch", "no reply came by a batch")


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of one request: the tokens of the reply that was stored, or the class of its
    failure."""

    usage: Usage | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class BatchDesk:
    """Buys requests of one model for one purpose, the ``scope``: a wave's probes or episodes. Once
    ``refused`` returns True, it submits nothing more and waits for nothing."""

    store: Store
    payer: Payer
    scope: str
    model: ProviderModel
    service: BatchService
    keys: Keys
    budget: Budget | None = None
    price: Price | None = None
    bound: Decimal | None = None  # the most that one request can cost, in USD
    now: Callable[[], float] = time.time
    refused: Callable[[], bool] = lambda: False

    @property
    def _folder(self) -> str:
        return f"{BATCHES}{hex_of(self.payer.pin)}/{self.scope}/"

    def buy(
        self, wanted: Mapping[str, ModelRequest], journal: Callable[[str], Journal]
    ) -> dict[str, BatchOutcome]:
        """Buy the wanted requests by name, 64 hexadecimal digits each, and store the replies in
        their journals; go on first with the batches that were begun. A request that the budget
        does not pay for fails as NOT_PAID; those of a begun batch never do. Returns when all
        batches have ended.

        Raises AttemptFailed if the provider cannot be reached; WorkStopped, HarnessError,
        RegistryError.
        """
        outcomes: dict[str, BatchOutcome] = {}
        try:
            for stem, record in list(self._begun()):
                for call in record.calls:
                    self._reserve(call)
                outcomes |= self._finish(stem, record, wanted, journal)
            rest = [call for call in sorted(wanted) if call not in outcomes]
            paid = [call for call in rest if self._reserve(call)]
            requests = {call: self._outgoing(wanted[call]) for call in paid}
            for calls in self._parts(requests):
                outcomes |= self._submit(calls, wanted, journal)
            return outcomes | dict.fromkeys(set(rest) - set(paid), BatchOutcome(failure=NOT_PAID))
        finally:
            self._settle(wanted, outcomes)

    def _reserve(self, call: str) -> bool:
        if self.budget is None:
            return True
        return self.budget.reserve(self.payer.name, f"sha256:{call}", self.bound)

    def _settle(self, calls: Iterable[str], outcomes: Mapping[str, BatchOutcome]) -> None:
        if self.budget is None:
            return
        for call in calls:
            if (usage := outcomes.get(call, BatchOutcome()).usage) is None:
                self.budget.release(self.payer.name, f"sha256:{call}")
            else:
                spend = sum_spend([usage], self.price)
                self.budget.settle_reserved(self.payer.name, f"sha256:{call}", spend, True)

    def _outgoing(self, request: ModelRequest) -> Outgoing:
        return Outgoing(*self.model.write_request(request))

    def _begun(self) -> Iterator[tuple[str, BatchRecord]]:
        """Yield the batches that are not done."""
        for key in self.store.list(self._folder):
            stem = key.removesuffix(_END)
            if "-" in stem.rpartition("/")[2] or self.store.exists(f"{stem}-done{_END}"):
                continue
            yield stem, RECORD_CODEC.read(self.store, key, self.keys)

    def _parts(self, requests: Mapping[str, Outgoing]) -> Iterator[dict[str, Outgoing]]:
        """Yield the requests in batches that the provider takes."""
        part: dict[str, Outgoing] = {}
        size = 0
        for call, outgoing in requests.items():
            length = len(repr(outgoing.body).encode())
            full = len(part) == self.service.most or size + length > self.service.most_bytes
            if part and full:
                yield part
                part, size = {}, 0
            part[call] = outgoing
            size += length
        if part:
            yield part

    def _submit(
        self,
        requests: Mapping[str, Outgoing],
        wanted: Mapping[str, ModelRequest],
        journal: Callable[[str], Journal],
    ) -> dict[str, BatchOutcome]:
        if self.refused():
            raise WorkStopped("the sweep was stopped before its batches: run this again to go on")
        calls = tuple(requests)
        number = sum(1 for _ in self.store.list(self._folder))  # another name than any before
        named = {"pin": self.payer.pin, "scope": self.scope, "calls": calls, "number": number}
        mark = hex_of(digest_value(named))[:_MARK_DIGITS]
        stem = self._folder + mark
        record = BatchRecord(self.payer, self.scope, mark, calls, self.now())
        RECORD_CODEC.write(self.store, stem + _END, record, self.keys)
        logger.info("model %s: a batch of %d requests", self.payer.name, len(calls))
        self._note(stem, "id", self.service.submit(mark, requests))
        return self._finish(stem, record, wanted, journal)

    def _finish(
        self,
        stem: str,
        record: BatchRecord,
        wanted: Mapping[str, ModelRequest],
        journal: Callable[[str], Journal],
    ) -> dict[str, BatchOutcome]:
        """Wait for a batch, store what it brought, and note that it is done. A batch that was
        never submitted brings nothing."""
        batch = self._id_of(stem, record)
        outcomes: dict[str, BatchOutcome] = {}
        if batch is not None:
            self.service.wait(batch, self.refused)
            for answer in self._results(batch, record):
                if answer.call in wanted:
                    request = wanted[answer.call]
                    outcomes[answer.call] = self._keep(answer, request, journal(answer.call))
            for call in set(record.calls) & wanted.keys() - outcomes.keys():
                outcomes[call] = BatchOutcome(failure=EXPIRED)
        self._note(stem, "done", "done")
        return outcomes

    def _results(self, batch: str, record: BatchRecord) -> Iterator[BatchAnswer]:
        try:
            yield from self.service.results(batch)
        except AttemptFailed as failed:
            if failed.error_class != "bad_request":
                raise
            for call in record.calls:  # refused as a whole
                yield BatchAnswer(call, failure=failed.error_class)

    def _keep(self, answer: BatchAnswer, request: ModelRequest, journal: Journal) -> BatchOutcome:
        """Store a reply, or a failed request."""
        failure, raw = answer.failure, b""
        if not failure:
            try:
                reply = self.model.read_response(request, answer.body, answer.status)
                reply = replace(reply, usage=replace(reply.usage, batch=True))
                return BatchOutcome(journal.save(0, reply).usage)
            except ProviderError as error:
                failure, raw = error.kind, error.raw
        journal.keep_failed(0, Try(failure, None, 0.0, raw))
        return BatchOutcome(failure=failure)

    def _id_of(self, stem: str, record: BatchRecord) -> str | None:
        """The id of a batch, stored or found at the provider; None if it was never submitted."""
        note = NOTE_CODEC.find(self.store, f"{stem}-id{_END}", self.keys)
        if note is not None:
            return note.text
        found = self.service.find(record.mark, record.calls, record.time)
        if found is not None:
            self._note(stem, "id", found)
        return found

    def _note(self, stem: str, what: str, text: str) -> None:
        NOTE_CODEC.write(self.store, f"{stem}-{what}{_END}", BatchNote(text), self.keys)


def batch_bound(pin: ModelPin, price: Price | None, budget: Budget | None) -> Decimal | None:
    """Return the most that a request of a batch can cost, in USD. Raises HarnessError if a budget
    has to reserve a whole batch at once and nothing bounds its requests."""
    if budget is None or price is None:
        return None
    bound = attempt_bound(pin, price, 1)
    if bound is None:
        raise HarnessError(
            f"model {pin.name!r}: the budget reserves a batch as a whole: state `context` and "
            "`max_tokens` of the model"
        )
    return bound * price.batch


def provider_model(model: Model) -> ProviderModel:
    """Return the model behind its wrappers. Raises HarnessError if no provider serves it."""
    while isinstance(model, ModelWrapper):
        model = model.model
    if not isinstance(model, ProviderModel):
        raise HarnessError(f"model {model.name!r}: its provider has no batch interface here")
    return model
