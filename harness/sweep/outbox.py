"""The outbox: what a worker process cannot store waits on this machine until the store is back.

A request that fails because the store is away (``StoreUnavailable``) is tried again until it
succeeds. Meanwhile its object, which is encrypted, lies in a folder of this user, so that it
outlives the process; the next worker process on this machine stores it. New reads wait too. Since
no reply is paid for before a read has shown that there is none, none is paid for meanwhile.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
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
from registry.canonical import digest_bytes
from registry.errors import MissingKey, StoreError, StoreUnavailable
from registry.files import sync_path
from registry.stores.base import Store, check_key

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


@dataclass(frozen=True, slots=True)
class OutboxFile:
    """An object in the outbox. Its file is locked as long as it is open."""

    path: Path
    handle: int
    key: str
    data: bytes = field(repr=False)


class OutboxFolder:
    """The objects of one store, in a folder of this user on this machine. A file is locked by the
    process that is to store it; the kernel unlocks those of a process that dies."""

    def __init__(self, uri: str, folder: str | None = None) -> None:
        folder = folder or os.environ.get(OUTBOX) or tempfile.gettempdir()
        self.path = Path(folder, f".dosimeter-{os.getuid()}.outbox")
        self._prefix = digest_bytes(uri.encode()).removeprefix("sha256:")[:16] + "-"
        if self.path.is_symlink() or self.path.exists():
            self._check()

    def save(self, key: str, data: bytes) -> OutboxFile:
        """Write and lock an object. Raises OSError, HarnessError."""
        head = f"{key}\n{digest_bytes(data)}\n".encode()
        while True:
            path = self.path / (self._prefix + secrets.token_hex(16))
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            try:
                self.path.mkdir(0o700, exist_ok=True)
                self._check()
                handle = os.open(path, flags, 0o600)
            except FileNotFoundError:
                continue  # another process removed the folder as empty in this instant
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if not os.fstat(handle).st_nlink:
                    os.close(handle)  # another process took it for damaged before it was locked
                    continue
                rest = memoryview(head + data)
                while rest:
                    rest = rest[os.write(handle, rest) :]
                os.fsync(handle)
                sync_path(self.path)
            except OSError:
                path.unlink(missing_ok=True)
                os.close(handle)
                raise
            return OutboxFile(path, handle, key, data)

    def discard(self, file: OutboxFile) -> None:
        """Remove an object that is stored, and the folder with the last one."""
        file.path.unlink(missing_ok=True)
        os.close(file.handle)
        with suppress(OSError):  # others are in it
            self.path.rmdir()

    def left(self, stopped: Callable[[], bool]) -> Iterator[OutboxFile]:
        """Yield, locked, each object that a dead process has left. One that a live process has is
        waited for, until that has stored it or ``stopped``."""
        while names := self.names():
            for name in names:
                if (file := self._take(self.path / name)) is not None:
                    yield file
            if self.names():
                if stopped():
                    return
                time.sleep(_POLL_SECONDS)

    def names(self) -> list[str]:
        """The names of the files of all its objects."""
        try:
            return sorted(n for n in os.listdir(self.path) if n.startswith(self._prefix))
        except FileNotFoundError:
            return []

    def _take(self, path: Path) -> OutboxFile | None:
        """Lock and read an object; None if another process has it or it is gone. A damaged one,
        which a process that died was still writing, is removed."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(handle).st_nlink:
                raise FileNotFoundError
        except (BlockingIOError, FileNotFoundError):
            os.close(handle)
            return None
        with open(handle, "rb", closefd=False) as opened:
            key, digest, data = (*opened.read().split(b"\n", 2), b"", b"")[:3]
        file = OutboxFile(path, handle, key.decode("ascii", "replace"), data)
        if digest_bytes(data).encode() != digest:
            logger.warning("%s: an object that was written in part only; removed", path)
            self.discard(file)
            return None
        return file

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
    file: OutboxFile | None = None
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
        self._saving = threading.Lock()
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
        """Store what processes of this machine that died have left in the outbox. Raises
        StoreError."""
        with self._under_way(_Request()):  # it is reported if another process takes long
            for file in self._outbox.left(self._stopped):
                self._put(_Request(check_key(file.key), file.data, file), file.data)

    def is_empty(self) -> bool:
        """Return True if no process has an object of this store in this machine's outbox."""
        return not self._outbox.names()

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
        objects = sum(each.data is not None for each in requests)
        return StorePause(socket.gethostname(), reason, objects)

    def _put(self, request: _Request, data: bytes) -> bool:
        def put() -> bool:
            written = self.below.put(request.key, data)
            if not written and (request.failed or request.file is not None):
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
            if request.file is not None:
                self._outbox.discard(request.file)
        return written

    def _save(self, request: _Request) -> None:
        """Put a request's object into the outbox. If that is impossible, it stays in memory."""
        with self._saving:
            if request.data is None or request.file is not None or request.done:
                return
            try:
                request.file = self._outbox.save(request.key, request.data)
            except (OSError, HarnessError) as error:
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
