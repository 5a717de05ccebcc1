"""File locks, so that two processes do not pay for the same work."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from study.errors import StudyError

logger = logging.getLogger(__name__)


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
