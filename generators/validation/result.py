"""Results of a validation, and the bounds that they must meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from generators.validation.scores import PERTURBED_RATE, MeanScore, PassRate

KEY_SCORE = 1.0
SOLVER_SCORE = 0.98
CRITERION_RATE = 0.9  # of any one metarubric the solver meets, as far as its interval can tell
NULL_SCORE = 0.15
# Largest rise of a score with difficulty, by chance and the gates (R8), which a perturbed key
# of few items misses more often than one of many.
RISE = 0.05


@dataclass(frozen=True, slots=True)
class Attack:
    """The mean score of a shortcut over ``null_seeds`` seeds, and the most that it may be."""

    name: str
    score: MeanScore
    bound: float


@dataclass(frozen=True, slots=True)
class Validation:
    """Measurements of a family at a difficulty over some seeds.

    ``key`` and ``solver`` are the lowest scores of any of ``seeds`` seeds. ``nulls`` holds,
    for each null answer, the mean over ``null_seeds`` seeds of its score outside
    instructions-following: the expected score of a guess, since on few seeds it may be luck.
    ``noisy`` holds that mean of the family's noisy solvers, the most able first, and
    ``perturbed`` that mean for the key with PERTURBED_RATE of its numbers wrong. ``prints`` are
    the identifying values of the instances of the seeds.
    """

    family: str
    version: str
    difficulty: str
    seeds: int
    null_seeds: int
    key: float
    solver: float | None  # without a solver
    nulls: tuple[tuple[str, MeanScore], ...]
    same_elsewhere: bool
    distinct: bool
    attacks: tuple[Attack, ...] = ()
    noisy: tuple[tuple[str, MeanScore], ...] = ()
    perturbed: MeanScore | None = None
    criteria: tuple[PassRate, ...] = ()  # of the solver, by metarubric
    leaks: tuple[str, ...] = ()
    artefacts: tuple[str, ...] = ()
    unsteady: tuple[str, ...] = ()  # metarubrics
    redraws: tuple[int, ...] = ()  # by seed: degenerate draws that the guards refused
    misfits: tuple[str, ...] = ()  # what of a key does not fit the answer schema
    without_attackers: str = ""  # place to write them, of a family with files that ships none
    prints: frozenset[str] = field(default=frozenset(), repr=False, compare=False)

    @property
    def stratum(self) -> str:
        """The family at its version and difficulty."""
        return f"{self.family}@{self.version}/{self.difficulty}"

    @property
    def best_guess(self) -> tuple[str, float]:
        """The null answer that scores best, and its score."""
        name, score = max(self.nulls, key=lambda null: null[1].mean)
        return name, score.mean

    @property
    def best_attack(self) -> tuple[str, float]:
        """The attacker that comes nearest to its bound or is most above it, and its score; none
        if no attacker was run."""
        nearest = max(
            self.attacks, key=lambda attack: attack.score.mean / attack.bound, default=None
        )
        return ("none", 0.0) if nearest is None else (nearest.name, nearest.score.mean)

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that is out of bounds, a line each; empty when all is well."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        if self.key < KEY_SCORE:
            yield f"the key scores {self.key:.3f}, not {KEY_SCORE}"
        for line in self.misfits:
            yield f"the key does not fit the answer schema: {line}"
        if self.solver is not None and self.solver < SOLVER_SCORE:
            yield f"the solver scores {self.solver:.3f}, below {SOLVER_SCORE}"
        for rate in self.criteria:
            if rate.interval[1] < CRITERION_RATE:
                yield (
                    f"the solver meets {rate.passed} of {rate.total} parts of "
                    f"{rate.metarubric}: less than {CRITERION_RATE}"
                )
        for name, score in self.nulls:
            if score.mean > NULL_SCORE:
                yield f"the null answer {name!r} scores {score.mean:.3f}, above {NULL_SCORE}"
        if self.without_attackers:
            yield (
                "the family has no attackers or no noisy solvers: write ATTACKERS and NOISY in "
                f"{self.without_attackers}"
            )
        for attack in self.attacks:
            if attack.score.mean > attack.bound:
                yield (
                    f"the attacker {attack.name!r} scores {attack.score.mean:.3f}, above "
                    f"{attack.bound}"
                )
        for (able, high), (name, low) in pairwise(self.noisy):
            if low.mean > high.mean:
                yield f"{name} scores {low.mean:.3f}, above {able}, who should be more able"
        if not self.same_elsewhere:
            yield "another process makes other bytes of the same seeds"
        if not self.distinct:
            yield "two seeds share an id, a file or a value"
        yield from self.leaks
        yield from (f"the rubric reads badly: {artefact}" for artefact in self.artefacts)
        for metarubric in self.unsteady:
            yield (
                f"{metarubric} asks other things of other instances: give it the table of the "
                "truth that it is about as its source"
            )

    @property
    def holds(self) -> bool:
        """Report if nothing is out of bounds."""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain JSON, for scripts and for the page; the best null answer and
        attack beside all of them."""
        guess, earned = self.best_guess
        attacker, attacked = self.best_attack
        return {
            "task": f"{self.family}@{self.version}",
            "difficulty": self.difficulty,
            "seeds": self.seeds,
            "key": self.key,
            "solver": self.solver,
            "guess": round(earned, 4),
            "best_guess": guess,
            "attack": round(attacked, 4),
            "best_attack": attacker,
            "same_elsewhere": self.same_elsewhere,
            "distinct": self.distinct,
            "problems": list(self.problems),
            "null_seeds": self.null_seeds,
            "nulls": [{"name": name, **asdict(score)} for name, score in self.nulls],
            "attacks": [
                {"name": attack.name, **asdict(attack.score), "bound": attack.bound}
                for attack in self.attacks
            ],
            "noisy_solvers": [{"name": name, **asdict(score)} for name, score in self.noisy],
            "noisy": self.perturbed and {"rate": PERTURBED_RATE, **asdict(self.perturbed)},
            "criteria": [
                {**asdict(rate), "rate": rate.rate, "interval": list(rate.interval)}
                for rate in self.criteria
            ],
            "redraws": list(self.redraws),
        }


@dataclass(frozen=True, slots=True)
class Survey:
    """All validations asked for, and findings across difficulties and families."""

    strata: tuple[Validation, ...]
    across: tuple[str, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """All problems, a line each."""
        within = (
            f"{stratum.stratum}: {line}" for stratum in self.strata for line in stratum.problems
        )
        return (*within, *self.across)

    @property
    def holds(self) -> bool:
        """Report if nothing is out of bounds."""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """The value as plain JSON."""
        return {
            "holds": self.holds,
            "bounds": {
                "key": KEY_SCORE,
                "solver": SOLVER_SCORE,
                "criterion": CRITERION_RATE,
                "guess": NULL_SCORE,
                "rise": RISE,
            },
            "strata": [stratum.as_json() for stratum in self.strata],
            "across": list(self.across),
        }
