"""Deviations of the runs and of the table from the registered plan, and remarks on verdicts that
documented facts of models make doubtful."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from analysis.data.table import LEAST_IN_ARM, ResultTable, names_in, weigh_strata
from analysis.plan.burned import BurnedSeeds, burned_words
from analysis.plan.history import NO_HISTORY, WaveHistory
from analysis.plan.presets import KEEP, control_models, replicates_of
from analysis.plan.verdict import CONTAMINATED, Verdict
from analysis.report.episodes import count_rows
from analysis.report.facts import ModelFact
from analysis.stats.intervals import counted
from analysis.words import sentence_of
from registry.ledger.draw_records import arm_sizes
from registry.ledger.records import Plan, Preregistration, RunManifest
from registry.result_row import GRADER, Arm, Status

_CELL = ("wave", "tranche", "stratum", "arm", "instance")


def deviations(
    plan: Plan,
    table: ResultTable,
    runs: Iterable[RunManifest],
    *,
    entropy: str = "operating system",
    dirty: bool = False,
    drawn: Mapping[tuple[int, str], int] | None = None,
    history: WaveHistory = NO_HISTORY,
) -> tuple[str, ...]:
    """Return the deviations of the runs and the table from the plan, one sentence each.

    ``runs`` are the manifests of the waves; ``entropy`` is the sealed set's; ``dirty`` says
    whether any other record (registration, draw) was made on a dirty tree; ``drawn`` the seeds
    per arm of each tranche and stratum, by default the plan's; ``history`` the waves that are no
    looks. Names no instance.
    """
    manifests = list(runs)
    graded = table.where(table["grader"] == GRADER)
    return (
        *_provenance_departures(manifests, entropy, dirty),
        *_sample_departures(plan, graded, drawn or arm_sizes(plan.strata, plan.seeds_per_arm)),
        *_run_departures(plan, graded, manifests),
        *_row_departures(plan, graded, history),
    )


def mode_departures(registered: Preregistration, runs: Iterable[RunManifest]) -> Iterator[str]:
    """Yield the strata that a wave gave in another mode than the registered one."""
    words = ("to agents with tools", "in a single turn")
    for run in runs:
        for task in registered.tasks:  # also those whose instances are all private
            family, _, rest = task.partition("@")
            _, difficulty, *once = rest.split("/")
            stratum, planned = f"{family}/{difficulty}", bool(once)
            if (given := stratum in run.single_turn) != planned:
                values = {"given": words[given], "planned": words[planned]}
                yield sentence_of("deviations", "mode", wave=run.wave, stratum=stratum, **values)


def table_departures(
    plan: Plan, table: ResultTable, history: WaveHistory = NO_HISTORY, *, sized: bool = True
) -> tuple[str, ...]:
    """Return the deviations of a table from elsewhere from a plan, one sentence each. ``sized``
    says that the plan states the instances of an arm; otherwise they are those of the table."""
    sample = _sample_departures(
        plan, table, arm_sizes(plan.strata, plan.seeds_per_arm) if sized else {}
    )
    return (*sample, *_row_departures(plan, table, history))


def _row_departures(plan: Plan, table: ResultTable, history: WaveHistory) -> Iterator[str]:
    yield from _served_departures(table)
    yield from _missing_departures(table)
    yield from _look_departures(plan, table, history)


def _provenance_departures(runs: Sequence[RunManifest], entropy: str, dirty: bool) -> Iterator[str]:
    if entropy != "operating system":
        yield sentence_of("deviations", "entropy", entropy=entropy)
    if dirty:
        yield "The draw or the registration was made from a working tree with uncommitted changes."
    for run in runs:
        if run.provenance.dirty:
            yield f"Wave {run.wave} ran from a working tree with uncommitted changes."


def burned_departures(plan: Plan, burned: Iterable[BurnedSeeds]) -> Iterator[str]:
    """Models tested with burned instances that the plan would have left out."""
    kept = plan.standard is not None and plan.standard.burned == KEEP
    for seeds in burned:
        if seeds.staying and not kept:
            yield f"{seeds.model} at wave {seeds.wave}: {burned_words(seeds)}."


def _sample_departures(
    plan: Plan, table: ResultTable, sizes: Mapping[tuple[int, str], int]
) -> Iterator[str]:
    """``sizes`` has the instances an arm by tranche and stratum, as far as they are stated."""
    counts = Counter(cell[:4] for cell in count_rows(*(table[name] for name in _CELL)))
    there = sorted({(w, t) for w, t, _, _ in counts})
    for at, k, name in ((w, t, s) for w, t in there for s in plan.strata):
        public, private = (counts[at, k, name, arm] for arm in (Arm.PUBLIC, Arm.PRIVATE))
        where = f"Wave {at}, {name}" + (f", tranche {k}" if k else "")
        if public != private:
            yield f"{where}: unequal arms, {public} public and {private} private instances."
        for which, n in ((Arm.PUBLIC, public), (Arm.PRIVATE, private)):
            if n != (drawn := sizes.get((k, name), n)):
                yield f"{where}: {n} {which} instances; {drawn} were registered."
    for name in sorted({*plan.strata} - {*weigh_strata(plan, table).strata}):
        yield f"{name} has fewer than {LEAST_IN_ARM} instances in an arm: reported without weight."
    others = {cell[2] for cell in counts} - {*plan.strata}
    for name in () if plan.levels else sorted(others):  # with levels, those that stay sealed
        yield f"Stratum {name} is not registered; its rows are left out of the registered test."


def _run_departures(plan: Plan, table: ResultTable, runs: Sequence[RunManifest]) -> Iterator[str]:
    promised = {(run.wave, pin.name) for run in runs for pin in run.models}
    present = set(count_rows(table["wave"], table["model"]))
    for wave, model in sorted(present - promised):
        yield f"{model} at wave {wave} stands in no run manifest."
    for wave, model in sorted(promised - present):
        yield f"{model} was to run in wave {wave} and has no result."
    for run in runs:
        for pin, count in zip(run.models, run.replicates, strict=True):
            planned = replicates_of(plan, pin.name)
            if count != planned:
                ran = counted(count, "replicate")
                yield f"Wave {run.wave} ran {ran} of {pin.name}; {planned} registered."


def _served_departures(table: ResultTable) -> Iterator[str]:
    for column, many in _SERVED.items():
        found: dict[tuple[Any, Any], set[str]] = {}
        for at, name, joined in count_rows(table["wave"], table["model"], table[column]):
            found.setdefault((at, name), set()).update(names_in([joined]))
        for (at, name), names in sorted(found.items()):
            if len(names) > 1:
                yield f"{name} was served in {len(names)} {many} within wave {at}."


# Columns that name what served an episode, and the word for several of their names.
_SERVED = {"served_version": "versions", "fingerprint": "configurations (system fingerprints)"}


def _missing_departures(table: ResultTable) -> Iterator[str]:
    rows = table.where(table["status"] == Status.MISSING)
    lost = Counter(count_rows(rows["wave"], rows["model"], rows["arm"]))
    owed = count_rows(table["wave"], table["model"])
    for wave, model in sorted({key[:2] for key in lost}):
        public, private = (lost[wave, model, arm] for arm in (Arm.PUBLIC, Arm.PRIVATE))
        share = (public + private) / owed[wave, model]
        arms = {"public": public, "private": private, "both": public + private}
        yield sentence_of("deviations", "missing", wave=wave, model=model, share=share, **arms)


def _look_departures(plan: Plan, table: ResultTable, history: WaveHistory) -> Iterator[str]:
    controls = control_models(plan)
    models = count_rows(table["wave"], table["model"])
    waves = {wave for wave, model in models if model not in controls}
    for wave, number in history.number_looks(waves).items():
        if number > plan.looks:
            yield sentence_of("deviations", "beyond", wave=wave, looks=plan.looks)


def remarks_on(
    verdicts: Sequence[Verdict], facts: Sequence[ModelFact], published: str
) -> Iterator[str]:
    """A sentence for each contaminated model with a documented training cut-off, or release, before
    ``published``, the day of the publication, ISO 8601; none if that is ""."""
    by_model = {fact.model: fact for fact in facts}
    for verdict in verdicts:
        fact = by_model.get(verdict.model)
        if verdict.verdict != CONTAMINATED or fact is None or not published:
            continue
        if fact.cutoff and fact.cutoff < published:
            dated = f"its training data end on {fact.cutoff}"
        elif fact.released and fact.released < published:
            dated = f"it was released on {fact.released}"
        else:
            continue
        yield (
            f"{verdict.model} at wave {verdict.wave} is contaminated, though by its documentation "
            f"{dated}, before the publication on {published}: it cannot have been trained on the "
            "published instances. Check the date, what is served under its name, access to the web "
            "during the runs, and other differences between the arms."
        )
