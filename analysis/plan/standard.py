"""The plan standard-v1: its looks, controls, monitoring and sensitivity analyses.

Each function takes the registered plan and the table; nothing is chosen after a look at the
data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from analysis.data.seed_means import SeedMeans, make_seed_means
from analysis.data.table import ResultTable, names_in, one_of
from analysis.errors import AnalysisError
from analysis.plan.burned import BurnedSeeds, RetainedRows, compare_look, keep_rows, note_burned
from analysis.plan.comparison import compare_gaps
from analysis.plan.controls import (
    GRADED_AGAIN,
    ControlResult,
    bridging_columns,
    frozen_change,
    graded_exactly,
    negative_control,
    not_graded_again,
    positive_controls,
    second_opinion,
    static_control,
)
from analysis.plan.history import NO_HISTORY, RANDOM, WaveHistory
from analysis.plan.missing import fill_look
from analysis.plan.monitoring import Monitored, monitor_looks
from analysis.plan.negative_controls import DISAGREES
from analysis.plan.presets import EXCLUSIONS, RegisteredPlan, control_models, look_alpha
from analysis.plan.primary import LookData, look_data
from analysis.plan.results import PrimaryResult, look_results
from analysis.plan.sensitivity import (
    DIMENSIONS,
    PARTS,
    SensitivityInput,
    SensitivityResult,
    run_sensitivity,
)
from analysis.plan.verdict import CONTAMINATED, INCONCLUSIVE, Verdict, Word, leave_open, withhold
from registry.ledger.records import Plan, StandardRules
from registry.result_row import GRADER, Status

MOSTLY = 0.5  # missing, of the exclusion "mostly-missing"
LEAST_COVERED = 0.9  # share of a look's instances with a control run, for verdicts
UNBRIDGED = "no frozen model has runs that differ: a fault of this look alone would not be seen"
LEAST_FROZEN = 4  # runs of frozen models on an instance that may calibrate a look


@dataclass(frozen=True, slots=True)
class LookResult:
    """One look: ``number`` from 1. Scores are calibrated by the runs of ``control_models``, on
    ``covered`` of the instances. ``changed``: the frozen models show a fault of this look alone,
    and it is their runs of this look that calibrate, if they are ``LEAST_FROZEN`` or more; with
    fewer it has no verdicts."""

    number: int
    wave: int
    beyond: bool  # the registered looks: exploratory
    alpha: float
    covered: float
    control_models: tuple[str, ...]
    results: tuple[PrimaryResult, ...]
    excluded: tuple[tuple[str, str], ...]  # model, why
    change: ControlResult | None = None  # of the frozen models by arm since their baseline
    doubt: str = ""  # the reason why it has no verdicts, where it has none

    @property
    def changed(self) -> bool:
        """True if the frozen models show a fault of this look alone."""
        return self.change is not None and self.change.state == DISAGREES


Looks = Sequence[tuple[LookResult, LookData]]


@dataclass(frozen=True, slots=True)
class StandardResult:
    """All results of the plan standard-v1 on a table."""

    looks: tuple[LookResult, ...]
    controls: tuple[ControlResult, ...]
    monitored: Monitored
    sensitivity: tuple[SensitivityResult, ...]
    burned: tuple[BurnedSeeds, ...] = ()  # of the models that have any

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts of all looks, in order."""
        return tuple(result.verdict for look in self.looks for result in look.results)


@dataclass(frozen=True, slots=True)
class _Judged:
    """Results beside the test: the second grader's verdicts by wave, controls that are given to the
    plan, and the grader of the tested scores."""

    second: dict[int, tuple[PrimaryResult, ...]]
    controls: tuple[ControlResult, ...]
    scored_by: str


