"""Paths into JSON and YAML values: a small JSONPath.

A path is ``$`` (may be left out) and steps:

=====================  ====================================================================
``.name``, ``name``    the value of a key; a name holds anything but ``.`` ``[`` ``]``
``['a.b']``            the same, for any key; double quotes work too
``[3]``, ``[-1]``      an item of a list, from 0; from its end
``[*]``                every item of a list; any other value stands for itself
``.*``                 every value of an object, every item of a list
``[?f>v]``             the items that pass
=====================  ====================================================================

A filter compares a field (a path into the item; ``@`` is the item itself) with a value, quoted
or not, by ``== != > < >= <= contains startswith endswith``; ``@.name`` alone asks whether the field
is there. Such tests are joined by ``and`` and ``or`` (or ``&&``, ``||``), ``and`` binding closer,
by ``!`` and parentheses. A field may end in ``.length`` or ``.indexOf('x')`` as in JavaScript.
A comparison is of numbers where the field is a
number (for the orders: or a text of one) and the value is one, else as texts; true, false and
null may be written so or as Python does. A field that is not there passes nothing, ``!=``
neither. A list contains its items, a text its parts.

That is the public implementation's language and what its pages promise of it beyond what it
does. Where it computes an answer, ours is the same, but for these, which it gets wrong: ``true``
is true, 5 equals 5.0, texts have an order (dates among them), more than one index may follow
a key, and a filter may stand anywhere in a path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from generators.errors import TemplateError, nearest
from generators.templates.functions.base import ORDERS, QUOTED, WORDS, closing_bracket, mask_quoted
from generators.templates.functions.numbers import number_of, to_number

MAX_PATH = 2_000  # characters
Kind = Literal["key", "index", "all", "values", "filter", "length", "position"]
Test = Callable[[Any], bool]
_MISSING = object()
_SHOWN = 20  # keys in an error

_OPERATOR = re.compile(r"(>=|<=|!=|==|>|<)|\s(contains|startswith|endswith)(?=[\s'\"])")
_POSITION = re.compile(r"""(.+)\.indexOf\(\s*('[^']*'|"[^"]*")\s*\)""")
_PRESENT = re.compile(r"""@(?:[^\s=!<>()&|'"]|'[^']*'|"[^"]*")*""")
_MOST_NESTED = 20  # parentheses of a filter
_JOIN = re.compile(r"\s(?:and|or)\s++|(?:&&|\|\|)\s*+")
_LITERALS: dict[Any, tuple[str, ...]] = {
    True: ("true", "True"),
    False: ("false", "False"),
    None: ("null", "None"),
}


@dataclass(frozen=True, slots=True)
class JsonComparison:
    """One comparison of a filter: a field of an item, a sign and a value; without a sign, the
    field has to be there."""

    text: str
    field: str
    steps: tuple[JsonStep, ...]  # to the field
    sign: str = ""
    value: str = ""

    def test(self) -> Test:
        """The test of an item."""
        compare = compare_with(self.sign, self.value) if self.sign else lambda _: True

        def test(item: Any) -> bool:
            for step in self.steps:
                item = _one(item, step)
                if item is _MISSING:
                    return False
            return compare(item)

        return test


@dataclass(frozen=True, slots=True)
class JsonStep:
    """One step: a key, an index, a filter's test, or nothing for those that take all."""

    kind: Kind
    name: str = ""
    index: int = 0
    test: Test | None = field(default=None, compare=False)  # a filter's name is its text
    comparisons: tuple[JsonComparison, ...] = field(default=(), compare=False)  # of the filter

    def __str__(self) -> str:
        """As a path has it."""
        forms = {"index": f"[{self.index}]", "all": "[*]", "values": ".*"}
        return forms.get(self.kind) or (f"[?{self.name}]" if self.test else f".{self.name}")

    @property
    def is_single(self) -> bool:
        """True if it leads to at most one value."""
        return self.kind not in ("all", "values", "filter")


@dataclass(frozen=True, slots=True)
class Path:
    """Steps, and how many of the first lead to one value each."""

    steps: tuple[JsonStep, ...]
    single: int

    @property
    def is_single(self) -> bool:
        """True if the whole path leads to one value."""
        return self.single == len(self.steps)

    def after(self, count: int) -> Path:
        """Rest of the path after its first ``count`` steps."""
        steps = self.steps[count:]
        single = next((i for i, step in enumerate(steps) if not step.is_single), len(steps))
        return Path(steps, single)

    @property
    def filters(self) -> bool:
        """True if the path has a filter."""
        return any(step.kind == "filter" for step in self.steps)


@lru_cache(maxsize=4096)
def compile_path(text: str) -> Path:
    """The steps of a path. Raises TemplateError that shows where it stops being one."""
    if len(text) > MAX_PATH:
        raise TemplateError(f"the path has {len(text)} characters; at most {MAX_PATH} are read")
    steps: list[JsonStep] = []
    at = 1 if text.startswith("$") else 0
    while at < len(text):
        if text[at] == "[":
            end = _closing(text, at)
            steps.append(_bracket(text[at + 1 : end].strip()))
            at = end + 1
        elif text[at] == "." and len(text) == at + 1 == 2 and text[0] == "$":
            break  # "$." is the whole, as in the public implementation
        else:
            step, at = _name(text, at)
            steps.append(step)
    return Path(tuple(steps), 0).after(0)


def follow(value: Any, steps: Sequence[JsonStep]) -> Any:
    """Return the value that single steps lead to. Raises TemplateError if a step leads nowhere."""
    for step in steps:
        step_value = _one(value, step)
        if step_value is _MISSING:
            raise TemplateError(_missing(value, step))
        value = step_value
    return value


def expand(values: list[Any], steps: Sequence[JsonStep]) -> list[Any]:
    """All values that steps lead to from these; those from where a step leads nowhere drop out."""
    for step in steps:
        if step.kind == "filter":
            test = step.test or bool
            values = [item for v in values if isinstance(v, list) for item in v if test(item)]
        elif step.kind == "all":
            values = [item for v in values for item in (v if isinstance(v, list) else (v,))]
        elif step.kind == "values":
            values = [item for v in values for item in _children(v)]
        else:
            reached = [_one(value, step) for value in values]
            values = [value for value in reached if value is not _MISSING]
    return values


def _children(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()


def _one(value: Any, step: JsonStep) -> Any:
    if step.kind == "position":
        if isinstance(value, str):
            return value.find(step.name)
        return value.index(step.name) if isinstance(value, list) and step.name in value else -1
    if step.kind in ("key", "length"):
        if not isinstance(value, dict):
            measured = step.kind == "length" and isinstance(value, str | list)
            return len(value) if measured else _MISSING
        if step.name in value:
            return value[step.name]
        # YAML has keys that are no texts: 2024, true
        return next((value[key] for key in value if str(key) == step.name), _MISSING)
    if isinstance(value, list) and -len(value) <= step.index < len(value):
        return value[step.index]
    return _MISSING


def _missing(value: Any, step: JsonStep) -> str:
    if step.kind == "key":
        if not isinstance(value, dict):
            return f"there is no key {step.name[:80]!r} in {name_kind(value)}"
        known = [str(key)[:40] for key in list(value)[:_SHOWN]]
        hint = nearest(step.name, known) if known else "the object is empty"
        return f"there is no key {step.name[:80]!r}; {hint}"
    if not isinstance(value, list):
        return f"there is no item {step.index} in {name_kind(value)}"
    return f"there is no item {step.index}: the list has {len(value)}"


def name_kind(value: Any) -> str:
    """Name the kind of a value in words: an object, a list, a text, a number…"""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool) or value is None:
        return "true, false or null"
    return "a number" if isinstance(value, (int, float)) else "a text"


def _closing(text: str, start: int) -> int:
    end = closing_bracket(mask_quoted(text), start)
    if end < 0:
        raise TemplateError(f"in the path, [ is not closed: {text[start:][:60]!r}")
    return end


def _name(text: str, at: int) -> tuple[JsonStep, int]:
    start = at + 1 if text[at] == "." else at
    if at > 0 and text[at] != ".":
        raise TemplateError(f"in the path, a step starts with . or [, not {text[at:][:60]!r}")
    end = start
    while end < len(text) and text[end] not in ".[]":
        end += 1
    name = text[start:end].strip()
    if not name:
        raise TemplateError(f"in the path, a name is missing at {text[at:][:60]!r}")
    return (JsonStep("values") if name == "*" else JsonStep("key", name)), end


def _bracket(inner: str) -> JsonStep:
    if inner == "*":
        return JsonStep("all")
    if inner.startswith("?"):
        text = inner[1:].strip()
        test, comparisons = _filter(text)
        return JsonStep("filter", text, test=test, comparisons=comparisons)
    if QUOTED.fullmatch(inner):
        return JsonStep("key", inner[1:-1])
    if re.fullmatch(r"-?[0-9]{1,9}", inner):
        return JsonStep("index", index=int(inner))
    raise TemplateError(
        f"in the path, [{inner[:60]}] is none of [0], [-1], [*], ['key'], [?field>value]"
    )


def _filter(text: str, depth: int = 0) -> tuple[Test, tuple[JsonComparison, ...]]:
    """The test of a filter, and the comparisons in it."""
    text = text.strip()
    if depth > _MOST_NESTED:
        raise TemplateError(f"the filter is nested deeper than {_MOST_NESTED}")
    parts = _joined(text)
    if len(parts) > 1:
        ways: list[list[Test]] = [[]]
        comparisons: list[JsonComparison] = []
        for word, written in parts:
            test, inside = _filter(written, depth + 1)
            comparisons += inside
            if word == "or":
                ways.append([])
            ways[-1].append(test)
        return lambda item: any(all(test(item) for test in way) for way in ways), tuple(comparisons)
    if text.startswith("!"):
        inner, inside = _filter(text[1:], depth + 1)
        return lambda item: not inner(item), inside
    if text.startswith("(") and text.endswith(")"):
        return _filter(text[1:-1], depth + 1)
    comparison = _comparison(text)
    return comparison.test(), (comparison,)


def _joined(text: str) -> list[tuple[str, str]]:
    """Each part of a filter outside of parentheses with the word that joins it to those before.

    A word between parts of which the second is no test belongs to a value, as in
    ``[?name==Research and Development]``.
    """
    masked, depth, letters = mask_quoted(text), 0, []
    for letter in masked:
        depth -= letter == ")" and depth > 0
        letters.append("\0" if depth else letter)
        depth += letter == "("
    joins = list(_JOIN.finditer("".join(letters)))
    ends = [*(join.start() for join in joins[1:]), len(text)]
    parts: list[tuple[str, int, int]] = [("and", 0, len(text))]
    for join, end in zip(joins, ends, strict=True) if joins else ():
        tested = masked.startswith(("@", "!", "(@", "(!"), join.end())
        if tested or _OPERATOR.search(masked, join.end(), end):
            word = "or" if join[0].strip() in ("or", "||") else "and"
            parts[-1] = (*parts[-1][:2], join.start())
            parts.append((word, join.end(), len(text)))
    return [(word, text[start:end]) for word, start, end in parts]


def _comparison(text: str) -> JsonComparison:
    match = _OPERATOR.search(mask_quoted(text))
    if match is None and _field_alone(text):
        return JsonComparison(text, text, _field(text))
    if match is None or not text[: match.start()].strip():
        raise TemplateError(
            f"the filter {text[:60]!r} compares nothing; write [?field==value], with one of "
            f"==, !=, {', '.join((*ORDERS, *WORDS)[2:])}"
        )
    field, value = text[: match.start()].strip(), text[match.end() :].strip()
    if QUOTED.fullmatch(value):
        value = value[1:-1]
    elif value.startswith("="):
        raise TemplateError(f"the filter {text[:60]!r} has no operator that is known")
    return JsonComparison(text.strip(), field, _field(field), match[1] or match[2], value)


def _field_alone(text: str) -> bool:
    sought = _POSITION.fullmatch(text)
    return _PRESENT.fullmatch(sought[1] if sought else text) is not None


def _field(text: str) -> tuple[JsonStep, ...]:
    sought = _POSITION.fullmatch(text)
    inner = sought[1] if sought else text
    path = compile_path("$" + inner[1:].lstrip() if inner.startswith("@") else inner)
    if not path.is_single:
        raise TemplateError(f"the field {text[:60]!r} of a filter may be more than one value")
    steps = path.steps
    if steps and steps[-1] == JsonStep("key", "length"):
        steps = (*steps[:-1], JsonStep("length", "length"))
    return (*steps, JsonStep("position", sought[2][1:-1])) if sought else steps


def compare_with(sign: str, value: str) -> Test:
    """Return the comparison of values with one that is written."""
    number = to_number(value)
    if sign in ("==", "!="):
        return lambda item: _equals(item, value, number) is (sign == "==")
    if sign in WORDS:
        word = WORDS[sign]
        return lambda item: _has(word, sign, item, value)
    order = ORDERS[sign]

    def test(item: Any) -> bool:
        item_number = number_of(item)
        if item_number is not None and number is not None:
            return order(item_number, number)
        plain = not isinstance(item, (dict, list, bool, int, float)) and item is not None
        return plain and item_number is None and number is None and order(str(item), value)

    return test


def _equals(item: Any, value: str, number: float | None) -> bool:
    if isinstance(item, bool) or item is None:
        return value in _LITERALS[item]
    if isinstance(item, (int, float)) and number is not None:
        return item == number
    return str(item) == value


def _has(word: Callable[[str, str], bool], sign: str, item: Any, value: str) -> bool:
    if isinstance(item, list):
        return sign == "contains" and any(_equals(one, value, to_number(value)) for one in item)
    return not isinstance(item, dict) and word(str(item), value)
