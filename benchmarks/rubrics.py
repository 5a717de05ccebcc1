"""Power to find a gap of 5 points with the weights of the shipped rubrics: prints one JSON line.

``power``
    What ``dosimeter power`` computes for the four physics families at difficulty medium: 3 models a
    look, 8 looks, 8 control runs on an instance. Scores are Gaussian, with the variance of the
    rubrics' weights.
``independent``
    The same plan on scores that nothing of ``analysis/planning`` has a part in. The odds of failing
    a criterion are the product of an instance's difficulty for all models and for one, and of a
    run's luck, gamma variables of mean 1; criteria are passed independently given the odds and
    weighted as in the rubrics. A model that leaks knows some public instances and scores full marks
    on them. The plan's own code decides.

Rates have their Monte-Carlo errors; ``sd`` is of a run within a stratum, ``stays`` the share of its
variance that stays with the instance, ``gap`` the mean gap that the leak made, each by outcome.
"""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

import numpy as np

from analysis.planning import PowerDesign, PowerSetting, SimulationSize, power_at, weigh_criteria
from benchmarks.statistics.mixed_strata import CONTROL_RUNS, CONTROLS, Floats, Panel
from benchmarks.statistics.planned_studies import decide_look, make_plan
from generators.catalog import INSTALLED
from study.planning import weigh_task
from study.protocol import Task

FAMILIES = (
    *("hubble_constant", "cepheid_calibration"),
    *("invariant_mass_reconstruction", "lissajous_figures"),
)
LOOKS, MODELS, GAP, BATCH = 8, 3, 0.05, 10
PERMUTATIONS = 1599  # 5 of 1600 is the alpha of one of eight looks
_DIFFICULTY, _OWN, _LUCK = 20.0, 30.0, 1.2  # gamma shapes: about the variance of published scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=172, help="in each arm and stratum")
    parser.add_argument("--studies", type=int, default=400)
    options = parser.parse_args()
    weights = [weigh_task(_task(name), INSTALLED, ("score", "key-fraction")) for name in FAMILIES]
    line = {
        "benchmark": "rubrics",
        "gap": GAP,
        "models": MODELS,
        "looks": LOOKS,
        "instances_an_arm": options.seeds * len(FAMILIES),
        "studies": options.studies,
        "power": forecast(weights, options.seeds, options.studies),
        "independent": simulate(weights, options.seeds, options.studies),
    }
    print(json.dumps(line))


def _task(name: str) -> Task:
    return Task(name, INSTALLED.family(name).version, "medium")


def forecast(weights: list[Floats], seeds: int, studies: int) -> dict[str, Any]:
    """Return the power by simulation of Gaussian seed means."""
    plan = make_plan(seeds, looks=LOOKS, permutations=PERMUTATIONS)
    setting = PowerSetting(MODELS, len(CONTROLS), CONTROL_RUNS, GAP)
    design = PowerDesign(plan, weigh_criteria(weights), setting)
    point = power_at(design, SimulationSize(studies, PERMUTATIONS), study=False)
    return {
        "sd": design.components.sd,
        "stays": design.components.seed_share,
        "found": (point.power, point.error),
        "cleared": (point.cleared, point.cleared_error),
    }


def simulate(weights: list[Floats], seeds: int, studies: int) -> dict[str, Any]:
    """Return the rates of studies of the independent process: the leaking model found, a clean one
    cleared."""
    stream = np.random.Generator(np.random.PCG64(20261123))
    plan = make_plan(seeds, looks=LOOKS, permutations=PERMUTATIONS)
    known = GAP / (1 - _mean(stream))
    found, cleared, gaps = 0, 0, np.zeros(2)
    for start in range(0, studies, BATCH):
        size = min(BATCH, studies - start)
        panel = _panel(seeds, size, stream)
        control = np.mean(
            [_runs(panel, weights, CONTROL_RUNS, 0.0, stream) for _ in CONTROLS], axis=0
        )
        models = [_runs(panel, weights, 1, known * (m == 0), stream) for m in range(MODELS)]
        values = np.stack(models, axis=2)
        seed = int(stream.integers(1 << 62))
        decided = decide_look(plan, panel, values, control, seed)
        found += int(decided.contaminated[:, 0].sum())
        cleared += int(decided.cleared[:, 1].sum())
        leaky = values[:, :, 0]
        gaps += (leaky[panel.public].mean(axis=0) - leaky[~panel.public].mean(axis=0)).sum(axis=0)
    sd, stays = _spread(weights, stream)
    return {
        "sd": sd,
        "stays": stays,
        "gap": (gaps / studies).round(4).tolist(),
        "found": _rate(found, studies),
        "cleared": _rate(cleared, studies),
    }


