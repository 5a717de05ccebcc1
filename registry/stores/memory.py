"""A store in memory: the honest sibling of the real ones, for tests and trials."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from registry.errors import MissingKey
from registry.stores.base import check_key, check_prefix


class MemoryStore:
    """Keeps the promises of ``Store`` within one process, and forgets all at its end."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    @property
    def uri(self) -> str:
        """What ``open_store`` takes to open this store again."""
        return "memory:"

    def put(self, key: str, data: bytes) -> bool:
        """Write if absent; whether it was. Raises StoreError."""
        check_key(key)
        with self._lock:
            if key in self._objects:
                return False
            self._objects[key] = bytes(data)
            return True

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises MissingKey, StoreError."""
        try:
            return self._objects[check_key(key)]
        except KeyError:
            raise MissingKey(f"{key}: no such object in memory") from None

    def exists(self, key: str) -> bool:
        """Whether an object has this name."""
        return check_key(key) in self._objects

    def list(self, prefix: str = "") -> Iterator[str]:
        """The names that start with the prefix, in order."""
        check_prefix(prefix)
        with self._lock:
            names = sorted(key for key in self._objects if key.startswith(prefix))
        return iter(names)
