"""Paid calls in the store: each reply is stored before it is acted on, so that no crash pays for
one twice, together with its charge, and read again to count the amount spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count, islice
from typing import Protocol

from harness.episode import Cell, Episode, Kept
from harness.model import Reply, Try, Usage
from harness.spending.budget import PricedModel, Spend, sum_spend
from harness.storage import (
    EPISODE_CODEC,
    JUDGE_CALLS,
    PROBES,
    RESPONSES,
    Codec,
    attempt_key,
    attempt_replies,
    episode_replies,
    failed_key,
    is_failed,
    is_reply,
    judge_replies,
    probe_replies,
    reply_key,
    stored_attempts,
)
from registry.errors import MissingKey
from registry.ledger.records import JudgePin, ModelPin, pin_digest
from registry.sealing import Keys
from registry.stores.base import Store


class CallKind(StrEnum):
    """Purpose of a call."""

    EPISODE = "episode"
    JUDGE = "judge"
    PROBE = "probe"


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
        return cls(pin.name, pin.provider, pin.version, pin_digest(pin))


@dataclass(frozen=True, slots=True)
class Charge:
    """Account that the calls of one subject are charged to. ``subject`` is the digest of an episode
    or a probe, or the id of an answer sheet; ``wave`` is None for the check of a judge."""

    kind: CallKind
    payer: Payer
    subject: str
    wave: int | None


@dataclass(frozen=True, slots=True)
class PaidCall:
    """A reply as the store keeps it."""

    charge: Charge
    reply: Reply


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A failed request as the store keeps it."""

    charge: Charge
    failed: Try


PAID_CALL_CODEC: Codec[PaidCall] = Codec("paid-call", 1, PaidCall)
FAILED_CALL_CODEC: Codec[FailedCall] = Codec("failed-call", 1, FailedCall)

_FOLDERS = {CallKind.EPISODE: RESPONSES, CallKind.JUDGE: JUDGE_CALLS, CallKind.PROBE: PROBES}
_READERS = 8  # threads that read the store
_LOOKS = 3  # at an episode that is at work
_BLOCK = 1024  # cells that are read before the first of them is yielded
_EXTERNAL = "agent_server"  # a failed conversation with one is stored in its attempt only


class Journal(Protocol):
    """Keeps the paid replies of one conversation by turn, so that none is paid for twice."""

    def load(self, turn: int) -> Reply | None:
        """Return the reply that this turn has already had, if any. Raises what stops the study."""

    def save(self, turn: int, reply: Reply) -> Reply:
        """Keep a reply. Returns the one that counts for this turn: an earlier one, if any."""

    def keep_failed(self, turn: int, failed: Try) -> None:
        """Keep what a failed request returned."""

    def admit(self) -> None:
        """Wait until the next request may be sent. Raises WorkStopped if none may be any more."""


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
        if (reply := self.journal.load(turn)) is not None:
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
    each reply that is paid for and each request that fails from now on, billed or not."""

    store: Store
    charge: Charge
    keys: Keys
    usages: list[Usage] = field(default_factory=list, compare=False)
    failed: Counter[str] = field(default_factory=Counter, compare=False)  # by class

    def attempt(self, attempt: int, inherited: Sequence[Reply] = ()) -> StoreJournal:
        """Return the journal of an attempt at the episode. Its first turns have the ``inherited``
        replies of the failed attempts before it, which are never paid for again."""
        stem = attempt_replies(self.charge.subject, attempt)
        return StoreJournal(self, stem, inherited)

    def judge_call(self, call: str) -> StoreJournal:
        """Return the journal of a judge's call, by the digest of its content."""
        return StoreJournal(self, judge_replies(self.charge.payer.pin, call))

    def probe(self) -> StoreJournal:
        """Return the journal of the probe that is charged."""
        return StoreJournal(self, probe_replies(self.charge.payer.pin, self.charge.subject))


