"""JSON and YAML texts as plain values, with bounds on what they may be.

YAML is read by PyYAML's safe loader. Aliases count as often as they are used, so that a few
lines cannot stand for millions of values.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from generators.errors import TemplateError, TemplateLimitError
from generators.templates.functions.parsed_file import OpenFile

MAX_DEPTH = 200
MAX_VALUES = 1_000_000
MAX_YAML = 2_000_000  # characters; PyYAML reads a few million a second
_DIGITS = 1_000  # of a number; JSON's own bound is 4300
_MERGED = 100_000  # pairs that merge keys may make


def read_json(text: str) -> Any:
    """The value of a JSON text. Raises TemplateError; NaN and Infinity are not JSON."""
    import json

    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise TemplateError(
            f"the file is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise TemplateLimitError(f"the file is nested deeper than {MAX_DEPTH}") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise TemplateError(f"the file is not JSON that can be read: {error}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_bounds(value)
    return value


def read_yaml(text: str) -> Any:
    """The value of a YAML text of one document. Raises TemplateError."""
    import yaml

    if len(text) > MAX_YAML:
        raise TemplateLimitError(
            f"the file has {len(text)} characters; at most {MAX_YAML} of YAML are read"
        )
    try:
        if _may_be_deep(text):
            _check_depth(text)
        value = yaml.load(text, Loader=_loader())  # noqa: S506 - a safe loader, bounded
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}: " if mark else ""
        raise TemplateError(f"the file is not YAML: {place}{error.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        first = str(error).split("\n", 1)[0]
        raise TemplateError(f"the file is not YAML that can be read: {first[:200]}") from None
    except (LookupError, AttributeError):  # PyYAML's own, of `!!bool foo` and its kin
        raise TemplateError(
            "the file is not YAML: a value is not what its tag (!!…) says"
        ) from None
    except RecursionError:
        raise TemplateLimitError(f"the file is nested deeper than {MAX_DEPTH}") from None
    if "*" in text:
        _check_bounds(value)
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


@cache
def _loader() -> Any:
    import yaml

    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class BoundedLoader(fast):  # type: ignore[misc, valid-type] # the base is C where it is there
        """The safe loader, with a bound on what merge keys make: each may double what is there."""

        def flatten_mapping(self, node: Any) -> None:
            before = len(node.value)
            super().flatten_mapping(node)
            self.merged = getattr(self, "merged", 0) + max(0, len(node.value) - before)
            if self.merged > _MERGED:
                raise TemplateLimitError(f"merge keys (<<) make more than {_MERGED} values")

        def construct_scalar(self, node: Any) -> Any:
            """A number in the base of 60 takes time with the square of its length."""
            number = node.tag.endswith((":int", ":float"))
            if number and len(node.value) > _DIGITS:
                raise TemplateLimitError(f"a number in the file has more than {_DIGITS} digits")
            return super().construct_scalar(node)

    # A set would have its members in another order each time.
    BoundedLoader.add_constructor("tag:yaml.org,2002:set", fast.construct_yaml_map)
    return BoundedLoader


def _may_be_deep(text: str) -> bool:
    """Whether nesting might pass MAX_DEPTH: a bound that costs little and seldom errs.

    A block's level needs a column of its own, or two share one (a list below its key); in one
    line only dashes, question marks and one key open levels.
    """
    widest = max(map(_opening, text.split("\n")), default=0)
    return 2 * (widest + 1) + text.count("[") + text.count("{") > MAX_DEPTH


def _opening(line: str) -> int:
    return len(line) - len(line.lstrip(" -?\t"))


def _check_depth(text: str) -> None:
    """Refuse deep nesting by the events alone: to compose it takes the C stack."""
    import yaml

    depth = 0
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise TemplateLimitError(f"the file is nested deeper than {MAX_DEPTH}")


def _check_bounds(value: Any) -> None:
    """Refuse values that are too deep or too many, shared ones counted each time."""
    pending, count = [(value, 1)], 0
    while pending:
        one, depth = pending.pop()
        if not isinstance(one, (dict, list)):
            continue
        if depth > MAX_DEPTH:
            raise TemplateLimitError(f"the file is nested deeper than {MAX_DEPTH}")
        count += len(one)
        if count > MAX_VALUES:
            raise TemplateLimitError(f"the file has more than {MAX_VALUES} values")
        items = one.values() if isinstance(one, dict) else one
        pending.extend((item, depth + 1) for item in items if isinstance(item, (dict, list)))


def parse_json(file: OpenFile) -> Any:
    """The value of a JSON file (a parser of OpenFile)."""
    return read_json(file.text)


def parse_yaml(file: OpenFile) -> Any:
    """The value of a YAML file (a parser of OpenFile)."""
    return read_yaml(file.text)
