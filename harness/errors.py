"""Errors of the harness, and the failure of an attempt."""

from __future__ import annotations

import traceback
from enum import StrEnum
from pathlib import Path


class HarnessError(Exception):
    """Bad input or a broken promise: names the place, the error and the remedy."""


class ModelUnavailable(HarnessError):  # noqa: N818
    """A model needs a key, a library or weights that this machine lacks."""


class WorkStopped(HarnessError):  # noqa: N818
    """The sweep is over for this process, so it must not buy anything more."""


class RateWait(WorkStopped):
    """A cell gives its place back, since its model's provider would have it wait long."""


class SweptElsewhere(HarnessError):  # noqa: N818
    """Another driver is at work on the run."""


class CoordinatorLost(HarnessError):  # noqa: N818
    """The coordinator ended before its sweep did."""


class WorkerKilled(HarnessError):  # noqa: N818
    """The process that ran the cells of a worker died by itself, as one does for its memory."""


class WorkerDrained(HarnessError):  # noqa: N818
    """A worker was asked to end, as its host is, and has stored what it bought."""


class WorkersLost(HarnessError):  # noqa: N818
    """Worker processes died again and again, and no work was finished."""


class Boundary(StrEnum):
    """The boundary that a failure crossed. A failed attempt is data."""

    PROVIDER = "provider"
    SANDBOX = "sandbox"
    STORE = "store"
    WORKER = "worker"


class AttemptFailed(Exception):  # noqa: N818
    """Infrastructure failed an attempt; the cell is owed again. ``detail`` holds no content
    of the instance."""

    def __init__(self, boundary: Boundary, error_class: str, detail: str = "") -> None:
        super().__init__(f"{boundary}: {error_class}{': ' if detail else ''}{detail}")
        self.boundary = boundary
        self.error_class = error_class
        self.detail = detail

    def __reduce__(self) -> tuple[type[AttemptFailed], tuple[Boundary, str, str]]:
        return type(self), (self.boundary, self.error_class, self.detail)


def name_error(error: BaseException) -> str:
    """Class and place of an unexpected error, without its message, which may quote an instance, a
    transcript or a grade."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"@{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + place
