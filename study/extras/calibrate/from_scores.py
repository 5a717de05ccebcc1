"""`dosimeter calibrate`: how large a leak this study sees."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.calibrate.calibration import (
    DOSES,
    REPLICATES,
    RESAMPLED,
    CleanScores,
    RecordedCalibration,
    calibrate,
    calibration_json,
    check_doses,
    read_calibration,
)
from analysis.data.seed_means import SeedMeans, make_seed_means
from analysis.data.table import ResultTable, one_of, without_strata
from analysis.json_values import plain_values
from analysis.plan.burned import keep_rows
from analysis.plan.markers import marker_rates
from analysis.plan.presets import control_models
from analysis.plan.primary import ModelScores
from analysis.stats.adjustment import control_means
from analysis.stats.permutation import Bools, Floats, Ints
from harness.storage import calibration_key
from registry.canonical import canonical_bytes, digest_bytes
from registry.draws.allocation import sealed_strata
from registry.errors import BrokenPromise
from registry.ledger.chain import Entry
from registry.ledger.inventory import write_inventory
from registry.ledger.records import CalibrationMade, ModelPin, Plan, record_digest
from registry.result_row import GRADER
from study.errors import StudyError
from study.steps.report.look import graded_table
from study.steps.sweep.history import CALIBRATE, record_look
from study.workspace.setup import registration_of
from study.workspace.snapshot import StudySnapshot, take_snapshot
from study.workspace.study import Study

FULL_MARKS = "full marks"


@dataclass(frozen=True, slots=True)
class CalibrateRequest:
    """A calibration on stored scores. By default of the first clean model of the newest closed wave
    that has one."""

    doses: tuple[float, ...] = DOSES
    replicates: int = REPLICATES
    wave: int | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Companions:
    """The other models of the calibrated model's look. ``instead``: the calibrated model takes the
    place of each in turn; ``stand_in``: they stand for those of a look of up to ``wanted``."""

    models: tuple[str, ...]
    instead: bool = False
    stand_in: bool = False
    wanted: int = 0


def calibrate_study(study: Study, request: CalibrateRequest) -> RecordedCalibration:
    """Put known leaks into a clean model's stored scores. Nothing is run, and nothing is stored but
    the look in the ledger.

    Raises StudyError if no wave is closed or no model is clean, AnalysisError for doses that are
    no shares.
    """
    check_doses(request.doses, request.replicates)
    registered = registration_of(study)
    plan = without_strata(registered.plan, sealed_strata(study.sealed_set()))
    registration = record_digest(registered)
    snapshot = take_snapshot(study)
    wave, model = _chosen(snapshot, plan, request)
    record_look(snapshot, [snapshot.waves[wave]], CALIBRATE)
    means = make_seed_means(_table(snapshot, plan, wave), plan.outcomes, plan.strata)
    companions = companions_of(study, plan, means, wave, model)
    clean_scores, covered = make_clean_scores(plan, means, wave, model, companions)
    known, pools = _known(study, means, wave, np.unique(clean_scores.stratum))
    calibration = calibrate(
        plan,
        clean_scores,
        doses=request.doses,
        replicates=request.replicates,
        known=pools,
        registration=registration,
        place=f"{model}|{wave}",
    )
    body = {
        "how": RESAMPLED,
        "study": study.protocol.name,
        "registration": registration,
        "plan": {
            "name": plan.name,
            "looks": plan.looks,
            "outcomes": list(plan.outcomes),
            "permutations": plan.permutations,
            "multiplicity": plan.multiplicity,
        },
        "model": model,
        "wave": wave,
        "known": known,
        "share_with_covariate": covered,
        "beside": list(companions.models),
        "notes": _notes(plan, companions, clean_scores, covered),
        "markers": marker_rates(plan, max(most_tested(study, plan), 1)).as_json(),
        **calibration_json(calibration),
    }
    return read_calibration(plain_values(body), "the calibration", "", "")


def companions_of(study: Study, plan: Plan, means: SeedMeans, wave: int, model: str) -> Companions:
    """Return the models that p is adjusted over with the calibrated one: those that the plan tests
    at the wave; if the calibrated model is a control, it takes the place of each in turn. If the
    wave tests none, other clean models, as many as a look of the study has at most."""
    controls = control_models(plan)
    here = [c.model for c in means.columns if c.wave == wave and c.model != model]
    here = [name for name in here if means.has_both_arms(means.where(wave, [name])[0])]
    tested = [name for name in here if name not in controls]
    if tested:
        return Companions(tuple(tested), instead=model in controls)
    most = most_tested(study, plan)
    clean = [name for name in clean_models(study, plan, wave) if name in here]
    return Companions(tuple(clean[: max(most - 1, 0)]), wanted=most, stand_in=True)


def most_tested(study: Study, plan: Plan) -> int:
    """Return the largest number of models that the plan tests at one look of the study."""
    controls = control_models(plan)
    return max(len([m for m in models if m not in controls]) for models in study.protocol.waves)


def make_clean_scores(
    plan: Plan, means: SeedMeans, wave: int, model: str, companions: Companions
) -> tuple[CleanScores, float]:
    """Return the scores of the model and of its companions, each with the covariate that a new
    model would have at this wave; and the share of instances that have one."""
    column = means.where(wave, [model])
    companion_columns = [place for name in companions.models for place in means.where(wave, [name])]
    rows = means.rows(column)

    def scores(columns: list[int]) -> ModelScores:
        named = [_covariate(plan, means, rows, wave, means.columns[c].model) for c in columns]
        covariates = [covariate for covariate in named if covariate is not None]
        covariate = np.stack(covariates, axis=1) if covariates else None
        values = means.values[rows][:, columns]
        missing, scored = means.missing[rows][:, columns], means.scored[rows][:, columns]
        return ModelScores(values, covariate, missing, missing + scored)

    clean = CleanScores(
        scores(column),
        means.stratum[rows],
        means.public[rows],
        means.tranche[rows],
        scores(companion_columns) if companion_columns else None,
        replaces=companions.instead,
    )
    x = clean.scores.covariate
    return clean, 0.0 if x is None else float((~np.isnan(x[:, 0, 0])).mean())


def clean_models(study: Study, plan: Plan, wave: int) -> tuple[str, ...]:
    """Return the models of a wave that cannot have been exposed: those that a standard-v1 plan
    names; else, of a wave that was closed before the first release, all but spiked agents."""
    here = study.protocol.waves[wave]
    rules = plan.standard
    if rules is not None:
        return tuple(name for name in here if name in {*rules.pre_exposure, *rules.frozen})
    release = next(iter(study.ledger.find("release")), None)
    closed = next((e for e in study.ledger.find("wave-closed") if e.record.wave == wave), None)
    if closed is None or (release is not None and release.time < closed.time):
        return ()
    return tuple(name for name in here if not _is_spiked(study, plan, name))


def _chosen(study: StudySnapshot, plan: Plan, request: CalibrateRequest) -> tuple[int, str]:
    """Return the wave and the model to put leaks into."""
    closed = [wave.number for wave in study.closed_waves]
    if request.wave is not None:
        study.protocol.wave_models(request.wave)
        if request.wave not in closed:
            raise StudyError(
                f"wave {request.wave} is not closed; run `dosimeter sweep --wave {request.wave}` "
                "to its end first"
            )
    if not closed:
        raise StudyError(
            "no wave is closed yet, so there are no scores to put leaks into: sweep one first"
        )
    wanted = closed if request.wave is None else [request.wave]
    if request.model is not None:
        return _named(study, plan, request.model, wanted), request.model
    for wave in reversed(wanted):
        if clean := clean_models(study, plan, wave):
            return wave, clean[0]
    place = f"wave {request.wave}" if request.wave is not None else "the closed waves"
    raise StudyError(
        f"{place}: no model is known to be clean (released before publication, or frozen); name "
        "one with --model, if you know one to be"
    )


def _named(study: Study, plan: Plan, model: str, waves: Sequence[int]) -> int:
    """Return the newest of some waves that has a model."""
    if _is_spiked(study, plan, model):
        raise StudyError(f"{model!r} has read the release: leaks are put into a clean model")
    for wave in reversed(waves):
        if model in study.protocol.waves[wave]:
            return wave
    here = sorted({name for wave in waves for name in study.protocol.waves[wave]})
    raise StudyError(f"{model!r} has no scores there; models that have: {', '.join(here)}")


def _is_spiked(study: Study, plan: Plan, model: str) -> bool:
    if plan.standard is not None and model in plan.standard.spiked:
        return True
    return any(pin.name == model and _knows(pin) > 0 for pin in study.protocol.models)


def _knows(pin: ModelPin) -> float:
    """Return the share of the release that a built-in agent remembers."""
    settings = {key: json.loads(value) for key, value in pin.settings}
    if pin.provider != "scripted" or settings.get("agent") != "spiked":
        return 0.0
    return float(settings.get("share", 1.0))


def _table(study: StudySnapshot, plan: Plan, wave: int) -> ResultTable:
    """Return the exact grader's rows of the closed waves up to one, as far as P1 takes them."""
    table = graded_table(study, [closed for closed in study.closed_waves if closed.number <= wave])
    rows = table.where((table["grader"] == GRADER) & one_of(table["stratum"], plan.strata))
    if plan.standard is None:
        return rows
    return rows.where(keep_rows(rows, plan.standard.burned, control_models(plan)).primary)


