"""No truth in the inputs: a number that is to be derived is not written where it can be read.

Numbers of five digits or more meet by chance in large files. So a column of the truth is
suspect only where its values stand in the prompt and files of their own instance clearly more
often than in those of another one; a value that every instance states is a constant, no leak.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from generators.family import PNG_NOTES, png_chunks
from generators.task import Brief, Family, GroundTruth, StatesInputs, TaskInstance

DIGITS = 5  # significant digits that make a number telling
# A large file may hold most numbers of five digits: a leak to more then shows by itself.
FLOORS = (DIGITS, 7, 9)
LEAK_EXCESS = 0.1  # share of a column's values found in own inputs beyond those found in others'
_LEAK_DEVIATIONS = 4.0
LEAK_INSTANCES = 20

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

Written = Mapping[int, frozenset[str]]  # significant digits → the numbers written with that many


@dataclass(slots=True)
class _Tally:
    """Number of a column's values: all, found in their own inputs, found in another's."""

    total: int = 0
    in_own: int = 0
    in_other: int = 0

    @property
    def suspect(self) -> bool:
        pooled = (self.in_own + self.in_other) / 2 / self.total
        chance = math.sqrt(2 * pooled * (1 - pooled) / self.total)
        excess = (self.in_own - self.in_other) / self.total
        return excess > max(LEAK_EXCESS, _LEAK_DEVIATIONS * chance)


@dataclass(slots=True)
class LeakSearch:
    """Watches the instances of one stratum go by, each against the inputs of the one before."""

    family: Family
    _columns: dict[tuple[str, int], _Tally] = field(default_factory=dict)
    _before: Written | None = None
    _first: tuple[TaskInstance, Written] | None = None
    _notes: set[str] = field(default_factory=set)

    def add(self, instance: TaskInstance) -> None:
        """Count what an instance shares with the one before it."""
        written = written_numbers(brief_texts(instance.brief))
        self._notes |= set(hidden_notes(instance.brief))
        if self._before is None:
            self._first = (instance, written)
        else:
            self._count(instance, written, self._before)
        self._before = written

    def leaks(self) -> tuple[str, ...]:
        """Return the leaks, a line each. The first instance is compared with the last."""
        if self._first is not None and self._before is not self._first[1]:
            assert self._before is not None  # noqa: S101 - there is a first
            self._count(*self._first, self._before)
            self._first = None
        return (*self._suspects(), *sorted(self._notes))

    def _suspects(self) -> Iterator[str]:
        suspect: dict[str, str] = {}
        for (column, floor), tally in self._columns.items():
            if tally.suspect:
                suspect[column] = f"{tally.in_own} of {tally.total}, to {floor} digits or more"
        for column, how in suspect.items():
            yield f"values of {column} stand in the inputs ({how})"

    def _count(self, instance: TaskInstance, inputs: Written, other_inputs: Written) -> None:
        for column, value in telling_numbers(instance.truth, given_columns(self.family)):
            here, there = _longest_match(value, inputs), _longest_match(value, other_inputs)
            for floor in FLOORS:
                tally = self._columns.setdefault((column, floor), _Tally())
                tally.total += 1
                tally.in_own += here >= floor
                tally.in_other += there >= floor


def _longest_match(value: float, written: Written) -> int:
    """Largest number of digits to which the value is among the numbers; 0 if to none."""
    lengths = (length for length, those in written.items() if significand(value, length) in those)
    return max(lengths, default=0)


def given_columns(family: Family) -> frozenset[str]:
    """The columns of the truth, as ``table.column``, that input files state by design."""
    return frozenset(family.given) if isinstance(family, StatesInputs) else frozenset()


def telling_numbers(
    truth: GroundTruth, given: frozenset[str] = frozenset()
) -> Iterator[tuple[str, float]]:
    """The measured numbers of the truth with five significant digits or more, by column."""
    for name, table in truth.tables:
        for index, column in enumerate(table.columns):
            if f"{name}.{column}" not in given:
                for value in {row[index] for row in table.rows}:
                    if isinstance(value, float) and len(_digits(repr(value))) >= DIGITS:
                        yield f"{name}.{column}", value


def brief_texts(brief: Brief) -> Iterator[str]:
    """All that can be read as text: prompt, names of files, files that are not pictures."""
    yield brief.prompt
    for asset in brief.assets:
        yield asset.path
        if not asset.media_type.startswith("image/"):
            yield asset.data.decode("utf-8", "replace")


def written_numbers(texts: Iterable[str]) -> Written:
    """The numbers of five significant digits or more, without sign and power of ten."""
    by_length: dict[int, set[str]] = {}
    for text in texts:
        for number in _NUMBER.findall(text):
            digits = _digits(number)
            if len(digits) >= DIGITS:
                by_length.setdefault(len(digits), set()).add(digits)
    return {length: frozenset(numbers) for length, numbers in by_length.items()}


def significand(value: float, digits: int) -> str:
    """Return the value rounded to ``digits`` significant digits, without sign and power of ten."""
    return f"{abs(value):.{digits - 1}e}".split("e")[0].replace(".", "")


def hidden_notes(brief: Brief) -> Iterator[str]:
    """PNG files that carry text, a time or camera data."""
    for asset in brief.assets:
        if asset.media_type == "image/png":
            for kind, _ in png_chunks(asset.data):
                if kind in PNG_NOTES:
                    yield f"PNG files carry {kind.decode()} chunks"


def _digits(number: str) -> str:
    return number.lower().split("e")[0].replace(".", "").lstrip("-0")
