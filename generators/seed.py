"""Seeds: 32 bytes from which every stream of an instance is derived by name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

from generators.errors import GeneratorError
from generators.stream import Stream

_TAG = b"dosimeter/seed/1"


@dataclass(frozen=True, slots=True)
class Seed:
    """A secret of 32 bytes. Its repr never shows them, so that no log can."""

    value: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.value) != 32:
            raise GeneratorError(f"a seed is 32 bytes, not {len(self.value)}")

    @classmethod
    def from_hex(cls, text: str) -> Seed:
        """The seed written as 64 hexadecimal digits. Raises GeneratorError for all else."""
        try:
            value = bytes.fromhex(text) if len(text) == 64 else b""
        except ValueError:
            value = b""
        if len(value) != 32:
            raise GeneratorError(
                f"a seed is 64 hexadecimal digits (32 bytes); this has {len(text)} characters"
                if len(text) != 64
                else "a seed is 64 hexadecimal digits; this has another character among them"
            )
        return cls(value)

    @property
    def hex(self) -> str:
        """The seed as 64 hexadecimal digits; as secret as the seed."""
        return self.value.hex()

    def child(self, *path: str | int) -> Seed:
        """The seed at a named path below this one: SHA-256 over length-prefixed parts.

        The prefixes make paths unambiguous: ("ab", "c") is not ("a", "bc"), and 1 is not "1".
        """
        return Seed(hashlib.sha256(self.preimage(*path)).digest())

    def preimage(self, *parts: str | int) -> bytes:
        """The preimage, under SHA-256, of the seed of that name; as secret as the seed. That of a
        longer path begins with that of its beginning."""
        return b"".join((_TAG, self.value, *map(path_part, parts)))

    def rng(self) -> Stream:
        """The stream of draws at this path."""
        return Stream(self.value)


@lru_cache(maxsize=4096, typed=True)  # the same few names come again for every sample
def path_part(part: str | int) -> bytes:
    """One part of a path, with its kind and length before it."""
    data = str(part).encode()
    return (b"i" if isinstance(part, int) else b"s") + len(data).to_bytes(4, "big") + data
