"""Labels of JSON and YAML values: whose value is the largest, whose list is the longest.

Two paths are read side by side: what their steps share leads to the things that are compared
(the teams of ``$.teams[*].name`` and ``$.teams[*].budget``), and what is left of each to a
thing's label and to its values, so that a thing without a value shifts no label. Where nothing
is shared, as in ``$.names`` and ``$.budgets``, they pair up one by one. Of equals the first in
the file's order is the one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from generators.errors import TemplateError
from generators.templates.functions import numeric
from generators.templates.functions.treepath import Path, expand, name_kind

Read = Callable[[Any, Path], list[Any]]


def label_of_extreme(value: Any, labels: Path, values: Path, read: Read, largest: bool) -> Any:
    """The label whose value is the largest (or smallest). Raises TemplateError for no number."""
    best: tuple[float, Any] | None = None
    for item, label, rest in _things(value, labels, values, read):
        found = read(item, rest)
        for name, one in _paired(label, found):
            number = numeric.number_of(one)
            if number is None:
                continue
            if best is None or (number > best[0] if largest else number < best[0]):
                best = (number, name)
    if best is None:
        raise TemplateError("there is no number among the values")
    return best[1]


def label_of_most(value: Any, labels: Path, values: Path, read: Read) -> Any:
    """The label that has the most: items of a list, keys of an object, or values of a path with
    ``[*]``. Raises TemplateError where there is no label."""
    best: tuple[int, Any] | None = None
    for item, label, rest in _things(value, labels, values, read):
        if len(label) == 1:
            sizes = [(label[0], _count(item, rest))]
        else:
            sizes = [(name, _size(one)) for name, one in _paired(label, read(item, rest))]
        for name, size in sizes:
            if best is None or size > best[0]:
                best = (size, name)
    if best is None:
        raise TemplateError("the first path leads to no label")
    return best[1]


def _things(
    value: Any, labels: Path, values: Path, read: Read
) -> Iterator[tuple[Any, list[Any], Path]]:
    """Each thing with its labels, and the path from it to its values."""
    shared = 0
    for one, other in zip(labels.steps, values.steps, strict=False):
        if one != other:
            break
        shared += 1
    to_label, to_values = labels.after(shared), values.after(shared)
    for item in expand([value], labels.steps[:shared]):
        names = read(item, to_label)
        if not names and expand([item], to_values.steps):
            raise TemplateError("there is a value without a label")
        yield item, names, to_values


def _paired(labels: list[Any], found: list[Any]) -> list[tuple[Any, Any]]:
    if len(labels) == 1:
        return [(labels[0], one) for one in found]
    if len(labels) != len(found) and found:
        raise TemplateError(
            f"{len(labels)} labels and {len(found)} values do not pair up; both paths lead "
            "through the same things, as in $.teams[*].name:$.teams[*].budget"
        )
    return list(zip(labels, found, strict=False))


def _count(item: Any, path: Path) -> int:
    found = expand([item], path.steps)
    return sum(map(_size, found)) if path.is_single else len(found)


def _size(value: Any) -> int:
    if value is None:
        return 0
    if not isinstance(value, (dict, list)):
        raise TemplateError(f"lists and objects are counted, not {name_kind(value)}")
    return len(value)
