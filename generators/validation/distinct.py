"""Two seeds, difficulties or families share nothing that could tell of another instance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from generators.task import TaskInstance

# Values that a few dozen small integers make by chance tell nothing of where they are from.
_LARGEST_COMMON_DENOMINATOR = 1000
_SHORTEST_TELLING_TEXT = 8


def shared_fingerprints(instances: Iterable[TaskInstance]) -> frozenset[str]:
    """What two or more of the instances have in common and should not."""
    return shared_among(fingerprints(instance) for instance in instances)


def shared_among(prints: Iterable[frozenset[str]]) -> frozenset[str]:
    """What stands in two or more of the sets."""
    seen: set[str] = set()
    shared: set[str] = set()
    for own in prints:
        shared |= seen & own
        seen |= own
    return frozenset(shared)


def fingerprints(instance: TaskInstance) -> frozenset[str]:
    """What tells an instance from all others: its id, the digests of its files and of their
    content, and the values of its truth that could not recur by chance."""
    files = {asset.digest for asset in instance.brief.assets}
    content = {digest for _, digest in instance.truth.digests}
    return frozenset({instance.id} | files | content | set(_telling_values(instance)))


def _telling_values(instance: TaskInstance) -> Iterator[str]:
    names = {asset.path for asset in instance.brief.assets}
    for _, table in instance.truth.tables:
        for row in table.rows:
            for value in row:
                if isinstance(value, str):
                    if _is_telling(value) and value not in names:
                        yield value
                elif isinstance(value, float) and not _is_common(value):
                    yield repr(value)


def _is_telling(text: str) -> bool:
    """Long, and with a digit in it: words such as ``linear_through_zero`` recur."""
    return len(text) >= _SHORTEST_TELLING_TEXT and any(map(str.isdigit, text))


def _is_common(value: float) -> bool:
    near = Fraction(value).limit_denominator(_LARGEST_COMMON_DENOMINATOR)
    return abs(value - near) <= 1e-12 * abs(value)
