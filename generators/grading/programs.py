"""Checks of a program that an answer gives, by what it prints.

A check states a line of input and the right output. The program is run by others, who see the
input alone: the harness in a fresh sandbox (harness/episodes/hidden_tests.py), a validation here.
They put what was printed beside the answer, and the comparison is made with that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from generators.grading.answer import Answer
from generators.grading.rubric import Rubric

PROGRAM = "program"  # key of the block: the source; ``program_file`` names a file that holds it
MAX_PROGRAM_BYTES = 200_000
_FIELDS = "__dataclass_fields__"  # of a check


@dataclass(frozen=True, slots=True)
class Prints:
    """The program of the answer, given this text on its standard input, prints the expected text
    and ends without an error."""

    given: str
    expected: str

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check: not if the program was not run."""
        printed = answer.printed.get(self.given)
        return printed is not None and printed.strip() == self.expected


def hidden_inputs(rubric: Rubric) -> tuple[str, ...]:
    """The texts that the checks of a rubric give to the answer's program, each once."""
    seen: set[int] = set()
    found = (check.given for part in rubric.parts for check in _prints(part.check, seen))
    return tuple(dict.fromkeys(found))


def needs_runs(check: Any) -> bool:
    """Report if a check asks what a program prints."""
    return any(True for _ in _prints(check, set()))


def _prints(check: Any, seen: set[int]) -> Iterator[Prints]:
    """The check, or the checks inside it, that ask what a program prints; without those whose ids
    were seen before, since hundreds of parts share their gates."""
    if id(check) in seen:
        return
    seen.add(id(check))
    if isinstance(check, Prints):
        yield check
        return
    for name in getattr(check, _FIELDS, ()):
        value = getattr(check, name)
        if isinstance(value, tuple) and value and hasattr(value[0], _FIELDS):
            for each in value:  # and not the thousands of values of a list
                yield from _prints(each, seen)
        elif hasattr(value, _FIELDS):
            yield from _prints(value, seen)


def program_of(answer: Answer) -> bytes | None:
    """The source of the program that the answer gives, in the block or as a file; None if there
    is none, or if it is too large."""
    source = answer.block.get(PROGRAM)
    if isinstance(source, str):
        data: bytes | None = source.encode("utf-8", "replace")
    else:
        name = answer.block.get(f"{PROGRAM}_file")
        data = answer.read(name) if isinstance(name, str) else None
    return data if data is not None and len(data) <= MAX_PROGRAM_BYTES else None
