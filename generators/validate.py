"""What every family must keep, measured: its key, its solver, guesses, bytes, distinctness.

The rules are R1, R2 and R9 of spec/physics.md. ``python -m generators.validate FAMILY
DIFFICULTY`` reads seeds from its standard input and prints a digest of all the bytes of each
one's instance, so that another process can be compared with this one.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from generators.answer import Answer, parse_answer
from generators.catalog import family as find_family
from generators.errors import GeneratorError
from generators.rubric import check_answer, score_verdicts
from generators.seed import Seed
from generators.task import Family, TaskInstance

KEY_SCORE = 1.0
SOLVER_SCORE = 0.98
NULL_SCORE = 0.15
NULL_SEEDS = 40  # the mean of the luckiest guess of any family then errs by 0.03 (1 σ) at most
BEYOND_INSTRUCTIONS = ("SR", "DH", "IM")

_SOLVER_SECONDS = 120
_CHECKOUT = Path(__file__).resolve().parent.parent
# Values that a few dozen small integers make by chance tell nothing of where they are from.
_LARGEST_COMMON_DENOMINATOR = 1000
_SHORTEST_TELLING_TEXT = 8


@dataclass(frozen=True, slots=True)
class Validation:
    """How a family at a difficulty did over some seeds.

    ``key`` and ``solver`` are the lowest scores of any of ``seeds`` seeds. ``nulls`` holds,
    for each null answer, the mean over ``null_seeds`` seeds of its score outside
    instructions-following: what a guess earns in expectation, since on few it may be luck.
    """

    family: str
    version: str
    difficulty: str
    seeds: int
    null_seeds: int
    key: float
    solver: float
    nulls: tuple[tuple[str, float], ...]
    same_elsewhere: bool
    distinct: bool

    @property
    def problems(self) -> tuple[str, ...]:
        """What is out of bounds, a line each; empty when all is well."""
        found = []
        if self.key < KEY_SCORE:
            found.append(f"the key scores {self.key:.3f}, not {KEY_SCORE}")
        if self.solver < SOLVER_SCORE:
            found.append(f"the solver scores {self.solver:.3f}, below {SOLVER_SCORE}")
        for name, score in self.nulls:
            if score > NULL_SCORE:
                found.append(f"the null answer {name!r} scores {score:.3f}, above {NULL_SCORE}")
        if not self.same_elsewhere:
            found.append("another process makes other bytes of the same seeds")
        if not self.distinct:
            found.append("two seeds share an id, a file or a value")
        return tuple(found)

    @property
    def holds(self) -> bool:
        return not self.problems

    def as_record(self) -> dict[str, str | int | float | bool]:
        """One flat row, for a table or for JSON; of the null answers the best."""
        guess, earned = max(self.nulls, key=lambda null: null[1])
        return {
            "task": f"{self.family}@{self.version}",
            "difficulty": self.difficulty,
            "seeds": self.seeds,
            "key": self.key,
            "solver": self.solver,
            "guess": round(earned, 4),
            "best_guess": guess,
            "same_elsewhere": self.same_elsewhere,
            "distinct": self.distinct,
            "problems": "; ".join(self.problems),
        }


def validate(family: Family, difficulty: str, seeds: int = 20) -> Validation:
    """Measure all of it on so many public seeds, and guesses on at least NULL_SEEDS.

    Raises GeneratorError for no seeds, for an unknown difficulty and for a solver that fails.
    """
    if seeds < 1:
        raise GeneratorError(f"a validation needs at least one seed, not {seeds}")
    drawn = public_seeds(max(seeds, NULL_SEEDS))
    everyone = [family.generate(difficulty, seed) for seed in drawn]
    instances = everyone[:seeds]
    digests = [instance_digest(instance) for instance in instances]
    return Validation(
        family=family.name,
        version=family.version,
        difficulty=difficulty,
        seeds=seeds,
        null_seeds=len(everyone),
        key=min(key_score(family, instance) for instance in instances),
        solver=min(solver_score(family, instance) for instance in instances),
        nulls=tuple(null_scores(family, everyone).items()),
        same_elsewhere=digests == digests_elsewhere(family, difficulty, drawn[:seeds]),
        distinct=not shared_fingerprints(everyone),
    )


def public_seeds(count: int) -> tuple[Seed, ...]:
    """Seeds that everyone knows, for checks and galleries; never for a study."""
    root = Seed(hashlib.sha256(b"dosimeter/public-seeds").digest())
    return tuple(root.child(index) for index in range(count))


def key_score(family: Family, instance: TaskInstance) -> float:
    """The score of the family's own key."""
    return _score(instance, Answer(family.key(instance.truth)))


