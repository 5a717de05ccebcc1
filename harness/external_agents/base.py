"""Agents whose loop is not ours: they are handed a brief and a sandbox, and say how they got on."""

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
    def name(self) -> str: ...

    @property
    @abstractmethod
    def folders(self) -> SandboxProvider | None:
        """Where it works, if not in the sandboxes of the run: then it is run by the user, and
        nothing of ours isolates it."""
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
        """Let it work on the brief in this sandbox. What fails on its side ends the conduct as
        FAILED, its steps so far kept. Raises AttemptFailed where the sandbox is lost."""
        ...

    @abstractmethod
    def close(self) -> None:
        """Let go of what it holds."""
        ...


ModelOrAgent: TypeAlias = Model | ExternalAgent
"""Whatever a cell may name: a model for our loop, or an agent with its own."""
