"""Seed means of simulated studies, drawn from variance components: what planning is tried on.

Normal deviates without any effect; a study of B replications is on one allocation of n instances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.planning.variance_components import Components
from registry.ledger import Plan

Floats = NDArray[np.float64]

_CELLS = 1 << 21  # scores at a time
_SHARING = 20  # replications on one draw of permutations, whose own error they then share


def allocation(plan: Plan) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Strata and arms of the plan's instances (n,), sorted by stratum."""
    per = 2 * plan.seeds_per_arm
    stratum = np.repeat(np.arange(len(plan.strata)), per)
    return stratum, np.tile(np.arange(per) < plan.seeds_per_arm, len(plan.strata))


def draw_normal(
    components: Components, outcomes: int, shape: Sequence[int], stream: np.random.Generator
) -> Floats:
    """Normal deviates (…, outcomes) with the outcomes' SDs and their correlation."""
    drawn = stream.standard_normal((*shape, outcomes))
    if outcomes > 1:
        r = components.correlation
        drawn[..., 1] = r * drawn[..., 0] + math.sqrt(1 - r * r) * drawn[..., 1]
    return np.asarray(drawn * np.array(components.sd[:outcomes]))


def draw_shared(
    components: Components, outcomes: int, shape: Sequence[int], stream: np.random.Generator
) -> Floats:
    """What every model shares of instances (n, B, outcomes)."""
    everyone, _, _ = components.parts
    return math.sqrt(everyone) * draw_normal(components, outcomes, shape, stream)


def draw_columns(
    components: Components,
    shared: Floats,
    columns: Sequence[str],
    replicates: int,
    stream: np.random.Generator,
) -> Floats:
    """Seed means (n, B, columns, outcomes) of models on instances of which they share ``shared``
    (n, B, outcomes). Columns of one name are one model, run again."""
    _, per_seed, run = components.parts
    outcomes, shape = shared.shape[-1], shared.shape[:2]
    names = list(dict.fromkeys(columns))
    kept = draw_normal(components, outcomes, (*shape, len(names)), stream)
    luck = draw_normal(components, outcomes, (*shape, len(columns)), stream)
    places = [names.index(name) for name in columns]
    return np.asarray(
        shared[:, :, None]
        + math.sqrt(per_seed) * kept[:, :, places]
        + math.sqrt(run / replicates) * luck
    )


def batches(
    seed: int, name: str, wanted: int, size: int
) -> Iterator[tuple[int, np.random.Generator, int]]:
    """Batches of replications that fit in memory, each with a stream and a permutation seed;
    ``size`` is how many scores one replication has."""
    step = max(1, min(_SHARING, _CELLS // max(size, 1)))
    for start in range(0, wanted, step):
        stream = np.random.Generator(np.random.PCG64([seed, start, *name.encode()]))
        yield min(step, wanted - start), stream, int(stream.integers(1 << 62))


def rate_error(rate: float, of: int) -> float:
    """The Monte-Carlo error of a rate, never 0."""
    kept = min(max(rate, 1 / of), 1 - 1 / of)
    return math.sqrt(kept * (1 - kept) / of)
