"""One attempt at a cell: a fresh sandbox, the agent in it, what it left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from generators.grading.answer import MAX_ANSWER_BYTES, parse_answer
from generators.seed import Seed
from generators.task import Brief, Verifier
from harness.agent.agent import Agent, ModelOrAgent
from harness.agent.limits import Ceiling
from harness.agent.loop import ANSWER_FILE, AgentRun, AgentTask, run_agent
from harness.agent.prompts import UNLIMITED, opening_messages
from harness.agent.single_turn import ContextWindow, run_single_turn, turn_request
from harness.episode import SECONDS_DIGITS, Cell, Episode, Mode, ProgramRun, StopReason
from harness.episodes.hidden_tests import run_hidden_tests
from harness.episodes.verification import run_verifier
from harness.errors import AttemptFailed, Boundary, HarnessError, name_error
from harness.model import Model
from harness.sandboxes.sandbox import Sandbox, SandboxProvider, SandboxRefused, open_for
from harness.spending.purchases import CountingJournal, Journal
from registry.errors import RegistryError


@dataclass(frozen=True, slots=True)
class AttemptRequest:
    """One attempt at a cell. The journal has the replies of the first ``inherited`` turns, which an
    attempt before this one bought; their tool calls are carried out again. ``ceiling`` limits
    tokens and cost; ``window`` is the model's context, which a single turn needs. The program that
    the answer gives is run on each of ``hidden_inputs``; or the ``verifier`` on what is left."""

    cell: Cell
    attempt: int
    brief: Brief
    run: str  # digest of the RunManifest
    journal: Journal
    inherited: int = 0
    ceiling: Ceiling = UNLIMITED
    window: ContextWindow | None = None
    hidden_inputs: tuple[str, ...] = ()
    verifier: Verifier | None = None


def run_attempt(
    request: AttemptRequest, model: ModelOrAgent, sandboxes: SandboxProvider, now: Callable[[], str]
) -> Episode:
    """Run one attempt and return its episode, which records failures of the infrastructure.

    ``now`` returns UTC as ISO 8601. Raises HarnessError if a model that is not built in would run
    in a sandbox that does not isolate.
    """
    if not _may_run(model, sandboxes, request):
        raise HarnessError(
            f"model {model.name!r} is not built in, and the local sandbox does not isolate what "
            "it runs: set `sandbox: docker` in study.yaml"
        )
    started, begun = now(), time.monotonic()
    cell = request.cell
    counting = CountingJournal(request.journal, request.inherited)
    agent_run, left, container = _work(replace(request, journal=counting), model, sandboxes)
    return Episode(
        id=cell.episode,
        instance=cell.instance,
        run=request.run,
        model=cell.model,
        replicate=cell.replicate,
        attempt=request.attempt,
        opening=agent_run.opening,
        steps=agent_run.steps,
        answer=agent_run.answer,
        answer_file=left.answer,
        stop=agent_run.stop,
        usage=agent_run.usage,
        started=started,
        seconds=round(time.monotonic() - begun, SECONDS_DIGITS),
        container=container,
        error_class=agent_run.error_class,
        answer_files=left.files,
        failed_tries=tuple(sorted(counting.failed.items())),
        image=_provider_of(model, sandboxes).image if container else "",
        replies=counting.replies if resumes(model) else 0,
        inherited=request.inherited,
        program_runs=left.runs,
    )


def _may_run(model: ModelOrAgent, sandboxes: SandboxProvider, request: AttemptRequest) -> bool:
    """Return True if the model is trusted, is isolated, or runs no code in these sandboxes."""
    if sandboxes.isolates or model.trusted:
        return True
    elsewhere = _provider_of(model, sandboxes) is not sandboxes
    return not request.hidden_inputs and (elsewhere or request.cell.mode is Mode.SINGLE_TURN)


def _provider_of(model: ModelOrAgent, sandboxes: SandboxProvider) -> SandboxProvider:
    """Return the sandboxes that the model works in: the run's, unless it has its own folders."""
    return (isinstance(model, Agent) and model.folders) or sandboxes


def resumes(model: ModelOrAgent) -> bool:
    """Return True if an attempt goes on from the paid replies of the one before."""
    return not isinstance(model, Agent) or model.resumes


def model_seed(cell: Cell, attempt: int) -> Seed:
    """Return the seed of a model's draws. It reveals nothing of the instance's seed, from which it
    is derived."""
    return cell.seed.child("model", cell.definition or cell.episode, attempt)


@dataclass(frozen=True, slots=True)
class _Left:
    """Answer and files that an agent left for its graders, and the runs of its program."""

    answer: bytes | None = None
    files: tuple[tuple[str, bytes], ...] = ()
    runs: tuple[ProgramRun, ...] = ()