def _covariate(plan: Plan, means: SeedMeans, rows: Bools, wave: int, model: str) -> Floats | None:
    """Return the control models' means (n, outcomes) that the plan calibrates a model by at a
    wave. They leave out its own runs: subtracting these would take off what is looked for."""
    rules = plan.standard
    if rules is None:
        return None
    before = [
        place
        for place, column in enumerate(means.columns)
        if column.model in rules.pre_exposure and column.model != model and column.wave <= wave
    ]
    return control_means(means.values[rows][:, before], means.stratum[rows])


def _known(
    study: Study, means: SeedMeans, wave: int, strata: Ints
) -> tuple[str, list[Floats] | None]:
    """Return the scores that a known instance gets, by name and by stratum: the public scores of an
    agent of that wave that has read all of the release, else full marks."""
    for pin in study.protocol.models:
        columns = means.where(wave, [pin.name])
        if _knows(pin) < 1 or not columns:
            continue
        agent = means.pick(columns)
        scored = agent.public & ~np.isnan(agent.values[:, 0]).any(axis=1)
        pools = [agent.values[scored & (agent.stratum == h), 0] for h in strata]
        if all(len(pool) for pool in pools):
            return f"the public scores of {pin.name}", pools
    return FULL_MARKS, None


def _notes(
    plan: Plan, companions: Companions, clean_scores: CleanScores, covered: float
) -> list[str]:
    notes = []
    if plan.standard is not None and not covered:
        notes.append(
            "The plan adjusts by models released before publication; other than this one they have "
            "too few runs here, so nothing is adjusted."
        )
    if companions.stand_in and companions.models:
        notes.append("This wave tests no model: other clean ones stand for those of a look.")
    if companions.stand_in and len(companions.models) < companions.wanted - 1:
        had = len(companions.models) or "no"
        notes.append(
            f"A look has up to {companions.wanted} models, and here {had} other could stand for "
            "them: with all of them p is adjusted over more, and the test a little blunter."
        )
    if clean_scores.scores.counts[0].any():
        bound = "a claim that they could undo is not counted as found"
        rule = bound if plan.standard is not None else "the plan has no rule for them"
        notes.append(f"Missing runs stay missing: {rule}.")
    return notes


