"""Files that are written whole or not at all, and those that lie beside a module."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

PARTIAL = ".partial"


def write_whole(path: Path, data: str | bytes, *, mode: int = 0o644, new: bool = False) -> None:
    """Put a file at once, text in UTF-8 with its newlines as they are. Raises OSError that names
    it, FileExistsError if it is to be ``new`` and is there.

    A writer that is killed leaves at most ``.NAME.partial`` beside it, of the same mode, which the
    next one writes anew.
    """
    content = data.encode() if isinstance(data, str) else data
    partial = path.with_name(f".{path.name}{PARTIAL}")
    try:
        handle = _open_locked(partial)
        with os.fdopen(handle, "wb") as file:
            try:
                if new and os.path.lexists(path):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
                os.fchmod(handle, mode)
                file.truncate(0)
                file.write(content)
                file.flush()
                os.fsync(handle)
                os.replace(partial, path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        sync_path(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _open_locked(partial: Path) -> int:
    """Open the file for its only writer: another one waits, and makes it again. The kernel releases
    the lock of a writer that is killed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        handle = os.open(partial, flags, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_there(partial, handle):
            return handle
        os.close(handle)


def _is_there(path: Path, handle: int) -> bool:
    """Report whether a name still leads to an open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def read_beside(module: str, name: str) -> Any:
    """Return what a YAML file of this name holds, beside the module with this ``__file__``."""
    import yaml

    # libyaml's reader, if it was built in: it takes less of a short command's time.
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(Path(module).with_name(name).read_text(encoding="utf-8"), fast)  # noqa: S506 - either is safe


def sync_path(path: Path | str) -> None:
    """Write a file, or a folder's names, to disk: files new in it outlive a loss of power."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
