"""How the parts of a family make an instance of a seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Generic, Protocol, TypeVar

from generators.grading import Rubric
from generators.seed import Seed
from generators.streams import SeedStreams, Streams
from generators.task import Asset, Brief, GroundTruth, Limits, TaskInstance, TaskSpec, make_instance


class HasLimits(Protocol):
    """A family's parameters at a difficulty; of these, all families have the limits."""

    @property
    def limits(self) -> Limits:
        """What an episode may use."""
        ...


P = TypeVar("P", bound=HasLimits)


@dataclass(frozen=True, slots=True)
class Parts(Generic[P]):
    """The parts of a family that need no library to be loaded."""

    package: str  # that holds the solver
    parameters_of: Callable[[str], P]  # raises GeneratorError for an unknown difficulty
    make_prompt: Callable[[P], str]
    answer_schema: str
    make_rubric: Callable[[GroundTruth], Rubric]
    make_nulls: Callable[[P], Mapping[str, dict[str, Any]]]
    solver: str = "solver.py"


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a seed makes: the input files, their truth, and how often guards redrew."""

    assets: tuple[Asset, ...]
    truth: GroundTruth
    redraws: Mapping[str, int]


class FamilyOfParts(ABC, Generic[P]):
    """A ``Family`` made of parts: a subclass names its parameters for people and draws, and the
    rest follows."""

    __slots__ = ()

    name: str
    version: str
    summary: str
    parts: Parts[P]

    @abstractmethod
    def describe(self, parameters: P) -> dict[str, int | float | str]:
        """The parameters as people read them; they pin the instance too."""

    @abstractmethod
    def draw(self, parameters: P, streams: Streams) -> Drawn:
        """Sample, files and truth. Loads numpy or Pillow here, not where families are listed."""

    @abstractmethod
    def key(self, truth: GroundTruth) -> dict[str, Any]:
        """The answer block that scores full marks."""

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        """The parameters at a difficulty. Raises GeneratorError for an unknown one."""
        return self.describe(self.parts.parameters_of(difficulty))

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        """The instance of a seed. Raises GeneratorError, GuardExhausted."""
        parts = self.parts
        parameters = parts.parameters_of(difficulty)
        drawn = self.draw(parameters, SeedStreams(seed, self.name, self.version, difficulty))
        described = (*self.describe(parameters).items(), *drawn.redraws.items())
        return make_instance(
            TaskSpec(self.name, self.version, difficulty, described),
            seed,
            Brief(
                parts.make_prompt(parameters), drawn.assets, parts.answer_schema, parameters.limits
            ),
            drawn.truth,
            parts.make_rubric(drawn.truth),
        )

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        """Answers that open no input file, by name."""
        return self.parts.make_nulls(self.parts.parameters_of(instance.spec.difficulty))

    def solver(self) -> str:
        """The source of the program that solves an instance."""
        return files(self.parts.package).joinpath(self.parts.solver).read_text(encoding="utf-8")
