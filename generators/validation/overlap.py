"""Checks across strata: shared values, and scores that rise with difficulty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from generators.task import DIFFICULTIES, TaskInstance
from generators.validation.result import RISE, Validation
from generators.validation.scores import PERTURBED_RATE, MeanScore

RISE_DEVIATIONS = 3.0


def shared_between(validations: Iterable[Validation]) -> Iterator[str]:
    """Report pairs of strata that share an identifying value."""
    owners: dict[str, str] = {}
    pairs: Counter[tuple[str, str]] = Counter()
    for validation in validations:
        stratum = validation.stratum
        pairs.update((owners[value], stratum) for value in validation.prints if value in owners)
        owners |= dict.fromkeys(validation.prints, stratum)
    for (one, other), count in pairs.items():
        yield f"{one} and {other} share {count} ids, files or values"


def rising_scores(validations: Sequence[Validation]) -> Iterator[str]:
    """Report where a guess or the perturbed key does better at a harder level, beyond noise."""
    by_family: dict[tuple[str, str], list[Validation]] = {}
    for validation in validations:
        by_family.setdefault((validation.family, validation.version), []).append(validation)
    for (name, version), levels in by_family.items():
        levels = [level for level in levels if level.difficulty in DIFFICULTIES]
        levels.sort(key=lambda item: DIFFICULTIES.index(item.difficulty))
        for easier, harder in pairwise(levels):
            for answer, low, high in _comparable(easier, harder):
                noise = RISE_DEVIATIONS * (low.error**2 + high.error**2) ** 0.5
                if high.mean - low.mean > RISE + noise:
                    yield (
                        f"{name}@{version}: {answer} scores {low.mean:.3f} at {easier.difficulty} "
                        f"and {high.mean:.3f} at {harder.difficulty}"
                    )


def _comparable(one: Validation, other: Validation) -> Iterator[tuple[str, MeanScore, MeanScore]]:
    first, second = dict(one.nulls), dict(other.nulls)
    for name in first.keys() & second.keys():
        yield f"the null answer {name!r}", first[name], second[name]
    able, also = dict(one.noisy), dict(other.noisy)
    for name in able.keys() & also.keys():
        yield f"the noisy solver {name!r}", able[name], also[name]
    if one.perturbed is not None and other.perturbed is not None:
        name = f"the key with {PERTURBED_RATE:.0%} of its numbers wrong"
        yield name, one.perturbed, other.perturbed


# Values that a few dozen small integers make by chance do not identify an instance.
_LARGEST_COMMON_DENOMINATOR = 1000
_SHORTEST_TELLING_TEXT = 8


def shared_among(prints: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the values that are in two or more of the sets."""
    seen: set[str] = set()
    shared: set[str] = set()
    for prints_of_one in prints:
        shared |= seen & prints_of_one
        seen |= prints_of_one
    return frozenset(shared)


def fingerprints(instance: TaskInstance) -> frozenset[str]:
    """The identifying values of an instance: its id, the digests of its files and of their
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
