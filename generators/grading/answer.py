"""The answer of an agent: the JSON object that counts, and the files that it may point to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from generators.grading.blocks import AnswerBlock, find_block, mend_object
from generators.grading.schema import count_fitting, find_violations

# More than any honest answer needs; a longer one is not parsed at all.
MAX_ANSWER_BYTES = 4_000_000
MAX_FILES = 4


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
    repairs: tuple[str, ...] = ()  # names of REPAIRS, without which it could not be read
    from_file: bool = False  # it stood in answer.json, not in the message
    # What the answer's program printed, by the text that it was given; a run that failed has none.
    printed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    _memory: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def remember(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the result of ``make``, made once: hundreds of checks read the same list."""
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]

    def with_files(self, files: Mapping[str, bytes]) -> Answer:
        """The same block, with files of the work folder beside it."""
        return replace(self, files=MappingProxyType(dict(files)), _memory={})

    def with_printed(self, printed: Mapping[str, str]) -> Answer:
        """The same answer, with what its program printed beside it."""
        return replace(self, printed=MappingProxyType(dict(printed)), _memory={})

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

    def violations(self, schema: str) -> tuple[str, ...]:
        """What in the block does not fit a JSON Schema, a line each; see ``find_violations``."""
        found: tuple[str, ...] = self.remember(
            ("violations", schema), lambda: find_violations(schema, self.block)
        )
        return found


def parse_answer(text: str, answer_file: bytes | None = None, schema: str = "") -> Answer | None:
    """The answer block of the message or of the answer file, None if neither has one.

    Of two, the one that fits the brief's ``schema`` counts; if neither does, the one with more of
    its properties. Of two that are equal in this, the one read without a repair counts, and then
    the message's. ``blocks.py`` has what is read. Invalid are: malformed JSON, anything but an
    object, NaN and infinities, and repeated keys with different values (spec/physics.md, R6).
    Never raises for a text or a file.
    """
    in_message = find_block(text[-MAX_ANSWER_BYTES:])
    in_file = None
    if answer_file is not None and len(answer_file) <= MAX_ANSWER_BYTES:
        in_file = mend_object(answer_file.decode("utf-8-sig", "replace"))
    if in_file is None or (in_message is not None and _goes_first(in_message, in_file, schema)):
        return None if in_message is None else Answer(in_message.value, repairs=in_message.repairs)
    return Answer(in_file.value, repairs=in_file.repairs, from_file=True)


def _goes_first(in_message: AnswerBlock, in_file: AnswerBlock, schema: str) -> bool:
    def rank(block: AnswerBlock) -> tuple[float, bool]:
        fits = not schema or not find_violations(schema, block.value)
        return math.inf if fits else count_fitting(schema, block.value), not block.repairs

    return rank(in_message) >= rank(in_file)
