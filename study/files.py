"""Folders that come to be whole or not at all, file locks, so that two processes do not pay for
the same work, and tables from elsewhere."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TypeVar

from generators.errors import ChildLimitError
from registry.files import PARTIAL
from study.errors import StudyError

logger = logging.getLogger(__name__)

T = TypeVar("T")
_LIMITS = {"seconds": 300, "memory": 5_000_000_000}  # 10^6 rows take 4


def read_from_elsewhere(read: Callable[[Path], T], path: Path) -> T:
    """Read a table of unknown origin in a child process. Raises StudyError at its limits of time
    and memory, and what ``read`` raises."""
    from generators.child_process import ChildLimits, run_in_child  # few commands read tables

    limits = ChildLimits(**_LIMITS)
    try:
        table: T = run_in_child(limits, _read_in, Path.cwd(), read, path).value()
    except ChildLimitError as error:
        raise StudyError(f"{path}: to read this table {error}") from None
    return table


def _read_in(folder: Path, read: Callable[[Path], T], path: Path) -> T:
    os.chdir(folder)
    return read(path)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A draft that becomes ``out`` when the block ends well, and is removed when it does not, with
    the folders above it that were made for it; what a killed process left of it,
    ``.NAME.partial``, is removed by the next one.

    Raises StudyError where ``out`` is there already, is being written, or cannot be.
    """
    if os.path.lexists(out):
        raise StudyError(f"{out}: is there already; give a folder that is not")
    draft = out.with_name(f".{out.name}{PARTIAL}")
    fresh = [folder for folder in (out.parent, *out.parent.parents) if not folder.exists()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with _empty_draft(draft, out):
            try:
                draft.chmod(0o755)
                yield draft
                os.rename(draft, out)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        reason, inside = error.strerror or str(error), _inside(error.filename, draft)
        what = f"{reason}: {inside}" if inside else f"{reason}; give a folder that you may write"
        raise StudyError(f"{out}: {what}") from error
    finally:
        with suppress(OSError):  # the first that is not empty, or not there, ends it
            for folder in fresh:
                folder.rmdir()


@contextmanager
def _empty_draft(draft: Path, out: Path) -> Iterator[None]:
    """Make the folder of a draft and lock it; the kernel releases it when this process ends. Raises
    StudyError if another process writes it."""
    draft.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.lexists(out):  # another process was quicker
            with suppress(OSError):
                draft.rmdir()
            raise StudyError(f"{out}: is there already; give a folder that is not")
        for left in draft.iterdir():
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        yield
    except BlockingIOError:
        raise StudyError(f"{out}: another process is writing it; let it finish") from None
    finally:
        os.close(lock)


def _inside(name: object, draft: Path) -> str:
    """Return the part of the draft that an error is about; "" if it is about none."""
    if not isinstance(name, str | os.PathLike):
        return ""
    path = os.fspath(name)
    return path.removeprefix(f"{draft}/") if path.startswith(f"{draft}/") else ""


def write_file(path: Path, text: str) -> None:
    """Text as UTF-8, with the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def safe_place(path: str) -> Path:
    """A relative path that stays where it is put. Raises StudyError for any other: families may
    be untrusted."""
    place = PurePosixPath(path)
    if place.is_absolute() or ".." in place.parts or not place.parts:
        raise StudyError(f"the family names an input file {path!r}: it must lie in the work folder")
    return Path(place)


@contextmanager
def exclusive(path: Path, other: str) -> Iterator[None]:
    """Hold a lock file while the same work must not be done by another process. The kernel releases
    it when this process ends, however it ends. Raises StudyError if ``other`` holds it."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; the study's folder must be writable") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StudyError(f"{path}: {other} is at work; let it finish, or end it") from None
        logger.debug("locked %s", path)
        yield
    finally:
        os.close(handle)
