"""Study-level monitoring over looks by joint randomisation.

One permutation row gives every unit (an instance) one label for all looks, so that looks that
share units stay as dependent under permutation as they are in truth. Nothing is stored between
looks: ``monitor`` on looks 1…k repeats its result for looks 1…k-1.

For this, units are permuted in blocks of one stratum, one tranche and one look of entry
(the first at which a unit is listed, with a score or with NaN), and each block draws from a
stream of its own, with a seed from the registered seed and the block's name. Units that enter
later make new blocks and move no earlier row. List a tranche whole from its first look on; a
unit that comes late is permuted among those that come with it. Counts by arm are fixed in each
block; a block with one arm only keeps its labels.

Looks are counted from 1, as in the specification. Rows are P permutations and the observed one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from analysis.stats.adjustment import centre_within
from analysis.stats.permutation import (
    NO_VARIANCE,
    TOLERANCE,
    Block,
    Bools,
    Floats,
    Ints,
    draw_labels,
    in_chunks,
    permutation_seed,
    product,
    rows_at_once,
)

_NO_SPREAD = 1e-12  # an SD below this is rounding of a constant
_WHOLE = 1e-9  # a quota this little below a whole number is that number


@dataclass(frozen=True, slots=True, eq=False)
class LookScores:
    """D of one look, by unit, in any order: ``control_means`` of its models' scores.

    ``unit`` (n,) names units, each once; ``stratum``, ``tranche`` and ``public`` (n,) are the
    same for a unit at every look; ``scores`` (n,) is NaN where no model of the look has a score.
    """

    unit: NDArray[Any]
    stratum: NDArray[Any]
    tranche: NDArray[Any]
    public: Bools
    scores: Floats

    def __post_init__(self) -> None:
        columns = (self.unit, self.stratum, self.tranche, self.public, self.scores)
        if len({len(column) for column in columns}) != 1:
            raise AnalysisError("a look's columns differ in length; give each unit one value")
        if np.isinf(self.scores).any():
            raise AnalysisError("a look holds an infinite score; scores are numbers or missing")


@dataclass(frozen=True, slots=True)
class LookStep:
    """The result of one look. ``statistic`` is T_k, of the window of looks ``onset``…k; ``removed``
    rows fell at this look, the last of them with ``threshold``, None where none fell. ``share``
    of all rows reach the observed statistic: a p-value of this look alone, not of the looks."""

    gap: float
    statistic: float
    onset: int
    removed: int
    threshold: float | None
    share: float
    rejected: bool


@dataclass(frozen=True, slots=True)
class Monitoring:
    """P4 over the looks so far. ``rejected_at`` is the look at which the observed row was
    removed, ``window`` the looks (first, last) of the summed gap that led to it."""

    looks: tuple[LookStep, ...]
    rejected_at: int | None
    window: tuple[int, int] | None
    spending: tuple[float, ...]
    permutations: int


@dataclass(frozen=True, slots=True, eq=False)
class _Panel:
    """Every unit of the looks, sorted by block and name. ``scores`` (n, looks), NaN if absent."""

    stratum: NDArray[Any]
    public: Bools
    scores: Floats
    blocks: tuple[tuple[tuple[str, str, int], slice], ...]

    def by_stratum(self) -> list[Bools]:
        """The units (n,) of each stratum."""
        return [self.stratum == h for h in dict.fromkeys(self.stratum.tolist())]

    @property
    def there(self) -> Floats:
        """1 where a unit has a score (n, looks), else 0."""
        return (~np.isnan(self.scores)).astype(np.float64)

    @property
    def strata_at(self) -> Ints:
        """The number of strata with scores at each look."""
        return np.asarray(sum(self.there[here].any(axis=0) for here in self.by_stratum()))

    @property
    def centred(self) -> Floats:
        """Scores minus their stratum's mean at each look (n, looks), 0 where absent."""
        return np.nan_to_num(centre_within(self.scores, self.stratum))

    @property
    def share(self) -> Floats:
        """The share of its block's units that are public, of each unit (n,)."""
        share = np.empty(len(self.public))
        for _, block in self.blocks:
            share[block] = self.public[block].mean()
        return share


def monitor(
    looks: Sequence[LookScores], *, alpha: float, looks_planned: int, permutations: int, seed: int
) -> Monitoring:
    """P4 on the looks so far: at look k, of the rows still live those with the largest T_k are
    removed, until floor(cum_k (P+1)) are gone; the study rejects when the observed row goes.

    cum_k is alpha k/T. ``seed`` is the registration's, the same at every look; it also orders rows
    that are equal. There are no more looks than planned, and each has scores in both arms of its
    strata. Raises AnalysisError for a unit that changes arm, stratum or tranche or stands twice in
    a look.
    """
    spent, rows = linear_spending(alpha, looks_planned), permutations + 1
    quota = np.floor(np.asarray(spent) * rows + _WHOLE).astype(np.int64)
    panel = _gather(looks)
    gaps = _permuted_gaps(panel, permutations, seed)
    uneven = [k for k in range(1, len(looks) + 1) if _uneven(panel, k)]
    statistics, onset = scan_windows(
        gaps, {k: _variances(panel, k, permutations, seed) for k in uneven}
    )
    removed = remove_rows(statistics, quota[: len(looks)], tie_keys(rows, seed))
    steps = tuple(
        LookStep(
            gap=float(gaps[0, k]),
            statistic=float(statistic[0]),
            onset=int(onset[0, k]),
            removed=int(gone.sum()),
            threshold=float(statistic[gone].min()) if gone.any() else None,
            share=float((statistic >= statistic[0] - TOLERANCE).mean()),
            rejected=bool(gone[0]),
        )
        for k, (statistic, gone) in enumerate(
            (statistics[:, k], removed == k + 1) for k in range(len(looks))
        )
    )
    at = int(removed[0]) or None
    window = None if at is None else (steps[at - 1].onset, at)
    return Monitoring(steps, at, window, spent, permutations)


