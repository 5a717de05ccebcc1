"""Shortcuts that must not pay, and solvers that misread numbers."""

from __future__ import annotations

from functools import partial

from generators.attackers import Access, AnswerBlock, Attacker, Files, NoisySolver
from generators.ladder.answers import answer_block, question_ids
from generators.ladder.order_statistics.parameters import (
    BY_DIFFICULTY,
    LISTS,
    NAME,
    QUESTIONS,
    Parameters,
)
from generators.ladder.order_statistics.solver import answer, read_lists
from generators.stream import Stream

Lists = dict[str, list[int]]

# Probability that a number of a list is misread, by solver.
_MISREAD = (0.025, 0.085, 0.17, 0.3)


def guess_middle(files: Files) -> AnswerBlock:
    """The middle of the range of numbers to every question: the size of the lists gives away the
    level, and so the range."""
    size = len(files[LISTS])
    level = min(BY_DIFFICULTY.values(), key=lambda level: abs(_size_of_lists(level) - size))
    return answer_block(
        NAME, ((id, (level.low + level.high) // 2) for id in question_ids(level.questions))
    )


def _size_of_lists(level: Parameters) -> int:
    return level.questions * level.length * len(f"{level.high} ")


def skip_sorting(files: Files) -> AnswerBlock:
    """Answers on the lists in the order that they stand in."""
    return _answers(files, read_lists(files[LISTS].decode()))


def misread(probability: float, files: Files, draws: Stream) -> AnswerBlock:
    """Answers on lists of which each number is passed over or has a digit wrong with the
    probability, as likely the one as the other."""
    read = {
        name: sorted(seen for number in numbers if (seen := _read(number, probability, draws)))
        for name, numbers in read_lists(files[LISTS].decode()).items()
    }
    return _answers(files, read)


def _read(number: int, probability: float, draws: Stream) -> int | None:
    if not draws.chance(probability):
        return number
    if draws.chance(0.5):
        return None
    digits = list(str(number))
    place = draws.integer(0, len(digits) - 1)
    digits[place] = draws.choice([digit for digit in "123456789" if digit != digits[place]])
    return int("".join(digits))


def _answers(files: Files, lists: Lists) -> AnswerBlock:
    """Answers to all questions that these lists have an answer to."""
    answers = []
    for line in files[QUESTIONS].decode().splitlines():
        id, question = line.split(": ")
        try:
            answers.append((id, answer(question, lists)))
        except (LookupError, ValueError):  # a number that is missing
            continue
    return answer_block(NAME, answers)


ATTACKERS = (
    Attacker("middle of the range", Access.METADATA, guess_middle),
    Attacker("lists not sorted", Access.STEP_SKIPPED, skip_sorting),
)
NOISY = tuple(
    NoisySolver(f"misreads {probability:.1%} of the numbers", partial(misread, probability))
    for probability in _MISREAD
)
