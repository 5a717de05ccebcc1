"""The answer of an agent, parsed: the JSON answer block and the files it may point to."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

# More than any honest answer needs; a longer one is not parsed at all.
MAX_ANSWER_BYTES = 4_000_000
MAX_FILES = 4
_TAG_LINE = re.compile(r"^[ \t]*<(/?)answer>[ \t]*\r?$", re.M)
# Prose on the same line as a tag is common with chat models: accepted when no strict block is.
_TAG = re.compile(r"<(/?)answer>")


@dataclass(frozen=True, slots=True)
class Answer:
    """A parsed answer block, and the work-folder files that graders may read.

    Where a task asks for no block, ``text`` is the final message and ``files`` holds what the
    brief has graders look at; a folder stands there under its path and a ``/``, without bytes, and
    so does a file of which they only ask whether it is there.
    """

    block: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    text: str = ""
    _memory: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def remember(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the result of ``make``, made once: hundreds of checks read the same list."""
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]

    def with_files(self, files: Mapping[str, bytes]) -> Answer:
        """The same block, with files of the work folder beside it."""
        return Answer(self.block, MappingProxyType(dict(files)), self.text)

    def read(self, path: str) -> bytes | None:
        """The bytes of a collected file, None if there was none."""
        return self.files.get(path)

    def kind(self, path: str) -> str | None:
        """``file``, ``folder``, or None if there was neither."""
        if path in self.files and not path.endswith("/"):
            return "file"
        return "folder" if path.rstrip("/") + "/" in self.files else None

    def named_files(self) -> tuple[str, ...]:
        """The files that the block points to, under keys that end in ``_file``."""
        named = (value for key, value in self.block.items() if key.endswith("_file"))
        return tuple(value for value in named if isinstance(value, str))[:MAX_FILES]


def parse_answer(text: str, answer_file: bytes | None = None) -> Answer | None:
    """The last valid answer block of the text, else the answer file, else None.

    A block whose tags stand on lines of their own goes before one whose tags do not. Invalid
    are: malformed JSON, anything but an object, NaN and infinities, and repeated keys with
    different values (spec/physics.md, R6). Time is linear in the text. Never raises.
    """
    tail = text[-MAX_ANSWER_BYTES:]
    for tag in (_TAG_LINE, _TAG):
        for start, end in reversed(_spans(tag, tail)):
            if (block := parse_block(tail[start:end])) is not None:
                return Answer(block)
    if answer_file is not None and len(answer_file) <= MAX_ANSWER_BYTES:
        block = parse_block(answer_file.decode("utf-8-sig", "replace"))
        if block is not None:
            return Answer(block)
    return None


def _spans(tag: re.Pattern[str], text: str) -> list[tuple[int, int]]:
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


def parse_block(text: str) -> Mapping[str, Any] | None:
    """One JSON object, or None if it is not valid."""
    try:
        value = json.loads(
            _strip_fence(text),
            parse_constant=_refuse,
            parse_float=_finite,
            object_pairs_hook=_unique,
        )
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _strip_fence(text: str) -> str:
    body = text.strip()
    if body.startswith("```"):
        body = body.split("\n", 1)[-1].removesuffix("```")
    return body


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
