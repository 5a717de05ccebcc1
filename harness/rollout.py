"""One attempt at a cell: a fresh sandbox, the agent in it, what it left behind."""

from __future__ import annotations

import time
from collections.abc import Callable

from generators.answer import MAX_ANSWER_BYTES
from generators.seed import Seed
from generators.task import Brief
from harness.agent import Conduct, Journal, opening_messages, run_agent
from harness.episode import SECONDS_DIGITS, Cell, Episode, StopReason
from harness.errors import AttemptFailed, Boundary, HarnessError, name_error
from harness.model import Model
from harness.sandbox import Sandbox, SandboxProvider, SandboxRefused
from registry.errors import RegistryError

ANSWER_FILE = "answer.json"


def run_attempt(
    cell: Cell,
    attempt: int,
    brief: Brief,
    model: Model,
    sandboxes: SandboxProvider,
    *,
    run: str,
    journal: Journal,
    now: Callable[[], str],
    tick: Callable[[], float] = time.monotonic,
) -> Episode:
    """The episode of one attempt. What fails in the infrastructure is recorded in it.

    ``run`` is the digest of the RunManifest, ``now`` tells UTC as ISO 8601, ``tick`` is a
    monotonic clock in seconds. Raises HarnessError where a model that is not built in would
    run in a sandbox that does not isolate.
    """
    if not model.trusted and not sandboxes.isolates:
        raise HarnessError(
            f"model {model.name!r} is not built in, and the local sandbox does not isolate what "
            "it runs: set `sandbox: docker` in study.yaml"
        )
    started, begun = now(), tick()
    seed = model_seed(cell, attempt)
    conduct, answer_file, container = _work(brief, model, sandboxes, seed, journal, tick)
    return Episode(
        id=cell.episode,
        instance=cell.instance,
        run=run,
        model=cell.model,
        replicate=cell.replicate,
        attempt=attempt,
        opening=conduct.opening,
        steps=conduct.steps,
        answer=conduct.answer,
        answer_file=answer_file,
        stop=conduct.stop,
        usage=conduct.usage,
        started=started,
        seconds=round(tick() - begun, SECONDS_DIGITS),
        container=container,
        error_class=conduct.error_class,
    )


def model_seed(cell: Cell, attempt: int) -> Seed:
    """What a model draws from. It tells nothing of the instance's seed, from which it is made."""
    return cell.seed.child("model", cell.episode, attempt)


def _work(
    brief: Brief,
    model: Model,
    sandboxes: SandboxProvider,
    seed: Seed,
    journal: Journal,
    tick: Callable[[], float],
) -> tuple[Conduct, bytes | None, str]:
    """The conduct, the answer file and the container, whatever became of them."""
    conduct, container = Conduct(opening_messages(brief), (), StopReason.FAILED), ""
    try:
        with sandboxes.open(brief.assets, brief.limits) as sandbox:
            container = sandbox.id
            conduct = run_agent(brief, model, sandbox, seed, journal, tick)
            return conduct, _collect_answer(conduct, sandbox), container
    except AttemptFailed as failed:
        error = f"{failed.boundary}:{failed.error_class}"
    except (HarnessError, RegistryError):
        raise
    except Exception as bug:  # one bad cell must not end a sweep; what it said may be secret
        error = f"{Boundary.WORKER}:{name_error(bug)}"
    return Conduct(conduct.opening, conduct.steps, StopReason.FAILED, error), None, container


def _collect_answer(conduct: Conduct, sandbox: Sandbox) -> bytes | None:
    if conduct.stop is StopReason.FAILED:
        return None
    try:
        return sandbox.read(ANSWER_FILE, MAX_ANSWER_BYTES)
    except SandboxRefused:
        return None
