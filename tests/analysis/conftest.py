"""Result rows as a study would have them, and the records that stand round them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from analysis.plan.presets import basic_plan
from registry.canonical import digest_value
from registry.ledger.records import (
    ModelPin,
    Plan,
    Preregistration,
    Provenance,
    RunManifest,
    SealedSet,
    record_body,
)
from registry.result_row import Arm, ResultRow, Status

STRATA = ("count_circles/easy", "compute_average/medium")
COUNTED = ("score", "fraction")  # the outcomes of rows that count criteria and mark no key


@dataclass(frozen=True)
class Agent:
    name: str
    skill: float
    leak: float = 0.0  # chance of answering a public instance from memory
    missing: float = 0.0


def instance_id(*path: object) -> str:
    return "sha256:" + hashlib.sha256(repr(path).encode()).hexdigest()


def make_row(**given: object) -> ResultRow:
    """A scored row, with what is given in place of its defaults."""
    row: dict[str, object] = {
        "wave": 0, "model": "m", "arm": Arm.PUBLIC, "stratum": STRATA[0], "instance": "i",
        "replicate": 0, "grader": "deterministic", "status": Status.SCORED, "score": 0.5,
        "passed": 5, "total": 10, "score_sr": None, "score_dh": None, "score_im": None,
        "score_if": None, "stop_reason": "answered", "error_class": "", "limits_hit": "",
        "turns": 2, "tool_calls": 1, "input_tokens": 10, "output_tokens": 20, "cost_usd": None,
        "seconds": 0.5, "attempts": 1, "served_version": "scripted-1",
    }  # fmt: skip
    row |= given
    family, _, difficulty = str(row["stratum"]).partition("/")
    return ResultRow(**(row | {"family": family, "difficulty": difficulty}))  # type: ignore[arg-type] # a test's shorthand


def lose(rows: Iterable[ResultRow], where: Callable[[ResultRow], bool]) -> list[ResultRow]:
    """The rows, and those of them lost where it holds."""
    gone: dict[str, Any] = dict.fromkeys(("score", "score_sr", "passed", "total"))
    return [replace(r, status=Status.MISSING, **gone) if where(r) else r for r in rows]


def simulate(
    waves: Sequence[tuple[int, Sequence[Agent]]],
    *,
    seeds: int = 24,
    replicates: int = 1,
    draw: int = 5,
) -> list[ResultRow]:
    rng, rows = np.random.default_rng(draw), []
    for wave, agents in waves:
        for stratum in STRATA:
            for number in range(2 * seeds):
                arm = Arm.PUBLIC if number % 2 else Arm.PRIVATE
                for agent in agents:
                    for replicate in range(replicates):
                        known = arm == Arm.PUBLIC and rng.random() < agent.leak
                        passed = 10 if known else int(rng.binomial(10, agent.skill))
                        lost = rng.random() < agent.missing
                        rows.append(
                            make_row(
                                wave=wave, model=agent.name, arm=arm, stratum=stratum,
                                instance=instance_id(stratum, number), replicate=replicate,
                                status=Status.MISSING if lost else Status.SCORED,
                                score=None if lost else passed / 10,
                                passed=None if lost else passed, total=None if lost else 10,
                            )
                        )  # fmt: skip
    return rows


@dataclass(frozen=True)
class Records:
    plan: Plan
    registered: Preregistration
    registration: str
    sealed: SealedSet
    runs: tuple[RunManifest, ...]


def make_records(waves: Sequence[tuple[int, Sequence[Agent]]], **plan: object) -> Records:
    promised = basic_plan(STRATA, 24, **({"looks": 2, "outcomes": COUNTED} | plan))  # type: ignore[arg-type] # a test's shorthand
    made = Provenance("9f" * 20, False, "sha256:" + "ab" * 32, "sha256:" + "cd" * 32, "3.11", ())
    sealed = SealedSet(
        STRATA, 24, 96, (), "ee" * 32, "sha256:" + "11" * 32, "sealed/x.age", (),
        "operating system", "00" * 32,
    )  # fmt: skip
    registered = Preregistration("A study", promised, sealed.root, made)
    registration = digest_value(record_body(registered))
    runs = tuple(
        RunManifest(
            "A study", wave, registration, sealed.root,
            tuple(ModelPin(a.name, "built-in", "scripted-1") for a in agents), (), "docker",
            "runc", (promised.replicates,) * len(agents), "00", "age1",
            "runs/x/key.age", made, (),
        )
        for wave, agents in waves
    )  # fmt: skip
    return Records(promised, registered, registration, sealed, runs)


WAVES = (
    (0, (Agent("honest-a", 0.8), Agent("honest-b", 0.55))),
    (1, (Agent("honest-a", 0.8), Agent("spiked", 0.6, leak=0.9))),
)


@pytest.fixture(scope="session")
def row() -> Callable[..., ResultRow]:
    return make_row


@pytest.fixture(scope="session")
def study_rows() -> list[ResultRow]:
    return simulate(WAVES)


@pytest.fixture(scope="session")
def lossy_rows() -> list[ResultRow]:
    waves = tuple((w, tuple(Agent(a.name, a.skill, a.leak, 0.05) for a in ag)) for w, ag in WAVES)
    return simulate(waves, replicates=2)


@pytest.fixture(scope="session")
def records() -> Records:
    return make_records(WAVES)
