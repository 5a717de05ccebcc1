"""What every family must keep, measured: its key, its solver, guesses, bytes, distinctness.

The rules are R1, R2, R4 and R9 of spec/physics.md; ``generators/validation`` holds a module for
each. ``python -m generators.validation.validate FAMILY DIFFICULTY`` reads seeds from its
standard input and prints a digest of all the bytes of each one's instance, so that another
process can be compared with this one.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from generators.catalog import INSTALLED
from generators.errors import GeneratorError
from generators.grading import Check, Rubric, is_static
from generators.seed import Seed
from generators.task import DIFFICULTIES, Family, TaskInstance
from generators.validation.overlap import (
    fingerprints,
    rising_scores,
    shared_among,
    shared_between,
    shared_fingerprints,
)
from generators.validation.reproducibility import digests_elsewhere, instance_digest
from generators.validation.result import KEY_SCORE, NULL_SCORE, SOLVER_SCORE, Survey, Validation
from generators.validation.scores import (
    BEYOND_INSTRUCTIONS,
    MeanScore,
    PassRate,
    guess_scores,
    key_score,
    mean_scores,
    null_scores,
    pass_rates,
    perturbed_score,
    score_answer,
    solver_answer,
    solver_score,
)
from generators.validation.truth_leaks import LEAK_INSTANCES, LeakSearch

NULL_SEEDS = 40  # the mean of the luckiest guess of any family then errs by 0.03 (1 σ) at most

Watch = Callable[[str, int, int], None]  # what, done, of

# Traces of the program that wrote a rubric's text.
ARTEFACTS = re.compile(
    r"\bnp\.|\bnumpy\b|\barray\(|\b(?:float|u?int)(?:8|16|32|64)\b|\bnan\b|\binf\b|\bNone\b(?! of)"
    r"|[{}]|-0\.0*(?![0-9])"
)


def survey(
    families: Sequence[Family], seeds: int = 20, watch: Watch | None = None, jobs: int = 1
) -> Survey:
    """Validate each family at each difficulty, and hold them against each other.

    ``watch`` receives the work at hand, the strata done and all strata; ``jobs``
    processes share the work.
    """
    strata = [(family, difficulty, seeds) for family in families for difficulty in DIFFICULTIES]
    validations: list[Validation] = []
    prints: dict[str, frozenset[str]] = {}
    report = watch or (lambda what, done, of: None)
    report("checking", 0, len(strata))
    with _workers(min(jobs, len(strata))) as work:
        for done, ((family, difficulty, _), measured) in enumerate(
            zip(strata, work(_measure, strata), strict=True), 1
        ):
            validation, stratum_prints = measured
            validations.append(validation)
            prints[validation.stratum] = stratum_prints
            report(f"checked {family.name} {difficulty}", done, len(strata))
    return Survey(tuple(validations), (*shared_between(prints), *rising_scores(validations)))


Stratum = tuple[Family, str, int]  # family, difficulty, seeds


@contextmanager
def _workers(jobs: int) -> Iterator[Callable[..., Iterable[tuple[Validation, frozenset[str]]]]]:
    """What maps a function over strata, in order: here, or in so many processes."""
    if jobs <= 1:
        yield map
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            yield pool.map
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _measure(stratum: Stratum) -> tuple[Validation, frozenset[str]]:
    measured = _Measured(*stratum)
    return measured.validation(), measured.shared_prints()


def validate(family: Family, difficulty: str, seeds: int = 20) -> Validation:
    """Measure all of it on so many public seeds, and guesses on at least NULL_SEEDS.

    Raises GeneratorError for no seeds, for an unknown difficulty and for a solver that fails.
    """
    return _Measured(family, difficulty, seeds).validation()


class _Measured:
    """One stratum, measured instance by instance: none of them is kept."""

    def __init__(self, family: Family, difficulty: str, seeds: int) -> None:
        if seeds < 1:
            raise GeneratorError(f"a validation needs at least one seed, not {seeds}")
        self.family, self.difficulty, self.seeds = family, difficulty, seeds
        self.drawn = public_seeds(max(seeds, NULL_SEEDS))
        self.keys: list[float] = []
        self.solved: list[float] = []
        self.rates: list[PassRate] = []
        self.perturbed: list[float] = []
        self.guesses: list[dict[str, float]] = []
        self.digests: list[str] = []
        self.prints: list[frozenset[str]] = []
        self.redraws: list[int] = []
        self.artefacts: set[str] = set()
        self.first: Rubric | None = None
        self.unsteady: set[str] = set()
        self.search = LeakSearch(family)
        for index, seed in enumerate(self.drawn):
            self._measure(index, seed, family.generate(difficulty, seed))

    def _measure(self, index: int, seed: Seed, instance: TaskInstance) -> None:
        self.guesses.append(guess_scores(self.family, instance))
        self.perturbed.append(perturbed_score(self.family, instance, seed))
        self.prints.append(fingerprints(instance))
        self.first = self.first or instance.rubric
        self.unsteady |= unsteady(self.first, instance.rubric)
        if index < max(self.seeds, LEAK_INSTANCES):
            self.search.add(instance)
        if index < self.seeds:
            self.keys.append(key_score(self.family, instance))
            answer = solver_answer(self.family, instance)
            self.solved.append(score_answer(instance, answer))
            self.rates += pass_rates([(instance, answer)])
            self.digests.append(instance_digest(instance))
            self.redraws.append(redraws_of(instance))
            self.artefacts |= set(artefacts(instance))

    def validation(self) -> Validation:
        nulls = mean_scores(self.guesses)
        elsewhere = digests_elsewhere(self.family, self.difficulty, self.drawn[: self.seeds])
        return Validation(
            family=self.family.name,
            version=self.family.version,
            difficulty=self.difficulty,
            seeds=self.seeds,
            null_seeds=len(self.drawn),
            key=min(self.keys),
            solver=min(self.solved),
            nulls=tuple((name, score.mean) for name, score in nulls.items()),
            same_elsewhere=self.digests == elsewhere,
            distinct=not shared_among(self.prints),
            null_errors=tuple((name, score.error) for name, score in nulls.items()),
            perturbed=MeanScore.of(self.perturbed),
            criteria=_sum_rates(self.rates),
            leaks=self.search.leaks(),
            artefacts=tuple(sorted(self.artefacts)),
            unsteady=tuple(sorted(self.unsteady)),
            redraws=tuple(self.redraws),
        )

    def shared_prints(self) -> frozenset[str]:
        return frozenset().union(*self.prints[: self.seeds])


def redraws_of(instance: TaskInstance) -> int:
    """How many degenerate draws the guards refused (R4), as the spec records it."""
    return int(dict(instance.spec.parameters).get("redraws", 0))


def _sum_rates(rates: Iterable[PassRate]) -> tuple[PassRate, ...]:
    sums: dict[str, PassRate] = {}
    for rate in rates:
        passed, total = rate.passed, rate.total
        if (old := sums.get(rate.metarubric)) is not None:
            passed, total = passed + old.passed, total + old.total
        sums[rate.metarubric] = PassRate(
            rate.metarubric, rate.dimension, rate.weight, passed, total
        )
    return tuple(sums.values())


def static_criteria(rubric: Rubric) -> dict[str, tuple[str, Check | None]]:
    """The text and the check of each criterion that a rubric calls static, by its id."""
    return {
        criterion.id: (criterion.text, criterion.check)
        for criterion in rubric.criteria
        if is_static(criterion)
    }


def unsteady(one: Rubric, other: Rubric) -> frozenset[str]:
    """The metarubrics of static criteria that two instances of a stratum do not share: they need
    a source in the truth, or a gate."""
    first, second = static_criteria(one), static_criteria(other)
    return frozenset(
        name.rpartition("/")[0]
        for name in first.keys() | second.keys()
        if first.get(name) != second.get(name)
    )


def artefacts(instance: TaskInstance) -> Iterator[str]:
    """Traces of the program in the text of criteria, each after its metarubric."""
    for criterion in instance.rubric.criteria:
        if match := ARTEFACTS.search(criterion.text):
            yield f"{criterion.metarubric}: {match.group(0)!r}"


def public_seeds(count: int) -> tuple[Seed, ...]:
    """Seeds that everyone knows, for checks and galleries; never for a study."""
    root = Seed(hashlib.sha256(b"dosimeter/public-seeds").digest())
    return tuple(root.child(index) for index in range(count))


def main(arguments: Sequence[str], seeds: Iterable[str]) -> None:
    """Print the digest of the instance of each seed (hexadecimal, one a line)."""
    name, difficulty = arguments
    family = INSTALLED.family(name)
    for line in seeds:
        print(instance_digest(family.generate(difficulty, Seed.from_hex(line.strip()))))


__all__ = [
    "BEYOND_INSTRUCTIONS",
    "KEY_SCORE",
    "NULL_SCORE",
    "NULL_SEEDS",
    "SOLVER_SCORE",
    "Survey",
    "Validation",
    "digests_elsewhere",
    "fingerprints",
    "instance_digest",
    "key_score",
    "null_scores",
    "public_seeds",
    "rising_scores",
    "shared_fingerprints",
    "solver_score",
    "survey",
    "validate",
]


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdin)
