"""The outbox: what a worker process cannot store waits on this machine until the store is back.

A request that fails because the store is away (``StoreUnavailable``) is tried again until it
succeeds. Meanwhile its object, which is encrypted, lies in a folder of this user, so that it
outlives the process; the next worker process on this machine stores it. New reads wait too. Since
no reply is paid for before a read has shown that there is none, none is paid for meanwhile.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from harness.errors import HarnessError, WorkStopped
from harness.storage import hex_of
from registry.canonical import digest_bytes
from registry.errors import MissingKey, StoreError, StoreUnavailable
from registry.stores.base import Store, check_key
from registry.stores.folder import FolderStore

logger = logging.getLogger(__name__)

_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # seconds between two tries
_POLL_SECONDS = 0.25
_OUTBOX_SECONDS = 5.0  # after which an object is put there though its request has not failed yet
_SILENT_SECONDS = 30.0  # after which a request without an answer is reported
_QUIET_SECONDS = 2.0  # for which a fault is not reported
_LAST_SECONDS = 600.0  # in which a stopped process stores what it could not put there

# Variable: the folder that the outbox lies in, else that of temporary files.
OUTBOX = "DOSIMETER_OUTBOX"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StorePause:
    """The reason for which a process waits for its store, or for another service."""

    host: str
    reason: str  # names no object
    objects: int = 0  # that wait in the outbox
    lacks: str = "store"  # what it waits for


class OutboxFolder:
    """The objects of one store, in a folder of this user on this machine: each under a digest of
    its own, after a line with its key and one with the digest of its bytes."""

    def __init__(self, uri: str, folder: str | None = None) -> None:
        folder = folder or os.environ.get(OUTBOX) or tempfile.gettempdir()
        self.path = Path(folder, f".dosimeter-{os.getuid()}.outbox")
        self._files = FolderStore(self.path)
        self._prefix = hex_of(digest_bytes(uri.encode()))[:16] + "-"
        if self.path.is_symlink() or self.path.exists():
            self._check()

    def save(self, key: str, data: bytes) -> str:
        """Write an object and return its name here. Raises OSError, HarnessError, StoreError."""
        self.path.mkdir(0o700, exist_ok=True)
        self._check()
        content = f"{key}\n{digest_bytes(data)}\n".encode() + data
        name = self._prefix + hex_of(digest_bytes(content))
        self._files.put(name, content)
        return name

    def discard(self, name: str) -> None:
        """Remove an object that is stored."""
        self._files.delete([name])

    def names(self) -> Iterator[str]:
        """Yield the names of all its objects."""
        return self._files.list(self._prefix)

    def left(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield name, key and bytes of each object. A damaged one is removed."""
        for name in self.names():
            with suppress(MissingKey):  # another process has just stored it
                key, digest, data = (*self._files.get(name).split(b"\n", 2), b"", b"")[:3]
                if digest_bytes(data).encode() == digest:
                    yield name, key.decode("ascii", "replace"), data
                else:
                    logger.warning("%s: a damaged object; removed", self.path / name)
                    self.discard(name)

    def _check(self) -> None:
        """Raise HarnessError unless the folder is this user's own."""
        found = self.path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise HarnessError(f"{self.path}: it must be your own folder, with mode 700")


@dataclass(slots=True, eq=False)
class _Request:
    """A request to the store. One that writes has an object."""

    key: str = ""
    data: bytes | None = None
    file: str = ""  # its name in the outbox, if it is there
    begun: float = field(default_factory=time.monotonic)
    failed: bool = False  # so that it is tried again
    done: bool = False


