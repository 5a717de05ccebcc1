"""Every family at every difficulty, its instances made once for the whole run."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pytest

from generators.catalog import INSTALLED
from generators.task import DIFFICULTIES, Family, TaskInstance
from generators.validation.validate import NULL_SEEDS, public_seeds
from tests.generators.measures import as_many

# Seeds that guesses are made on, and that the reference solver is run on.
GUESSED, SOLVED = as_many(3, NULL_SEEDS), as_many(3, 20)


@dataclass(frozen=True)
class Stratum:
    """A family at a difficulty, with its instances of the public seeds."""

    family: Family
    difficulty: str

    @property
    def instances(self) -> tuple[TaskInstance, ...]:
        return _instances(self.family, self.difficulty)

    @property
    def solved(self) -> tuple[TaskInstance, ...]:
        return self.instances[:SOLVED]

    @property
    def name(self) -> str:
        return f"{self.family.name}@{self.family.version}/{self.difficulty}"


@functools.cache
def _instances(family: Family, difficulty: str) -> tuple[TaskInstance, ...]:
    return tuple(family.generate(difficulty, seed) for seed in public_seeds(GUESSED))


STRATA = tuple(Stratum(each, level) for each in INSTALLED.families() for level in DIFFICULTIES)


@pytest.fixture(params=STRATA, ids=lambda stratum: stratum.name)
def stratum(request: pytest.FixtureRequest) -> Stratum:
    found: Stratum = request.param
    return found
