"""What the families share: the way in which their parts make an instance of a seed."""

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


class Meant(Protocol):
    """What a difficulty means: a family's own parameters, and what an episode may use."""

    @property
    def limits(self) -> Limits: ...


P = TypeVar("P", bound=Meant)


@dataclass(frozen=True, slots=True)
class Parts(Generic[P]):
    """The parts of a family that need no library to be loaded."""

    package: str  # where solver.py lies
    parameters_of: Callable[[str], P]  # raises GeneratorError for an unknown difficulty
    make_prompt: Callable[[P], str]
    answer_schema: str
    make_rubric: Callable[[GroundTruth], Rubric]
    make_nulls: Callable[[P], Mapping[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a seed makes: the input files, what is true of them, and what guards redrew."""

    assets: tuple[Asset, ...]
    truth: GroundTruth
    redraws: Mapping[str, int]


class FamilyOfParts(ABC, Generic[P]):
    """A ``Family`` whose parts do the work: it says which they are, names its parameters for
    people, and draws; all else follows."""

    __slots__ = ()

    name: str
    version: str
    summary: str
    parts: Parts[P]

    @abstractmethod
    def describe(self, meant: P) -> dict[str, int | float | str]:
        """The parameters as people read them; they pin the instance too."""

    @abstractmethod
    def draw(self, meant: P, streams: Streams) -> Drawn:
        """Sample, files and truth. Loads numpy or Pillow here, not where families are listed."""

    @abstractmethod
    def key(self, truth: GroundTruth) -> dict[str, Any]:
        """The answer block that scores full marks."""

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        return self.describe(self.parts.parameters_of(difficulty))

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        parts = self.parts
        meant = parts.parameters_of(difficulty)
        drawn = self.draw(meant, SeedStreams(seed, self.name, self.version, difficulty))
        parameters = (*self.describe(meant).items(), *drawn.redraws.items())
        return make_instance(
            TaskSpec(self.name, self.version, difficulty, parameters),
            seed,
            Brief(parts.make_prompt(meant), drawn.assets, parts.answer_schema, meant.limits),
            drawn.truth,
            parts.make_rubric(drawn.truth),
        )

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        return self.parts.make_nulls(self.parts.parameters_of(instance.spec.difficulty))

    def solver(self) -> str:
        return files(self.parts.package).joinpath("solver.py").read_text(encoding="utf-8")
