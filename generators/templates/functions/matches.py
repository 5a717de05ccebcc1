"""What paths, filters and compared literals meet in a file, for the check of a template."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from generators.templates.functions.base import QUOTED, Kind, Match, closing_bracket, mask_quoted
from generators.templates.functions.json_path import (
    JsonComparison,
    JsonStep,
    compare_with,
    compile_path,
    expand,
)
from generators.templates.functions.numbers import number_of, to_number

if TYPE_CHECKING:
    from generators.templates.functions.xpath import XmlDocument

MOST_KNOWN = 60  # names or values that are kept of one file
_EQUAL = ("==", "=", "!=", "<>")
_ORDERS = (">", "<", ">=", "<=")
_SIZES = ("length", "size", "count")

Test = Callable[[Any], bool]


def match_comparison(
    part: str, sign: str, literal: str, values: Sequence[Any], test_of: Callable[[str, str], Test]
) -> Match:
    """What a comparison meets among the values of a column or field. ``test_of`` makes the test of
    a sign and a literal."""
    passes = test_of("==" if sign in _EQUAL else sign, literal)
    met = sum(map(passes, values))
    kind: Kind = "literal" if sign in _EQUAL else "range" if sign in _ORDERS else "filter"
    known = () if met else ends_of(values) if kind == "range" else _some(values)
    return Match(kind, part, met, len(values), literal, known=known)


def match_numbers(part: str, values: Sequence[Any]) -> Match:
    """How many of the values are numbers."""
    met = sum(number_of(value) is not None for value in values)
    return Match("number", part, met, len(values), "", known=() if met else _some(values)[:3])


def ends_of(values: Iterable[Any]) -> tuple[str, ...]:
    """The least and the greatest of the values, as texts; nothing of none."""
    plain = [str(value) for value in values if not isinstance(value, dict | list)]
    numbers = [(number, text) for text in plain if (number := to_number(text)) is not None]
    if numbers:
        return min(numbers)[1], max(numbers)[1]
    return (min(plain), max(plain)) if plain else ()


def _some(values: Iterable[Any]) -> tuple[str, ...]:
    plain = (str(value) for value in values if not isinstance(value, dict | list))
    return tuple(sorted(set(plain))[:MOST_KNOWN])


# --- JSON and YAML


def match_json(path: str, value: Any) -> Iterator[Match]:
    """What each step of a path meets, and each comparison of its filters."""
    values, written = [value], "$"
    for step in compile_path(path).steps:
        written += str(step)
        if step.kind == "filter":
            items = [item for one in values if isinstance(one, list) for item in one]
            for comparison in step.comparisons:
                yield from _match_field(comparison, items)
            values = expand(values, (step,))
            if len(step.comparisons) > 1:
                yield Match("filter", f"[?{step.name}]", len(values), len(items))
        else:
            reached = expand(values, (step,))
            yield _match_step(written, step, values, len(reached))
            values = reached


def _match_step(written: str, step: JsonStep, holders: Sequence[Any], met: int) -> Match:
    known: tuple[str, ...] = ()
    remedy = ""
    if not met and step.kind == "key":
        known = _some(key for one in holders if isinstance(one, dict) for key in one)
        if step.name in _SIZES and any(isinstance(one, list | str) for one in holders):
            remedy = (
                f"a list has no .{step.name} here: compare .length in a filter, or count one list "
                "with json_count"
            )
        elif any(isinstance(one, list) for one in holders):
            remedy = f"a list stands there: write [*] or [0] before .{step.name}"
    return Match("path", written, met, len(holders), step.name, known=known, remedy=remedy)


def _match_field(comparison: JsonComparison, items: Sequence[Any]) -> Iterator[Match]:
    reached = list(items)
    for step in comparison.steps:
        holders, reached = reached, expand(reached, (step,))
        yield _match_step(comparison.field, step, holders, len(reached))
    if comparison.sign:
        yield match_comparison(
            comparison.text, comparison.sign, comparison.value, reached, compare_with
        )


# --- XML

_JOIN = re.compile(r"\s(?:and|or)\s")
_NAMES = re.compile(r"@?(?<![\w.-])[A-Za-z_][\w.-]*+(?!\s*+\()")
_SIGN = re.compile(r"(?:!=|<=|>=|=|<|>)")
_DEPTHS = {"[": 1, "(": 1, "]": -1, ")": -1}
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_WORDS = ("and", "or")


def match_xml(path: str, document: XmlDocument) -> Iterator[Match]:
    """What each step of a path meets, and each condition of its predicates."""
    masked, before = mask_quoted(path), 1
    known = _names_in(document)
    for at, depth, letter in _depths(masked):
        prefix = path[:at].strip()
        if depth or letter not in "[/" or not prefix.strip("/. "):
            continue
        met = len(document.select(prefix))
        if not prefix.endswith(("/", "]")):
            yield _match_names(prefix, prefix.rpartition("/")[2], met, before, known)
        before = met
        if letter == "[":
            end = closing_bracket(masked, at)
            yield from _match_predicate(document, prefix, path[at + 1 : end], met, known)
    met = len(document.select(path))
    if path.endswith("]"):
        yield Match("filter", path, met, before)
    else:
        yield _match_names(path, path.rpartition("/")[2], met, before, known)


def _match_names(part: str, name: str, met: int, of: int, known: tuple[str, ...]) -> Match:
    sought = next((one for one in _names(name) if one not in known), "")
    like = tuple(one for one in known if one.startswith("@") == sought.startswith("@"))
    return Match("path", part, met, of, sought, known=like if sought and not met else ())


def _match_predicate(
    document: XmlDocument, prefix: str, inner: str, of: int, known: tuple[str, ...]
) -> Iterator[Match]:
    for piece in _pieces(inner):
        masked = mask_quoted(piece)
        sign = _SIGN.search(masked)
        if sign is None or "(" in masked[: sign.start()]:
            met = len(document.select(f"{prefix}[{piece}]"))
            yield Match("filter", f"{prefix}[{piece}]", met, of)
            continue
        field, literal = piece[: sign.start()].strip(), piece[sign.end() :].strip()
        yield from _match_condition(document, prefix, (field, sign[0], literal), of, known)


def _match_condition(
    document: XmlDocument,
    prefix: str,
    condition: tuple[str, str, str],
    of: int,
    known: tuple[str, ...],
) -> Iterator[Match]:
    """Of a condition that compares: its field, and then its literal."""
    field, sign, literal = condition
    have = len(document.select(f"{prefix}[{field}]"))
    yield _match_names(f"{prefix}[{field}]", field, have, of, known)
    equal = sign in _EQUAL
    written = f"{prefix}[{field} {'=' if equal else sign} {literal}]"
    met = len(document.select(written))
    quoted = QUOTED.fullmatch(literal)
    if not quoted and not _NUMBER.fullmatch(literal):
        yield Match("filter", written, met, have)
        return
    texts: list[str] = []
    if not met and have:
        texts = document.texts(f"{prefix}/{field}")
    part = f"{field} {sign} {literal}"
    bare = literal[1:-1] if quoted else literal
    yield Match(
        "literal" if equal else "range",
        part,
        met,
        have,
        bare,
        known=_some(texts) if equal else ends_of(texts),
    )


def _depths(masked: str) -> Iterator[tuple[int, int, str]]:
    depth = 0
    for at, letter in enumerate(masked):
        yield at, depth, letter
        depth += _DEPTHS.get(letter, 0)


def _pieces(inner: str) -> Iterator[str]:
    """The conditions between ``and`` and ``or``."""
    masked, start = mask_quoted(inner), 0
    flat = "".join(
        letter if depth == 0 and letter not in "[(" else "\0"
        for _, depth, letter in _depths(masked)
    )
    for join in _JOIN.finditer(flat):
        yield inner[start : join.start()].strip()
        start = join.end()
    yield inner[start:].strip()


def _names(text: str) -> list[str]:
    names = _NAMES.findall(mask_quoted(text).replace("text()", ""))
    return [name for name in names if name not in _WORDS]


def _names_in(document: XmlDocument) -> tuple[str, ...]:
    names: dict[str, None] = {}
    root: Any = document.root.value
    for element in root.iter():
        if isinstance(element.tag, str):
            names[element.tag.rpartition("}")[2]] = None
        names.update((f"@{name.rpartition('}')[2]}", None) for name in element.attrib)
    return tuple(names)[:MOST_KNOWN]
