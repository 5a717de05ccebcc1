"""Scores of the key, of the perturbed key, of the reference solver and of guesses."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from generators.attackers import Access, Attackable, seen_files
from generators.errors import ChildLimitError, GeneratorError
from generators.grading.answer import MAX_ANSWER_BYTES, Answer, parse_answer
from generators.grading.rubric import DIMENSIONS, Rubric, check_answer, score_verdicts
from generators.seed import Seed
from generators.stream import Stream
from generators.task import Family, Solvable, TaskInstance
from generators.validation.programs import run_trusted, with_printed

BEYOND_INSTRUCTIONS = ("SR", "DH", "IM")
PERTURBED_RATE = 0.1  # of the numbers of its answer, the perturbed key has wrong

IN_PICTURES = ", image extraction"
SIZES = "file sizes, nearest"  # name of the attacker that every family has

_SOLVER_SECONDS = 120


@dataclass(frozen=True, slots=True)
class PassRate:
    """Parts of one metarubric that the reference solver met, and all that were decided."""

    metarubric: str
    dimension: str
    weight: float
    passed: int
    total: int

    @property
    def rate(self) -> float:
        """The share that passed."""
        return self.passed / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson, 95 %, as though the parts of one instance were independent."""
        from scipy.stats import binomtest

        found = binomtest(self.passed, self.total).proportion_ci(method="wilson")
        return float(found.low), float(found.high)


@dataclass(frozen=True, slots=True)
class MeanScore:
    """A mean over instances, with its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, scores: Sequence[float]) -> MeanScore:
        """Return the mean of some scores. Raises StatisticsError for none."""
        mean = statistics.fmean(scores)
        spread = statistics.stdev(scores, mean) if len(scores) > 1 else 0.0
        return cls(mean, spread / math.sqrt(len(scores)))


def key_score(family: Family, instance: TaskInstance) -> float:
    """The score of the family's own key."""
    return score_answer(instance, Answer(family.key(instance.truth)))


def key_misfits(family: Family, instance: TaskInstance) -> tuple[str, ...]:
    """What of the family's own key does not fit the answer schema of the brief, a line each.

    Raises GeneratorError for a schema that is none."""
    schema = instance.brief.answer_schema
    return Answer(family.key(instance.truth)).violations(schema) if schema else ()