def run_standard(
    plan: Plan,
    table: ResultTable,
    registration: str,
    *,
    history: WaveHistory = NO_HISTORY,
    controls: Sequence[ControlResult] = (),
    scored_by: str = GRADER,
) -> StandardResult:
    """Run standard-v1 on all waves of the table.

    ``history`` has the release of the public arm, and the waves that are no looks or spent ones;
    ``controls`` are those that are not worked out here, such as a judge's second grades;
    ``scored_by`` names the grader of the tested rows, which may be a judge if the table is from
    elsewhere.
    Raises AnalysisError where no row can be tested, a negative control was released after the
    publication, or the strata have one arm only.
    """
    if plan.standard is None:
        raise AnalysisError(f"plan {plan.name!r} has no rules of standard-v1")
    registered = RegisteredPlan(plan, plan.standard, registration)
    check_dates(registered.rules, history.published)
    graded = table.where(table["grader"] == GRADER)
    if not len(graded):
        raise AnalysisError(f"no rows by grader {GRADER!r}: nothing to test")
    whole, kept, means = _retain(registered, graded)
    clean = whole.where(kept.primary)
    looks = list(_looks(registered, graded, means, kept.seeds, history))
    judged = _Judged(_second(registered, table, history), tuple(controls), scored_by)
    parts = make_seed_means(clean, (*DIMENSIONS, *PARTS), plan.strata)
    checked = (*_controls(registered, means, looks, judged), *_static(registered, parts, looks))
    results = [look for look, _ in looks]
    random = history.allocation == RANDOM  # nothing else is monitored
    watched = [look for look in results if random and not look.beyond]  # also without verdicts
    return StandardResult(
        tuple(_judge_look(look, checked) for look in results),
        checked,
        _monitor(registered, _monitored_means(plan, whole, kept, means), watched),
        (
            *_sensitivity_results(registered, clean, parts, looks),
            *_burn_tests(registered, whole, kept.seeds, results),
            *_discoveries(results),
        ),
        kept.seeds,
    )


def _retain(
    registered: RegisteredPlan, graded: ResultTable
) -> tuple[ResultTable, RetainedRows, SeedMeans]:
    """A grader's rows in the plan's strata, those of them that stay in the test, and the means of
    these."""
    plan = registered.plan
    whole = graded.where(one_of(graded["stratum"], plan.strata))
    kept = keep_rows(whole, registered.rules.burned, control_models(plan))
    return whole, kept, make_seed_means(whole.where(kept.primary), plan.outcomes, plan.strata)


def check_dates(rules: StandardRules, published: date | None) -> None:
    """Raise AnalysisError where a negative control may have seen the public arm."""
    if published is None:
        return
    for name, day in rules.released:
        named = "pre_exposure" if name in rules.pre_exposure else "frozen"
        if name in getattr(rules, named) and date.fromisoformat(day) >= published:
            raise AnalysisError(
                f"plan: {named}: {name!r} was released on {day}, and the public arm on "
                f"{published}: it may have been exposed and cannot be a negative control"
            )


def _looks(
    registered: RegisteredPlan,
    table: ResultTable,
    means: SeedMeans,
    burned: Sequence[BurnedSeeds],
    history: WaveHistory,
) -> Iterator[tuple[LookResult, LookData]]:
    plan = registered.plan
    seeds = {(entry.wave, entry.model): entry for entry in burned}
    controls = control_models(plan)
    waves = {column.wave for column in means.columns if column.model not in controls}
    numbered = history.number_looks(waves)
    first, faulty = min(numbered, default=0), set[int]()
    for wave, number in numbered.items():
        here = [column.model for column in means.columns if column.wave == wave]
        fresh = [model for model in here if model not in controls]
        excluded = tuple(_excluded(plan, table, wave, fresh))
        dropped = {model for model, _ in excluded}
        tested = means.where(wave, [model for model in fresh if model not in dropped])
        beyond = number > plan.looks
        change = _change(registered, means, wave, first)
        changed = change is not None and change.state == DISAGREES
        faulty |= {wave} if changed else set()
        calibrating = _calibrating(registered.rules, means, wave, faulty)
        data = look_data(means, tested, calibrating)
        planned = bool(registered.rules.pre_exposure) or changed
        doubt = _doubt(means, data, calibrating, changed) if planned else ""
        if change is not None and not bridging_columns(registered.rules, means, wave):
            doubt = doubt or UNBRIDGED
        tests = look_results(plan, data, registered.registration, exploratory=beyond)
        results = tuple(
            replace(result, verdict=note_burned(result.verdict, seeds.get((wave, result.model))))
            for result in _hold(registered, means, tested, calibrating, tests)
        )
        if history.allocation != RANDOM:
            names = [means.columns[place].model for place in calibrating]
            results = tuple(compare_gaps(plan, data, names, results))
        elif doubt:
            results = tuple(replace(r, verdict=leave_open(r.verdict, doubt)) for r in results)
        used = {means.columns[place].model for place in calibrating} if data.covered else ()
        look = LookResult(
            number=number,
            wave=wave,
            beyond=beyond,
            alpha=look_alpha(plan),
            covered=data.covered,
            control_models=tuple(sorted(used)),
            results=results,
            excluded=excluded,
            change=change,
            doubt=doubt,
        )
        yield look, data