def record_calibration(study: Study, made: RecordedCalibration, now: str) -> CalibrationMade:
    """Store the result of a calibration, and record it in the ledger. An equal result returns the
    record that there is."""
    data = canonical_bytes(made.body)
    digest = digest_bytes(data)
    key = calibration_key(digest)
    study.store.put(key, data)
    inventory = write_inventory(study.store, [key])
    record = CalibrationMade(
        plan=made.body["registration"],
        how=RESAMPLED,
        wave=made.wave,
        trials=sum(dose.replicates for dose in made.found.doses),
        result=digest,
        uri=key,
        objects=inventory.objects,
        objects_root=inventory.objects_root,
    )
    kept: CalibrationMade = study.ledger.append_once(record, now)[0].record
    return kept


def calibration_of(study: Study, registration: str, through: int) -> RecordedCalibration | None:
    """Return the calibration that a report through a wave shows: on the newest wave, of such the
    one with most trials, of such the last; None without one. Raises BrokenPromise if it differs
    from the ledger's record."""
    made = [
        entry
        for entry in study.ledger.find("calibrated")
        if entry.record.plan == registration and entry.record.wave <= through
    ]
    if not made:
        return None
    return _read(study, max(reversed(made), key=lambda e: (e.record.wave, e.record.trials)))


def _read(study: Study, entry: Entry) -> RecordedCalibration:
    record: CalibrationMade = entry.record
    data = study.store.get(record.uri)
    if digest_bytes(data) != record.result:
        raise BrokenPromise(f"{record.uri}: not the calibration that the ledger names")
    return read_calibration(json.loads(data), record.uri, record.result, entry.time)
