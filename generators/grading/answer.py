"""The answer of an agent: the JSON object that counts, checked against the JSON Schema of its brief
(draft 2020-12), and the files that it may point to."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from generators.errors import GeneratorError
from generators.grading.blocks import AnswerBlock, find_block, mend_object

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

MAX_VALUES = 20_000  # in one block, thrice what the largest honest answer has
MAX_VIOLATIONS = 10
_CUT = 200  # characters of a path or of a rule


def find_violations(schema: str, block: Mapping[str, Any]) -> tuple[str, ...]:
    """What does not fit the schema: the path of each value and the rule that it breaks, the first
    MAX_VIOLATIONS of them.

    A block of more than MAX_VALUES values, or nested too deeply to be compared, does not fit.
    Nothing is quoted of the block but its keys. Raises GeneratorError for a schema that is
    none, or that refers to what it does not hold.
    """
    if _exceeds(block, MAX_VALUES):
        return (f"$: holds more than {MAX_VALUES:,} values",)
    try:
        return tuple(map(_describe, islice(_violations(_validator(schema), block), MAX_VIOLATIONS)))
    except RecursionError:
        return ("$: is nested too deeply",)


def count_fitting(schema: str, block: Mapping[str, Any]) -> int:
    """The number of the schema's properties that the block has and that fit. Raises as
    ``find_violations`` does."""
    if _exceeds(block, MAX_VALUES):
        return 0
    validator = _validator(schema)
    properties: Mapping[str, Any] = json.loads(schema).get("properties", {})
    try:
        return sum(
            name in block and not any(_violations(validator.evolve(schema=rules), block[name]))
            for name, rules in properties.items()
        )
    except RecursionError:
        return 0


@lru_cache(maxsize=64)
def _validator(schema: str) -> Validator:
    # Imported here: it takes 0.3 s, and few commands grade. The empty registry keeps a schema
    # from having others fetched from the network.
    from jsonschema import Draft202012Validator, SchemaError
    from referencing import Registry

    try:
        Draft202012Validator.check_schema(rules := json.loads(schema))
    except SchemaError as error:
        raise GeneratorError(
            f"the answer schema is no JSON Schema 2020-12: {error.message}"
        ) from None
    return Draft202012Validator(rules, registry=Registry())


def _violations(validator: Validator, value: Any) -> Iterator[ValidationError]:
    from referencing.exceptions import Unresolvable

    try:
        yield from validator.iter_errors(value)
    except Unresolvable as error:
        raise GeneratorError(f"the answer schema refers to {error.ref!r}, which it lacks") from None


def _describe(error: ValidationError) -> str:
    path = "$"
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
        if len(path) > _CUT:
            path = path[:_CUT] + "…"
            break
    if error.validator == "required":
        return f"{path}: {error.message}"  # names the property; its path has only the object's
    rule = json.dumps(error.validator_value, ensure_ascii=False)
    rule = rule if len(rule) <= _CUT else rule[:_CUT] + "…"
    return f"{path}: does not meet {error.validator}: {rule}"


def _exceeds(block: Mapping[str, Any], most: int) -> bool:
    """Report if a block holds more than ``most`` values."""
    waiting: list[Any] = [block]
    seen = 0
    while waiting:
        value = waiting.pop()
        inner = value.values() if isinstance(value, dict) else value
        if isinstance(value, dict | list):
            seen += len(value)
            if seen > most:
                return True
            waiting.extend(inner)
    return False


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
    object, NaN and infinities, and repeated keys with different values. Never raises for a text or
    a file."""
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