@dataclass(frozen=True, slots=True)
class StoreJournal:
    """The journal of one conversation in a reply store. All methods raise RegistryError."""

    replies: ReplyStore
    stem: str  # of its keys
    inherited: Sequence[Reply] = ()  # of its first turns, bought by earlier attempts
    # Of this attempt, as far as this process knows them, by key.
    held: dict[str, Reply] = field(default_factory=dict, compare=False, repr=False)
    tries: dict[str, Try] = field(default_factory=dict, compare=False, repr=False)

    def load(self, turn: int) -> Reply | None:
        """Return the reply that was paid for, before a crash or by an earlier attempt."""
        return self.inherited[turn] if turn < len(self.inherited) else self._find(turn)

    def save(self, turn: int, reply: Reply) -> Reply:
        """Store a reply; if another worker stored one first, return that one."""
        replies, key = self.replies, reply_key(self.stem, turn)
        replies.usages.append(reply.usage)
        call = PaidCall(replies.charge, reply)
        if PAID_CALL_CODEC.write(replies.store, key, call, replies.keys):
            self.held[key] = reply
            return reply
        return self._find(turn) or reply

    def keep_failed(self, turn: int, failed: Try) -> None:
        """Keep what a failed request returned, under the next free number of its turn."""
        self.replies.failed[failed.kind] += 1
        self.replies.usages.extend(_billed([failed]))
        store, keys = self.replies.store, self.replies.keys
        call = FailedCall(self.replies.charge, failed)
        for number in count():
            key = failed_key(self.stem, turn, number)
            if FAILED_CALL_CODEC.write(store, key, call, keys):
                self.tries[key] = failed
                return

    def fold(self, episode: Episode) -> tuple[Episode, tuple[str, ...]]:
        """Return an attempt with all that its journal holds, and the names of the journal's
        objects, which say nothing more once the attempt is stored. Raises RegistryError."""
        if not self.held and not self.tries:
            return episode, ()
        store, keys = self.replies.store, self.replies.keys
        names = tuple(store.list(self.stem))
        paid, kept = list[int](), list[Kept]()
        for name in names:
            turn = int(name.rpartition("/")[2].split("-")[1].partition(".")[0])
            if not is_reply(name):
                if name in self.tries:
                    kept.append(Kept(turn, failed=self.tries[name]))
                elif call := FAILED_CALL_CODEC.find(store, name, keys):
                    kept.append(Kept(turn, failed=call.failed))
                continue
            reply = self.held.get(name) or self._find(turn)
            if turn < len(episode.steps) and episode.steps[turn].reply == reply:
                paid.append(turn)
            elif reply is not None:
                kept.append(Kept(turn, reply))
        return replace(episode, paid=tuple(paid), kept=tuple(kept)), names

    def admit(self) -> None:
        """Admit any request."""

    def _find(self, turn: int) -> Reply | None:
        replies, key = self.replies, reply_key(self.stem, turn)
        if (call := PAID_CALL_CODEC.find(replies.store, key, replies.keys)) is not None:
            self.held[key] = call.reply
        return None if call is None else call.reply


def inherited_replies(attempts: Sequence[Episode]) -> tuple[Reply, ...]:
    """Return the replies that the next attempt inherits from those before it, in order. Their
    number is part of the last one, so that all workers agree which turns these are."""
    paid: dict[int, Reply] = {}
    for attempt in attempts:
        paid |= attempt.paid_replies()
    return tuple(paid[turn] for turn in range(attempts[-1].replies if attempts else 0))


def read_usages(store: Store, keys: Keys, kind: CallKind) -> Iterator[tuple[Charge, Usage]]:
    """Yield the usage of every call of a kind that was paid for in a study, with its charge:
    replies, then failed requests that were billed. Raises RegistryError."""
    names = list(store.list(_FOLDERS[kind]))
    for call in PAID_CALL_CODEC.read_each(store, filter(is_reply, names), keys):
        yield call.charge, call.reply.usage
    for each in FAILED_CALL_CODEC.read_each(store, filter(is_failed, names), keys):
        yield from ((each.charge, usage) for usage in _billed([each.failed]))


def _billed(tries: Iterable[Try]) -> list[Usage]:
    """The usage of failed requests that a provider was paid for, as far as it reports them."""
    return [each.usage for each in tries if each.usage.tokens]


def read_episode_usages(store: Store, keys: Keys, episode: str, provider: str) -> list[Usage]:
    """Return the usage of every reply that was paid for in all attempts at an episode, and of every
    failed request that was billed: those of stored attempts first. Raises RegistryError."""
    for _ in range(_LOOKS):
        with suppress(MissingKey):  # a worker has just stored an attempt, and removed its journal
            return _episode_usages(store, keys, episode, provider)
    return _episode_usages(store, keys, episode, provider)


def _episode_usages(store: Store, keys: Keys, episode: str, provider: str) -> list[Usage]:
    usages, folded = list[Usage](), set[str]()
    names = list(store.list(episode_replies(episode)))
    journal = [key for key in names if is_reply(key)]
    for number in stored_attempts(store, episode):
        attempt = EPISODE_CODEC.read(store, attempt_key(episode, number), keys)
        stem, paid = attempt_replies(episode, number), attempt.paid_replies()
        usages += [reply.usage for reply in paid.values()]
        folded |= {reply_key(stem, turn) for turn in paid}
        if provider == _EXTERNAL and not any(key.startswith(stem) for key in {*journal, *folded}):
            # It failed, so no reply was kept.
            usages += [step.reply.usage for step in attempt.steps if not attempt.inherited]
        usages += _billed(kept.failed for kept in attempt.kept if kept.failed)
        numbers = Counter(kept.turn for kept in attempt.kept if kept.failed)
        folded |= {failed_key(stem, turn, n) for turn in numbers for n in range(numbers[turn])}
    rest = [name for name in names if name not in folded]
    calls = PAID_CALL_CODEC.read_each(store, filter(is_reply, rest), keys)
    tries = FAILED_CALL_CODEC.read_each(store, filter(is_failed, rest), keys)
    return [*usages, *(call.reply.usage for call in calls), *_billed(one.failed for one in tries)]


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
