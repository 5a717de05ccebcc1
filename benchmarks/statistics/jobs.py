"""The cells of docs/statistics.md: what is simulated, and the specification's figure beside it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.statistics.looks import Scene, count_looks, count_models
from benchmarks.statistics.simulate_process import REGIMES, Design, Effect, moments
from benchmarks.statistics.trials import (
    count_alternatives,
    count_bayes,
    count_equivalence,
    count_mixed,
    count_power,
    measure_saved,
)

Cells = dict[str, tuple[float, float]]  # value, Monte-Carlo error (0: exact)


@dataclass(frozen=True, slots=True)
class Job:
    """Some cells that one simulation gives. ``part`` of the replications asked for are made."""

    run: Callable[[int, np.random.Generator], Cells]
    part: float = 1.0


def stream_of(key: str) -> np.random.Generator:
    """A job's own stream, by its name."""
    return np.random.Generator(np.random.PCG64(int(hashlib.sha256(key.encode()).hexdigest(), 16)))


def rates(hits: Mapping[str, int], of: int) -> Cells:
    return {name: (n / of, _error(n / of, of)) for name, n in sorted(hits.items())}


def _error(rate: float, of: int) -> float:
    """Of a rate, never 0: none of 2000 is not never."""
    kept = min(max(rate, 1 / of), 1 - 1 / of)
    return math.sqrt(kept * (1 - kept) / of)


def _name(design: Design, regime: str) -> str:
    return f"{regime} K{design.tasks} S{design.seeds} R{design.runs}"


def size_key(design: Design, regime: str) -> str:
    return f"size {_name(design, regime)}"


def power_key(design: Design, regime: str, effect: Effect) -> str:
    kind = "" if effect.kind == "all" else f" {effect.kind}"
    ancova = " covariate" if design.covariate_runs else ""
    return f"power {_name(design, regime)}{ancova}{kind} {effect.size:.3f}"


def equivalence_key(design: Design, gap: float) -> str:
    return f"equivalence {_name(design, 'A')} {gap:.3f}"


def saved_key(regime: str, runs: int) -> str:
    return f"saved {regime} R{runs}"


def _size(design: Design, regime: str) -> Job:
    def run(count: int, stream: np.random.Generator) -> Cells:
        return rates(count_alternatives(design, REGIMES[regime], count, stream), count)

    return Job(run)


def _power(design: Design, regime: str, effect: Effect) -> Job:
    def run(count: int, stream: np.random.Generator) -> Cells:
        return rates(count_power(design, REGIMES[regime], effect, count, stream), count)

    return Job(run)


def _equivalence(design: Design, effect: Effect) -> Job:
    def run(count: int, stream: np.random.Generator) -> Cells:
        return rates(count_equivalence(design, REGIMES["A"], effect, count, stream), count)

    return Job(run)


def _mixed(design: Design, regime: str) -> Job:
    def run(count: int, stream: np.random.Generator) -> Cells:
        return rates(count_mixed(design, REGIMES[regime], count, stream), count)

    return Job(run, 0.2)


def _bayes(design: Design, regime: str, part: float) -> Job:
    def run(count: int, stream: np.random.Generator) -> Cells:
        return rates(count_bayes(design, REGIMES[regime], count, stream), count)

    return Job(run, part)


def _saved(regime: str, runs: int) -> Job:
    def run(count: int, stream: np.random.Generator) -> Cells:
        design = Design(4, 64, runs, 4)
        return {"saved": measure_saved(design, REGIMES[regime], count, stream)}

    return Job(run, 0.2)


def _looks(scene: Scene) -> Job:
    def run(count: int, stream: np.random.Generator) -> Cells:
        hits, looks = count_looks(scene, count, stream)
        return rates(hits, count) | {f"{rule}, look": mean for rule, mean in looks.items()}

    return Job(run)


def _models(regime: str, covariate_runs: int) -> Job:
    def run(count: int, stream: np.random.Generator) -> Cells:
        cells: Cells = {}
        for rule, rate_of_rule in count_models(regime, covariate_runs, count, stream).items():
            for i, name in enumerate(("FWER", "FDR", "power")):
                cells[f"{rule}, {name}"] = (rate_of_rule[2 * i], rate_of_rule[2 * i + 1])
        return cells

    return Job(run, 0.5)