def linear_spending(alpha: float, looks: int) -> tuple[float, ...]:
    """cum_k = alpha k/T."""
    return tuple(alpha * k / looks for k in range(1, looks + 1))


def permute_looks(looks: Sequence[LookScores], *, permutations: int, seed: int) -> Floats:
    """Gaps by look (P+1, looks), the observed ones first: public minus private mean, averaged
    over the strata that have scores at the look. A row that leaves an arm of a stratum empty at
    a look (where units are missing) has no difference there."""
    return _permuted_gaps(_gather(looks), permutations, seed)


def scan_windows(
    gaps: Floats, variances: Mapping[int, Floats] = MappingProxyType({})
) -> tuple[Floats, Ints]:
    """T_k = max over j ≤ k of the gap summed over looks j…k, divided by its SD over all rows; and
    the look at which that window begins, from 1. Both (rows, looks), as ``gaps``. A window
    without spread counts 0 in every row. At the looks k of ``variances`` (rows, k), each row's sum
    over looks j…k is divided by its own standard error first."""
    sums, windows = np.concatenate([np.zeros((len(gaps), 1)), gaps.cumsum(axis=1)], axis=1), []
    for k in range(1, sums.shape[1]):
        ending = sums[:, k, None] - sums[:, :k]
        if k in variances:
            ending /= np.sqrt(np.maximum(variances[k], NO_VARIANCE))
        windows.append(_largest_window(ending))
    statistics, onset = zip(*windows, strict=True)
    return np.stack(statistics, axis=1), np.stack(onset, axis=1)


def remove_rows(statistics: Floats, quota: Ints, keys: NDArray[np.uint64]) -> Ints:
    """At which look each row is removed, 0 for never. At look k the live rows with the largest
    statistics fall until ``quota[k]`` have fallen in all. Statistics that differ by rounding are
    equal, and the smaller key falls first. Rows are treated alike: that makes the test exact."""
    removed = np.zeros(len(statistics), dtype=np.int64)
    for k in range(len(quota)):
        live = np.flatnonzero(removed == 0)
        count = int(quota[k]) - (len(removed) - len(live))
        removed[live[_ranked(statistics[live, k], keys[live])[: max(count, 0)]]] = k + 1
    return removed


def tie_keys(rows: int, seed: int) -> NDArray[np.uint64]:
    """The registered random keys by row."""
    bits = np.random.PCG64(permutation_seed(str(seed), "ties"))
    return np.asarray(bits.random_raw(rows), dtype=np.uint64)


def _ranked(values: Floats, keys: NDArray[np.uint64]) -> Ints:
    """Places from the largest value down; values within TOLERANCE of the next are one value."""
    order = np.argsort(-values, kind="stable")
    drops = np.diff(values[order]) < -TOLERANCE
    level = np.concatenate([[0], drops.cumsum()])[: len(values)]
    return np.asarray(order[np.lexsort((keys[order], level))])


def _largest_window(sums: Floats) -> tuple[Floats, Ints]:
    """``sums`` (rows, windows), the longest first: the largest in SD units, and where it begins."""
    sd = sums.std(axis=0)
    z = np.divide(sums, sd, out=np.zeros_like(sums), where=sd > _NO_SPREAD)
    first = z.argmax(axis=1)
    return np.take_along_axis(z, first[:, None], axis=1)[:, 0], first + 1


def _gather(looks: Sequence[LookScores]) -> _Panel:
    """Units with their fixed properties, in blocks, and their scores by look."""
    units: dict[Any, tuple[str, str, int, bool]] = {}
    for k, look in enumerate(looks, start=1):
        _admit(units, look, k)
    names = sorted(units, key=lambda unit: (*units[unit][:3], str(unit)))
    place = {unit: i for i, unit in enumerate(names)}
    scores = np.full((len(names), len(looks)), np.nan)
    for k, look in enumerate(looks):
        scores[[place[unit] for unit in look.unit.tolist()], k] = look.scores
    stratum = np.array([units[unit][0] for unit in names], dtype=object)
    public = np.array([units[unit][3] for unit in names], dtype=bool)
    blocks = []
    for block, group in groupby(range(len(names)), key=lambda i: units[names[i]][:3]):
        first, *rest = group
        blocks.append((block, slice(first, first + len(rest) + 1)))
    return _Panel(stratum, public, scores, tuple(blocks))