def _change(
    registered: RegisteredPlan, means: SeedMeans, wave: int, first: int
) -> ControlResult | None:
    """The change of the frozen models by arm since their baseline, None if the plan has none."""
    rules = registered.rules
    if not rules.frozen:
        return None
    names = [means.columns[place].model for place in bridging_columns(rules, means, wave)]
    return frozen_change(registered, means, _baseline(means, names, first), wave)


def _calibrating(rules: StandardRules, means: SeedMeans, wave: int, faulty: Set[int]) -> list[int]:
    """The columns whose runs calibrate a look: those of pre-exposure models up to it, without the
    runs at the ``faulty`` waves, at which the frozen models have changed; of such a wave the
    runs of those that bridge it. A model whose scores at a wave do not vary is none there."""
    if wave in faulty:
        return bridging_columns(rules, means, wave)
    return [
        place
        for place, column in enumerate(means.columns)
        if column.model in rules.pre_exposure
        and column.wave <= wave
        and column.wave not in faulty
        and means.varies(place)
    ]


def _hold(
    registered: RegisteredPlan,
    means: SeedMeans,
    tested: Sequence[int],
    calibrating: Sequence[int],
    results: Sequence[PrimaryResult],
) -> Iterator[PrimaryResult]:
    """The results, a verdict inconclusive if the missing runs of the control models could undo it:
    if it changes with each of them as adverse to it as a score can be."""
    lost = int(means.missing[means.rows(tested)][:, list(calibrating)].sum())
    worst: dict[Word, dict[str, Word]] = {}
    for word in {result.verdict.verdict for result in results} - {INCONCLUSIVE} if lost else ():
        data = look_data(means, tested, calibrating, against_claim=word == CONTAMINATED)
        tests = look_results(registered.plan, data, registered.registration)
        worst[word] = {result.model: result.verdict.verdict for result in tests}
    for result in results:
        verdict = result.verdict
        if worst.get(verdict.verdict, {}).get(result.model, verdict.verdict) == verdict.verdict:
            yield result
            continue
        runs = f"missing runs of the control models ({lost})"
        why = f"{verdict.verdict}, if {runs} resemble the others"
        note = f"{why}; {verdict.note}" if verdict.note else why
        yield replace(result, verdict=leave_open(verdict, note))


def _faulty_waves(looks: Iterable[LookResult]) -> set[int]:
    return {look.wave for look in looks if look.changed}


def _doubt(means: SeedMeans, data: LookData, calibrating: Sequence[int], changed: bool) -> str:
    """The reason why a look cannot have verdicts, "" where it can."""
    if data.covered < LEAST_COVERED:
        share = f"on {data.covered:.0%} of these instances" if data.covered else "on none of these"
        return f"not calibrated: control models have scores that differ {share}"
    runs = float(np.median(means.scored[means.rows(calibrating)][:, calibrating].sum(axis=1)))
    if changed and runs < LEAST_FROZEN:
        return (
            "the harness changed: the frozen models' gap is another than before the first look, "
            f"and {runs:g} of their runs an instance are too few to calibrate by"
        )
    return ""