def solver_score(family: Family, instance: TaskInstance) -> float:
    """The score of the reference solver, run as a program of its own on the files alone.

    Raises GeneratorError where it fails or writes no answer.
    """
    with tempfile.TemporaryDirectory(prefix="dosimeter-") as folder:
        for asset in instance.brief.assets:
            path = Path(folder, asset.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(asset.data)
        ended = subprocess.run(
            [sys.executable, "-I", "-c", family.solver()],
            cwd=folder,
            capture_output=True,
            timeout=_SOLVER_SECONDS,
            check=False,
        )
        written = Path(folder, "answer.json")
        if ended.returncode != 0 or not written.is_file():
            last = ended.stderr.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
            raise GeneratorError(f"the solver of {family.name} wrote no answer: {last}")
        return _score(instance, parse_answer("", written.read_bytes()))


def null_scores(family: Family, instances: Sequence[TaskInstance]) -> dict[str, float]:
    """For each null answer, its mean score outside instructions-following."""
    totals: dict[str, float] = {}
    for instance in instances:
        for name, block in family.nulls(instance).items():
            score = _score(instance, Answer(block), BEYOND_INSTRUCTIONS)
            totals[name] = totals.get(name, 0.0) + score
    return {name: total / len(instances) for name, total in totals.items()}


def _score(instance: TaskInstance, answer: Answer | None, *dimensions: tuple[str, ...]) -> float:
    verdicts = check_answer(instance.rubric, answer)
    score = score_verdicts(instance.rubric, verdicts, *dimensions)
    if score is None:
        raise GeneratorError(f"{instance.spec.stratum}: no criterion can be checked")
    return score


def instance_digest(instance: TaskInstance) -> str:
    """SHA-256 over every byte of an instance: id, spec, brief, files, truth and rubric."""
    import rfc8785

    brief = instance.brief
    record: dict[str, Any] = {
        "id": instance.id,
        "stratum": instance.spec.stratum,
        "version": instance.spec.version,
        "parameters": dict(instance.spec.parameters),
        "prompt": brief.prompt,
        "answer_schema": brief.answer_schema,
        "limits": {name: getattr(brief.limits, name) for name in brief.limits.__slots__},
        "assets": [[asset.path, asset.media_type] for asset in brief.assets],
        "truth": instance.truth.as_json(),
        "rubric": instance.rubric.as_json(),
    }
    hasher = hashlib.sha256(rfc8785.dumps(record))
    for asset in brief.assets:
        hasher.update(len(asset.data).to_bytes(8, "big") + asset.data)
    return "sha256:" + hasher.hexdigest()


def digests_elsewhere(family: Family, difficulty: str, seeds: Sequence[Seed]) -> list[str]:
    """The instances' digests as another process makes them, with other hash randomisation and
    without numpy's faster code paths (R2)."""
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "generators.validate",
            f"{family.name}@{family.version}",
            difficulty,
        ],
        input="".join(f"{seed.hex}\n" for seed in seeds),  # never on a command line
        cwd=_CHECKOUT,
        env=os.environ | {"PYTHONHASHSEED": "4242"} | _without_simd(),
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        last = ended.stderr.strip().rsplit("\n", 1)[-1]
        raise GeneratorError(f"the other process that makes {family.name} failed: {last}")
    return ended.stdout.split()


def _without_simd() -> dict[str, str]:
    """The environment that turns off each code path that numpy would choose on this machine."""
    core = importlib.import_module("numpy._core._multiarray_umath")
    chosen = [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(chosen)} if chosen else {}


def shared_fingerprints(instances: Iterable[TaskInstance]) -> frozenset[str]:
    """What two or more of the instances have in common and should not."""
    seen: set[str] = set()
    shared: set[str] = set()
    for instance in instances:
        own = fingerprints(instance)
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
    for _, table in instance.truth.tables:
        for row in table.rows:
            for value in row:
                if isinstance(value, str) and len(value) >= _SHORTEST_TELLING_TEXT:
                    yield value
                elif isinstance(value, float) and not _is_common(value):
                    yield repr(value)


def _is_common(value: float) -> bool:
    near = Fraction(value).limit_denominator(_LARGEST_COMMON_DENOMINATOR)
    return abs(value - near) <= 1e-12 * abs(value)


def main(arguments: Sequence[str], seeds: Iterable[str]) -> None:
    """Print the digest of the instance of each seed (hexadecimal, one a line)."""
    name, difficulty = arguments
    family = find_family(name)
    for line in seeds:
        print(instance_digest(family.generate(difficulty, Seed.from_hex(line.strip()))))


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdin)