def _admit(units: dict[Any, tuple[str, str, int, bool]], look: LookScores, k: int) -> None:
    """Take in the units of look k; known ones must be unchanged."""
    if len(set(look.unit.tolist())) != len(look.unit):
        raise AnalysisError(f"look {k}: a unit stands twice; give each unit of a look one score")
    fixed = zip(
        look.unit.tolist(),
        look.stratum.tolist(),
        look.tranche.tolist(),
        look.public.tolist(),
        strict=True,
    )
    for unit, stratum, tranche, public in fixed:
        now = (str(stratum), str(tranche), k, bool(public))
        known = units.setdefault(unit, now)
        if (*known[:2], known[3]) != (*now[:2], now[3]):
            raise AnalysisError(
                f"look {k}: a unit has another arm, stratum or tranche than at look {known[2]}; "
                "these are allocated once"
            )


def _permuted_gaps(panel: _Panel, permutations: int, seed: int) -> Floats:
    """Gaps by look (P+1, looks), averaged over the strata that have scores there."""
    there, looks = panel.there, panel.scores.shape[1]
    both = np.concatenate([panel.centred, there], axis=1)
    total = np.zeros((permutations + 1, looks))
    for here, sums in _public_sums(panel, both, permutations, seed):
        chosen, public = sums[:, :looks], sums[:, looks:]
        private = there[here].sum(axis=0) - public
        usable = (public > 0.5) & (private > 0.5)
        one, other = (1 / np.where(usable, count, np.inf) for count in (public, private))
        total += chosen * (one + other)  # centred: a gain of one arm is a loss of the other
    return np.asarray(total / np.maximum(panel.strata_at, 1))


def _uneven(panel: _Panel, k: int) -> bool:
    """True if, of the units of looks 1…k, an arm of a stratum is larger than the other, and none
    holds a single unit: rows of unequal arms are alike only beside their standard errors."""
    known = panel.there[:, :k].any(axis=1)
    arms = [
        [int((known & (panel.stratum == h) & (panel.public == arm)).sum()) for arm in (True, False)]
        for h in dict.fromkeys(panel.stratum[known].tolist())
    ]
    return any(n != m for n, m in arms) and min(map(min, arms)) > 1


def _variances(panel: _Panel, k: int, permutations: int, seed: int) -> Floats:
    """Estimated variances (P+1, k) of each row's gap summed over looks j…k, by j: over strata and
    arms, the variance of what a unit adds to the sum. Units of an arm of a look count as many as
    the blocks' shares say, whatever the labels."""
    there, total = panel.there[:, :k], np.zeros((permutations + 1, k))
    seen = _from_each_look(there) > 0  # in the window
    adds, counts = np.empty((2, len(there), k)), np.empty((2, len(there), k))
    for here in panel.by_stratum():
        for arm, share in enumerate((panel.share[here], 1 - panel.share[here])):
            units = np.maximum(share @ there[here], 0.5) * np.maximum(panel.strata_at[:k], 1)
            adds[arm, here] = _from_each_look(panel.centred[here, :k] / units)
            counts[arm, here] = np.maximum(share @ seen[here], 2.0)
    columns = np.concatenate([*adds, *adds**2], axis=1)
    for here, sums in _public_sums(panel, columns, permutations, seed):
        rest = columns[here].sum(axis=0) - sums
        for arm, part in enumerate((sums, rest)):
            n = counts[arm, here][0]
            first, square = part[:, arm * k : (arm + 1) * k], part[:, (arm + 2) * k :][:, :k]
            total += (square - first**2 / n) * n / (n - 1)
    return total


def _from_each_look(columns: Floats) -> Floats:
    """The sum from each column to the last."""
    return np.asarray(columns[:, ::-1].cumsum(axis=1)[:, ::-1])


def _public_sums(
    panel: _Panel, columns: Floats, permutations: int, seed: int
) -> Iterator[tuple[Bools, Floats]]:
    """The units of each stratum, and the sums of their columns (n, c) over the public units of each
    row (P+1, c): its blocks drawn, each from its own stream, and added up."""
    for here in panel.by_stratum():
        sums = np.zeros((permutations + 1, columns.shape[1]))
        for (stratum, tranche, entry), block in panel.blocks:
            if here[block].any():
                path = ("rows", str(len(stratum)), stratum, tranche, str(entry))
                alone = permutation_seed(str(seed), *path)
                sums += _draw_block(columns[block], panel.public[block], permutations, alone)
        yield here, sums


def _draw_block(columns: Floats, public: Bools, permutations: int, seed: int) -> Floats:
    """Sums of the columns over the public units (P+1, columns), the observed ones first."""
    block = Block(slice(0, len(public)), int(public.sum()))
    sums = np.empty((permutations + 1, columns.shape[1]))
    sums[0] = public @ columns

    def fill(first: int, rows: int) -> None:
        (flags,) = draw_labels(seed, [block], first, rows)
        sums[first + 1 : first + 1 + rows] = product(flags.astype(np.float64), columns)

    in_chunks(fill, permutations, rows_at_once([block]))
    return sums