def _monitored_means(
    plan: Plan, table: ResultTable, kept: RetainedRows, means: SeedMeans
) -> SeedMeans:
    """The means of P4: those of P1, but for single burned instances, which stay."""
    if np.array_equal(kept.primary, kept.monitored):
        return means
    return make_seed_means(table.where(kept.monitored), plan.outcomes, plan.strata)


def _monitor(
    registered: RegisteredPlan, means: SeedMeans, looks: Sequence[LookResult]
) -> Monitored:
    """P4. Looks without verdicts are passed over."""
    rules, faulty = registered.rules, _faulty_waves(looks)
    believed = [look for look in looks if not look.doubt]
    data = [(look.wave, _data_of(rules, means, look, faulty)) for look in believed]
    if not means.missing.any():
        return monitor_looks(registered, data)
    worst = (_data_of(rules, means, look, faulty, against_claim=True) for look in believed)
    return monitor_looks(
        registered,
        data,
        [(look.wave, fill_look(filled)) for look, filled in zip(believed, worst, strict=True)],
    )


def _data_of(
    rules: StandardRules,
    means: SeedMeans,
    look: LookResult,
    faulty: Set[int],
    *,
    against_claim: bool | None = None,
) -> LookData:
    """A look's models in other means than those that they were tested in."""
    tested = means.where(look.wave, [result.model for result in look.results])
    calibrating = _calibrating(rules, means, look.wave, faulty)
    return look_data(means, tested, calibrating, against_claim=against_claim)


def _burn_tests(
    registered: RegisteredPlan,
    table: ResultTable,
    burned: Sequence[BurnedSeeds],
    looks: Sequence[LookResult],
) -> Iterator[SensitivityResult]:
    """B1 at each look that has burned instances, on all of the instances that were run."""
    if not burned:
        return
    plan = registered.plan
    means = make_seed_means(table, plan.outcomes, plan.strata)
    for look in looks:
        if look.wave in {row.wave for row in burned}:
            data = _data_of(registered.rules, means, look, _faulty_waves(looks))
            yield from compare_look(registered, table, data, look.wave)


