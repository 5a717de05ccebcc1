"""Paid calls in the store: each reply is stored before it is acted on, so that no crash pays for
one twice, together with its charge, and read again to count the amount spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import count, islice
from typing import Protocol

from harness.episode import Cell
from harness.errors import WorkStopped
from harness.model import Reply, Try, Usage
from harness.spending.budget import PricedModel, Spend, sum_spend
from harness.storage import (
    EPISODE_CODEC,
    JUDGE_CALLS,
    PILOTS,
    PROBES,
    RESPONSES,
    TRY_CODEC,
    Codec,
    attempt_key,
    attempt_replies,
    episode_replies,
    failed_key,
    is_reply,
    judge_replies,
    pilot_replies,
    probe_replies,
    reply_key,
    stored_attempts,
)
from registry.ledger import JudgePin, ModelPin, record_digest
from registry.sealing import Keys
from registry.stores import Store


class CallKind(StrEnum):
    """Purpose of a call."""

    EPISODE = "episode"
    JUDGE = "judge"
    PROBE = "probe"
    PILOT = "pilot"


@dataclass(frozen=True, slots=True)
class Payer:
    """Model or judge that a call is charged to: its limits of the budget pay."""

    name: str
    provider: str
    version: str
    pin: str  # digest of its pin

    @classmethod
    def of(cls, pin: ModelPin | JudgePin) -> Payer:
        """The payer of a pinned model or judge."""
        return cls(pin.name, pin.provider, pin.version, _pin_digest(pin))


@cache
def _pin_digest(pin: ModelPin | JudgePin) -> str:
    return record_digest(pin)


@dataclass(frozen=True, slots=True)
class Charge:
    """Account that the calls of one subject are charged to. ``subject`` is the digest of an episode
    or a probe, or the id of an answer sheet; ``wave`` is None for the check of a judge and for a
    pilot."""

    kind: CallKind
    payer: Payer
    subject: str
    wave: int | None


@dataclass(frozen=True, slots=True)
class PaidCall:
    """A reply as the store keeps it."""

    charge: Charge
    reply: Reply


PAID_CALL_CODEC: Codec[PaidCall] = Codec("paid-call", 1, PaidCall)


_FOLDERS = {
    CallKind.EPISODE: RESPONSES,
    CallKind.JUDGE: JUDGE_CALLS,
    CallKind.PROBE: PROBES,
    CallKind.PILOT: PILOTS,
}
_READERS = 8  # threads that read the store
_BLOCK = 1024  # cells that are read before the first of them is yielded
_EXTERNAL = "agent_server"  # a failed conversation with one is stored in its attempt only


class Journal(Protocol):
    """Keeps the paid replies of one conversation by turn, so that none is paid for twice."""

    def load(self, turn: int) -> Reply | None:
        """Return the reply that this turn has already had, if any. Raises what stops the study."""
        ...

    def save(self, turn: int, reply: Reply) -> Reply:
        """Keep a reply. Returns the one that counts for this turn: an earlier one, if any."""
        ...

    def keep_failed(self, turn: int, failed: Try) -> None:
        """Keep what a failed request returned."""
        ...

    def admit(self) -> None:
        """Wait until the next request may be sent. Raises WorkStopped if none may be any more."""
        ...


@dataclass(slots=True)
class MemoryJournal:
    """A journal that lives as long as its owner."""

    replies: dict[int, Reply] = field(default_factory=dict)
    failed: list[tuple[int, Try]] = field(default_factory=list)

    def load(self, turn: int) -> Reply | None:
        """Return the reply to a turn, if any."""
        return self.replies.get(turn)

    def save(self, turn: int, reply: Reply) -> Reply:
        """Keep a reply; the first one counts."""
        return self.replies.setdefault(turn, reply)

    def keep_failed(self, turn: int, failed: Try) -> None:
        """Keep a failed request."""
        self.failed.append((turn, failed))

    def admit(self) -> None:
        """Any request may be sent."""


@dataclass(frozen=True, slots=True)
class CountingJournal:
    """A journal that counts the failed requests of its attempt by class: those that it is given,
    and those before the replies that it loads. Those before the first ``inherited`` replies are
    counted with the attempts that paid for them."""

    journal: Journal
    inherited: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    turns: set[int] = field(default_factory=set)  # numbers of the turns that have a reply

    @property
    def replies(self) -> int:
        """Number of turns, from the first on, that have a reply."""
        return next(turn for turn in count() if turn not in self.turns)

    def load(self, turn: int) -> Reply | None:
        """Return the reply to a turn, if any."""
        reply = self.journal.load(turn)
        if reply is not None:
            self.turns.add(turn)
            self.failed.update(reply.failed if turn >= self.inherited else ())
        return reply

    def save(self, turn: int, reply: Reply) -> Reply:
        """Keep a reply. Returns the one that counts."""
        stored = self.journal.save(turn, reply)
        self.turns.add(turn)
        return stored

    def keep_failed(self, turn: int, failed: Try) -> None:
        """Count and keep a failed request."""
        self.failed[failed.kind] += 1
        self.journal.keep_failed(turn, failed)

    def admit(self) -> None:
        """Wait until the next request may be sent. Raises WorkStopped."""
        self.journal.admit()


@dataclass(frozen=True, slots=True)
class ReplyStore:
    """The paid replies of one charge in a store, encrypted. ``usages`` and ``failed`` grow with
    each reply that is paid for and each request that fails from now on."""

    store: Store
    charge: Charge
    keys: Keys
    usages: list[Usage] = field(default_factory=list, compare=False)
    failed: Counter[str] = field(default_factory=Counter, compare=False)  # by class

    def attempt(self, attempt: int, inherited: int = 0) -> StoreJournal:
        """Return the journal of an attempt at the episode. The first ``inherited`` turns have the
        replies of the failed attempts before it, which are never paid for again. Their number is
        part of the attempt before, so that all workers agree which turns these are."""
        earlier = tuple(attempt_replies(self.charge.subject, n) for n in range(attempt - 1, 0, -1))
        stem = attempt_replies(self.charge.subject, attempt)
        return StoreJournal(self, stem, earlier, inherited)

    def judge_call(self, call: str) -> StoreJournal:
        """Return the journal of a judge's call, by the digest of its content."""
        return StoreJournal(self, judge_replies(self.charge.payer.pin, call))

    def probe(self) -> StoreJournal:
        """Return the journal of the probe that is charged."""
        return StoreJournal(self, probe_replies(self.charge.payer.pin, self.charge.subject))

    def pilot(self, stopped: Callable[[], bool]) -> StoreJournal:
        """Return the journal of the pilot's episode that is charged. A failed attempt is not kept:
        the next one goes on from its replies, as after a crash."""
        stem = pilot_replies(self.charge.payer.pin, self.charge.subject)
        return StoreJournal(self, stem, stopped=stopped)


