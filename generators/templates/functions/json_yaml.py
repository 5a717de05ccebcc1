"""Functions over JSON and YAML, the same for both; see ``json_path`` for the paths.

As in the public implementation: a value is written as Python's ``str`` has it (``True``, ``1.5``,
nothing for null); a sum, average, maximum or minimum is a float in full, texts that are numbers
count, what is no number is skipped, and of none it is ``0``; keys that are not there drop out of
sums and collections, but are an error in ``path``, ``value``, ``count`` and ``keys`` and before
the filter of ``filter`` and ``count_where``.

Beyond it: an object or a list is written as JSON; a path that stops at a list means its items
where many values are wanted (the public sum of ``$.a`` is 0 whatever the list holds); ``path``
and ``value`` take a filter that leaves one value; ``count`` of a path with ``[*]`` or a filter is
the number of values; null is left out by ``filter`` as by ``collect``; and three kinds are ours:
``max_value`` and ``min_value`` (the number as the file has it: 75000 where ``max`` says 75000.0;
none is an error), ``max_count`` (the length of the longest list or object). Public templates give
these three two paths, labels and values, and mean the label.

YAML is read by the core schema of YAML 1.2: ``12:30``, ``yes`` and ``1_000`` are texts, and so is
a number of more than 400 characters. Aliases count as often as they are used, so that a few lines
cannot stand for millions of values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from generators import yaml_lines
from generators.errors import TemplateError, TemplateLimitError
from generators.templates.functions import numbers as numeric
from generators.templates.functions.base import Function, Match, OpenFile, parts_paths, table_of
from generators.templates.functions.json_path import Path, compile_path, expand, follow, name_kind
from generators.templates.functions.matches import match_json, match_numbers
from generators.yaml_lines import YamlError, YamlLimitError, YamlLimits

MAX_DEPTH = 200
MAX_VALUES = 1_000_000
MAX_YAML = 2_000_000  # bytes
_YAML = YamlLimits("a file", MAX_YAML, MAX_VALUES, aliases=True, depth=MAX_DEPTH)


def parse_json(file: OpenFile) -> Any:
    """The value of a JSON file. Raises TemplateError; NaN and Infinity are not JSON."""
    text = file.text
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


def parse_yaml(file: OpenFile) -> Any:
    """The value of a YAML file of one document. Raises TemplateError."""
    try:
        document = yaml_lines.parse_yaml(file.text.encode("utf-8", "replace"), "YAML", _YAML)
    except RecursionError:
        raise TemplateLimitError(f"the file is nested deeper than {MAX_DEPTH}") from None
    except YamlError as error:
        kind = TemplateLimitError if isinstance(error, YamlLimitError) else TemplateError
        raise kind(f"the file cannot be read as {error}") from None
    for fault in document.faults:
        raise TemplateError(f"the file cannot be read as YAML:{fault.line}: no plain key or value")
    return document.value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


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


# --- Labels of JSON and YAML values: of the largest value, of the longest list ---


def label_of_extreme(value: Any, labels: Path, values: Path, largest: bool) -> Any:
    """The label of the largest (or smallest) value. Raises TemplateError for no number."""
    numbered = (
        (numeric.number_of(one), name)
        for item, names, rest in _things(value, labels, values)
        for name, one in _paired(names, _many(item, rest))
    )
    return numeric.find_extreme(numbered, largest)


def label_of_most(value: Any, labels: Path, values: Path) -> Any:
    """The label that has the most: items of a list, keys of an object, or values of a path with
    ``[*]``. Raises TemplateError if there is no label."""
    sizes: list[tuple[float, Any]] = []
    for item, names, rest in _things(value, labels, values):
        if len(names) == 1:
            sizes.append((_count(item, rest), names[0]))
        else:
            sizes += [(_size(one), name) for name, one in _paired(names, _many(item, rest))]
    if not sizes:
        raise TemplateError("the first path leads to no label")
    return numeric.find_extreme(sizes, largest=True)


def _things(value: Any, labels: Path, values: Path) -> Iterator[tuple[Any, list[Any], Path]]:
    """Each thing with its labels, and the path from it to its values."""
    shared = 0
    for one, other in zip(labels.steps, values.steps, strict=False):
        if one != other:
            break
        shared += 1
    to_label, to_values = labels.after(shared), values.after(shared)
    for item in expand([value], labels.steps[:shared]):
        names = _many(item, to_label)
        if not names and expand([item], to_values.steps):
            raise TemplateError("there is a value without a label")
        yield item, names, to_values


def _paired(labels: list[Any], values: list[Any]) -> list[tuple[Any, Any]]:
    if len(labels) == 1:
        return [(labels[0], one) for one in values]
    if len(labels) != len(values) and values:
        raise TemplateError(
            f"{len(labels)} labels and {len(values)} values do not pair up; both paths lead "
            "through the same things, as in $.teams[*].name:$.teams[*].budget"
        )
    return list(zip(labels, values, strict=False))


def _count(item: Any, path: Path) -> int:
    values = expand([item], path.steps)
    return sum(map(_size, values)) if path.is_single else len(values)


def _size(value: Any) -> int:
    if value is None:
        return 0
    if not isinstance(value, (dict, list)):
        raise TemplateError(f"lists and objects are counted, not {name_kind(value)}")
    return len(value)


Answer = Callable[[Any, Path], str]


def find_one(value: Any, path: Path) -> str:
    """The one value at a path."""
    return write_value(_one(value, path))


def count(value: Any, path: Path) -> str:
    """Number of items of a list or keys of an object; for a path to many values, their number."""
    if not path.is_single:
        return str(len(expand([value], path.steps)))
    target = follow(value, path.steps)
    if not isinstance(target, (dict, list)):
        raise TemplateError(f"lists and objects are counted, not {name_kind(target)}")
    return str(len(target))


def keys(value: Any, path: Path) -> str:
    """An object's keys joined by commas, in their order."""
    target = _one(value, path)
    if not isinstance(target, dict):
        raise TemplateError(f"objects have keys, not {name_kind(target)}")
    return ",".join(map(str, target))