def _work(
    request: AttemptRequest, model: ModelOrAgent, sandboxes: SandboxProvider
) -> tuple[AgentRun, _Left, str]:
    """The agent's run, its files for the graders and the container, whether or not it failed."""
    brief = request.brief
    seed = model_seed(request.cell, request.attempt)
    agent_run: AgentRun | None = None
    container = ""
    try:
        if request.cell.mode is Mode.SINGLE_TURN:  # it has no tools, so no sandbox
            agent_run = _run_once(request, model)
            return agent_run, _test(request, agent_run, _Left(), sandboxes), container
        provider = _provider_of(model, sandboxes)
        opened = (
            model.open_sandbox(brief, provider)
            if isinstance(model, Agent)
            else open_for(brief, provider)
        )
        with opened as sandbox:
            container = sandbox.id
            task = AgentTask(
                brief, sandbox, seed, request.journal, time.monotonic, ceiling=request.ceiling
            )
            if isinstance(model, Agent):
                agent_run = model.work(task)
            else:
                agent_run = run_agent(task, model, sandboxes.libraries)
            left = _collect(brief, agent_run, sandbox)
            if request.verifier is not None and agent_run.stop is not StopReason.FAILED:
                scored = run_verifier(request.verifier, sandbox, provider, brief.limits)
                left = replace(left, runs=(scored,))
        return agent_run, _test(request, agent_run, left, sandboxes), container
    except AttemptFailed as failed:
        error = f"{failed.boundary}:{failed.error_class}"
    except (HarnessError, RegistryError):
        raise
    except Exception as bug:  # one bad cell must not end a sweep; what it said may be secret
        error = f"{Boundary.WORKER}:{name_error(bug)}"
    run = agent_run or AgentRun(opening_messages(brief), (), StopReason.FAILED)
    return AgentRun(run.opening, run.steps, StopReason.FAILED, error), _Left(), container


def _run_once(request: AttemptRequest, model: ModelOrAgent) -> AgentRun:
    """Run a task in a single turn. Raises HarnessError for an agent, or without a window."""
    if not isinstance(model, Model) or request.window is None:
        raise HarnessError(f"model {model.name!r}: a single turn needs a plain model's `context`")
    seed = model_seed(request.cell, request.attempt)
    asked = turn_request(request.brief, request.window, seed)
    return run_single_turn(model, asked, request.journal, time.monotonic)


def _test(
    request: AttemptRequest, agent_run: AgentRun, left: _Left, sandboxes: SandboxProvider
) -> _Left:
    """What the agent left, with the runs of its program. Raises AttemptFailed."""
    brief = request.brief
    if agent_run.stop is StopReason.FAILED or not request.hidden_inputs or request.verifier:
        return left
    answer = parse_answer(agent_run.answer, left.answer, brief.answer_schema)
    if answer is not None:
        answer = answer.with_files(dict(left.files))
    runs = run_hidden_tests(answer, request.hidden_inputs, sandboxes, brief.limits)
    return replace(left, runs=runs)


def _collect(brief: Brief, agent_run: AgentRun, sandbox: Sandbox) -> _Left:
    """The answer file and the files that it points to; or what the brief has graders look at."""
    if agent_run.stop is StopReason.FAILED:
        return _Left()
    if not brief.answer_schema:
        return _Left(None, tuple(_collect_paths(brief, sandbox)))
    written = _read(sandbox, ANSWER_FILE)
    answer = parse_answer(agent_run.answer, written, brief.answer_schema)
    names = () if answer is None else answer.named_files()
    read = ((name, _read(sandbox, name)) for name in names)
    return _Left(written, tuple((name, data) for name, data in read if data is not None))


def _collect_paths(brief: Brief, sandbox: Sandbox) -> Iterator[tuple[str, bytes]]:
    """Yield the files and folders at the brief's paths: files with their bytes if graders read
    them, folders with a name that ends in ``/``."""
    for path in (*brief.collect, *brief.exists):
        try:
            kind = sandbox.kind(path)
        except SandboxRefused:
            continue
        place = path.rstrip("/")
        if kind == "folder":
            yield place + "/", b""
        elif kind == "file" and path in brief.exists:
            yield place, b""  # however large it is
        elif kind == "file" and (data := _read(sandbox, place)) is not None:
            yield place, data


def _read(sandbox: Sandbox, path: str) -> bytes | None:
    try:
        return sandbox.read(path, MAX_ANSWER_BYTES)
    except SandboxRefused:
        return None
