"""Prompt caches by the providers' published rules, on a clock that tests move."""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate

from tests.conformance.conversation import Asked, Block
from tests.conformance.rules import BYTES_PER_TOKEN

LIFETIME = 300.0  # seconds after the last use; the shortest that OpenAI names, and Anthropic's


class PromptCache(ABC):
    """Input that was processed lately. ``clock`` returns the time in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._now = 0.0
        self._used: dict[bytes, float] = {}  # digest of a prefix → time of its last use
        self._lock = threading.Lock()

    def take(self, asked: Asked, minimum: int) -> tuple[int, int]:
        """Return the tokens of the input that are read from the cache and those written to it.
        Shorter prefixes than ``minimum`` tokens are not stored."""
        with self._lock:
            self._now = self._clock()
            return self._take(asked, minimum)

    @abstractmethod
    def _take(self, asked: Asked, minimum: int) -> tuple[int, int]: ...

    def _alive(self, digest: bytes) -> bool:
        last = self._used.get(digest)
        return last is not None and self._now - last <= LIFETIME

    def _use(self, digest: bytes) -> None:
        self._used[digest] = self._now


class AutomaticCache(PromptCache):
    """The longest prefix in whole steps that another request had.

    OpenAI, "Prompt caching", 2026: from 1,024 tokens, in steps of 128; the key and the first part
    of the input choose the machine. Google, "Context caching", 2026-10-13, names a minimum for
    each model and no step: the same one is used.
    """

    step = 128

    def _take(self, asked: Asked, minimum: int) -> tuple[int, int]:
        data = b"".join(each.data for each in asked.blocks)
        size = self.step * BYTES_PER_TOKEN
        chain = hashlib.sha256(asked.partition.encode())
        read, reading = 0, True
        for end in range(size, len(data) + 1, size):
            chain.update(data[end - size : end])
            tokens, digest = end // BYTES_PER_TOKEN, chain.digest()
            reading = reading and (tokens < minimum or self._alive(digest))
            if reading and tokens >= minimum:
                read = tokens
            self._use(digest)
        return read, 0


class MarkedCache(PromptCache):
    """Prefixes that end at a marked block.

    Anthropic, "Prompt caching", 2026; Amazon Bedrock, "Prompt caching for faster model inference",
    2026. The order is tools, system, messages. For each mark the cache is looked up at its block
    and at up to 20 blocks before it. Another tool choice or thinking setting, and the first image,
    invalidate messages.
    """

    lookback = 20

    def _take(self, asked: Asked, minimum: int) -> tuple[int, int]:
        digests, sizes = self._prefixes(asked), _running(asked.blocks)
        marks = [index for index, each in enumerate(asked.blocks) if each.point]
        read = 0
        for mark in marks:
            for index in range(mark, max(mark - self.lookback, 0) - 1, -1):
                if self._alive(digests[index]):
                    self._use(digests[index])
                    read = max(read, sizes[index])
                    break
        stored = [index for index in marks if sizes[index] >= minimum]
        for index in stored:
            self._use(digests[index])
        written = max((sizes[index] for index in stored), default=0)
        return read, max(0, written - read)

    def _prefixes(self, asked: Asked) -> list[bytes]:
        chain, section, digests = hashlib.sha256(asked.partition.encode()), "", []
        for each in asked.blocks:
            if each.section != section and each.section == "messages":
                chain.update(asked.volatile.encode())
            section = each.section
            chain.update(len(each.data).to_bytes(8, "big") + each.data)
            digests.append(chain.digest())
        return digests


def _running(blocks: Sequence[Block]) -> list[int]:
    return [size // BYTES_PER_TOKEN for size in accumulate(len(each.data) for each in blocks)]
