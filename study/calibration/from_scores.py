"""`dosimeter calibrate`: how large a leak this study sees (spec/statistics.md, C2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.calibration import (
    DOSES,
    REPLICATES,
    Calibration,
    CleanScores,
    calibrate,
    calibration_json,
    check_doses,
)
from analysis.data import ResultTable, SeedMeans, make_seed_means, one_of
from analysis.plan import ModelScores, control_models, keep_rows
from analysis.stats import pre_exposure_means
from registry.canonical import digest_value
from registry.ledger import ModelPin, Plan, record_body
from registry.result_row import GRADER
from study.errors import StudyError
from study.results import exact_table
from study.workspace import Study, StudySnapshot, registration_of, take_snapshot

FOLDER = "calibration"  # in the study's
FULL_MARKS = "full marks"


@dataclass(frozen=True, slots=True)
class CalibrateRequest:
    """What is asked. None is the newest closed wave with a clean model, and its first one."""

    doses: tuple[float, ...] = DOSES
    replicates: int = REPLICATES
    wave: int | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """The models of a look beside the calibrated one. ``instead``: it takes the place of each in
    turn; ``stand_in``: they stand for those of a look, which has ``wanted`` at most."""

    models: tuple[str, ...]
    instead: bool = False
    stand_in: bool = False
    wanted: int = 0


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A calibration, and what it rests on. ``how``: "resampled" or "run"; ``known`` is what
    knowing an instance brings; ``covered`` the share of instances with a covariate."""

    how: str
    study: str
    registration: str
    plan: Plan
    model: str
    wave: int
    known: str
    covered: float
    notes: tuple[str, ...]
    found: Calibration
    beside: tuple[str, ...] = ()  # the look's other models

    def as_json(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "how": self.how,
            "study": self.study,
            "registration": self.registration,
            "plan": {
                "name": plan.name,
                "looks": plan.looks,
                "outcomes": list(plan.outcomes),
                "permutations": plan.permutations,
                "multiplicity": plan.multiplicity,
            },
            "model": self.model,
            "wave": self.wave,
            "known": self.known,
            "share_with_covariate": self.covered,
            "beside": list(self.beside),
            "notes": list(self.notes),
            **calibration_json(self.found),
        }


def calibrate_study(study: Study, request: CalibrateRequest) -> Calibrated:
    """Known leaks put into a clean model's stored scores. Nothing is run, nothing is stored.

    Raises StudyError where no wave is closed or no model is clean, AnalysisError for doses that
    are none.
    """
    check_doses(request.doses, request.replicates)
    registered = registration_of(study)
    plan, registration = registered.plan, digest_value(record_body(registered))
    snapshot = take_snapshot(study)
    wave, model = _chosen(snapshot, plan, request)
    cube = make_seed_means(_table(snapshot, plan, wave), plan.outcomes, plan.strata)
    beside = look_of(study, plan, cube, wave, model)
    ground, covered = make_ground(plan, cube, wave, model, beside)
    known, pools = _known(study, cube, wave, np.unique(ground.stratum))
    found = calibrate(
        plan,
        ground,
        doses=request.doses,
        replicates=request.replicates,
        known=pools,
        registration=registration,
        place=f"{model}|{wave}",
    )
    return Calibrated(
        "resampled",
        study.protocol.name,
        registration,
        plan,
        model,
        wave,
        known,
        covered,
        tuple(_notes(plan, beside, ground, covered)),
        found,
        beside.models,
    )


def look_of(study: Study, plan: Plan, cube: SeedMeans, wave: int, model: str) -> Beside:
    """Which models p is adjusted over beside the calibrated one: those that the plan tests at
    the wave, of each of which it takes the place in turn if it is itself a control; where the wave
    has none, other clean models, as many as a look of the study has at most."""
    aside = control_models(plan)
    here = [c.model for c in cube.columns if c.wave == wave and c.model != model]
    here = [name for name in here if _has_both_arms(cube, cube.where(wave, [name])[0])]
    tested = [name for name in here if name not in aside]
    if tested:
        return Beside(tuple(tested), instead=model in aside)
    most = max(len([m for m in models if m not in aside]) for models in study.protocol.waves)
    clean = [name for name in clean_models(study, plan, wave) if name in here]
    return Beside(tuple(clean[: max(most - 1, 0)]), wanted=most, stand_in=True)


def make_ground(
    plan: Plan, cube: SeedMeans, wave: int, model: str, beside: Beside
) -> tuple[CleanScores, float]:
    """The model's scores and those of the look's others, each with the covariate that a new model
    would have at this wave; and the share of instances that have one."""
    (own,) = cube.where(wave, [model])
    others = [place for name in beside.models for place in cube.where(wave, [name])]
    rows = cube.rows([own])
    x = _covariate(plan, cube, rows, wave, model)
    covered = 0.0 if x is None else float((~np.isnan(x[:, 0])).mean())

    def scores(columns: list[int]) -> ModelScores:
        named = [_covariate(plan, cube, rows, wave, cube.columns[c].model) for c in columns]
        values, there = cube.values[rows][:, columns], [each for each in named if each is not None]
        covariate = np.stack(there, axis=1) if len(there) == len(columns) else None
        missing, scored = cube.missing[rows][:, columns], cube.scored[rows][:, columns]
        return ModelScores(values, covariate, missing, missing + scored)

    model_own = scores([own])
    return CleanScores(
        model_own.values[:, 0],
        x if covered else None,
        cube.stratum[rows],
        cube.public[rows],
        cube.tranche[rows],
        model_own.counts[0][:, 0],
        model_own.counts[1][:, 0],
        scores(others) if others else None,
        beside.instead,
    ), covered


