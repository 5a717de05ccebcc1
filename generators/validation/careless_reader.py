"""Answers falsified leaf by leaf: what a careless reader would hand in."""

from __future__ import annotations

from typing import Any

from generators.stream import Stream


def misread(value: Any, rate: float, draws: Stream) -> Any:
    """The answer with each of its readings falsified with probability ``rate``: its numbers,
    the identifiers of its items (under ``id`` or ``…_id``), and the names of files that hold
    more of it (under ``…_file``), which are all lost at once.

    Types are kept: a count is off by one or two (and not below zero), a measured number by a
    tenth of itself and a half or more, which is outside any tolerance that a rubric grants; an
    identifier or a name ends in another character. Other words stay as they are.
    """
    if isinstance(value, dict):
        return {
            key: _misspell(each, rate, draws)
            if isinstance(each, str) and (key == "id" or key.endswith(("_id", "_file")))
            else misread(each, rate, draws)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [misread(each, rate, draws) for each in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    wrong = _wrong(value, draws)  # drawn either way, so that one slip does not shift the next
    return wrong if draws.chance(rate) else value


def _wrong(value: float, draws: Stream) -> float:
    sign = draws.choice((-1, 1))
    if isinstance(value, int):
        shift = draws.integer(1, 2)
        return value + shift if sign > 0 or value < shift else value - shift
    return round(value + sign * draws.uniform(1.0, 2.0) * (0.5 + abs(value) / 10), 6)


def _misspell(text: str, rate: float, draws: Stream) -> str:
    others = [character for character in "0123456789" if character != text[-1:]]
    wrong = text[:-1] + draws.choice(others)
    return wrong if draws.chance(rate) else text
