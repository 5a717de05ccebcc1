"""Paid replies in the store: kept before they are acted on, so that no crash buys one twice."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.codec import decode_reply, encode_reply
from harness.keys import response_key
from harness.model import Reply
from registry.seal import decrypt, encrypt
from registry.store import Store


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
