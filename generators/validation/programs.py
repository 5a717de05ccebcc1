"""Runs programs that a family makes itself: its solver, and what its key, guesses and attackers
answer where a program is asked for.

They are trusted, so one child process runs one after the other and imports libraries once.
Programs of models run in a sandbox (harness/episodes/hidden_tests.py).
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stdout
from functools import lru_cache

from generators.child_process import ChildLimits, run_in_child
from generators.errors import ChildLimitError
from generators.grading.answer import Answer
from generators.grading.programs import hidden_inputs, program_of
from generators.grading.rubric import Rubric

_SECONDS = 60
_MEMORY = 16_000_000_000


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
    except ChildLimitError:
        return {}


def run_trusted(
    source: str, texts: Sequence[str], seconds: int, folder: str = os.sep
) -> tuple[Mapping[str, str], str | None]:
    """Run a program in a folder, once with each text as its input: what it printed for those after
    which it ended well, and the last error. Raises ChildLimitError."""
    return run_in_child(ChildLimits(seconds, _MEMORY), _run, source, texts, folder).value()


def _run(source: str, texts: Sequence[str], folder: str) -> tuple[dict[str, str], str | None]:
    printed, error = {}, None
    try:
        code = compile(source, "program.py", "exec")
    except (SyntaxError, ValueError) as problem:
        return {}, str(problem)
    for text in texts:
        sys.stdin, output = io.StringIO(text), io.StringIO()
        try:
            with redirect_stdout(output), chdir(folder):
                exec(code, {"__name__": "__main__"})  # noqa: S102 - trusted
        except SystemExit as ended:
            if ended.code not in (None, 0):
                error = str(ended)
                continue
        except BaseException as problem:
            error = f"{type(problem).__name__}: {problem}"
            continue
        printed[text] = output.getvalue()
    return printed, error
