"""What the harness refuses, and how an attempt can fail."""

from __future__ import annotations

from enum import StrEnum


class HarnessError(Exception):
    """Bad input or a broken promise: names the place, what is wrong and the remedy."""


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