def _panel(seeds: int, studies: int, stream: np.random.Generator) -> Panel:
    n = 2 * seeds * len(FAMILIES)
    stratum = np.arange(n) // (2 * seeds)
    public = np.arange(n) % (2 * seeds) < seeds
    return Panel(stream.gamma(_DIFFICULTY, 1 / _DIFFICULTY, (n, studies)), stratum, public)


def _runs(
    panel: Panel, weights: list[Floats], runs: int, known: float, stream: np.random.Generator
) -> Floats:
    """Return a model's means over its runs (n, B, outcomes)."""
    own = panel.difficulty * stream.gamma(_OWN, 1 / _OWN, panel.difficulty.shape)
    values = np.zeros((*panel.difficulty.shape, 2))
    for _ in range(runs):
        chance = 1 / (1 + own * stream.gamma(_LUCK, 1 / _LUCK, own.shape))
        for code, rows in enumerate(weights):
            here = panel.stratum == code
            draws = stream.random((*chance[here].shape, rows.shape[1]), dtype=np.float32)
            values[here] += (draws < chance[here][..., None]) @ rows.T / runs
    told = (stream.random(own.shape) < known) & panel.public[:, None]
    values[told] = 1.0
    return values


def _mean(stream: np.random.Generator) -> float:
    """Return the mean score of a clean model."""
    odds = [stream.gamma(shape, 1 / shape, 400_000) for shape in (_DIFFICULTY, _OWN, _LUCK)]
    return float((1 / (1 + np.prod(odds, axis=0))).mean())


def _spread(weights: list[Floats], stream: np.random.Generator) -> tuple[list[float], float]:
    """Return the SD of a run by outcome, and the share of the score's variance that stays with an
    instance and a model."""
    panel = _panel(400, 1, stream)
    own = panel.difficulty * stream.gamma(_OWN, 1 / _OWN, panel.difficulty.shape)
    fixed = Panel(own, panel.stratum, panel.public)
    one, two = (_given(fixed, weights, stream) for _ in range(2))
    by_stratum = [panel.stratum == code for code in range(len(weights))]
    sd = np.sqrt(np.mean([one[here].var(axis=0) for here in by_stratum], axis=0))
    products = [np.cov(one[here, 0], two[here, 0])[0, 1] for here in by_stratum]
    return sd.round(4).tolist(), round(float(np.mean(products) / sd[0] ** 2), 3)


def _given(panel: Panel, weights: list[Floats], stream: np.random.Generator) -> Floats:
    """Return one run's scores (n, outcomes), given the odds of the instances."""
    odds = panel.difficulty[:, 0] * stream.gamma(_LUCK, 1 / _LUCK, len(panel.stratum))
    values = np.empty((len(odds), 2))
    for code, rows in enumerate(weights):
        here = panel.stratum == code
        draws = stream.random((here.sum(), rows.shape[1]))
        values[here] = (draws < (1 / (1 + odds[here]))[:, None]) @ rows.T
    return values


def _rate(hits: int, of: int) -> tuple[float, float]:
    rate = hits / of
    kept = min(max(rate, 1 / of), 1 - 1 / of)
    return round(rate, 4), round(math.sqrt(kept * (1 - kept) / of), 4)


if __name__ == "__main__":
    main()
