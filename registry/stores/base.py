"""Stores of immutable objects: the protocol, and the store in memory for tests and trials. Putting
a name that is there already changes nothing. Only a sweep's signs of life are replaced,
and only journals are removed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from typing import Protocol

from registry.errors import MissingKey, StoreError

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_FORMS = {"s3": re.compile("//.*[^/]"), "file": re.compile("/")}  # what follows the colon
_KNOWN = (
    "a folder's path, file:/PATH, or s3://bucket/prefix[?endpoint=http://host:port&region=name]"
)


def check_scheme(uri: str) -> None:
    """Raise StoreError for the URI of a store that there is not, and for one that is not written
    as its scheme asks."""
    named = _SCHEME.match(uri)
    if named is None or uri == "memory:":
        return
    scheme, rest = named[1], uri[named.end() :]
    if scheme not in _FORMS:
        raise StoreError(
            f"there are no stores of the scheme {scheme!r}: write {_KNOWN}; a folder with a colon "
            "in its name begins with ./"
        )
    if not _FORMS[scheme].match(rest):
        raise StoreError(f"{uri!r} is not the URI of a store: write {_KNOWN}")


class Store(Protocol):
    """Write once, read often. ``put`` is the heart: of any number of racing writers of one
    name exactly one gets True, and readers see its bytes whole or nothing."""

    @property
    def uri(self) -> str:
        """URI by which ``open_store`` opens this store again, without secrets."""

    def put(self, key: str, data: bytes) -> bool:
        """Write if absent. False if the name was there. Raises StoreError."""

    def replace(self, key: str, data: bytes) -> None:
        """Write, whether or not the name was there: for signs of life of a sweep while it runs,
        which is no evidence. Raises StoreError."""

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, as far as they are there: of a journal, once another object holds all
        that it says. Raises StoreError."""

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises MissingKey, StoreError."""

    def exists(self, key: str) -> bool:
        """Report if an object has this name. Raises StoreError."""

    def list(self, prefix: str = "") -> Iterator[str]:
        """The names that start with the prefix, in order of their UTF-8 bytes."""


def check_key(key: str) -> str:
    """The key, if it is a plain relative path that every store can hold: parts of at most 200
    characters, 900 in all. Raises StoreError otherwise."""
    if not _KEY.fullmatch(key):
        raise StoreError(f"{key!r} is not a store key: use letters, digits, . _ - and /")
    if len(key) > 900 or max(map(len, key.split("/"))) > 200:
        raise StoreError(f"{key[:60]!r}… is too long for a store key: 200 a part, 900 in all")
    return key


def check_prefix(prefix: str) -> str:
    """The prefix, if some key can start with it; raises StoreError otherwise."""
    if prefix and not _KEY.fullmatch(prefix.removesuffix("/")):
        raise StoreError(f"{prefix!r} is not the beginning of a store key")
    return prefix


class MemoryStore:
    """Keeps the promises of ``Store`` within one process, and forgets all at its end."""

    uri = "memory:"

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put(self, key: str, data: bytes) -> bool:
        """Write if absent; return True if it was. Raises StoreError."""
        check_key(key)
        with self._lock:
            if key in self._objects:
                return False
            self._objects[key] = bytes(data)
            return True

    def replace(self, key: str, data: bytes) -> None:
        """Write, whether or not the name was there. Raises StoreError."""
        with self._lock:
            self._objects[check_key(key)] = bytes(data)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, as far as they are there. Raises StoreError."""
        with self._lock:
            for key in keys:
                self._objects.pop(check_key(key), None)

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises MissingKey, StoreError."""
        try:
            return self._objects[check_key(key)]
        except KeyError:
            raise MissingKey(f"{key}: no such object in memory") from None

    def exists(self, key: str) -> bool:
        """Report if an object has this name."""
        return check_key(key) in self._objects

    def list(self, prefix: str = "") -> Iterator[str]:
        """The names that start with the prefix, in order."""
        check_prefix(prefix)
        with self._lock:
            names = sorted(key for key in self._objects if key.startswith(prefix))
        return iter(names)
