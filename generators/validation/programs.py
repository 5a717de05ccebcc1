"""Runs programs that a family makes itself: its solver, and what its key, guesses and attackers
answer where a program is asked for.

They are trusted, so one process on this machine runs one after the other and imports libraries
once. Programs of models run in a sandbox (harness/episodes/hidden_tests.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from threading import Timer

from generators.grading.answer import Answer
from generators.grading.programs import hidden_inputs, program_of
from generators.grading.rubric import Rubric

_SECONDS = 60.0

_RUNNER = """\
import contextlib, io, json, os, sys
for line in sys.stdin:
    source, texts, folder = json.loads(line)
    stdin, printed, error = sys.stdin, {}, None
    os.chdir(folder)
    try:
        code = compile(source, "program.py", "exec")
    except (SyntaxError, ValueError) as problem:
        texts, error = [], str(problem)
    for text in texts:
        sys.stdin, output = io.StringIO(text), io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                exec(code, {"__name__": "__main__"})
        except SystemExit as ended:
            if ended.code not in (None, 0):
                error = str(ended)
                continue
        except BaseException as problem:
            error = f"{type(problem).__name__}: {problem}"
            continue
        printed[text] = output.getvalue()
    sys.stdin = stdin
    print(json.dumps([printed, error]), flush=True)
"""


def with_printed(rubric: Rubric, answer: Answer | None) -> Answer | None:
    """The answer with what its program prints for the hidden inputs of a rubric, if it has any."""
    source = program_of(answer) if answer is not None else None
    texts = hidden_inputs(rubric) if source is not None else ()
    if answer is None or source is None or not texts:
        return answer
    return answer.with_printed(_printed(source, texts))


@lru_cache(maxsize=32)  # noisy solvers often repair the same
def _printed(source: bytes, texts: tuple[str, ...]) -> Mapping[str, str]:
    """What a program prints for each text; nothing for one that ends with an error."""
    try:
        return run_trusted(source.decode("utf-8", "replace"), texts, _SECONDS)[0]
    except TimeoutError:
        return {}


def run_trusted(
    source: str, texts: Sequence[str], seconds: float, folder: str = os.sep
) -> tuple[Mapping[str, str], str | None]:
    """Run a program in a folder, once with each text as its input: what it printed for those after
    which it ended well, and the last error. Raises TimeoutError."""
    process = _process()
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process has no pipes")
    alarm = Timer(seconds, process.kill)
    alarm.start()
    process.stdin.write(json.dumps([source, texts, folder]) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    alarm.cancel()
    if not line:
        _process.cache_clear()
        raise TimeoutError(f"a program took more than {seconds:g} s")
    printed, error = json.loads(line)
    return printed, error


@cache
def _process() -> subprocess.Popen[str]:
    """The process that runs them; it ends with this one."""
    return subprocess.Popen(
        [sys.executable, "-I", "-W", "ignore", "-c", _RUNNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
