"""External agents: agents with a loop of their own, which get a brief and a sandbox."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from generators.seed import Seed
from generators.task import Brief
from harness.agent import AgentRun
from harness.model import Model
from harness.sandboxes import Sandbox, SandboxProvider
from harness.spending import Journal


class ExternalAgent(ABC):
    """An agent with a loop of its own. No Protocol: each episode asks several times whether its
    model is one, and matching a Protocol is slow."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in the study."""
        ...

    @property
    @abstractmethod
    def folders(self) -> SandboxProvider | None:
        """The folders that it works in, if not the sandboxes of the run; then the user runs it, and
        nothing isolates it."""
        ...

    @abstractmethod
    def converse(
        self,
        brief: Brief,
        sandbox: Sandbox,
        seed: Seed,
        journal: Journal,
        tick: Callable[[], float],
    ) -> AgentRun:
        """Let it work on the brief in this sandbox. A failure on its side ends the run as FAILED
        with the turns so far. Raises AttemptFailed if the sandbox is lost."""
        ...

    @abstractmethod
    def close(self) -> None:
        """Close what it holds open."""
        ...


ModelOrAgent: TypeAlias = Model | ExternalAgent
"""What a cell may name: a model for the built-in agent loop, or an external agent."""