def _excluded(
    plan: Plan, table: ResultTable, wave: int, models: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Models that the plan leaves out of a look, with the reason in words."""
    for model in models if plan.exclusions else ():
        here = (table["wave"] == wave) & (table["model"] == model)
        served = names_in(table["served_version"][here])
        lost = float((table["status"][here] == Status.MISSING).mean())
        if "version-changed" in plan.exclusions and len(served) > 1:
            yield model, EXCLUSIONS["version-changed"]
        elif "mostly-missing" in plan.exclusions and lost > MOSTLY:
            yield model, EXCLUSIONS["mostly-missing"]


def _second(
    registered: RegisteredPlan, table: ResultTable, history: WaveHistory
) -> dict[int, tuple[PrimaryResult, ...]]:
    """The same test on the second grader's scores, by wave."""
    graded = table.where(table["grader"] == registered.rules.second_grader)
    if not registered.rules.second_grader or not len(graded):
        return {}
    whole, kept, means = _retain(registered, graded)
    looks = _looks(registered, whole, means, kept.seeds, history)
    return {look.wave: look.results for look, _ in looks}


def _controls(
    registered: RegisteredPlan, means: SeedMeans, looks: Looks, judged: _Judged
) -> Iterator[ControlResult]:
    rules = registered.rules
    first, faulty = looks[0][0].wave if looks else None, _faulty_waves(look for look, _ in looks)
    baseline = _baseline(means, rules.pre_exposure, first)
    wave = min((means.columns[place].wave for place in baseline), default=first or 0)
    yield negative_control(registered, means, baseline, wave)
    for look, _ in looks:
        if look.change is not None:
            yield look.change
        used = _calibrating(rules, means, look.wave, faulty)
        yield from positive_controls(registered, means, used, look.wave)
        yield from _judge_controls(registered, means, look, judged)


def _static(registered: RegisteredPlan, parts: SeedMeans, looks: Looks) -> Iterator[ControlResult]:
    """The control on static criteria at each look that has them."""
    for look, _ in looks:
        models = [result.model for result in look.results]
        control = static_control(registered, parts, models, look.wave) if models else None
        if control is not None:
            yield control


def _judge_controls(
    registered: RegisteredPlan, means: SeedMeans, look: LookResult, judged: _Judged
) -> Iterator[ControlResult]:
    """C3 at a look: on each model, then the given controls on all of them. A judge that scores has
    given ones alone."""
    rules, exact = registered.rules, registered.plan.scorer is None
    given = [control for control in judged.controls if control.wave == look.wave]
    if exact and rules.second_grader:
        second_results = judged.second.get(look.wave, ())
        yield from second_opinion(look.wave, rules.second_grader, look.results, second_results)
    elif exact:
        yield graded_exactly(look.wave, judged.scored_by)
    yield from given
    first = min(column.wave for column in means.columns)
    again = any(control.what == GRADED_AGAIN for control in given)
    if rules.second_grader and rules.regrade and look.wave > first and not again:
        yield not_graded_again(rules, look.wave, first)


def _baseline(means: SeedMeans, named: Sequence[str], first: int | None) -> list[int]:
    """The columns of the named models of the waves before the first look; where there are none,
    of the earliest wave that has any. Later waves do not change its result."""
    columns = enumerate(means.columns)
    every = [place for place, c in columns if c.model in named and means.varies(place)]
    before = [place for place in every if first is None or means.columns[place].wave < first]
    earliest = min((means.columns[place].wave for place in every), default=0)
    return before or [place for place in every if means.columns[place].wave == earliest]


def _judge_look(look: LookResult, controls: Sequence[ControlResult]) -> LookResult:
    """The look, its verdicts withheld where a control disagrees that they rest on."""
    tested = []
    for result in look.results:
        why = [
            f"{control.kind} ({control.what}): {control.says.rstrip('.')}"
            for control in controls
            if control.state == DISAGREES and bears_on(control, look.wave, result.verdict.model)
        ]
        verdict = withhold(result.verdict, "; ".join(why)) if why else result.verdict
        tested.append(replace(result, verdict=verdict))
    return replace(look, results=tuple(tested))


def bears_on(control: ControlResult, wave: int, model: str) -> bool:
    """Reports if a model's verdict at a wave rests on a control: on C2 of the wave, and on C3 of
    the wave that is of its model or names none. C1 calibrates the scores and bears on none."""
    return (
        control.kind != "C1"
        and control.wave == wave
        and (control.kind != "C3" or not control.models or model in control.models)
    )


def _discoveries(looks: Sequence[LookResult]) -> Iterator[SensitivityResult]:
    """p of every model at every look, adjusted for false discovery over all (P3, exploratory)."""
    verdicts = [result.verdict for look in looks for result in look.results]
    verdicts = [verdict for verdict in verdicts if verdict.estimate is not None]
    if len(verdicts) < 2:
        return
    from scipy.stats import false_discovery_control

    adjusted = false_discovery_control(np.array([verdict.p for verdict in verdicts]))
    for verdict, q in zip(verdicts, adjusted.tolist(), strict=True):
        yield SensitivityResult(
            analysis="false-discovery",
            wave=verdict.wave,
            model=verdict.model,
            detail="over all models and looks",
            estimate=verdict.estimate,
            interval=verdict.interval,
            p=verdict.p,
            p_adjusted=q,
            note="exploratory, at q = 0.05",
            p_floor=verdict.p_floor,
        )


def _sensitivity_results(
    registered: RegisteredPlan, table: ResultTable, parts: SeedMeans, looks: Looks
) -> Iterator[SensitivityResult]:
    plan, registration = registered.plan, registered.registration
    for place, (look, data) in enumerate(looks, start=1):
        if not look.results:
            continue
        models, newest = data.means.models, place == len(looks)
        rows = table.where((table["wave"] == look.wave) & one_of(table["model"], models))
        part = parts.pick(parts.where(look.wave, models))
        yield from run_sensitivity(
            SensitivityInput(
                plan=plan,
                registration=registration,
                wave=look.wave,
                data=data,
                results=look.results,
                newest=newest,
                rows=rows,
                parts=part,
            )
        )
