"""Comparison of an answer with a key, exact or lenient.

Exact comparison of JSON is by Python's types, as in the run folders that people have: 1, 1.0 and
true are three values; 1.0 and 1e0 are one, as are 0.0 and -0.0; NaN equals nothing, itself
included; of a key that is given twice the last value counts.

Lenient comparison forgives this, and nothing else:

1. **Code fences**: the content of a fenced block, or of back quotes round the whole, is an answer.
2. **Prose round a text**: so are the last line that is not blank; what follows a colon, an equals
   sign, ``is`` or ``are`` in it, to its end; and what is in bold, back quotes or double quotes
   where only one such value stands in the text. Where the key is a number, so is the only number
   in the text. A text that merely holds the key somewhere is not right.
3. **JSON inside other text**: where the key is an object, the last fenced block that is one and
   the last object in the text; for a list, likewise; for another value, the text by rule 2; and
   JSON written as a JSON string.
4. **Numbers**: compared within a relative 1e-6 or an absolute 1e-9, whichever is wider, so 5 and
   5.0 are one; true and false are no numbers.
5. **Numbers as text**: digits with thousands separators, a leading $ € £ or a trailing % count as
   the number; the words true and false, any case, as the truth value.
6. **Texts**: case, outer quotes and emphasis (double and single quotes, back quotes, asterisks,
   underlines), runs of white space, trailing ``. , ; : !`` and a byte order mark do not count.

Keys of objects, the order and length of lists, and what files there are stay exact. An answer of
more than 1 Mi characters, or one found in prose of which only the last 64 Ki are searched, is
looked for no further.
"""

from __future__ import annotations

import json
import math
import re
import string
from collections import deque
from collections.abc import Callable, Iterator
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
    """Deep equality with exact types; keys in any order, lists in theirs."""
    return _same(expected, actual, _same_scalar)


def _same(expected: Any, actual: Any, same_scalar: Callable[[Any, Any], bool]) -> bool:
    """Deep equality of JSON values of which the scalars are compared so. Recurses nowhere."""
    rest = [(expected, actual)]
    while rest:
        wanted, given = rest.pop()
        if isinstance(wanted, dict):
            if not isinstance(given, dict) or wanted.keys() != given.keys():
                return False
            rest += [(value, given[key]) for key, value in wanted.items()]
        elif isinstance(wanted, list):
            if not isinstance(given, list) or len(wanted) != len(given):
                return False
            rest += zip(wanted, given, strict=True)
        elif not same_scalar(wanted, given):
            return False
    return True


def differences(expected: Any, actual: Any, most: int = MOST_DIFFERENCES) -> list[str]:
    """List at most ``most`` differences of the two, from the top down: ``$.a[0]: …``."""
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


RELATIVE = 1e-6  # the tolerance of numbers that are not whole
_MOST_READ = 1 << 20
_MOST_SEARCHED = 1 << 16
_MOST_TRIES = 100  # at finding JSON in a text
_MOST_DIGITS = 64
_LONGEST_LINE = 4096  # characters at the end of the last line that are searched for an answer

_FENCE = re.compile(r"```[^\n`]*+\n((?:[^`]|`{1,2}[^`])*+)```")
_MARKED = (
    ("**", re.compile(r"\*\*([^*\n]+)\*\*")),
    ("`", re.compile(r"`([^`\n]+)`")),
    ('"', re.compile(r'"([^"\n]+)"')),
)
_LEAD = re.compile(r"(?:[:=]|\b(?:is|are))\s+", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?=\.?[0-9])(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?"
)
_IN_TEXT = re.compile(
    r"(?<![\w.,])[-+]?[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
    r"(?:\s?%|\s(?:per ?cent|thousand|million|billion)\b)?(?!\w|\.[0-9])"  # no unit is left out
)
_BRACKET = re.compile(r"[\[{]")
_DECODER = json.JSONDecoder()
_BEFORE = "\"'`*_" + string.whitespace
_AFTER = _BEFORE + ".,;:!"


def same_text_leniently(expected: str, text: str) -> bool:
    """True if a cleaned text states the expected answer, by rules 1, 2 and 4 to 6."""
    wanted = plain(expected)
    if wanted == "":  # nothing but signs, which then do count
        return text.strip() == expected.strip()
    number = None if set(wanted) & set("$€£") else as_number(wanted)  # a key keeps its unit
    return any(_same_plain(wanted, number, plain(answer)) for answer in _texts(text, number))


def same_json_leniently(expected: Any, text: str) -> bool:
    """True if a cleaned text contains the expected JSON value, by rules 1 and 3 to 6."""
    if any(same_value_leniently(expected, value) for value in json_values(text, type(expected))):
        return True
    spelt = isinstance(expected, str | int | float) and not isinstance(expected, bool)
    return spelt and same_text_leniently(str(expected), text)


