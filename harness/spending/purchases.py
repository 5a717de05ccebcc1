"""Paid replies in the store: kept before they are acted on, so that no crash buys one twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from harness.codec import decode_reply, encode_reply, encode_try
from harness.errors import WorkStopped
from harness.model import Reply, Try
from harness.store_keys import response_key, try_key
from registry.sealing import decrypt, encrypt
from registry.stores import Store


class Journal(Protocol):
    """Stores each paid reply of one attempt, so that no request is paid for twice."""

    def load(self, turn: int) -> Reply | None:
        """Return the reply that was already paid for at this turn, if any. Raises HarnessError."""
        ...

    def save(self, turn: int, reply: Reply) -> Reply:
        """Store a reply and return the one that counts: an earlier one, if there was one."""
        ...

    def keep_try(self, turn: int, failed: Try) -> None:
        """Store the response of a request that failed."""
        ...


@dataclass(slots=True)
class MemoryJournal:
    """A journal in memory, for models that cost nothing."""

    replies: dict[int, Reply] = field(default_factory=dict)
    tries: list[tuple[int, Try]] = field(default_factory=list)

    def load(self, turn: int) -> Reply | None:
        return self.replies.get(turn)

    def save(self, turn: int, reply: Reply) -> Reply:
        return self.replies.setdefault(turn, reply)

    def keep_try(self, turn: int, failed: Try) -> None:
        self.tries.append((turn, failed))


@dataclass(frozen=True, slots=True)
class CountingJournal:
    """Another journal, and how many requests of its attempt failed by each class: those that it
    is told of, and those before the replies that it finds. What was before ``inherited`` replies
    is counted with the attempts that bought them."""

    journal: Journal
    inherited: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    turns: set[int] = field(default_factory=set)  # that have a reply

    @property
    def replies(self) -> int:
        """Of how many turns, from the first on, there is a reply."""
        return next(turn for turn in count() if turn not in self.turns)

    def load(self, turn: int) -> Reply | None:
        reply = self.journal.load(turn)
        if reply is not None:
            self.turns.add(turn)
            self.counts.update(reply.failed if turn >= self.inherited else ())
        return reply

    def save(self, turn: int, reply: Reply) -> Reply:
        kept = self.journal.save(turn, reply)
        self.turns.add(turn)
        return kept

    def keep_try(self, turn: int, failed: Try) -> None:
        self.counts[failed.kind] += 1
        self.journal.keep_try(turn, failed)

    def failed_tries(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self.counts.items()))


@dataclass(frozen=True, slots=True)
class StoreJournal:
    """The journal of one attempt, encrypted to the study and the run.

    The first ``inherited`` turns are those of the failed attempt before: their replies are read
    where they were bought, and never bought again. Their number is written in that attempt, so
    that all workers agree which turns these are.
    """

    store: Store
    episode: str
    attempt: int
    recipients: tuple[str, ...]
    identity: str = field(repr=False)
    inherited: int = 0
    stopped: Callable[[], bool] = lambda: False

    def load(self, turn: int) -> Reply | None:
        """The reply that was bought for this turn, before a crash or by an attempt before.
        Raises WorkStopped where there is none and the work has ``stopped``: none is bought."""
        attempts = range(self.attempt - 1, 0, -1) if turn < self.inherited else (self.attempt,)
        found = (self._read(attempt, turn) for attempt in attempts)
        reply = next((reply for reply in found if reply is not None), None)
        if reply is None and self.stopped():
            raise WorkStopped("the sweep has ended")
        return reply

    def _read(self, attempt: int, turn: int) -> Reply | None:
        key = response_key(self.episode, attempt, turn)
        if not self.store.exists(key):
            return None
        return decode_reply(decrypt(self.store.get(key), (self.identity,), key))

    def save(self, turn: int, reply: Reply) -> Reply:
        """Keep a reply; where another worker kept one for this turn first, that one counts."""
        key = response_key(self.episode, self.attempt, turn)
        if self.store.put(key, encrypt(encode_reply(reply), self.recipients)):
            return reply
        kept = self.load(turn)
        return reply if kept is None else kept

    def keep_try(self, turn: int, failed: Try) -> None:
        """Keep what a failed request brought, under the next free number of its turn."""
        sealed = encrypt(encode_try(failed), self.recipients)
        for number in count():
            if self.store.put(try_key(self.episode, self.attempt, turn, number), sealed):
                return
