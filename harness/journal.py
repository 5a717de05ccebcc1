"""Paid replies in the store: kept before they are acted on, so that no crash buys one twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count

from harness.agent import Journal
from harness.codec import decode_reply, encode_reply, encode_try
from harness.keys import response_key, try_key
from harness.model import Reply, Try
from registry.seal import decrypt, encrypt
from registry.store import Store


@dataclass(frozen=True, slots=True)
class CountingJournal:
    """Another journal, and how many requests of its attempt failed by each class: those that it
    is told of, and those before the replies that it finds."""

    journal: Journal
    counts: Counter[str] = field(default_factory=Counter)

    def load(self, turn: int) -> Reply | None:
        reply = self.journal.load(turn)
        self.counts.update(() if reply is None else reply.failed)
        return reply

    def save(self, turn: int, reply: Reply) -> Reply:
        return self.journal.save(turn, reply)

    def keep_try(self, turn: int, failed: Try) -> None:
        self.counts[failed.kind] += 1
        self.journal.keep_try(turn, failed)

    def failed_tries(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self.counts.items()))


@dataclass(frozen=True, slots=True)
class StoreJournal:
    """The journal of one attempt, encrypted to the study and the run."""

    store: Store
    episode: str
    attempt: int
    recipients: tuple[str, ...]
    identity: str = field(repr=False)

    def load(self, turn: int) -> Reply | None:
        """The reply that was bought for this turn before a crash, if any."""
        key = response_key(self.episode, self.attempt, turn)
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
