"""Agents that run inside the sandbox: a program of its image, around a model of the study.

The program ``/opt/agents/NAME`` is given the task on its standard input. The one model that it
reaches is that of its pin, through the model proxy. It answers in ``answer.json`` or with what it
prints to its standard output.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from generators.task import Brief
from harness.agent.loop import WALL_LIMIT, AgentRun, AgentTask
from harness.episode import SECONDS_DIGITS, StopReason, ToolUse
from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.external_agents import agent_launcher
from harness.external_agents.client import ask
from harness.external_agents.model_proxy import SOCKET, ModelProxy, ProxySocket
from harness.model import Message, Model, ModelRequest, ModelWrapper, Reply, Role, clean_text
from harness.sandboxes.sandbox import SOCKET_FOLDER, ExecResult, Sandbox, SandboxProvider

PROGRAMS, WORK = "/opt/agents", "/work"  # folders of the image
OUTPUT_BYTES = 1 << 20  # of what a program prints
_POLL_SECONDS = 0.2
_LIMITS_LINE = """\
You have {turns} model calls and {minutes:g} minutes of working time. There is no network.

"""


class ProgramAgent(ModelWrapper):
    """A model of the study, and the program that works with it. Asked without a task, as by a
    probe, it is the model alone."""

    resumes = False  # it starts again from the beginning, and pays for its replies again
    folders = None

    def __init__(self, model: Model, version: str, program: str) -> None:
        self.model = model
        self.version = version  # name under which the program asks for the model
        self.program = program

    def respond(self, request: ModelRequest) -> Reply:
        """Answer as the model alone. Raises AttemptFailed."""
        return self.model.respond(request)

    def open_sandbox(
        self, brief: Brief, sandboxes: SandboxProvider
    ) -> AbstractContextManager[Sandbox]:
        """Open a sandbox with a folder for the model's socket. Raises AttemptFailed,
        HarnessError."""
        if brief.environment is not None:
            raise HarnessError(f"model {self.name!r}: its program is not in the image of a task")
        limits = replace(brief.limits, output_bytes=OUTPUT_BYTES)
        return sandboxes.open(brief.assets, limits, model_socket=True)

    def work(self, task: AgentTask) -> AgentRun:
        """Let the program work on a task until it ends or meets a limit: turns, tokens, cost, its
        working time. It works as long as it does not wait for its model.

        Replies that were paid for before an interruption are not used again. A failure of the
        model's provider ends the run as FAILED. Raises HarnessError if the image lacks the program,
        or the ceiling cannot be enforced; AttemptFailed if the sandbox is lost.
        """
        brief, sandbox = task.brief, task.sandbox
        path = f"{PROGRAMS}/{self.program}"
        if sandbox.run(("test", "-x", path), brief.limits.tool_seconds).exit_code:
            raise HarnessError(
                f"model {self.name!r}: the sandbox image has no program {path}: build an image "
                "with the agent and name it as `sandbox: {image: …}` (docs/agents.md)"
            )
        proxy = ModelProxy(self.model, self.version, task, sandbox.interrupt)
        mark = f"\n{task.seed.child('mark').hex[:16]}\n"
        source = Path(agent_launcher.__file__).read_text(encoding="utf-8")
        launcher = ("python3", "-I", "-S", "-c", source)
        command = (*launcher, f"{SOCKET_FOLDER}/{SOCKET}", self.version, mark, path)
        if sandbox.socket_folder is None:
            raise HarnessError(f"model {self.name!r}: its sandbox was opened without a socket")
        connection = ProxySocket(proxy, sandbox.socket_folder)
        try:
            done, overdue = _run_limited(command, task, proxy)
        finally:
            connection.close()
        return _conclude(proxy, done, overdue, self.program, mark.encode())

    @staticmethod
    def show(brief: Brief) -> str:
        """Return the task as a program is given it: its folder, its limits, and the form of an
        answer."""
        minutes = brief.limits.working_seconds / 60
        limits = _LIMITS_LINE.format(turns=brief.limits.turns, minutes=minutes)
        return ask(replace(brief, prompt=limits + brief.prompt), Path(WORK))


def _run_limited(
    command: tuple[str, ...], task: AgentTask, proxy: ModelProxy
) -> tuple[ExecResult, bool]:
    """Run the program to its end, or to the end of its working time or of the wall time. Returns
    its result, and True if its working time was used up."""
    sandbox, tick, limits = task.sandbox, task.tick, task.brief.limits
    begun = tick()
    ended, overdue = threading.Event(), threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            if tick() - begun - proxy.waited() > limits.working_seconds:
                overdue.set()
                sandbox.interrupt()
                return

    watcher = threading.Thread(target=watch, name="working time", daemon=True)
    watcher.start()
    try:
        prompt = ProgramAgent.show(task.brief).encode()
        result = sandbox.run(command, limits.wall_seconds, prompt)
    finally:
        ended.set()
        watcher.join()
    return result, overdue.is_set()


def _conclude(
    proxy: ModelProxy, done: ExecResult, overdue: bool, program: str, mark: bytes
) -> AgentRun:
    """The run as it is recorded: the program itself is the last turn's last tool call."""
    steps, failed, error = proxy.steps(), proxy.error, ""
    if isinstance(failed, AttemptFailed):
        error = f"{failed.boundary}:{failed.error_class}"
    elif failed is not None:
        raise failed
    elif "time" in done.limits and not overdue:
        error = f"{Boundary.WORKER}:{WALL_LIMIT}"
    if error:
        return AgentRun(proxy.opening, steps, StopReason.FAILED, error)
    printed, _, final = done.output.rpartition(mark)
    use = ToolUse(
        call_id=program,
        name=program,
        result=Message(Role.TOOL, clean_text((printed or final).decode("utf-8", "replace"))),
        seconds=round(done.seconds, SECONDS_DIGITS),
        exit_code=done.exit_code,
        limits=done.limits,
    )
    if steps:  # else the program ended before it had called its model
        steps = (*steps[:-1], replace(steps[-1], uses=(*steps[-1].uses, use)))
    answer = final.decode("utf-8", "replace") if mark in done.output else ""
    stop = StopReason.TIME_LIMIT if overdue else proxy.stop or StopReason.ANSWERED
    return AgentRun(proxy.opening, steps, stop, final=answer)
