"""Every family at every difficulty, its instances made once for the whole run."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

import pytest

from generators.catalog import INSTALLED
from generators.task import DIFFICULTIES, Family, TaskInstance
from generators.validation.validate import NULL_SEEDS, public_seeds

SOLVED = 20  # seeds that the reference solver is run on (spec/physics.md, §8)
# Families that draw and solve for seconds an instance are held to the bounds on so many in
# `make test`, and on all in `make test-all`, which sets the variable.
SOLVED_QUICKLY, GUESSED_QUICKLY = 3, 6
ALL_SEEDS = "DOSIMETER_ALL_SEEDS"


@dataclass(frozen=True)
class Stratum:
    """A family at a difficulty, with its instances of the public seeds."""

    family: Family
    difficulty: str

    @property
    def instances(self) -> tuple[TaskInstance, ...]:
        guessed = GUESSED_QUICKLY if self.is_heavy else NULL_SEEDS
        return _instances(self.family, self.difficulty, guessed)

    @property
    def solved(self) -> tuple[TaskInstance, ...]:
        return self.instances[: SOLVED_QUICKLY if self.is_heavy else SOLVED]

    @property
    def is_heavy(self) -> bool:
        physics = getattr(self.family, "package", "").startswith("generators.physics.")
        return physics and os.environ.get(ALL_SEEDS) != "1"

    @property
    def name(self) -> str:
        return f"{self.family.name}@{self.family.version}/{self.difficulty}"


@functools.cache
def _instances(family: Family, difficulty: str, count: int) -> tuple[TaskInstance, ...]:
    return tuple(family.generate(difficulty, seed) for seed in public_seeds(count))


STRATA = tuple(Stratum(each, level) for each in INSTALLED.families() for level in DIFFICULTIES)


@pytest.fixture(params=STRATA, ids=lambda stratum: stratum.name)
def stratum(request: pytest.FixtureRequest) -> Stratum:
    found: Stratum = request.param
    return found


@pytest.fixture
def strata() -> tuple[Stratum, ...]:
    return STRATA
