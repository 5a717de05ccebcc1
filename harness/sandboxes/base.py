"""Sandboxes: the Protocols of a sandbox and of its provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from generators.task import Asset, Limits

KILLED = 137  # the exit code of what a SIGKILL ended


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How one program ended. ``limits`` names those it hit, of: ``time``, ``memory``,
    ``processes``, ``disk``, ``output``."""

    exit_code: int
    output: bytes  # stdout and stderr interleaved, cut to the cap (head and tail kept)
    output_bytes: int  # before the cut
    seconds: float
    limits: tuple[str, ...] = ()


class SandboxRefused(Exception):  # noqa: N818
    """The sandbox refused a file operation: outside the work folder, missing, too large, no
    space. An answer for the agent, not a failure. ``limits`` as in ExecResult."""

    def __init__(self, reason: str, limits: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.limits = limits


class Sandbox(Protocol):
    """One work folder, one episode. All paths are relative to the work folder and confined
    to it: absolute ones outside it, ``..`` and symbolic links that lead out are refused.
    Losing the sandbox itself raises AttemptFailed(SANDBOX, …)."""

    @property
    def id(self) -> str:
        """The container's name, for the record."""
        ...

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> ExecResult:
        """Run a program in the work folder. Whatever it started is dead when this returns."""
        ...

    def read(self, path: str, max_bytes: int) -> bytes:
        """A regular file's bytes. Raises SandboxRefused."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file; its folders are made. Raises SandboxRefused."""
        ...

    def kind(self, path: str) -> str | None:
        """``file`` or ``folder``; None if the path names neither, or a link. Raises SandboxRefused
        for a path outside the work folder."""
        ...

    def close(self) -> None:
        """Destroy it and all that is in it. May return before that is done."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class SandboxProvider(Protocol):
    """Makes sandboxes, never the same one twice."""

    @property
    def image(self) -> str:
        """Digest of the image, or "none"."""
        ...

    @property
    def libraries(self) -> tuple[tuple[str, str], ...]:
        """Name and version of Python and of the libraries found there."""
        ...

    @property
    def isolates(self) -> bool:
        """Whether untrusted code may run here."""
        ...

    def open(self, assets: Sequence[Asset], limits: Limits) -> Sandbox:
        """A fresh sandbox with the assets in its work folder. Raises AttemptFailed."""
        ...

    def close(self) -> None:
        """Stop the pool and remove every container of it."""
        ...
