"""Agents with a loop of their own, which work on a task in place of the built-in loop."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias, runtime_checkable

from generators.task import Brief
from harness.agent.loop import AgentRun, AgentTask
from harness.model import Model
from harness.sandboxes.sandbox import Sandbox, SandboxProvider


@runtime_checkable
class Agent(Protocol):
    """An agent with a loop of its own."""

    resumes: bool  # True if it goes on from the paid replies of an attempt before
    folders: SandboxProvider | None  # that it works in, if not the sandboxes of the run

    @property
    def name(self) -> str:
        """Its name in the study."""

    @property
    def trusted(self) -> bool:
        """True if it is built in, so that it may run in the local sandbox."""

    def open_sandbox(
        self, brief: Brief, sandboxes: SandboxProvider
    ) -> AbstractContextManager[Sandbox]:
        """Open a sandbox for a task. Raises AttemptFailed, HarnessError."""

    def work(self, task: AgentTask) -> AgentRun:
        """Work on a task to its end. Raises AttemptFailed if the sandbox is lost, HarnessError."""

    @staticmethod
    def show(brief: Brief) -> str:
        """Return the one message that an agent of this kind is given, for previews."""


ModelOrAgent: TypeAlias = Model | Agent
"""Subject of a cell: a model for the built-in loop, or an agent with a loop of its own."""