class OutboxStore:
    """A store that waits, in all its requests, while the store below is away. May be shared by
    threads.

    Once ``stopped``, a request that waits raises WorkStopped; what is not stored lies in the
    outbox. An object that could not be written there either is tried for another ten minutes.
    """

    def __init__(
        self, store: Store, stopped: Callable[[], bool], folder: str | None = None
    ) -> None:
        self.below = store
        self._stopped = stopped
        self._outbox = OutboxFolder(store.uri, folder)
        self._changed = threading.Condition()
        self._saving, self._recovering = threading.Lock(), threading.Lock()
        self._requests: set[_Request] = set()  # under way
        self._failing = 0  # those of them that are tried again: above 0, the store is away
        self._since = 0.0  # time at which it went away
        self._error = StoreUnavailable(store.uri, "")  # the last one
        self._pause, self._next_try = _SHORTEST_PAUSE, 0.0
        self._warned = False

    @property
    def uri(self) -> str:
        """URI of the store below."""
        return self.below.uri

    def put(self, key: str, data: bytes) -> bool:
        """Write if absent; False if the name was there. Raises StoreError."""
        return self._put(_Request(check_key(key), data), data)

    def replace(self, key: str, data: bytes) -> None:
        """Write, whether or not the name was there. Raises StoreError."""
        self._carry_out(lambda: self.below.replace(key, data), _Request())

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, as far as they are there. Raises StoreError."""
        names = tuple(keys)
        self._carry_out(lambda: self.below.delete(names), _Request())

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises MissingKey, StoreError."""
        return self._carry_out(lambda: self.below.get(key), _Request())

    def exists(self, key: str) -> bool:
        """Report if an object has this name. Raises StoreError."""
        return self._carry_out(lambda: self.below.exists(key), _Request())

    def list(self, prefix: str = "") -> Iterator[str]:
        """The names that start with the prefix, in order of their UTF-8 bytes. Raises
        StoreError."""
        return iter(self._carry_out(lambda: tuple(self.below.list(prefix)), _Request()))

    def recover(self) -> None:
        """Store what processes of this machine have in the outbox, dead ones too: then a read finds
        it. Does nothing once stopped. Raises StoreError."""
        with self._recovering:  # one thread stores them, and the others find none
            for name, key, data in self._outbox.left():
                if self._stopped():
                    return
                self._put(_Request(check_key(key), data, name), data)

    def is_empty(self) -> bool:
        """Return True if no process has an object of this store in this machine's outbox."""
        return not any(self._outbox.names())

    def pause(self) -> StorePause | None:
        """Return why the process waits for its store, if it does. To be called often: objects that
        have waited for an answer for long are put into the outbox."""
        now = time.monotonic()
        with self._changed:
            requests, away = tuple(self._requests), self._failing > 0
            since, reason = self._since, self._error.reason
        late = [each for each in requests if now - each.begun > _OUTBOX_SECONDS]
        for request in late:
            self._save(request)
        if away and now - since < _QUIET_SECONDS:
            return None
        if not away:
            if all(now - each.begun < _SILENT_SECONDS for each in late):
                return None
            reason = f"no answer for more than {_SILENT_SECONDS:g} s"
        objects = len({each.key for each in requests if each.data is not None})
        return StorePause(socket.gethostname(), reason, objects)

    def _put(self, request: _Request, data: bytes) -> bool:
        def put() -> bool:
            written = self.below.put(request.key, data)
            if not written and (request.failed or request.file):
                # An earlier try may have arrived. No other writer has the same ciphertext.
                return self.below.get(request.key) == data
            return written

        try:
            written = self._carry_out(put, request)
        except StoreError:
            self._save(request)
            raise
        with self._saving:
            request.done = True
            if request.file:
                self._outbox.discard(request.file)
        return written

    def _save(self, request: _Request) -> None:
        """Put a request's object into the outbox. If that is impossible, it stays in memory."""
        with self._saving:
            if request.data is None or request.file or request.done:
                return
            try:
                request.file = self._outbox.save(request.key, request.data)
            except (OSError, HarnessError, StoreError) as error:
                if not self._warned:
                    logger.warning("objects wait in memory: the outbox takes none: %s", error)
                self._warned = True

    def _carry_out(self, work: Callable[[], T], request: _Request) -> T:
        with self._under_way(request):
            while True:
                if request.failed:
                    self._save(request)
                self._await_turn(request)
                try:
                    result = work()
                except StoreUnavailable as error:
                    self._fail(request, error)
                    continue
                except MissingKey:
                    self._succeed(request)
                    raise
                self._succeed(request)
                return result

    @contextmanager
    def _under_way(self, request: _Request) -> Iterator[None]:
        with self._changed:
            self._requests.add(request)
            if self._failing and request.data is not None:
                self._mark(request)  # it is tried in turn
        try:
            yield
        finally:
            with self._changed:
                self._requests.discard(request)
                self._failing -= request.failed
                self._changed.notify_all()

    def _await_turn(self, request: _Request) -> None:
        """Wait until a request may be made: at once while the store is there; else, one at a time,
        those that failed. Raises WorkStopped if the process is stopped."""
        with self._changed:
            while request.failed or self._failing:
                now = time.monotonic()
                if request.failed and now >= self._next_try:
                    self._next_try = now + self._pause
                    return
                late = now - request.begun > _LAST_SECONDS
                if self._stopped() and (request.data is None or request.file or late):
                    raise WorkStopped("the sweep has ended; what is not stored lies in the outbox")
                self._changed.wait(_POLL_SECONDS)

    def _fail(self, request: _Request, error: StoreUnavailable) -> None:
        with self._changed:
            self._error = error
            if request.failed:
                self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            else:
                self._mark(request)
            self._next_try = time.monotonic() + self._pause

    def _mark(self, request: _Request) -> None:
        if not self._failing:
            self._since, self._pause = time.monotonic(), _SHORTEST_PAUSE
        request.failed = True
        self._failing += 1

    def _succeed(self, request: _Request) -> None:
        """After a request that had failed, let the others be tried at once."""
        if request.failed:
            with self._changed:
                self._pause, self._next_try = _SHORTEST_PAUSE, 0.0
                self._changed.notify_all()
