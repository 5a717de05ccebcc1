"""What a registered Plan means: a preset, its rules, its words, and departures from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from analysis.errors import AnalysisError
from analysis.load import Table
from registry.records import Plan, RunManifest
from registry.tables import Arm, Status

GRADER = "deterministic"  # whose rows basic-v1 tests; any other grader's are exploratory
OUTCOMES = ("score", "fraction")
MULTIPLICITY = ("westfall-young", "holm")
MISSING = (
    "A model's own failure (refusal, turn limit, unreadable answer) scores 0. An episode that "
    "infrastructure failed on every attempt is missing; a seed is dropped only when all of its "
    "runs are missing. Missing episodes are counted by arm and reported."
)


def basic_plan(
    strata: Sequence[str],
    seeds_per_arm: int,
    *,
    replicates: int = 1,
    looks: int = 1,
    alpha: float = 0.025,
    permutations: int = 19_999,
    enumerate_up_to: int = 20_000,
    margin: float = 0.05,
    outcomes: Sequence[str] = OUTCOMES,
    multiplicity: str = "westfall-young",
) -> Plan:
    """The preset basic-v1. Raises AnalysisError for what ``validate_plan`` refuses."""
    return validate_plan(
        Plan(
            name="basic-v1",
            strata=tuple(strata),
            seeds_per_arm=seeds_per_arm,
            replicates=replicates,
            looks=looks,
            alpha=alpha,
            outcomes=tuple(outcomes),
            permutations=permutations,
            enumerate_up_to=enumerate_up_to,
            margin=margin,
            multiplicity=multiplicity,
            missing=MISSING,
        )
    )


def validate_plan(plan: Plan) -> Plan:
    """The plan itself, if it can be run as it stands. Raises AnalysisError naming the field."""
    if complaint := next(_complaints(plan), ""):
        raise AnalysisError(f"plan {plan.name!r}: {complaint}")
    return plan


def look_alpha(plan: Plan) -> float:
    """What each look may spend: alpha shared equally (spec/statistics.md, P3)."""
    return plan.alpha / plan.looks


def describe_plan(plan: Plan) -> str:
    """The plan in words, one paragraph a line."""
    return "\n".join(
        (_design_words(plan), _test_words(plan), _error_words(plan), _verdict_words(plan),
         f"Missing data. {plan.missing}",
         f"Exclusions. {'; '.join(plan.exclusions) if plan.exclusions else 'None.'}")
    )  # fmt: skip


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


def _complaints(plan: Plan) -> Iterator[str]:
    if plan.name != "basic-v1":
        yield "name: no such preset; known: basic-v1"
    if not plan.strata or len(set(plan.strata)) != len(plan.strata):
        yield "strata: name at least one, and none twice"
    for field in ("seeds_per_arm", "replicates", "looks"):
        if getattr(plan, field) < 1:
            yield f"{field}: {getattr(plan, field)} is not a count; give 1 or more"
    yield from _number_complaints(plan)
    if not plan.outcomes or len(set(plan.outcomes)) != len(plan.outcomes):
        yield "outcomes: name at least one, and none twice"
    if unknown := [name for name in plan.outcomes if name not in OUTCOMES]:
        yield f"outcomes: {unknown[0]!r} is not one; known: {', '.join(OUTCOMES)}"
    if plan.multiplicity not in MULTIPLICITY:
        yield f"multiplicity: {plan.multiplicity!r}; known: {', '.join(MULTIPLICITY)}"
    if plan.missing != MISSING:
        yield "missing: basic-v1 has one rule for missing data; leave its text as the preset has it"
    if plan.exclusions:
        yield "exclusions: basic-v1 excludes nothing; leave the list empty"


def _number_complaints(plan: Plan) -> Iterator[str]:
    if not 0 < plan.alpha < 0.5:
        yield f"alpha: {plan.alpha} must lie between 0 and 0.5 (one-sided; 0.025 is usual)"
    if not 0 < plan.margin < 1:
        yield f"margin: {plan.margin} must lie between 0 and 1 (0.05 is five points)"
    if not 0 <= plan.enumerate_up_to <= 1_000_000:
        yield f"enumerate_up_to: {plan.enumerate_up_to} must lie between 0 and 1000000"
    if 0 < plan.alpha < 0.5 and plan.looks >= 1:
        least = math.ceil(plan.looks / plan.alpha) - 1
        if plan.permutations < least:
            yield (
                f"permutations: {plan.permutations} are too few to reach alpha {plan.alpha} over "
                f"{plan.looks} looks; give {least} or more (19999 is usual)"
            )


def _design_words(plan: Plan) -> str:
    return (
        f"Design. {_number(plan.seeds_per_arm, 'instance')} in each arm of each of "
        f"{_number(len(plan.strata), 'stratum', 'strata')} ({', '.join(plan.strata)}), allocated "
        f"to the public or the private arm at random; {_number(plan.replicates, 'run')} of each "
        "model on each instance. The unit of the analysis is the instance: its score is the mean "
        "over its runs."
    )


def _test_words(plan: Plan) -> str:
    words = {"score": "weighted score", "fraction": "fraction of criteria passed"}
    several = "" if len(plan.outcomes) == 1 else (
        "; the same permutation serves all outcomes, each gap is divided by its permutation "
        "standard deviation, and the larger one is the statistic (max-T)"
    )  # fmt: skip
    return (
        "Test. For each model: does it score higher on public than on private instances? "
        f"One-sided, on the {' and the '.join(words[name] for name in plan.outcomes)}, as the "
        "difference of arm means averaged over strata. Arm labels are permuted within strata with "
        f"each arm's count fixed, {plan.permutations:,} times, or all allocations are "
        f"enumerated where there are {plan.enumerate_up_to:,} or fewer{several}."
    )


def _error_words(plan: Plan) -> str:
    over = (
        "by the Westfall–Young step-down max-T method on permutations common to the models"
        if plan.multiplicity == "westfall-young"
        else "by Holm's method"
    )
    return (
        "Error rates. The chance of calling any clean model contaminated is held to "
        f"{plan.alpha:g} (one-sided) over {_number(plan.looks, 'look')} and all models: each "
        f"look, one wave, has {look_alpha(plan):.4g}, and p-values are adjusted over the models of "
        f"a look {over}."
    )


def _verdict_words(plan: Plan) -> str:
    return (
        "Verdicts. “Contaminated” where the adjusted p-value is at most the look's alpha. "
        "Otherwise “no material inflation” where the one-sided 95 % upper bound of the gap in the "
        f"{plan.outcomes[0]} lies below {plan.margin:g} (t interval, Satterthwaite's degrees of "
        "freedom). Otherwise “inconclusive”: a test that does not reject proves nothing."
    )


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
                f"Wave {run.wave} ran {_number(run.replicates, 'replicate')}; {plan.replicates} "
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


def _number(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
