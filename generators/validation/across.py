"""What only shows across strata: shared values, and scores that rise with difficulty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from generators.task import DIFFICULTIES
from generators.validation.outcome import RISE, Validation
from generators.validation.scores import NOISE_RATE, MeanScore

RISE_DEVIATIONS = 3.0


def shared_between(prints: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """The strata that share what tells instances apart, two and two."""
    owners: dict[str, str] = {}
    pairs: dict[tuple[str, str], int] = {}
    for stratum, own in prints.items():
        for each in own:
            if each in owners:
                pair = (owners[each], stratum)
                pairs[pair] = pairs.get(pair, 0) + 1
            owners[each] = stratum
    for (one, other), count in pairs.items():
        yield f"{one} and {other} share {count} ids, files or values"


def rising_scores(found: Sequence[Validation]) -> Iterator[str]:
    """Where a guess or the careless reader does better at a harder level, beyond noise."""
    by_family: dict[tuple[str, str], list[Validation]] = {}
    for each in found:
        by_family.setdefault((each.family, each.version), []).append(each)
    for (name, version), levels in by_family.items():
        levels.sort(key=lambda each: DIFFICULTIES.index(each.difficulty))
        for easier, harder in pairwise(levels):
            for who, low, high in _comparable(easier, harder):
                noise = RISE_DEVIATIONS * (low.error**2 + high.error**2) ** 0.5
                if high.mean - low.mean > RISE + noise:
                    yield (
                        f"{name}@{version}: {who} scores {low.mean:.3f} at {easier.difficulty} "
                        f"and {high.mean:.3f} at {harder.difficulty}"
                    )


def _comparable(one: Validation, other: Validation) -> Iterator[tuple[str, MeanScore, MeanScore]]:
    first, second = _guesses(one), _guesses(other)
    for name in first.keys() & second.keys():
        yield f"the null answer {name!r}", first[name], second[name]
    if one.noisy is not None and other.noisy is not None:
        yield f"the key with {NOISE_RATE:.0%} of its numbers wrong", one.noisy, other.noisy


def _guesses(found: Validation) -> dict[str, MeanScore]:
    errors = dict(found.null_errors)
    return {name: MeanScore(mean, errors.get(name, 0.0)) for name, mean in found.nulls}
