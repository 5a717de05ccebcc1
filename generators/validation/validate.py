"""Measurements of what every family must keep: key, solver, guesses, bytes, distinctness.

``generators/validation`` holds a module for each. ``python -m generators.validation.validate``
reads families, difficulties and seeds from its standard input and prints a digest of all the bytes
of each one's instance, so that another process can be compared with this one."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from generators.attackers import BOUNDS, WITHOUT_PICTURES, Access, Attackable
from generators.catalog import INSTALLED
from generators.dressings.family import DressedFamily, dressed_family
from generators.errors import GeneratorError
from generators.grading.rubric import Rubric, is_static
from generators.seed import Seed
from generators.task import Family, Solvable, TaskInstance, difficulties_of
from generators.validation.overlap import fingerprints, rising_scores, shared_among, shared_between
from generators.validation.result import Attack, Survey, Validation
from generators.validation.scores import (
    SIZES,
    MeanScore,
    SizeGuesser,
    attack_scores,
    decided_criteria,
    guess_scores,
    key_misfits,
    key_score,
    mean_scores,
    noisy_scores,
    pass_rates,
    perturbed_score,
    score_answer,
    solver_answer,
)
from generators.validation.truth_leaks import LEAK_INSTANCES, LeakSearch
from registry.canonical import canonical_bytes

NULL_SEEDS = 60  # the mean of the luckiest guess of any family then errs by 0.03 (1 σ) at most

_CHECKOUT = Path(__file__).resolve().parent.parent.parent
Watch = Callable[[str, int, int], None]  # what, done, of

# Traces of the program that wrote a rubric's text.
ARTEFACTS = re.compile(
    r"\bnp\.|\bnumpy\b|\barray\(|\b(?:float|u?int)(?:8|16|32|64)\b|\bnan\b|\binf\b|\bNone\b(?! of)"
    r"|[{}]|-0\.0*(?![0-9])"
)


def survey(
    families: Sequence[Family], seeds: int = 20, watch: Watch | None = None, jobs: int = 1
) -> Survey:
    """Validate each family at each difficulty, and compare them with each other.

    ``watch`` receives the work at hand, the strata done and all strata; ``jobs``
    processes share the work.
    """
    strata = [(family, level, seeds) for family in families for level in difficulties_of(family)]
    validations: list[Validation] = []
    report = watch or (lambda what, done, of: None)
    report("checking", 0, len(strata))
    with _workers(min(jobs, len(strata))) as work:
        results = work(validate, *zip(*strata, strict=True))
        for (family, difficulty, _), validation in zip(strata, results, strict=True):
            validations.append(validation)
            report(f"checked {family.name} {difficulty}", len(validations), len(strata))
    across = (*shared_between(validations), *rising_scores(validations))
    return Survey(tuple(validations), across)


@contextmanager
def _workers(jobs: int) -> Iterator[Callable[..., Iterable[Validation]]]:
    """Give a ``map`` over strata, in order: in this process, or in several."""
    if jobs <= 1:
        yield map
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            yield pool.map
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@dataclass(frozen=True, slots=True)
class _Solved:
    """The measurements of an instance that its solver, if there is one, was run on."""

    key: float
    solver: float | None
    decided: tuple[tuple[tuple[str, str, float], bool], ...]  # of the solver's answer
    digest: str
    redraws: int  # degenerate draws that the guards refused (R4), as the spec records it
    artefacts: frozenset[str]
    misfits: tuple[str, ...]


def validate(family: Family, difficulty: str, seeds: int = 20) -> Validation:
    """Measure a family on ``seeds`` public seeds, and guesses on at least NULL_SEEDS, instance by
    instance, so that memory holds one at a time.

    Raises GeneratorError for no seeds, for an unknown difficulty and for a solver that fails.
    """
    if seeds < 1:
        raise GeneratorError(f"a validation needs at least one seed, not {seeds}")
    drawn = public_seeds(max(seeds, NULL_SEEDS))
    search = LeakSearch(family)
    first: Rubric | None = None
    unsteady_metarubrics: set[str] = set()
    perturbed: list[float] = []
    guesses: list[dict[str, float]] = []
    attacks: list[dict[str, float]] = []
    noisy: list[dict[str, float]] = []
    sizes = SizeGuesser(family)
    prints: list[frozenset[str]] = []
    solved: list[_Solved] = []
    for index, seed in enumerate(drawn):
        instance = family.generate(difficulty, seed)
        guesses.append(guess_scores(family, instance))
        attacks.append(attack_scores(family, instance))
        noisy.append(noisy_scores(family, instance, seed))
        sizes.add(instance)
        perturbed.append(perturbed_score(family, instance, seed))
        prints.append(fingerprints(instance))
        first = first or instance.rubric
        unsteady_metarubrics |= unsteady(first, instance.rubric)
        if index < max(seeds, LEAK_INSTANCES):
            search.add(instance)
        if index < seeds:
            solved.append(_solve(family, instance))
    digests = [one.digest for one in solved]
    return Validation(
        family=family.name,
        version=family.version,
        difficulty=difficulty,
        seeds=seeds,
        null_seeds=len(drawn),
        key=min(one.key for one in solved),
        solver=min((s for one in solved if (s := one.solver) is not None), default=None),
        nulls=tuple(mean_scores(guesses).items()),
        attacks=_bounded(family, mean_scores([*attacks, *sizes.scores()])),
        noisy=tuple(mean_scores(noisy).items()),
        same_elsewhere=digests
        == digests_elsewhere((family, difficulty, seed) for seed in drawn[:seeds]),
        distinct=not shared_among(prints),
        perturbed=MeanScore.of(perturbed),
        criteria=pass_rates(chain.from_iterable(one.decided for one in solved)),
        leaks=search.leaks(),
        artefacts=tuple(sorted(frozenset().union(*(one.artefacts for one in solved)))),
        unsteady=tuple(sorted(unsteady_metarubrics)),
        redraws=tuple(one.redraws for one in solved),
        misfits=tuple(sorted({line for one in solved for line in one.misfits})),
        without_attackers=_place_of_attackers(family) if instance.brief.assets else "",
        prints=frozenset().union(*prints[:seeds]),
    )


def _place_of_attackers(family: Family) -> str:
    """The module in which the family should have attackers and noisy solvers; "" if it has both.
    Families of templates never come here: their levels are questions, not difficulties."""
    if isinstance(family, Attackable) and family.attackers() and family.noisy_solvers():
        return ""
    package: str = getattr(family, "package", family.name)
    return f"{package.replace('.', '/')}/attackers.py"


def _bounded(family: Family, means: dict[str, MeanScore]) -> tuple[Attack, ...]:
    """The attackers' means, each with its bound."""
    shipped = family.attackers() if isinstance(family, Attackable) else ()
    bounds = {attacker.name: BOUNDS[attacker.access] for attacker in shipped}
    bounds[SIZES] = BOUNDS[Access.METADATA]
    return tuple(
        Attack(name, mean, bounds.get(name, WITHOUT_PICTURES)) for name, mean in means.items()
    )


