"""Runs the program that an answer gives on hidden inputs, in a fresh sandbox after the agent's.

The program is untrusted. Each input is given to a process of its own, on its standard input, and
nothing else enters the sandbox but a copy of the program: the expected outputs stay outside, where
the outputs are compared with them (generators/grading/programs.py). So a program can print what it
likes; there is no report that it could write. Outputs are kept with the episode, so that it can be
graded again without a sandbox.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from generators.grading.answer import Answer
from generators.grading.programs import program_of
from generators.task import Asset, Limits
from harness.episode import ProgramRun
from harness.sandboxes.sandbox import Sandbox, SandboxProvider

RUN_SECONDS = 5.0  # of one run; the task's prompt states it
ALL_SECONDS = 60.0  # of all runs together: the others after that count as timed out
OUTPUT_BYTES = 16_384
_FILE = "program.py"
_COMMAND = ("python3", "-I", "-W", "ignore", _FILE)
_KILLED = 137


def run_hidden_tests(
    answer: Answer | None, inputs: Sequence[str], sandboxes: SandboxProvider, limits: Limits
) -> tuple[ProgramRun, ...]:
    """The runs of the answer's program, one for each input; none if the answer gives no program.

    A program that fails, hangs or takes its sandbox down is a run that failed. Raises AttemptFailed
    if the sandbox is lost otherwise."""
    source = None if answer is None else program_of(answer)
    if source is None or not inputs:
        return ()
    program = Asset(_FILE, "text/x-python", source)
    with sandboxes.open((program,), replace(limits, output_bytes=OUTPUT_BYTES)) as sandbox:
        return tuple(_run_all(sandbox, inputs))


def _run_all(sandbox: Sandbox, inputs: Sequence[str]) -> Iterator[ProgramRun]:
    spent = 0.0
    for given in inputs:
        if (seconds := min(RUN_SECONDS, ALL_SECONDS - spent)) <= 0:
            yield ProgramRun(given, "", _KILLED, ("time",))
            continue
        done = sandbox.run(_COMMAND, seconds, given.encode())
        spent += done.seconds
        output = done.output.decode("utf-8", "replace")
        yield ProgramRun(given, output, done.exit_code, done.limits)
