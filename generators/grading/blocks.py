"""Answer blocks in a text: as the task asks for them, or after a repair of the list REPAIRS."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

REPAIRS: Mapping[str, str] = MappingProxyType(
    {
        "tag_form": "a tag is not alone on its line, or not plain: `<ANSWER>`, `**<answer>**`, "
        "`` `<answer>` ``, `< answer >`, `\\<answer\\>`, `&lt;answer&gt;`",
        "tag_unclosed": "no closing tag follows: the object ends at the next opening tag or with "
        "the message",
        "tag_missing": "no tag holds an object: the message ends with one that begins a line, or "
        "has one in a code fence",
        "fence": "a code fence stands around the object, within the tags or in the file",
        "trailing_comma": "a comma stands before a closing bracket",
    }
)
"""The departures from the form of an answer that are read all the same. Nothing else is."""

_TAG_LINE = re.compile(r"^[ \t]*<(/?)answer>[ \t]*\r?$", re.M)
_TAG = re.compile(r"<(/?)answer>")
_ANY_TAG = re.compile(r"(?:<|&lt;) ?(/?) ?answer ?(?:\\?>|&gt;)(?:[*_]{1,3}|`(?!`))?", re.I)
_FENCE_LINE = re.compile(r"^[ \t]*```[^`\n]*$", re.M)
# A comma before a closing bracket, and all up to the next one: texts in quotes are whole.
_REST_OR_COMMA = re.compile(r'((?:[^",]++|"(?:[^"\\]|\\.)*+"?+|,(?!\s*+[}\]]))++)|,', re.S)

MAX_TRIED = 1000  # places at which an object is looked for by repairs: the last ones
MAX_COMMAS = 10_000  # trailing ones in a block


@dataclass(frozen=True, slots=True)
class AnswerBlock:
    """One JSON object and the names of the repairs without which it could not be read."""

    value: Mapping[str, Any]
    repairs: tuple[str, ...] = ()


def find_block(text: str) -> AnswerBlock | None:
    """The answer block of a message, None if it has none.

    Four readings are tried in turn, and within each the last object counts: between tags on lines
    of their own; between tags within lines; between tags of any form, or after one that is not
    closed, with trailing commas; without tags. So no repair changes what is read of a text that
    has a well-formed block. Time is linear in the text. Never raises.
    """
    for read in (_between_tag_lines, _between_tags, _between_any_tags, _without_tags):
        if (block := next(read(text), None)) is not None:
            return block
    return None


def _between_tag_lines(text: str) -> Iterator[AnswerBlock]:
    yield from _blocks_in(text, _closed_spans(_TAG_LINE, text), read_object)


def _between_tags(text: str) -> Iterator[AnswerBlock]:
    for block in _blocks_in(text, _closed_spans(_TAG, text), read_object):
        yield AnswerBlock(block.value, ("tag_form", *block.repairs))


def _closed_spans(tag: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    """Return the text between each closing tag and the nearest opening one before it."""
    spans = []
    start: int | None = None
    for match in tag.finditer(text):
        if not match[1]:
            start = match.end()
        elif start is not None:
            spans.append((start, match.start()))
            start = None
    return spans


def _blocks_in(
    text: str, spans: list[tuple[int, int]], read: Callable[[str], AnswerBlock | None]
) -> Iterator[AnswerBlock]:
    for start, end in reversed(spans):
        if (block := read(text[start:end])) is not None:
            yield block


def _between_any_tags(text: str) -> Iterator[AnswerBlock]:
    tags: list[re.Match[str] | None] = [*deque(_ANY_TAG.finditer(text), MAX_TRIED), None]
    for tag, following in reversed(list(pairwise(tags))):
        if tag is None or tag[1]:
            continue
        inner = text[tag.end() : following.start() if following else None]
        if (block := mend_object(_without_marks(inner))) is not None:
            unclosed = following is None or not following[1]
            formed = _is_tag_line(text, tag) and (unclosed or _is_tag_line(text, following))
            repairs = ("tag_form",) * (not formed) + ("tag_unclosed",) * unclosed
            yield AnswerBlock(block.value, repairs + block.repairs)


def _without_marks(inner: str) -> str:
    """Remove the marks that stand before the tag which ends this text, but no code fence."""
    inner = inner.rstrip("*_\\")
    return inner[:-1] if inner.endswith("`") and not inner.endswith("``") else inner


def _is_tag_line(text: str, tag: re.Match[str] | None) -> bool:
    if tag is None:
        return False
    begin, end = text.rfind("\n", 0, tag.start()) + 1, text.find("\n", tag.end())
    return _TAG_LINE.fullmatch(text[begin : end if end >= 0 else None]) is not None


def _without_tags(text: str) -> Iterator[AnswerBlock]:
    """The object that ends the message and begins a line; else the last one in a code fence."""
    first = 0 if text.startswith("{") else text.find("\n{") + 1
    fences = deque((match.span() for match in _FENCE_LINE.finditer(text)), MAX_TRIED)
    inner = [(one[1], other[0]) for one, other in pairwise((*fences, (len(text), len(text))))]
    begins = (first, text.rfind("\n{") + 1)
    ending = ((begin, len(text)) for begin in begins)
    for start, end in (*ending, *reversed(inner)):
        if (block := mend_object(text[start:end])) is not None:
            yield AnswerBlock(block.value, ("tag_missing", *block.repairs))


def mend_object(text: str) -> AnswerBlock | None:
    """One JSON object, as ``read_object`` reads it or else without its trailing commas; None if
    it is not valid either way. Never raises."""
    body, repairs = _strip_fence(text)
    if (value := _parse(body)) is not None:
        return AnswerBlock(value, repairs)
    if "," not in body or not _may_be_object(body):
        return None
    value = _parse(_REST_OR_COMMA.sub(r"\1", body, 2 * MAX_COMMAS))
    return None if value is None else AnswerBlock(value, (*repairs, "trailing_comma"))


def read_object(text: str) -> AnswerBlock | None:
    """One JSON object, alone or in a code fence; None if it is not valid. Never raises."""
    body, repairs = _strip_fence(text)
    value = _parse(body)
    return None if value is None else AnswerBlock(value, repairs)


def parse_block(text: str) -> Mapping[str, Any] | None:
    """The value that ``read_object`` reads, None if the text is not valid. Never raises."""
    block = read_object(text)
    return None if block is None else block.value


def _strip_fence(text: str) -> tuple[str, tuple[str, ...]]:
    body = text.strip()
    if not body.startswith("```"):
        return body, ()
    return body.split("\n", 1)[-1].removesuffix("```").rstrip(), ("fence",)


def _may_be_object(body: str) -> bool:
    """Report if it is worth parsing: a hostile text has hundreds of thousands of blocks."""
    return body.endswith("}") and body.lstrip()[:1] == "{"


def _parse(body: str) -> Mapping[str, Any] | None:
    if not _may_be_object(body):
        return None
    try:
        value = _decoder.decode(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} overflows")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    block: dict[str, Any] = {}
    for key, value in pairs:
        if key in block and block[key] != value:
            raise ValueError(f"key {key!r} is given twice with different values")
        block[key] = value
    return block


_decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_unique)