def _solve(family: Family, instance: TaskInstance) -> _Solved:
    solvable = isinstance(family, Solvable)
    answer = solver_answer(family, instance) if isinstance(family, Solvable) else None
    return _Solved(
        key=key_score(family, instance),
        solver=score_answer(instance, answer) if solvable else None,
        decided=tuple(decided_criteria(instance, answer)) if solvable else (),
        digest=instance_digest(instance),
        redraws=int(dict(instance.spec.parameters).get("redraws", 0)),
        artefacts=frozenset(artefacts(instance)),
        misfits=key_misfits(family, instance),
    )


def unsteady(one: Rubric, other: Rubric) -> frozenset[str]:
    """The metarubrics of static parts that two instances of a stratum do not share: they need
    a source in the truth, or a gate."""
    first, second = (
        {item.id: (item.text, item.check) for item in rubric.parts if is_static(item)}
        for rubric in (one, other)
    )
    return frozenset(
        name.rpartition("/")[0]
        for name in first.keys() | second.keys()
        if first.get(name) != second.get(name)
    )


def artefacts(instance: TaskInstance) -> Iterator[str]:
    """Traces of the program in the text of parts, each after its metarubric."""
    for part in instance.rubric.parts:
        if match := ARTEFACTS.search(part.text):
            yield f"{part.metarubric}: {match.group(0)!r}"


def public_seeds(count: int) -> tuple[Seed, ...]:
    """Seeds that everyone knows, for checks and galleries; never for a study."""
    root = Seed(hashlib.sha256(b"dosimeter/public-seeds").digest())
    return tuple(root.child(index) for index in range(count))


def instance_digest(instance: TaskInstance) -> str:
    """SHA-256 over every byte of an instance: id, spec, brief, files, truth and rubric."""
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
    hasher = hashlib.sha256(canonical_bytes(record))
    for asset in brief.assets:
        hasher.update(len(asset.data).to_bytes(8, "big") + asset.data)
    return "sha256:" + hasher.hexdigest()


def digests_elsewhere(asked: Iterable[tuple[Family, str, Seed]]) -> list[str]:
    """The digests of the instances of these families, difficulties and seeds as another process
    makes them, with other hash randomisation and without numpy's faster code paths (R2)."""
    lines = [
        f"{json.dumps([f'{each.name}@{each.version}', level, seed.hex, _source_of(each)])}\n"
        for each, level, seed in asked
    ]
    ended = subprocess.run(
        [sys.executable, "-m", "generators.validation.validate"],
        input="".join(lines),  # seeds are never on a command line
        cwd=_CHECKOUT,
        env=os.environ | {"PYTHONHASHSEED": "4242"} | _same_path() | _without_simd(),
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        names = ", ".join(sorted({json.loads(line)[0].split("@")[0] for line in lines}))
        last = ended.stderr.strip().rsplit("\n", 1)[-1]
        raise GeneratorError(f"the other process that makes {names} failed: {last}")
    return ended.stdout.split()


def _source_of(family: Family) -> tuple[str, str] | None:
    """The name and the text of a dressing's file, which no catalogue has."""
    if not isinstance(family, DressedFamily):
        return None
    return family.dressing.document.path, family.dressing.text


def _same_path() -> dict[str, str]:
    """The other process starts in another folder: relative places of packages would be lost."""
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    return {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, places))} if places else {}


def _without_simd() -> dict[str, str]:
    """The environment that turns off each code path that numpy would choose on this machine."""
    core = importlib.import_module("numpy._core._multiarray_umath")
    chosen = [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(chosen)} if chosen else {}


def main(asked: Iterable[str]) -> None:
    """Print the digest of each instance: a line has family, difficulty, seed (hexadecimal), and the
    file of a dressing, as JSON."""
    for line in asked:
        name, difficulty, seed, source = json.loads(line)
        family = dressed_family(*source) if source else INSTALLED.family(name)
        print(instance_digest(family.generate(difficulty, Seed.from_hex(seed))))


if __name__ == "__main__":
    main(sys.stdin)
