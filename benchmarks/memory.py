"""Leaks that only memory can use, in agents of four skills: prints one JSON line.

``families``
    For each family the registered plan (standard-v1, 8 looks, one new model a look, 8 control runs)
    on 64 instances an arm of one stratum. Agents are the family's four noisy solvers; the control
    models are the same four, run twice each. The leaking agent's answers to public instances have
    the true headline values put in, and nothing else. ``found`` are the shares of simulated studies
    in which the plan calls it contaminated, the most able first; ``found_by_score`` by a plan with
    the weighted score and the key fraction alone; ``false`` of the agents without the leak.
    ``raised`` is the mean rise of score and gate-free credit. Each study allocates the same
    instances anew and draws one of each solver's runs. ``variance`` is of a run's score within a
    solver: ``sd``; ``icc``, the share between instances (over the solvers together); ``own``, the
    further share that stays with the instance for one solver.
``markers``
    Studies of 256 public and 256 private instances whose model recalls 15 % of the public markers
    and guesses the others, asked and read as `dosimeter probe --markers` does, at alpha .001:
    the shares that find it exposed, that find one that recalls nothing, and that are invalid.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from analysis.plan.markers import MarkerCounts, MarkerFinding, test_markers
from analysis.plan.presets import basic_plan, standard_plan
from analysis.plan.primary import ModelScores, Studies
from analysis.plan.rule import apply_rule
from analysis.power.variance_components import rate_error
from analysis.stats.permutation import Bools, Floats
from generators.attackers import Attackable
from generators.catalog import INSTALLED
from generators.grading.answer import Answer
from generators.grading.checks import ShareOf, ungated
from generators.grading.programs import Prints
from generators.grading.rubric import (
    check_answer,
    check_facts,
    headline_credit,
    headline_parts,
    key_fraction,
    score_verdicts,
)
from generators.seed import Seed
from generators.task import Family, TaskInstance
from generators.title import marker_of, title_of
from generators.validation.programs import with_printed
from harness.model import ModelRequest
from harness.models.scripted import Memory, SolvingAgent
from harness.probe.markers import marker_messages, read_marker
from registry.ledger.records import Plan

ROOT = Seed(b"dosimeter benchmarks/memory seed".ljust(32, b"."))
ARM, LOOKS, RUNS, CONTROL_RUNS, ASKED, RECALLED = 64, 8, 3, 2, 256, 0.15
PERMUTATIONS = 1599  # 5 of 1600 is the alpha of one of eight looks
OUTCOMES = ("score", "key-fraction", "gate-free")
BATCH = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="*", help="none: the markers alone; default: all")
    parser.add_argument("--difficulty", default="medium")
    parser.add_argument("--studies", type=int, default=200)
    options = parser.parse_args()
    every = [family.name for family in INSTALLED.families()]
    line: dict[str, Any] = {
        "benchmark": "memory",
        "difficulty": options.difficulty,
        "studies": options.studies,
        "instances_an_arm": ARM,
        "families": {
            name: measure(INSTALLED.family(name), options.difficulty, options.studies)
            for name in (every if options.families is None else options.families)
        },
    }
    if not options.families:
        line["markers"] = measure_markers(options.studies)
    print(json.dumps(line))


def measure(family: Family, difficulty: str, studies: int) -> dict[str, Any]:
    """Return what studies of a family find, and how its scores vary."""
    made = [outcomes_of(family, difficulty, number) for number in range(2 * ARM)]
    honest = np.array([pair[0] for pair in made])  # (instances, solvers, runs, outcomes)
    leaked = np.array([pair[1] for pair in made])
    stream = np.random.Generator(np.random.PCG64(20261123))
    plan = standard_plan(
        ["s"],
        ARM,
        looks=LOOKS,
        permutations=PERMUTATIONS,
        outcomes=OUTCOMES,
        pre_exposure=[f"before {number}" for number in range(honest.shape[1])],
        control_runs=CONTROL_RUNS,
        sensitivity=(),
    )
    found, by_score, false = (np.zeros(honest.shape[1]) for _ in range(3))
    for start in range(0, studies, BATCH):
        size = min(BATCH, studies - start)
        clean, leaky, control = _draw_studies(honest, leaked, size, stream)
        seed = int(stream.integers(1 << 62))
        found += _claims(plan, leaky, control, seed)
        false += _claims(plan, clean, control, seed)
        two = replace(plan, outcomes=OUTCOMES[:2])
        by_score += _claims(two, leaky[..., :2], control[..., :2], seed)
    rise = (leaked - honest).mean(axis=(0, 2))
    return {
        "mean": _round(honest[..., 0].mean(axis=(0, 2))),
        "raised": {"score": _round(rise[:, 0]), "gate_free": _round(rise[:, 2])},
        "found": _round(found / studies),
        "found_by_score": _round(by_score / studies),
        "false": _round(false / studies),
        "error": round(rate_error(0.95, studies), 3),
        "variance": variance_of(honest[..., 0]),
    }


def outcomes_of(family: Family, difficulty: str, number: int) -> tuple[Any, Any]:
    """Return the outcomes (solvers, runs, outcomes) of an instance, without and with the leak."""
    if not isinstance(family, Attackable) or not family.noisy_solvers():
        raise SystemExit(f"{family.name} ships no noisy solvers")
    seed = ROOT.child(family.name, difficulty, number)
    instance = family.generate(difficulty, seed)
    files = {asset.path: asset.data for asset in instance.brief.assets}
    known = headline_values(family, instance)
    honest, leaked = [], []
    for solver in family.noisy_solvers():
        streams = (seed.child("solver", solver.name, run).rng() for run in range(RUNS))
        blocks = [solver.solve(files, stream) for stream in streams]
        honest.append([graded(instance, block) for block in blocks])
        leaked.append([graded(instance, {**block, **known}) for block in blocks])
    return honest, leaked


def headline_values(family: Family, instance: TaskInstance) -> dict[str, Any]:
    """Return the values of the key that the headline parts of the rubric ask for."""
    checks = [ungated(part.check) for part in headline_parts(instance.rubric) if part.check]
    names = {name for check in checks for name in _names_in(check)}
    return {name: value for name, value in family.key(instance.truth).items() if name in names}


def _names_in(check: Any) -> Iterator[str]:
    """The keys of an answer block that a check reads."""
    if isinstance(check, ShareOf):
        for inner in check.checks:
            yield from _names_in(inner)
    elif isinstance(check, Prints):
        yield "program"
    else:
        yield (check.path if hasattr(check, "path") else check.items.path)[0]


def graded(instance: TaskInstance, block: Mapping[str, Any]) -> list[float]:
    """Return the outcomes of an answer block."""
    answer = with_printed(instance.rubric, Answer(block))
    verdicts = check_answer(instance.rubric, answer)
    return [
        score_verdicts(instance.rubric, verdicts) or 0.0,
        key_fraction(instance.rubric, verdicts) or 0.0,
        headline_credit(instance.rubric, check_facts(instance.rubric, answer)) or 0.0,
    ]


def _draw_studies(
    honest: Floats, leaked: Floats, studies: int, stream: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Return the scores of studies (instances, studies, solvers, outcomes), those with the leak on
    the first half of the instances, and the control models' means (instances, studies, outcomes).
    Each study has the instances and the runs in an order of its own."""
    n, solvers, runs, _ = honest.shape
    order = np.stack([stream.permutation(n) for _ in range(studies)], axis=1)
    run = stream.random((n, studies, solvers, runs)).argsort(axis=-1)
    at = order[:, :, None], np.arange(solvers)
    clean, leaky = (values[(*at, run[..., 0])] for values in (honest, leaked))
    leaky[n // 2 :] = clean[n // 2 :]
    controls = [honest[(*at, run[..., 1 + again])] for again in range(CONTROL_RUNS)]
    return clean, leaky, np.mean(controls, axis=0).mean(axis=2)


def _claims(plan: Plan, values: Floats, control: Floats, seed: int) -> Floats:
    """Return in how many studies each solver is called contaminated, as the one model of a look."""
    n, studies, solvers, outcomes = values.shape
    columns = studies * solvers
    wide = np.repeat(control, solvers, axis=1)
    scores = ModelScores(values.reshape(n, columns, outcomes), wide)
    stratum, public = np.zeros(n, dtype=np.int64), np.arange(n) < n // 2
    members = np.arange(columns)[:, None]
    drawn = Studies(scores, members, public[:, None], stratum, stratum)
    rule = apply_rule(plan, drawn, scores.adjusted(stratum).residuals, seed)
    called: Bools = rule.contaminated
    return np.asarray(called.reshape(studies, solvers).sum(axis=0), dtype=np.float64)


def variance_of(scores: Floats) -> dict[str, float]:
    """Return the components of the scores (instances, solvers, runs) by the method of moments,
    each solver's scores centred on their mean."""
    n, solvers, runs = scores.shape
    centred = scores - scores.mean(axis=(0, 2), keepdims=True)
    total = float((centred**2).sum() / (solvers * (n * runs - 1)))
    means = centred.mean(axis=2)
    within = float(((centred - means[..., None]) ** 2).sum() / (n * solvers * (runs - 1)))
    pairs = means.T @ means / (n - 1)
    shared = float((pairs.sum() - np.trace(pairs)) / (solvers * (solvers - 1)))
    return {
        "sd": round(total**0.5, 3),
        "icc": round(shared / total, 3),
        "own": round((total - within - shared) / total, 3),
    }


def measure_markers(studies: int) -> dict[str, Any]:
    """Return what studies find of a model that recalls some of the public markers, and of one that
    recalls none."""
    plan = basic_plan(["s"], ASKED)
    example = INSTALLED.family("compute_average").generate("easy", ROOT)
    found: dict[float, Counter[MarkerFinding]] = {RECALLED: Counter(), 0.0: Counter()}
    for study in range(studies):
        arms = []
        for arm in range(2):
            seeds = [ROOT.child("markers", study, arm, number) for number in range(ASKED)]
            arms.append(
                [replace(example, title=title_of(seed), marker=marker_of(seed)) for seed in seeds]
            )
        asked = [[(each.marker, _request(each)) for each in arm] for arm in arms]
        released = Memory({}, {}, {each.title: each.marker for each in arms[0]})
        for share, findings in found.items():
            agent = SolvingAgent("m", 0.0, released.thin(share, f"study {study}"))
            public, private = (
                MarkerCounts(ASKED, sum(_names(agent, *each) for each in arm)) for arm in asked
            )
            findings[test_markers(plan, [("m", public, private)], 0)[0].finding] += 1
    return {
        "studies": studies,
        "instances": ASKED,
        "alpha": plan.marker_alpha,
        "recalled": RECALLED,
        "found": found[RECALLED][MarkerFinding.EXPOSED] / studies,
        "false": found[0.0][MarkerFinding.EXPOSED] / studies,
        "invalid": found[RECALLED][MarkerFinding.INVALID] / studies,
    }


def _request(instance: TaskInstance) -> ModelRequest:
    return ModelRequest(marker_messages(instance, INSTALLED), (), ROOT)


def _names(agent: SolvingAgent, marker: str, request: ModelRequest) -> bool:
    """Report if an agent names a marker."""
    return read_marker(agent.respond(request).message.text) == marker


def _round(values: Floats) -> list[float]:
    return [round(float(value), 3) for value in values]


if __name__ == "__main__":
    main()