def same_value_leniently(expected: Any, actual: Any) -> bool:
    """True if two JSON values are equal by rules 4 to 6."""
    return _same(expected, actual, _same_scalar_leniently)


def as_number(value: Any) -> int | float | None:
    """The number that a JSON scalar is or spells, an answer's with its currency; None for others: a
    text with a leading zero or a percent sign says more than a number does."""
    if value is None or isinstance(value, int | float):
        return None if isinstance(value, bool) else value
    text = str(value).strip() if len(value) <= _MOST_DIGITS else ""
    minus = text.startswith("-")
    text = text[text[:1] in ("-", "+") :].lstrip("$€£ ")
    if not _NUMBER.fullmatch(text) or re.match("0[0-9,]", text):
        return None
    digits = text.replace(",", "")
    number = int(digits) if digits.isdigit() else float(digits)
    return -number if minus else number


def same_number(wanted: int | float, given: int | float) -> bool:
    """True if two numbers are equal, those that are not whole within the tolerance."""
    whole = isinstance(wanted, int) or wanted.is_integer()
    # An integer may be larger than any float.
    close = not whole and abs(given) < 1e300 and math.isclose(wanted, given, rel_tol=RELATIVE)
    return close or wanted == given


def plain(text: str) -> str:
    """A text without what rule 6 forgives."""
    bare = text.removeprefix("\ufeff").rstrip(_AFTER).lstrip(_BEFORE)
    return " ".join(bare.split()).replace(" %", "%").casefold()


def _same_scalar_leniently(wanted: Any, given: Any) -> bool:
    if isinstance(given, dict | list):
        return False
    if isinstance(wanted, bool) or isinstance(given, bool):
        return _truth(wanted) is not None and _truth(wanted) == _truth(given)
    if wanted is None or given is None:
        return wanted is given
    if (one := as_number(wanted)) is not None and (other := as_number(given)) is not None:
        return same_number(one, other)
    return isinstance(wanted, str) and isinstance(given, str) and plain(wanted) == plain(given)


def _truth(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _same_plain(wanted: str, number: int | float | None, given: str) -> bool:
    if wanted == given:
        return True
    if number is None:
        return False
    other = as_number(given)
    return other is not None and same_number(number, other)


def _texts(text: str, number: int | float | None) -> Iterator[str]:
    """Yield the parts of a text that may be meant as the answer, the whole first."""
    if len(text) > _MOST_READ:
        return
    yield text
    tail = text[-_MOST_SEARCHED:]
    if "```" in tail:
        blocks = {block.strip() for block in _FENCE.findall(tail)}
        if len(blocks) == 1:
            yield blocks.pop()
    last = next((line for line in reversed(tail.splitlines()) if line.strip("` \t")), "")
    if last != text:
        yield last
    line = last[-_LONGEST_LINE:]
    yield from (line[lead.end() :] for lead in _LEAD.finditer(line))
    for sign, mark in _MARKED:
        if sign not in tail:
            continue
        marked = {plain(text) for text in mark.findall(tail)}
        if len(marked) == 1:
            yield marked.pop()
    if number is not None:
        numbers = {number.replace(",", "") for number in _IN_TEXT.findall(tail)}
        if len(numbers) == 1:
            yield numbers.pop()


def json_values(text: str, kind: type) -> Iterator[Any]:
    """The JSON values that may be meant as the answer, by rules 1 and 3; the whole first."""
    text = text.removeprefix("\ufeff").strip()
    if len(text) > _MOST_READ:
        return
    yield from _whole(text)
    if text[:1] == "`":
        yield from _whole(text.strip("`").strip())
    tail = text[-_MOST_SEARCHED:]
    if "```" in tail:
        blocks = [value for block in _FENCE.findall(tail) for value in _whole(block)]
        yield from [value for value in blocks if type(value) is kind][-1:]
    if kind in (dict, list):
        yield from [value for value in _inside(tail) if type(value) is kind][-1:]


def _whole(text: str) -> Iterator[Any]:
    """The value of a text that is JSON, and of the JSON that it may be the text of."""
    try:
        value = read_json(text)
        yield value
        if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            yield read_json(value)
    except NotJson:
        return


def _inside(text: str) -> list[Any]:
    """The objects and lists in a text; none if ``_MOST_TRIES`` tries do not reach its end."""
    values: list[Any] = []
    place = 0
    for _ in range(_MOST_TRIES):
        bracket = _BRACKET.search(text, place)
        if bracket is None:
            return values
        try:
            value, place = _DECODER.raw_decode(text, bracket.start())
            values.append(value)
        except (ValueError, RecursionError):
            place = bracket.end()
    return []
