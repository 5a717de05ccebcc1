"""Where what was done departs from what was promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from analysis.load import Table
from analysis.plan import GRADER
from analysis.planwords import number
from registry.records import Plan, RunManifest
from registry.tables import Arm, Status


def deviations(
    plan: Plan,
    table: Table,
    runs: Iterable[RunManifest],
    *,
    entropy: str = "operating system",
    dirty: bool = False,
    grader: str = GRADER,
) -> tuple[str, ...]:
    """Where what was done departs from what was promised, one sentence each.

    ``runs`` are the manifests of the waves; ``entropy`` is the sealed set's; ``dirty`` says
    whether any other record (registration, draw) was made on a dirty tree. Names no instance.
    """
    held = list(runs)
    graded = table.where(table["grader"] == grader)
    found: list[str] = []
    found += _provenance_departures(held, entropy, dirty)
    found += _sample_departures(plan, graded)
    found += _run_departures(plan, graded, held)
    found += _missing_departures(graded)
    found += _look_departures(plan, graded)
    if grader != GRADER:
        found.append(f"Graded by {grader!r}; the plan tests the {GRADER} grader's scores.")
    return tuple(found)


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


def _sample_departures(plan: Plan, table: Table) -> Iterator[str]:
    cells = set(zip(table["wave"].tolist(), table["stratum"], table["arm"], table["instance"],
                    strict=True))  # fmt: skip
    counts = Counter(cell[:3] for cell in cells)
    for wave in sorted(set(table["wave"].tolist())):
        for stratum in plan.strata:
            public, private = (counts[wave, stratum, arm] for arm in (Arm.PUBLIC, Arm.PRIVATE))
            where = f"Wave {wave}, {stratum}"
            if public != private:
                yield f"{where}: unequal arms, {public} public and {private} private instances."
            for arm, n in ((Arm.PUBLIC, public), (Arm.PRIVATE, private)):
                if n != plan.seeds_per_arm:
                    yield f"{where}: {n} {arm} instances; {plan.seeds_per_arm} were registered."
    for stratum in sorted(set(table["stratum"]) - set(plan.strata)):
        yield f"Stratum {stratum} is not registered; its rows are left out of the registered test."


def _run_departures(plan: Plan, table: Table, runs: Sequence[RunManifest]) -> Iterator[str]:
    promised = {(run.wave, pin.name) for run in runs for pin in run.models}
    present = set(zip(table["wave"].tolist(), table["model"], strict=True))
    for wave, model in sorted(present - promised):
        yield f"{model} at wave {wave} stands in no run manifest."
    for wave, model in sorted(promised - present):
        yield f"{model} was to run in wave {wave} and has no result."
    for run in runs:
        if run.replicates != plan.replicates:
            yield (
                f"Wave {run.wave} ran {number(run.replicates, 'replicate')}; {plan.replicates} "
                "registered."
            )
    for wave, model in sorted(present):
        here = (table["wave"] == wave) & (table["model"] == model)
        if len(served := set(table["served_version"][here]) - {""}) > 1:
            yield f"{model} was served in {len(served)} versions within wave {wave}."


def _missing_departures(table: Table) -> Iterator[str]:
    missing = table["status"] == Status.MISSING
    for wave, model in sorted(set(zip(table["wave"].tolist(), table["model"], strict=True))):
        here = (table["wave"] == wave) & (table["model"] == model)
        public, private = (
            int(np.sum(missing & here & (table["arm"] == arm))) for arm in (Arm.PUBLIC, Arm.PRIVATE)
        )
        if public + private:
            share = (public + private) / int(here.sum())
            yield (
                f"{model} at wave {wave}: {public + private} episodes ({share:.1%}) are missing, "
                f"{public} public and {private} private."
            )


def _look_departures(plan: Plan, table: Table) -> Iterator[str]:
    waves = sorted(set(table["wave"].tolist()))
    for wave in waves[plan.looks :]:
        yield (
            f"Wave {wave} is a look beyond the {plan.looks} registered: its alpha is spent, and "
            "its results are exploratory."
        )
