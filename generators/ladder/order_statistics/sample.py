"""Draws: the lists and the questions; how both are written; their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from generators.ladder.answers import question_ids
from generators.ladder.names import draw_name
from generators.ladder.order_statistics.parameters import (
    LARGEST,
    MEDIAN,
    RANGE,
    RANK,
    SMALLEST,
    Parameters,
)
from generators.seed import Streams
from generators.stream import Stream
from generators.task import GroundTruth, TruthTable


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a list: ``argument`` is the place asked for, the number whose rank is, or
    how many numbers are left out at each end; 0 for the median."""

    name: str  # of the list
    numbers: tuple[int, ...]
    kind: str
    argument: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The questions in order, the places of their lists in the file, and the draws refused."""

    questions: tuple[Question, ...]
    order: tuple[int, ...]
    redraws: int


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Kinds come in turn, so that every instance has its share of each."""
    kinds = streams.at("kinds").shuffle(parameters.kinds)
    asked = streams.at("turns").shuffle(range(parameters.questions))
    questions, redraws = [], 0
    for index, turn in enumerate(asked):
        numbers = _distinct(parameters, streams.at("numbers", index))
        name, attempt = draw_name(streams, index)
        kind = kinds[turn % len(kinds)]
        argument = _argument(kind, parameters, numbers, streams.at("argument", index))
        questions.append(Question(name, numbers, kind, argument))
        redraws += attempt
    return Sample(tuple(questions), streams.at("order").shuffle(range(len(questions))), redraws)


def _distinct(parameters: Parameters, stream: Stream) -> tuple[int, ...]:
    """Different numbers in the order drawn; a number that is there already is passed over."""
    numbers: dict[int, None] = {}
    while len(numbers) < parameters.length:
        numbers[stream.integer(parameters.low, parameters.high)] = None
    return tuple(numbers)


def _argument(kind: str, parameters: Parameters, numbers: Sequence[int], stream: Stream) -> int:
    if kind == RANK:
        return stream.choice(numbers)
    if kind == RANGE:
        return stream.integer(1, parameters.most_trimmed)
    return stream.integer(1, parameters.length) if kind in (SMALLEST, LARGEST) else 0


_ANSWERS: dict[str, Callable[[list[int], int], int]] = {
    SMALLEST: lambda ordered, place: ordered[place - 1],
    LARGEST: lambda ordered, place: ordered[-place],
    MEDIAN: lambda ordered, _: ordered[len(ordered) // 2],
    RANK: lambda ordered, number: ordered.index(number) + 1,
    RANGE: lambda ordered, trimmed: ordered[-1 - trimmed] - ordered[trimmed],
}


def answer_to(question: Question) -> int:
    """The answer that is right."""
    return _ANSWERS[question.kind](sorted(question.numbers), question.argument)


_TEXTS = {
    SMALLEST: "the {} smallest number of list {}",
    LARGEST: "the {} largest number of list {}",
    MEDIAN: "the median of list {1}",
    RANK: "the rank of {} in list {}",
    RANGE: "the range of list {1} without the {0} smallest and the {0} largest",
}


def question_text(question: Question) -> str:
    """The question as the file states it."""
    counted = question.kind in (SMALLEST, LARGEST)
    argument = ordinal(question.argument) if counted else str(question.argument)
    return _TEXTS[question.kind].format(argument, question.name)


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th and so on; below 111."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if 11 <= number <= 13 else endings.get(number % 10, 'th')}"


def write_lists(sample: Sample) -> bytes:
    """A line for each list."""
    lists = (sample.questions[place] for place in sample.order)
    lines = (f"{each.name}: {' '.join(map(str, each.numbers))}\n" for each in lists)
    return "".join(lines).encode()


def write_questions(sample: Sample) -> bytes:
    """A line for each question."""
    ids = question_ids(len(sample.questions))
    asked = zip(ids, sample.questions, strict=True)
    return "".join(f"{id}: {question_text(question)}\n" for id, question in asked).encode()


def make_truth(sample: Sample) -> GroundTruth:
    """Table ``questions`` (id, list, question, answer)."""
    ids = question_ids(len(sample.questions))
    rows = tuple(
        (id, question.name, question_text(question), answer_to(question))
        for id, question in zip(ids, sample.questions, strict=True)
    )
    return GroundTruth((("questions", TruthTable(("id", "list", "question", "answer"), rows)),))