@dataclass(frozen=True, slots=True)
class StoreJournal:
    """The journal of one conversation in a reply store. All methods raise RegistryError."""

    replies: ReplyStore
    stem: str  # of its keys
    earlier: tuple[str, ...] = ()  # stems of the attempts before, last first
    inherited: int = 0
    stopped: Callable[[], bool] = lambda: False

    def load(self, turn: int) -> Reply | None:
        """Return the reply that was paid for, before a crash or by an earlier attempt."""
        stems = self.earlier if turn < self.inherited else (self.stem,)
        stored = (self._find(stem, turn) for stem in stems)
        return next((reply for reply in stored if reply is not None), None)

    def save(self, turn: int, reply: Reply) -> Reply:
        """Store a reply; if another worker stored one first, return that one."""
        replies, key = self.replies, reply_key(self.stem, turn)
        replies.usages.append(reply.usage)
        call = PaidCall(replies.charge, reply)
        if PAID_CALL_CODEC.write(replies.store, key, call, replies.keys):
            return reply
        return self._find(self.stem, turn) or reply

    def keep_failed(self, turn: int, failed: Try) -> None:
        """Keep what a failed request returned, under the next free number of its turn."""
        self.replies.failed[failed.kind] += 1
        store, keys = self.replies.store, self.replies.keys
        for number in count():
            if TRY_CODEC.write(store, failed_key(self.stem, turn, number), failed, keys):
                return

    def admit(self) -> None:
        """Raise WorkStopped if the work has ``stopped``, since no reply may be paid for."""
        if self.stopped():
            raise WorkStopped("the work has ended")

    def _find(self, stem: str, turn: int) -> Reply | None:
        replies, key = self.replies, reply_key(stem, turn)
        call = PAID_CALL_CODEC.find(replies.store, key, replies.keys)
        return None if call is None else call.reply


def read_paid_calls(store: Store, keys: Keys, kind: CallKind, stem: str = "") -> Iterator[PaidCall]:
    """Return every paid call of a kind in a study, in key order, or those whose keys begin with a
    ``stem``. Raises RegistryError."""
    names = filter(is_reply, store.list(stem or _FOLDERS[kind]))
    return PAID_CALL_CODEC.read_each(store, names, keys)


def read_episode_usages(store: Store, keys: Keys, episode: str, provider: str) -> list[Usage]:
    """Return the usage of every reply that was paid for in all attempts at an episode, in key
    order. Raises RegistryError."""
    stem = episode_replies(episode)
    calls = read_paid_calls(store, keys, CallKind.EPISODE, stem)
    usages = [call.reply.usage for call in calls]
    if provider == _EXTERNAL:
        stored = {_attempt_of(key) for key in store.list(stem) if is_reply(key)}
        for number in stored_attempts(store, episode):
            if number not in stored:  # it failed, so no reply was kept
                attempt = EPISODE_CODEC.read(store, attempt_key(episode, number), keys)
                usages += [step.reply.usage for step in attempt.steps if not attempt.inherited]
    return usages


def _attempt_of(key: str) -> int:
    """The attempt that a reply's key states."""
    return int(key.rpartition("/")[2].split(".")[1].partition("-")[0])


def read_episode_spends(
    store: Store,
    keys_of: Callable[[Cell], Keys],
    cells: Iterable[Cell],
    models: Mapping[str, PricedModel],
) -> Iterator[tuple[Cell, Spend]]:
    """Yield the cost so far of each cell of a model with a price, read by several threads. Raises
    RegistryError."""

    def spend_on(cell: Cell) -> Spend:
        model = models[cell.model]
        usages = read_episode_usages(store, keys_of(cell), cell.episode, model.provider)
        return sum_spend(usages, model.price)

    priced = (cell for cell in cells if cell.model in models and models[cell.model].price)
    with ThreadPoolExecutor(_READERS, thread_name_prefix="spent") as pool:
        while block := list(islice(priced, _BLOCK)):
            yield from zip(block, pool.map(spend_on, block), strict=True)
