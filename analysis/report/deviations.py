"""Where what was done departs from what was promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.data import ResultTable, codes_of
from analysis.plan import KEEP, BurnedSeeds, burned_words, control_models
from analysis.stats import counted
from registry.ledger import Plan, RunManifest
from registry.result_row import GRADER, Arm, Status

_CELL = ("wave", "stratum", "tranche", "arm", "instance")


def deviations(
    plan: Plan,
    table: ResultTable,
    runs: Iterable[RunManifest],
    *,
    entropy: str = "operating system",
    dirty: bool = False,
    grader: str = GRADER,
    reserve: Sequence[int] = (),
) -> tuple[str, ...]:
    """Where what was done departs from what was promised, one sentence each.

    ``runs`` are the manifests of the waves; ``entropy`` is the sealed set's; ``dirty`` says
    whether any other record (registration, draw) was made on a dirty tree; ``reserve`` the seeds
    per arm of each reserve tranche. Names no instance.
    """
    manifests = list(runs)
    graded = table.where(table["grader"] == grader)
    departures: list[str] = []
    departures += _provenance_departures(manifests, entropy, dirty)
    departures += _sample_departures(plan, graded, reserve)
    departures += _run_departures(plan, graded, manifests)
    departures += _served_departures(graded)
    departures += _missing_departures(graded)
    departures += _look_departures(plan, graded)
    if grader != GRADER:
        departures.append(f"Graded by {grader!r}; the plan tests the {GRADER} grader's scores.")
    return tuple(departures)


def table_departures(plan: Plan, table: ResultTable) -> tuple[str, ...]:
    """Where a table from elsewhere departs from a plan, one sentence each."""
    departures: list[str] = []
    departures += _sample_departures(plan, table)
    departures += _served_departures(table)
    departures += _missing_departures(table)
    departures += _look_departures(plan, table)
    return tuple(departures)


def _provenance_departures(runs: Sequence[RunManifest], entropy: str, dirty: bool) -> Iterator[str]:
    if entropy != "operating system":
        yield (
            f"The seeds were drawn from {entropy} entropy, not the operating system's: anyone can "
            "recompute them. This is a demonstration, not evidence."
        )
    if dirty:
        yield "The draw or the registration was made from a working tree with uncommitted changes."
    for run in runs:
        if run.provenance.dirty:
            yield f"Wave {run.wave} ran from a working tree with uncommitted changes."
    if len(commits := {run.provenance.commit for run in runs}) > 1:
        yield f"The waves ran at {len(commits)} different commits."


def burned_departures(plan: Plan, burned: Iterable[BurnedSeeds]) -> Iterator[str]:
    """Models in whose test burned instances stay that the plan would have left out."""
    kept = plan.standard is not None and plan.standard.burned == KEEP
    for seeds in burned:
        if seeds.staying and not kept:
            yield f"{seeds.model} at wave {seeds.wave}: {burned_words(seeds)}."


def _sample_departures(
    plan: Plan, table: ResultTable, reserve: Sequence[int] | None = None
) -> Iterator[str]:
    """``reserve`` None: how large reserve tranches should be is not known."""
    wave, stratum, tranche, arm, instance = (codes_of(table[n]) for n in _CELL)
    cells = _distinct(wave[1], stratum[1], tranche[1], arm[1], instance[1])
    counts = Counter(
        (wave[0][w], tranche[0][t], stratum[0][s], arm[0][a])
        for w, s, t, a, _ in zip(*cells, strict=True)
    )
    drawn = dict(enumerate((plan.seeds_per_arm, *(reserve or ()))))
    there = sorted({(w, t) for w, t, _, _ in counts})
    for at, k, name in ((w, t, s) for w, t in there for s in plan.strata):
        public, private = (counts[at, k, name, arm] for arm in (Arm.PUBLIC, Arm.PRIVATE))
        where = f"Wave {at}, {name}" + (f", tranche {k}" if k else "")
        if public != private:
            yield f"{where}: unequal arms, {public} public and {private} private instances."
        for which, n in ((Arm.PUBLIC, public), (Arm.PRIVATE, private)):
            if n != drawn.get(k, n):
                yield f"{where}: {n} {which} instances; {drawn[k]} were registered."
    for name in sorted(set(stratum[0]) - set(plan.strata)):
        yield f"Stratum {name} is not registered; its rows are left out of the registered test."


def _run_departures(plan: Plan, table: ResultTable, runs: Sequence[RunManifest]) -> Iterator[str]:
    promised = {(run.wave, pin.name) for run in runs for pin in run.models}
    present = set(_models_at_waves(table))
    for wave, model in sorted(present - promised):
        yield f"{model} at wave {wave} stands in no run manifest."
    for wave, model in sorted(promised - present):
        yield f"{model} was to run in wave {wave} and has no result."
    for run in runs:
        if run.replicates != plan.replicates:
            yield (
                f"Wave {run.wave} ran {counted(run.replicates, 'replicate')}; {plan.replicates} "
                "registered."
            )


def _served_departures(table: ResultTable) -> Iterator[str]:
    wave, model, served = (codes_of(table[n]) for n in ("wave", "model", "served_version"))
    cells = zip(*_distinct(wave[1], model[1], served[1]), strict=True)
    versions = Counter((wave[0][w], model[0][m]) for w, m, v in cells if served[0][v])
    for (at, name), count in sorted(versions.items()):
        if count > 1:
            yield f"{name} was served in {count} versions within wave {at}."


def _missing_departures(table: ResultTable) -> Iterator[str]:
    rows = table.where(table["status"] == Status.MISSING)
    if not len(rows):
        return
    lost = Counter(zip(rows["wave"].tolist(), rows["model"], rows["arm"], strict=True))
    wave, model = codes_of(table["wave"]), codes_of(table["model"])
    owed = np.bincount(wave[1] * len(model[0]) + model[1])
    for at, name in sorted({key[:2] for key in lost}):
        public, private = (lost[at, name, arm] for arm in (Arm.PUBLIC, Arm.PRIVATE))
        here = int(owed[wave[0].index(at) * len(model[0]) + model[0].index(name)])
        yield (
            f"{name} at wave {at}: {public + private} episodes "
            f"({(public + private) / here:.1%}) are missing, {public} public and {private} private."
        )


def _models_at_waves(table: ResultTable) -> list[tuple[int, str]]:
    wave, model = codes_of(table["wave"]), codes_of(table["model"])
    cells = zip(*_distinct(wave[1], model[1]), strict=True)
    return [(wave[0][w], model[0][m]) for w, m in cells]


def _distinct(*codes: NDArray[np.int64]) -> list[list[int]]:
    """The distinct rows of some columns of codes, by column."""
    key = np.zeros(len(codes[0]), dtype=np.int64)
    for column in codes:
        key = codes_of(key * (int(column.max(initial=0)) + 1) + column)[1]
    first = np.unique(key, return_index=True)[1]
    return [column[first].tolist() for column in codes]


def _look_departures(plan: Plan, table: ResultTable) -> Iterator[str]:
    controls = control_models(plan)
    waves = sorted({wave for wave, model in _models_at_waves(table) if model not in controls})
    for wave in waves[plan.looks :]:
        yield (
            f"Wave {wave} is a look beyond the {plan.looks} registered: its alpha is spent, and "
            "its results are exploratory."
        )
