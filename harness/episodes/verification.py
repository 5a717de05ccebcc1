"""Runs the verifier of a task over what an agent left, in a fresh sandbox. The tests get there only
then, and the folders that they lie in and write to begin empty, whatever the agent put there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from generators.items import REWARD, SOLUTIONS, TESTS
from generators.task import Asset, Limits, TaskInstance, Verifier
from harness.episode import ProgramRun
from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.sandboxes.sandbox import (
    ExecResult,
    Sandbox,
    SandboxProvider,
    SandboxRefused,
    fill,
    open_for,
    task_sandboxes,
)
from harness.sandboxes.task_image import TASK_FOLDERS, WORKDIR

FAILED = "verifier"  # class of an attempt without a reward
_SCRIPT = f'chmod -R +x "${{1%/*}}" 2>/dev/null; cd "${WORKDIR}" && exec "$1"'
_REWARDS = ("reward.json", "reward.txt")
_NOT_RUN = 126  # the least exit code of a shell that says that a program did not run, or was killed
_MOST_BYTES = 1 << 16


def run_verifier(
    verifier: Verifier, sandbox: Sandbox, sandboxes: object, limits: Limits
) -> ProgramRun:
    """Run the verifier; its output is the reward, of 0 to 1: that in the file ``reward.json`` or
    ``reward.txt``; or 1 for the exit code 0 and 0 for others, where no test names the folder of
    these files. Raises AttemptFailed if it did not run, took too long or gave none: what it would
    have said is unknown. Raises HarnessError where no sandbox has the image of a task."""
    tests = tuple(file for file in verifier.files if file.path.startswith(TESTS))
    with task_sandboxes(sandboxes).open_copy(sandbox, verifier, limits) as copy:
        _place(copy, tests)
        done = copy.run(_command("/tests/test.sh"), verifier.seconds)
        reward = None if "time" in done.limits else _read_reward(copy)
    named = any(TASK_FOLDERS[1].encode() in test.data for test in tests)
    if reward is None and not named and not done.limits and done.exit_code < _NOT_RUN:
        reward = float(done.exit_code == 0)
    if reward is None:
        raise AttemptFailed(Boundary.SANDBOX, FAILED, _spell(done))
    return ProgramRun(REWARD, f"{reward:g}", 0, done.limits)


def prove_task(task: TaskInstance, sandboxes: SandboxProvider) -> str:
    """Return why nothing proves that a task measures what it should: a reward of 1 for its own
    solution and 0 for doing nothing; "" if that is so. Raises as ``run_verifier``."""
    brief, verifier = task.brief, task.truth.verifier
    if verifier is None:
        return ""
    solution = [file for file in verifier.files if file.path.startswith(SOLUTIONS)]
    with open_for(brief, sandboxes) as idle:
        if float(run_verifier(verifier, idle, sandboxes, brief.limits).output):
            return "doing nothing is rewarded"
        if not solution:
            return "it has no solution/solve.sh, so that nothing proves that it can be solved"
        with task_sandboxes(sandboxes).open_copy(idle, verifier, brief.limits) as solver:
            _place(solver, solution)
            solver.run(_command("/solution/solve.sh"), brief.limits.working_seconds)
            reward = float(run_verifier(verifier, solver, sandboxes, brief.limits).output)
    return "" if reward == 1 else f"its own solution earns {reward:g} of 1"


def _place(copy: Sandbox, files: Sequence[Asset]) -> None:
    try:
        fill(copy, files)
    except HarnessError as error:  # the agent put links in their place
        raise AttemptFailed(Boundary.SANDBOX, FAILED, "its files cannot be placed") from error


def _command(script: str) -> tuple[str, ...]:
    """Run a script of the task's folder as its agent's programs are run, in the work folder."""
    return ("sh", "-c", _SCRIPT, "sh", script)


def _read_reward(copy: Sandbox) -> float | None:
    for name in _REWARDS:
        try:
            text = copy.read(f"{TASK_FOLDERS[1]}/{name}", _MOST_BYTES)
            value: Any = json.loads(text) if name.endswith("json") else float(text)
        except SandboxRefused:
            continue
        except (ValueError, RecursionError):
            return None
        if isinstance(value, dict):
            value = value.get("reward", *value.values()) if len(value) == 1 else value.get("reward")
        known = isinstance(value, int | float) and 0 <= value <= 1
        return float(value) if known else None
    return None


def _spell(done: ExecResult) -> str:
    limits = f", limits hit: {', '.join(done.limits)}" if done.limits else ""
    return f"no reward of 0 to 1; exit code {done.exit_code}{limits}"