def _regime(name: str) -> Job:
    def run(count: int, stream: np.random.Generator) -> Cells:
        moment = moments(REGIMES[name])
        return {
            "SD of a score": (moment.sd_score, 0.0),
            "SD of a fraction": (moment.sd_fraction, 0.0),
            "stable share": (moment.share, 0.0),
        }

    return Job(run)


SIZES = (
    (Design(4, 4, 1, 4), "A"),
    (Design(4, 16, 1, 4), "A"),
    (Design(4, 64, 1, 4), "A"),
    (Design(4, 4, 3, 4), "C"),
    (Design(4, 16, 3, 4), "C"),
)
POWER_ROWS = (
    Design(4, 4),
    Design(4, 16),
    Design(4, 64),
    Design(4, 256),
    Design(12, 16),
    Design(12, 64),
    Design(4, 64, 3),
)
POWER_GAPS = (0.02, 0.05, 0.10, 0.20)
# Seeds for a 5-point gap, for 90 % of it, for 2 points; and detectable effects, in points
NEEDED = (
    (Design(4, 112), 0.05),
    (Design(12, 38), 0.05),
    (Design(4, 41, 3), 0.05),
    (Design(4, 150), 0.05),
    (Design(4, 700), 0.02),
)
DETECTABLE = (
    (Design(4, 4), 0.265),
    (Design(4, 4, 3), 0.160),
    (Design(4, 16), 0.132),
    (Design(4, 16, 3), 0.080),
    (Design(4, 64), 0.066),
    (Design(4, 64, 3), 0.039),
    (Design(4, 256), 0.033),
    (Design(4, 256, 3), 0.020),
    (Design(12, 4), 0.153),
    (Design(12, 4, 3), 0.092),
    (Design(12, 16), 0.076),
    (Design(12, 16, 3), 0.046),
    (Design(12, 64), 0.038),
    (Design(12, 64, 3), 0.023),
)
ADJUSTED = (
    (Design(4, 64, 1, 4), "A"),
    (Design(4, 64, 3, 4), "A"),
    (Design(4, 64, 3, 4), "C"),
)
EQUIVALENT = (Design(4, 122), Design(4, 154))
SCENES = {
    "null A": Scene("A"),
    "null C, same seeds": Scene("C"),
    "A": Scene("A", 0.05),
    "C, same seeds": Scene("C", 0.05),
    "C, ANCOVA": Scene("C", 0.05, covariate_runs=4),
    "C, fresh seeds": Scene("C", 0.05, fresh=True),
    "null C, ANCOVA": Scene("C", covariate_runs=4),
    "null C, fresh seeds": Scene("C", fresh=True),
}


def all_jobs() -> dict[str, Job]:
    """By key, the quick ones first."""
    jobs = {f"regime {name}": _regime(name) for name in REGIMES}
    jobs |= {size_key(d, r): _size(d, r) for d, r in SIZES}
    jobs |= {saved_key(r, runs): _saved(r, runs) for r in REGIMES for runs in (1, 3)}
    jobs |= {power_key(*case): _power(*case) for case in power_cases()}
    jobs |= {
        equivalence_key(d, gap): _equivalence(d, Effect("all", gap))
        for d in EQUIVALENT
        for gap in (0.0, 0.05)
    }
    jobs |= {f"looks {name}": _looks(scene) for name, scene in SCENES.items()}
    jobs["mixed C K4 S4 R3"] = _mixed(Design(4, 4, 3), "C")
    # A second or two each: as many as the specification made.
    jobs["bayes A K4 S4 R1"] = _bayes(Design(4, 4), "A", 0.06)
    jobs["bayes C K4 S4 R3"] = _bayes(Design(4, 4, 3), "C", 0.03)
    jobs |= {
        "models A": _models("A", 0),
        "models C": _models("C", 0),
        "models C, ANCOVA": _models("C", 4),
    }
    return jobs


def power_cases() -> list[tuple[Design, str, Effect]]:
    cases = [(d, "A", Effect("all", gap)) for d in POWER_ROWS for gap in POWER_GAPS]
    cases += [(Design(4, 64), "A", Effect("sparse", gap)) for gap in POWER_GAPS[1:]]
    cases += [(Design(4, 64), "A", Effect("final", 0.033)), (Design(4, 64), "A", Effect("all", 0))]
    cases += [(d, "A", Effect("all", gap)) for d, gap in (*NEEDED, *DETECTABLE)]
    cases += [(d, r, Effect("all", 0.05)) for d, r in ADJUSTED]
    cases += [(Design(4, 16, 3), "C", Effect("all", 0.05))]
    return list(dict.fromkeys(cases))
