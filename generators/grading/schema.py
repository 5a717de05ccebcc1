"""Answer blocks against the JSON Schema of a brief (draft 2020-12)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from generators.errors import GeneratorError

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
