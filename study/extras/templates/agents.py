"""Agents that ``dosimeter template run`` asks: one behind a server, or a model of a study."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from generators.seed import Seed
from generators.task import TaskInstance
from study.errors import StudyError
from study.extras.templates.prepare import SampleTree, Watch
from study.protocol.protocol import Protocol as StudyProtocol
from study.protocol.protocol import read_protocol

if TYPE_CHECKING:
    from harness.episode import Turn
    from harness.sandboxes.sandbox import SandboxProvider


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation with an agent: its rounds and final message, and the class of the failure
    if it failed. ``files`` are those that it left in a sandbox elsewhere, by path; None if it
    worked in the sample's tree. A folder's path ends in ``/``."""

    steps: Sequence[Turn]
    answer: str
    error: str = ""  # "<boundary>:<class>"
    seconds: float = 0.0
    files: Mapping[str, bytes] | None = None


_PICARD: dict[str, float] = {"temperature": 0.4, "max_output_tokens": 4000}


class ServerAgent:
    """An agent behind ``POST /api/chat``, which reaches the sandbox folder by itself."""

    in_place = True  # it works in the run's sandbox folder

    def __init__(self, url: str, **asked: float | None) -> None:
        """``asked`` are settings of the requests; None for PICARD's own. Raises StudyError for what
        is no address of a server, or no value of a setting."""
        from harness.external_agents.client import AgentServer
        from harness.models.settings import AgentServerSettings

        self.name = url.rstrip("/").removesuffix("/api/chat")
        self.asked = _PICARD | {name: value for name, value in asked.items() if value is not None}
        try:
            settings = AgentServerSettings.make(base_url=self.name, tree="host", **self.asked)
        except ValueError:
            raise StudyError(
                f"--server {url}: is no address; give one such as http://127.0.0.1:8765"
            ) from None
        self._server = AgentServer(self.name, settings, own_files=True)

    def ask(self, tree: SampleTree, instance: TaskInstance, seed: Seed) -> Conversation:
        """Send the sample's prompt, to the letter."""
        seconds, begun = instance.brief.limits.wall_seconds, time.monotonic()
        run = self._server.chat(tree.sample.prompt, seed, seconds, tree.untouched)
        return Conversation(run.steps, run.answer, run.error_class, time.monotonic() - begun)


class ModelAgent:
    """A model of a study, in a fresh sandbox for each sample."""

    in_place = False  # its sandboxes are elsewhere
    asked: Mapping[str, float] = {}  # the study's settings are

    def __init__(self, folder: Path, name: str, stack: ExitStack, watch: Watch) -> None:
        """Open the model and its sandboxes, which ``stack`` closes. Raises StudyError, HarnessError
        for a model that is not there or cannot be built."""
        from harness.build_model import build_model
        from harness.model import close_model

        protocol = read_protocol(folder)
        pin = next((pin for pin in protocol.models if pin.name == name), None)
        if pin is None:
            known = ", ".join(pin.name for pin in protocol.models)
            raise StudyError(f"--model {name}: {folder} has no such model; it has: {known}")
        self.name = name
        self._model = build_model(pin, folder=str(folder))
        stack.callback(close_model, self._model)
        self._sandboxes = _open_sandboxes(protocol, watch)
        stack.callback(self._sandboxes.close)

    def ask(self, tree: SampleTree, instance: TaskInstance, seed: Seed) -> Conversation:
        """Let the model work on the sample as in a study, its question without the marker."""
        from harness.episode import Cell
        from harness.episodes.rollout import AttemptRequest, run_attempt
        from harness.spending.purchases import MemoryJournal

        cell = Cell(tree.sample.qs_id, instance.spec, instance.id, seed, self.name, replicate=0)
        brief = replace(instance.brief, prompt=tree.sample.prompt)
        request = AttemptRequest(cell, 1, brief, "template run", MemoryJournal())
        episode = run_attempt(request, self._model, self._sandboxes, _now)
        files = dict(episode.answer_files)
        return Conversation(
            episode.steps, episode.answer, episode.error_class, episode.seconds, files
        )


RunAgent = ServerAgent | ModelAgent


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _open_sandboxes(protocol: StudyProtocol, watch: Watch) -> SandboxProvider:
    """Open the sandboxes of a study on this machine. Raises HarnessError without an engine or the
    image."""
    from harness.sandboxes.open import open_provider
    from study.workspace.setup import pinned_image

    section = protocol.sandbox
    return open_provider(
        section.kind,
        pinned_image(protocol, watch).tag,
        runtime=section.runtime,
        warm=1,
        creating=section.creating or 0,
        executing=section.executing or 0,
        memory_bytes=int(1e9 * (section.memory_gb or 0)),
        run="template",
    )
