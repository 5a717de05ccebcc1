"""A store in a folder: one file an object, fit for git and for any POSIX file system."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from registry.errors import MissingKey, StoreError, StoreUnavailable
from registry.files import read_beside, sync_path, write_whole
from registry.stores.base import check_key, check_prefix

_TEMPORARY = ".tmp"  # no key starts with a dot, so nothing in it is ever an object
_ERRORS = read_beside(__file__, "remedies.yaml")
_REMEDIES: dict[int, str] = {getattr(errno, name): text for name, text in _ERRORS["folder"].items()}
_PASSING = frozenset(getattr(errno, name) for name in _ERRORS["folder_passing"])


class FolderStore:
    """Objects are files below ``path``. A put writes a temporary file and links it to its
    name, so that a writer killed at any moment leaves nothing that can be seen.

    ``durable`` syncs file and folder before a put returns, for power cuts too. Symbolic links
    below ``path`` are refused: the store makes none, and they may lead out of it.
    """

    def __init__(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        self.path = Path(os.path.abspath(path))
        self.durable = durable
        self._temporary = os.path.join(self.path, _TEMPORARY)
        self._swept = False

    @property
    def uri(self) -> str:
        """URI by which ``open_store`` opens this store again."""
        return f"file:{self.path}"

    def put(self, key: str, data: bytes) -> bool:
        """Write if absent; return True if it was. Raises StoreError."""
        path = self._locate(key)
        with _explained(path):
            if os.path.lexists(path):
                return self._occupied(path)
            self._make_folder(os.path.dirname(path))
            self._prepare_temporary()
            while (written := self._write(path, data)) is None:
                pass
            return written or self._occupied(path)

    def replace(self, key: str, data: bytes) -> None:
        """See ``Store.replace``."""
        path = self._locate(key)
        with _explained(path):
            self._make_folder(os.path.dirname(path))
            write_whole(Path(path), data)

    def delete(self, keys: Iterable[str]) -> None:
        """See ``Store.delete``."""
        for path in map(self._locate, keys):
            with _explained(path), contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def get(self, key: str) -> bytes:
        """The object's bytes. Raises MissingKey, StoreError."""
        path = self._locate(key)
        with _explained(path):
            try:
                with open(path, "rb", buffering=0) as file:
                    return file.read()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise MissingKey(f"{path}: no such object") from None

    def exists(self, key: str) -> bool:
        """Report if an object has this name."""
        return os.path.isfile(self._locate(key))

    def list(self, prefix: str = "") -> Iterator[str]:
        """The names that start with the prefix, in order."""
        folder, slash, _ = check_prefix(prefix).rpartition("/")
        if folder:
            self._locate(folder)
        return self._walk(folder + slash, prefix)

    def _locate(self, key: str) -> str:
        """Return the path of the object. Raises StoreError where a symbolic link is on the way."""
        place = self._real_path
        for name in check_key(key).split("/"):
            place = f"{place}/{name}"
            if os.path.islink(place):
                raise _linked(self.path / key)
        return place

    @cached_property
    def _real_path(self) -> str:
        return os.path.realpath(self.path)

    def _occupied(self, path: str) -> bool:
        if os.path.isdir(path):
            raise StoreError(f"{path}: {_REMEDIES[errno.EISDIR]}")
        return False

    def _make_folder(self, folder: str) -> None:
        if not os.path.isdir(folder):
            parent = os.path.dirname(folder)
            self._make_folder(parent)
            Path(folder).mkdir(exist_ok=True)
            self._sync_folder(parent)

    def _write(self, path: str, data: bytes) -> bool | None:
        """Write a temporary file and link it, as ``_link`` returns."""
        temporary = os.path.join(self._temporary, secrets.token_hex(16))
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)  # locked as long as this writer lives
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            if self.durable:
                os.fsync(file)
            return self._link(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            os.close(file)

    def _link(self, temporary: str, path: str) -> bool | None:
        """True if this writer made the object, False if another did, None to try again."""
        folder = os.path.dirname(path)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except FileNotFoundError:
            if os.path.isdir(folder):
                return None  # swept in the instant before it was locked
            raise
        self._sync_folder(folder)
        return True

    def _prepare_temporary(self) -> None:
        """Make the private folder; once per opening, sweep what dead writers left in it."""
        if self._swept:
            return
        self._make_folder(self._temporary)
        for left in os.listdir(self._temporary):
            _sweep(os.path.join(self._temporary, left))
        self._swept = True

    def _sync_folder(self, folder: str) -> None:
        if self.durable:
            sync_path(folder)

    def _walk(self, folder: str, prefix: str) -> Iterator[str]:
        """The keys below a folder, which is "" or ends in a slash, that start with a prefix."""
        for key in self._keys(folder, prefix):
            if key.endswith("/"):
                yield from self._walk(key, prefix)
            else:
                yield key

    def _keys(self, folder: str, prefix: str) -> Iterable[str]:
        """Return what lies in a folder and can start with a prefix, in key order: a key, or a
        folder with a slash."""
        place, start = os.path.join(self.path, folder), prefix[len(folder) :]
        with _explained(place):
            try:
                with os.scandir(place) as entries:
                    return sorted(folder + name for name in _names(entries, start))
            except (FileNotFoundError, NotADirectoryError):
                return []


def _names(entries: Iterable[os.DirEntry[str]], start: str) -> Iterator[str]:
    """Yield the names that start with ``start``; a folder's with a slash."""
    for entry in entries:
        name = entry.name
        if not name.startswith(start) or name.startswith("."):
            continue
        if entry.is_symlink():
            raise _linked(Path(entry.path))
        yield name + "/" if entry.is_dir(follow_symlinks=False) else name


def _sweep(path: str) -> None:
    """Remove a temporary file if its writer is dead, so that its lock is free."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError), os.fdopen(os.open(path, flags)) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)


def _linked(path: Path) -> StoreError:
    return StoreError(f"{path}: a symbolic link, which a store never holds; remove it")


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, error.strerror or "it cannot be used")
        if error.errno in _PASSING:
            raise StoreUnavailable(path, remedy) from error
        raise StoreError(f"{path}: {remedy}") from error