def solver_answer(family: Solvable, instance: TaskInstance) -> Answer | None:
    """Return the answer of the reference solver, run in a process of its own on the files alone.

    Raises GeneratorError if it fails or writes no answer.
    """
    with tempfile.TemporaryDirectory(prefix="dosimeter-") as folder:
        for asset in instance.brief.assets:
            path = Path(folder, asset.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(asset.data)
        try:
            _, error = run_trusted(family.solver(), ("",), _SOLVER_SECONDS, folder)
        except ChildLimitError as limit:
            raise GeneratorError(f"the solver of {instance.spec.family} {limit}") from None
        written = Path(folder, "answer.json")
        if error is not None or not written.is_file():
            raise GeneratorError(f"the solver of {instance.spec.family} wrote no answer: {error}")
        answer = parse_answer("", written.read_bytes())
        return answer and answer.with_files(dict(_files_of(answer, Path(folder))))


def _files_of(answer: Answer, folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files that the answer points to, as far as the harness would take them."""
    for name in answer.named_files():
        path = folder / name
        if path.resolve().is_relative_to(folder.resolve()) and path.is_file():
            data = path.read_bytes()
            if len(data) <= MAX_ANSWER_BYTES:
                yield name, data


def perturbed_score(family: Family, instance: TaskInstance, seed: Seed) -> float:
    """The score of the key with each number falsified at PERTURBED_RATE, drawn from the seed."""
    perturbed = perturb_answer(
        family.key(instance.truth), PERTURBED_RATE, seed.child("noise").rng()
    )
    return score_answer(instance, Answer(perturbed), BEYOND_INSTRUCTIONS)


def guess_scores(family: Family, instance: TaskInstance) -> dict[str, float]:
    """For each null answer, its score outside instructions-following."""
    return {
        name: score_answer(instance, Answer(block), BEYOND_INSTRUCTIONS)
        for name, block in family.nulls(instance).items()
    }


def attack_scores(family: Family, instance: TaskInstance) -> dict[str, float]:
    """For each attacker, its score outside instructions-following; for one that sees no picture of
    an instance with some, its score in image extraction too."""
    scores: dict[str, float] = {}
    pictured = any(asset.media_type.startswith("image/") for asset in instance.brief.assets)
    for attacker in family.attackers() if isinstance(family, Attackable) else ():
        seen = seen_files(instance.brief.assets, attacker.access)
        answer = Answer(dict(attacker.attack(seen)))
        scores[attacker.name] = score_answer(instance, answer, BEYOND_INSTRUCTIONS)
        if pictured and attacker.access is Access.TABLES:
            extracted = _score_in(instance, answer, ("IM",))
            if extracted is not None:
                scores[f"{attacker.name}{IN_PICTURES}"] = extracted
    return scores


def noisy_scores(family: Family, instance: TaskInstance, seed: Seed) -> dict[str, float]:
    """For each of the family's noisy solvers, its score outside instructions-following."""
    solvers = family.noisy_solvers() if isinstance(family, Attackable) else ()
    files = {asset.path: asset.data for asset in instance.brief.assets}
    return {
        solver.name: score_answer(
            instance,
            Answer(dict(solver.solve(files, seed.child(f"noise {solver.name}").rng()))),
            BEYOND_INSTRUCTIONS,
        )
        for solver in solvers
    }


@dataclass(frozen=True, slots=True)
class SizeGuesser:
    """An attacker of every family: it has the keys of other instances of the stratum, and answers
    with that of the instance whose files are nearest in size."""

    family: Family
    known: list[tuple[tuple[int, ...], TaskInstance]] = field(default_factory=list)

    def add(self, instance: TaskInstance) -> None:
        """Learn an instance; its files are not kept."""
        brief = replace(instance.brief, assets=())
        self.known.append((_sizes(instance), replace(instance, brief=brief)))

    def scores(self) -> list[dict[str, float]]:
        """For each instance, the score outside instructions-following of the answer that the
        others suggest."""
        return [
            {
                SIZES: score_answer(
                    instance,
                    Answer(self.family.key(self._nearest(index, sizes).truth)),
                    BEYOND_INSTRUCTIONS,
                )
            }
            for index, (sizes, instance) in enumerate(self.known)
            if len(self.known) > 1
        ]

    def _nearest(self, index: int, sizes: tuple[int, ...]) -> TaskInstance:
        others = (known for at, known in enumerate(self.known) if at != index)
        return min(others, key=lambda known: _distance(known[0], sizes))[1]


def _sizes(instance: TaskInstance) -> tuple[int, ...]:
    return tuple(len(asset.data) for asset in instance.brief.assets)


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, int]:
    """First by the number of files, then by the sum of the differences in bytes."""
    differences = sum(abs(a - b) for a, b in zip(one, other, strict=False))
    return abs(len(one) - len(other)), differences


def mean_scores(scored: Iterable[dict[str, float]]) -> dict[str, MeanScore]:
    """The means by name."""
    columns: dict[str, list[float]] = {}
    for scores in scored:
        for name, score in scores.items():
            columns.setdefault(name, []).append(score)
    return {name: MeanScore.of(column) for name, column in columns.items()}


def score_answer(
    instance: TaskInstance, answer: Answer | None, dimensions: tuple[str, ...] = DIMENSIONS
) -> float:
    """Score an answer. Raises GeneratorError if no criterion of the dimensions can be checked."""
    score = _score_in(instance, with_printed(instance.rubric, answer), dimensions)
    if score is None:
        raise GeneratorError(f"{instance.spec.stratum}: no criterion can be checked")
    return score


def _score_in(
    instance: TaskInstance, answer: Answer | None, dimensions: tuple[str, ...]
) -> float | None:
    """The score in some dimensions; the others, such as a schema over thousands of values, are not
    decided."""
    asked = Rubric(tuple(part for part in instance.rubric.parts if part.dimension in dimensions))
    return score_verdicts(asked, check_answer(asked, answer), dimensions)


def decided_criteria(
    instance: TaskInstance, answer: Answer | None
) -> Iterator[tuple[tuple[str, str, float], bool]]:
    """The verdict on each part that can be decided, after its metarubric, dimension and weight."""
    verdicts = check_answer(instance.rubric, with_printed(instance.rubric, answer))
    for part, verdict in zip(instance.rubric.parts, verdicts, strict=True):
        if verdict is not None:
            yield (part.metarubric, part.dimension, part.weight), verdict


def pass_rates(decided: Iterable[tuple[tuple[str, str, float], bool]]) -> tuple[PassRate, ...]:
    """For each metarubric, the parts met and decided, over all instances."""
    verdicts: dict[tuple[str, str, float], list[bool]] = {}
    for metarubric, verdict in decided:
        verdicts.setdefault(metarubric, []).append(verdict)
    return tuple(PassRate(*about, sum(met), len(met)) for about, met in verdicts.items())


def perturb_answer(value: Any, rate: float, draws: Stream) -> Any:
    """The answer with each of its readings falsified with probability ``rate``: its numbers,
    the identifiers of its items (under ``id`` or ``…_id``), and the names of files that hold
    more of it (under ``…_file``), which are all lost at once.

    Types are kept: a count is off by one or two (and not below zero), a measured number by a
    tenth of itself and a half or more, which is outside any tolerance that a rubric grants; an
    identifier or a name ends in another character. Other words stay as they are.
    """
    if isinstance(value, dict):
        return {
            key: _misspell(item, rate, draws)
            if isinstance(item, str) and (key == "id" or key.endswith(("_id", "_file")))
            else perturb_answer(item, rate, draws)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [perturb_answer(item, rate, draws) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    wrong = _wrong(value, draws)  # drawn either way, so that one slip does not shift the next
    return wrong if draws.chance(rate) else value


def _wrong(value: float, draws: Stream) -> float:
    sign = draws.choice((-1, 1))
    if isinstance(value, int):
        shift = draws.integer(1, 2)
        return value + shift if sign > 0 or value < shift else value - shift
    return round(value + sign * draws.uniform(1.0, 2.0) * (0.5 + abs(value) / 10), 6)


def _misspell(text: str, rate: float, draws: Stream) -> str:
    digits = [character for character in "0123456789" if character != text[-1:]]
    wrong = text[:-1] + draws.choice(digits)
    return wrong if draws.chance(rate) else text
