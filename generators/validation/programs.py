"""Runs the programs of answers that a family makes itself: its key, solver, guesses and attackers.

They are trusted, so all inputs of a rubric are given to a program in one process on this machine.
Programs of models run in a sandbox (harness/episodes/hidden_tests.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache

from generators.grading import Answer, Rubric, hidden_inputs, program_of

_SECONDS = 60.0

_RUNNER = """\
import contextlib, io, json, sys
source, texts = json.load(sys.stdin)
code, printed = compile(source, "program.py", "exec"), {}
for text in texts:
    sys.stdin, output = io.StringIO(text), io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            exec(code, {"__name__": "__main__"})
    except SystemExit as ended:
        if ended.code not in (None, 0):
            continue
    except BaseException:
        continue
    printed[text] = output.getvalue()
json.dump(printed, sys.stdout)
"""


def with_printed(rubric: Rubric, answer: Answer | None) -> Answer | None:
    """The answer with what its program prints for the hidden inputs of a rubric, if it has any."""
    texts = hidden_inputs(rubric)
    source = program_of(answer) if answer is not None and texts else None
    if answer is None or source is None:
        return answer
    return answer.with_printed(_printed(source, texts))


@lru_cache(maxsize=32)  # noisy solvers often repair the same
def _printed(source: bytes, texts: tuple[str, ...]) -> Mapping[str, str]:
    """What a program prints for each text; nothing for one that ends with an error."""
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-S", "-W", "ignore", "-c", _RUNNER],
            input=json.dumps([source.decode("utf-8", "replace"), texts]).encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {}
    if ended.returncode != 0:  # it is no program
        return {}
    printed: dict[str, str] = json.loads(ended.stdout)
    return printed