def collect(value: Any, path: Path) -> str:
    """All values joined by commas, null left out."""
    return ",".join(write_value(one) for one in _many(value, path) if one is not None)


def count_where(value: Any, path: Path) -> str:
    """Number of values that pass the filter."""
    return str(len(_filtered(value, path)))


def select(value: Any, path: Path) -> str:
    """The values that pass the filter joined by commas, null left out."""
    return ",".join(write_value(one) for one in _filtered(value, path) if one is not None)


def max_count(value: Any, path: Path) -> str:
    """The length of the longest list or object among the values; ``0`` where there is none."""
    values = expand([value], path.steps)
    return str(max((len(one) for one in values if isinstance(one, (dict, list))), default=0))


def write_value(value: Any) -> str:
    """A value as a key has it."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        return json.dumps(_plain(value), ensure_ascii=False)
    return str(value)


def _plain(value: Any) -> Any:
    """The value with what JSON has no word for (dates, keys that are no texts) as texts."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


def _one(value: Any, path: Path) -> Any:
    if path.is_single:
        return follow(value, path.steps)
    values = expand([value], path.steps)
    if len(values) != 1:
        raise TemplateError(f"the path leads to {len(values)} values, where one is wanted")
    return values[0]


def _many(value: Any, path: Path) -> list[Any]:
    values = expand([value], path.steps)
    if path.is_single and len(values) == 1 and isinstance(values[0], list):
        items: list[Any] = values[0]
        return items
    return values


def _filtered(value: Any, path: Path) -> list[Any]:
    base = follow(value, path.steps[: path.single])
    return expand([base], path.steps[path.single :])


def _numbers(verb: str) -> Answer:
    def answer(value: Any, path: Path) -> str:
        numbers = map(numeric.number_of, _many(value, path))
        return numeric.aggregate(verb, [number for number in numbers if number is not None])

    return answer


def _extreme(largest: bool) -> Answer:
    def answer(value: Any, path: Path) -> str:
        numbered = [(numeric.number_of(one), one) for one in _many(value, path)]
        return write_value(numeric.find_extreme(numbered, largest))

    return answer


_ANSWERS: dict[str, tuple[int, Answer]] = {  # least number of arguments, and the computation
    "path": (1, find_one),
    "value": (1, find_one),
    "count": (0, count),
    "keys": (0, keys),
    **{verb: (1, _numbers(verb)) for verb in numeric.AGGREGATES},
    "collect": (1, collect),
    "count_where": (1, count_where),
    "filter": (1, select),
    "max_value": (1, _extreme(True)),
    "min_value": (1, _extreme(False)),
    "max_count": (1, max_count),
}
_NUMERIC = (*numeric.AGGREGATES, "max_value", "min_value")
_FILTERING = ("count_where", "filter")
_LABELS: dict[str, Callable[[Any, Path, Path], Any]] = {  # with a path of labels before
    "max_value": lambda value, one, two: label_of_extreme(value, one, two, True),
    "min_value": lambda value, one, two: label_of_extreme(value, one, two, False),
    "max_count": label_of_most,
}
_TWO_PATHS = parts_paths("$")


def _read_paths(verb: str, arguments: Sequence[str]) -> list[Path]:
    paths = [compile_path(text) for text in arguments or ["$"]]
    if verb in _FILTERING and not paths[0].filters:
        raise TemplateError("the path has no filter, as in $.items[?price>5]")
    return paths


def _function(language: str, verb: str) -> Function:
    least, answer = _ANSWERS[verb]
    reads_json = language == "json"

    def compute(arguments: Sequence[str], file: OpenFile) -> str:
        paths = _read_paths(verb, arguments)
        value = file.parsed(parse_json if reads_json else parse_yaml)
        if len(paths) == 1:
            return answer(value, paths[0])
        return write_value(_LABELS[verb](value, paths[0], paths[1]))

    def check(arguments: Sequence[str]) -> None:
        _read_paths(verb, arguments)

    def matches(arguments: Sequence[str], file: OpenFile) -> Iterator[Match]:
        value = file.parsed(parse_json if reads_json else parse_yaml)
        for path in arguments:
            yield from match_json(path, value)
        if verb in _NUMERIC and len(arguments) == 1:
            yield match_numbers(arguments[0], _many(value, compile_path(arguments[0])))

    name = f"{language}_{verb}"
    if verb in _LABELS:
        return Function(name, 1, 2, compute, check, rest=True, split=_TWO_PATHS, matches=matches)
    return Function(name, least, 1, compute, check, rest=True, matches=matches)


TREE = table_of(*(_function(kind, verb) for kind in ("json", "yaml") for verb in _ANSWERS))
