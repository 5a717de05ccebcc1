"""JSON as an answer: read without ever raising, compared with exact types, differences listed.

Exact means Python's types, as in the run folders that people have: 1, 1.0 and true are three
values; 1.0 and 1e0 are one, as are 0.0 and -0.0; NaN equals nothing, itself included; of a
key that is given twice the last value counts.
"""

from __future__ import annotations

import json
from collections import deque
from itertools import chain, islice
from typing import Any

MOST_JSON = 1 << 21  # characters
MOST_DIFFERENCES = 20  # that are listed
_MOST_SHOWN = 80  # characters of a value


class NotJson(ValueError):  # noqa: N818 - it says what the text is, and is always caught
    """A text that is no JSON value: says why."""


def read_json(text: str) -> Any:
    """The value of a text that is one JSON value and nothing else.

    Raises NotJson, also for what is longer than 2 Mi characters, nested deeper than the
    interpreter recurses (about 900 levels), or an integer of more than 4,300 digits.
    """
    if len(text) > MOST_JSON:
        raise NotJson(f"it is longer than {MOST_JSON:,} characters")
    try:
        return json.loads(text)
    except RecursionError:
        raise NotJson("it is nested too deep") from None
    except ValueError as error:
        raise NotJson(str(error)[:200]) from None


def same_json(expected: Any, actual: Any) -> bool:
    """Deep equality with exact types; keys in any order, lists in theirs. Recurses nowhere."""
    rest = [(expected, actual)]
    while rest:
        wanted, given = rest.pop()
        if type(wanted) is not type(given):
            return False
        if isinstance(wanted, dict):
            if wanted.keys() != given.keys():
                return False
            rest += [(value, given[key]) for key, value in wanted.items()]
        elif isinstance(wanted, list):
            if len(wanted) != len(given):
                return False
            rest += zip(wanted, given, strict=True)
        elif wanted != given:
            return False
    return True


def differences(expected: Any, actual: Any, most: int = MOST_DIFFERENCES) -> list[str]:
    """Where the two differ and how, at most so many, from the top down: ``$.a[0]: …``."""
    lines: list[str] = []
    rest = deque([] if _same_scalar(expected, actual) else [("$", expected, actual)])
    while rest and len(lines) < most:
        where, wanted, given = rest.popleft()
        if type(wanted) is not type(given) or not isinstance(wanted, dict | list):
            lines.append(f"{where}: expected {shown(wanted)}, found {shown(given)}")
        elif isinstance(wanted, dict):
            lines += _keys_apart(where, wanted, given, most)
            rest += [
                (f"{where}.{key}", value, given[key])
                for key, value in wanted.items()
                if key in given and not _same_scalar(value, given[key])
            ]
        else:
            if len(wanted) != len(given):
                lines.append(f"{where}: expected {len(wanted)} elements, found {len(given)}")
            rest += [
                (f"{where}[{place}]", value, other)
                for place, (value, other) in enumerate(zip(wanted, given, strict=False))
                if not _same_scalar(value, other)
            ]
    return lines[:most]


def _same_scalar(wanted: Any, given: Any) -> bool:
    return (
        type(wanted) is type(given)
        and not isinstance(wanted, dict | list)
        and bool(wanted == given)
    )


def _keys_apart(where: str, wanted: dict[str, Any], given: dict[str, Any], most: int) -> list[str]:
    lacking = (f"{where}.{key}: is missing" for key in wanted if key not in given)
    extra = (f"{where}.{key}: is extra" for key in given if key not in wanted)
    return list(islice(chain(lacking, extra), most))


def shown(value: Any) -> str:
    """A value in a message, short."""
    if isinstance(value, dict | list):
        kind = "an object of" if isinstance(value, dict) else "a list of"
        return f"{kind} {len(value)}"
    if isinstance(value, str):
        return json.dumps(value[:_MOST_SHOWN], ensure_ascii=False)
    return json.dumps(value)[:_MOST_SHOWN]