def clean_models(study: Study, plan: Plan, wave: int) -> tuple[str, ...]:
    """Models of a wave that cannot have been exposed: by a plan standard-v1 those it names;
    else, of a wave that was closed before the first release, all but spiked agents."""
    here = study.protocol.waves[wave]
    rules = plan.standard
    if rules is not None:
        return tuple(name for name in here if name in {*rules.pre_exposure, *rules.frozen})
    release = next(iter(study.ledger.find("release")), None)
    closed = next((e for e in study.ledger.find("wave-closed") if e.record.wave == wave), None)
    if closed is None or (release is not None and release.time < closed.time):
        return ()
    return tuple(name for name in here if not _is_spiked(study, plan, name))


def write_calibration(folder: Path, made: Calibrated) -> tuple[Path, Path]:
    """``calibration.json`` and ``calibration.svg``, or those of a run. Rates and gaps only, so
    that they may be shown to anybody. Raises StudyError where they cannot be written."""
    from analysis.files import write_whole
    from analysis.report.figures import plot_calibration, standalone

    name = "calibration" if made.how == "resampled" else "calibration-run"
    picture, data = folder / f"{name}.svg", folder / f"{name}.json"
    drawn = standalone(plot_calibration(made.found))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(picture, drawn)
        write_whole(data, json.dumps(made.as_json(), indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise StudyError(f"{folder}: {error.strerror}; give a folder that you may write") from error
    return data, picture


def _chosen(study: StudySnapshot, plan: Plan, request: CalibrateRequest) -> tuple[int, str]:
    """The wave and the model to put leaks into."""
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
            "no wave is closed yet, so there are no scores to put leaks into; sweep one, or run "
            "agents with `dosimeter calibrate --run`"
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
    """The newest of some waves that has a model."""
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
    """The share of the release that a built-in agent remembers."""
    settings = {key: json.loads(value) for key, value in pin.settings}
    if pin.provider != "scripted" or settings.get("agent") != "spiked":
        return 0.0
    return float(settings.get("share", 1.0))


def _table(study: StudySnapshot, plan: Plan, wave: int) -> ResultTable:
    """The rows of the closed waves up to one that P1 takes, as the registered grader sees them."""
    table = exact_table(study, [each for each in study.closed_waves if each.number <= wave])
    held = table.where((table["grader"] == GRADER) & one_of(table["stratum"], plan.strata))
    if plan.standard is None:
        return held
    return held.where(keep_rows(held, plan.standard.burned, control_models(plan)).primary)


def _covariate(
    plan: Plan, cube: SeedMeans, rows: NDArray[np.bool_], wave: int, model: str
) -> NDArray[np.float64] | None:
    """What the plan adjusts a model by at a wave, (n, outcomes). Its own runs, at any wave, are no
    part of it: they would foretell it better than they do another model."""
    rules = plan.standard
    if rules is None:
        return None
    before = [
        place
        for place, column in enumerate(cube.columns)
        if column.model in rules.pre_exposure and column.model != model and column.wave <= wave
    ]
    values, runs = cube.values[rows][:, before], cube.scored[rows][:, before]
    every = np.ones(len(before), dtype=bool)
    return pre_exposure_means(values, every, runs=runs, least=rules.covariate_runs)


def _has_both_arms(cube: SeedMeans, column: int) -> bool:
    there = ~np.isnan(cube.values[:, column, 0])
    cells = set(zip(cube.stratum[there].tolist(), cube.public[there].tolist(), strict=True))
    return len(cells) == 2 * len(np.unique(cube.stratum))


def _known(
    study: Study, cube: SeedMeans, wave: int, strata: NDArray[np.int64]
) -> tuple[str, list[NDArray[np.float64]] | None]:
    """What knowing an instance brings: the public scores of an agent of that wave that has read
    all of the release, else full marks."""
    for pin in study.protocol.models:
        columns = cube.where(wave, [pin.name])
        if _knows(pin) < 1 or not columns:
            continue
        held = cube.pick(columns)
        there = held.public & ~np.isnan(held.values[:, 0]).any(axis=1)
        pools = [held.values[there & (held.stratum == h), 0] for h in strata]
        if all(len(pool) for pool in pools):
            return f"the public scores of {pin.name}", pools
    return FULL_MARKS, None


def _notes(plan: Plan, beside: Beside, ground: CleanScores, covered: float) -> list[str]:
    notes = []
    if plan.standard is not None and not covered:
        notes.append(
            "The plan adjusts by models released before publication; beside this one they have "
            "too few runs here, so nothing is adjusted."
        )
    if beside.stand_in and beside.models:
        notes.append("This wave tests no model: other clean ones stand for those of a look.")
    if beside.stand_in and len(beside.models) < beside.wanted - 1:
        had = len(beside.models) or "no"
        notes.append(
            f"A look has up to {beside.wanted} models, and here {had} other could stand for "
            "them: with all of them p is adjusted over more, and the test a little blunter."
        )
    if ground.missing is not None and ground.missing.any():
        bound = "a claim survives the plan's adverse bound where the plan asks for it"
        rule = bound if plan.standard is not None else "the plan has no bounds on them"
        notes.append(f"Missing runs stay missing: {rule}.")
    return notes
