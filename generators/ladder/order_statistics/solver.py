"""Answer the questions of questions.txt on the lists of lists.txt; write answer.json there.

A program of its own: reads the input files alone, with the standard library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

_QUESTIONS: tuple[tuple[str, Callable[[list[int], int], int]], ...] = (
    (
        r"the (?P<n>\d+)\w\w smallest number of list (?P<list>\w+)",
        lambda ordered, n: ordered[n - 1],
    ),
    (r"the (?P<n>\d+)\w\w largest number of list (?P<list>\w+)", lambda ordered, n: ordered[-n]),
    (r"the median of list (?P<list>\w+)", lambda ordered, _: ordered[len(ordered) // 2]),
    (r"the rank of (?P<n>\d+) in list (?P<list>\w+)", lambda ordered, n: ordered.index(n) + 1),
    (
        r"the range of list (?P<list>\w+) without the (?P<n>\d+) smallest.*",
        lambda ordered, n: ordered[-1 - n] - ordered[n],
    ),
)


def read_lists(text: str) -> dict[str, list[int]]:
    """The lists by name."""
    named = (line.split(": ") for line in text.splitlines())
    return {name: [int(number) for number in numbers.split()] for name, numbers in named}


def answer(question: str, lists: dict[str, list[int]]) -> int:
    """The answer to a question about lists that are sorted. Raises LookupError for one of no known
    kind."""
    for pattern, find in _QUESTIONS:
        if match := re.fullmatch(pattern, question):
            parts = match.groupdict()
            return find(lists[parts["list"]], int(parts.get("n", 0)))
    raise LookupError(question)


def solve(folder: Path) -> dict[str, object]:
    """The answer block for the files in the folder."""
    lists = read_lists((folder / "lists.txt").read_text(encoding="ascii"))
    ordered = {name: sorted(numbers) for name, numbers in lists.items()}
    asked = (folder / "questions.txt").read_text(encoding="ascii").splitlines()
    answers = []
    for line in asked:
        id, question = line.split(": ")
        answers.append({"id": id, "answer": answer(question, ordered)})
    return {"task": "order_statistics", "answers": answers}


if __name__ == "__main__":
    Path("answer.json").write_text(json.dumps(solve(Path())), encoding="utf-8")
