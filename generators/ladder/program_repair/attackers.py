"""Shortcuts past the repair, and repairers that overlook faults.

A search for an edit of one token is the repair itself, however few examples it looks at: one that
meets the first example that fails is mostly the right one (docs/ladder.md has its score).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

from generators.attackers import Access, Attacker, Files, NoisySolver
from generators.ladder.program_repair.parameters import EXAMPLES, PROGRAM_FILE
from generators.ladder.program_repair.rubric import make_answer
from generators.ladder.program_repair.sample import iterate_calls
from generators.ladder.program_repair.solver import read_examples, repairs, split_functions
from generators.stream import Stream

_FEW, _MANY = 4, 20  # functions of a program: faults are found as well as can be in a few

_TABLE = """\
import sys
KNOWN = {known}
line = sys.stdin.readline().strip()
if line in KNOWN:
    print(KNOWN[line])
    sys.exit()
import io
sys.stdin = io.StringIO(line)
"""

_MAIN = 'if __name__ == "__main__":\n'
_SHIFTED = """\
def shifted(function, difference):
    def call(values):
        result = function(values)
        if isinstance(result, list):
            return [one + other for one, other in zip(result, difference)]
        return result + difference
    return call


"""


def leave_unrepaired(files: Files) -> dict[str, Any]:
    """The program as it is."""
    return make_answer(_program(files))


def hard_code_examples(files: Files) -> dict[str, Any]:
    """The results of the examples in a table before the program as it is."""
    known = {call.given: call.printed for call in iterate_calls(files[EXAMPLES].decode())}
    return make_answer(_TABLE.format(known=json.dumps(known)) + _program(files))


def shift_results(files: Files) -> dict[str, Any]:
    """To what a function returns the difference is added that meets the first example that fails;
    to a list, number by number."""
    source = _program(files)
    space: dict[str, Any] = {}
    exec(source, space)  # noqa: S102 - made of the building blocks
    shifts: dict[str, str] = {}
    for name, examples in read_examples(files[EXAMPLES].decode()).items():
        for argument, right in examples:
            wrong = space[name](argument)
            if wrong != right and name not in shifts:
                shift = f'shifted(FUNCTIONS["{name}"], {_difference(right, wrong)})'
                shifts[name] = f'FUNCTIONS["{name}"] = {shift}\n'
    return make_answer(source.replace(_MAIN, _SHIFTED + "".join(shifts.values()) + _MAIN))


def _difference(right: Any, wrong: Any) -> Any:
    """What is added to the wrong result, a number or a list; zeros for what is no number."""
    if isinstance(right, list):
        return [_difference(one, other) for one, other in zip(right, wrong, strict=False)]
    return right - wrong if isinstance(wrong, int) else 0


def repair_some(overlooked: float, files: Files, draws: Stream) -> dict[str, Any]:
    """Each fault is left with probability ``overlooked``, and with more in a long program."""
    source = _program(files)
    functions = len(split_functions(source))
    chance = (1 - overlooked) ** (1 + max(0, functions - _FEW) / _MANY)
    for wrong, right in _repairs(source, files[EXAMPLES].decode()).values():
        if draws.chance(chance):
            source = source.replace(wrong, right)
    return make_answer(source)


@lru_cache(maxsize=4)  # of an instance, at which each of its repairers looks
def _repairs(source: str, examples: str) -> Mapping[str, tuple[str, str]]:
    return repairs(source, read_examples(examples))


def _program(files: Files) -> str:
    return files[PROGRAM_FILE].decode("ascii")


ATTACKERS = (
    Attacker("program left as it is", Access.TABLES, leave_unrepaired),
    Attacker("examples hard-coded", Access.TABLES, hard_code_examples),
    Attacker("results shifted to meet an example", Access.TABLES, shift_results),
)
NOISY = tuple(
    NoisySolver(f"{percent} % of faults overlooked", partial(repair_some, percent / 100))
    for percent in (10, 30, 50, 70)
)
