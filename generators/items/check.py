"""The deterministic scores of given items, and the forms in which an answer may be written."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from math import isclose
from typing import Any

from generators.grading.answer import Answer
from generators.grading.checks import KeyPath, as_number, value_at
from generators.items.item import LETTERS

_LETTER = re.compile(r"[(\[*]*([A-Za-z])[)\].:*]*")
_LONGEST = 10_000  # characters of an answer that is held against a pattern
_NEAR = 1e-6  # of a number's size, or of 1 if that is more


@dataclass(frozen=True, slots=True)
class MatchesKey:
    """The value at the path is the key, by a score of ``items.item``: for ``choice`` the letter of
    the right choice or its text, for ``number`` within a millionth, for ``exact`` the same text but
    for blanks and Unicode's forms, for ``set`` the same elements in any order, for ``json`` the
    same value, for ``regex`` the whole text by the pattern. ``key`` is JSON."""

    path: KeyPath
    score: str
    key: str
    choices: tuple[str, ...] = ()

    def passes(self, answer: Answer) -> bool:
        """Report if the answer meets the check."""
        given, key = value_at(answer, self.path), json.loads(self.key)
        if given is None and key is not None:
            return False
        try:
            match self.score:
                case "choice":
                    return chosen(str(given), self.choices) == str(key)
                case "number":
                    number = number_of(given)
                    return number is not None and isclose(number, key, rel_tol=_NEAR, abs_tol=_NEAR)
                case "set":
                    return isinstance(given, list) and _counted(given) == _counted(key)
                case "json":
                    return _written(given) == _written(key)
                case "regex":
                    return matches(key, _text(given))
            return plain_text(_text(given)) == plain_text(str(key))
        except RecursionError:
            return False


def chosen(given: str, choices: tuple[str, ...]) -> str | None:
    """The choice that a text names by its letter, or by its own words; None if it names none."""
    text = plain_text(given)
    for choice in choices:
        if text == plain_text(choice):
            return choice
    if (letter := _LETTER.fullmatch(text)) is None:
        return None
    place = LETTERS.index(letter[1].upper())
    return choices[place] if place < len(choices) else None


def number_of(given: Any) -> float | None:
    """A number, or a text that is one in full; None for all else."""
    if isinstance(given, str) and len(given) < 100 and "_" not in given:
        try:
            given = float(given)
        except ValueError:
            return None
    number = as_number(given)
    return number if number is not None and abs(number) < float("inf") else None


def matches(pattern: str, text: str) -> bool:
    """Report if the whole of a text fits a pattern, in time that grows with its length only. Raises
    ValueError for a pattern that RE2 does not take."""
    import re2  # which few studies need

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.fullmatch(pattern, text[:_LONGEST], options) is not None
    except re2.error as error:
        raise ValueError(str(error)) from error


def plain_text(text: str) -> str:
    """A text in Unicode's form NFC, its blanks joined."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _counted(values: Any) -> Counter[str]:
    return Counter(map(_written, values))


def _written(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    """A JSON value in which equal numbers and equal texts are written alike."""
    match value:
        case bool() | None:
            return value
        case int() | float():
            return value if (number := as_number(value)) is None else number
        case str():
            return plain_text(value)
        case list():
            return [_plain(each) for each in value]
    return {plain_text(name): _plain(each) for name, each in value.items()}
