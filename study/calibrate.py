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
    Ground,
    calibrate,
    calibration_json,
    check_doses,
)
from analysis.cube import Cube, make_cube
from analysis.load import Table, make_table
from analysis.plan import GRADER
from analysis.tested import Data, look_data
from registry.canon import digest_value
from registry.records import ModelPin, Plan, record_body
from registry.tables import ResultRow
from study.errors import StudyError
from study.folder import Study
from study.looks import read_rows
from study.runs import closed_wave, closing_manifest
from study.setup import registration_of

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

    def as_json(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "how": self.how,
            "study": self.study,
            "registration": self.registration,
            "plan": {"name": plan.name, "looks": plan.looks, "outcomes": list(plan.outcomes),
                     "permutations": plan.permutations},
            "model": self.model,
            "wave": self.wave,
            "known": self.known,
            "share_with_covariate": self.covered,
            "notes": list(self.notes),
            **calibration_json(self.found),
        }  # fmt: skip


def calibrate_study(study: Study, request: CalibrateRequest) -> Calibrated:
    """Known leaks put into a clean model's stored scores. Nothing is run, nothing is stored.

    Raises StudyError where no wave is closed or no model is clean, AnalysisError for doses that
    are none.
    """
    check_doses(request.doses, request.replicates)
    registered = registration_of(study)
    plan, registration = registered.plan, digest_value(record_body(registered))
    wave, model = _chosen(study, plan, request)
    cube = make_cube(_table(study, wave), plan.outcomes, plan.strata)
    data = _data(plan, cube, wave, model)
    known, pools = _known(study, cube, wave, np.unique(data.cube.stratum))
    ground = Ground(
        data.cube.values[:, 0], data.covariate if data.covered else None,
        data.cube.stratum, data.cube.public,
    )  # fmt: skip
    found = calibrate(
        plan, ground, doses=request.doses, replicates=request.replicates, known=pools,
        registration=registration, place=f"{model}|{wave}",
    )  # fmt: skip
    return Calibrated(
        "resampled", study.protocol.name, registration, plan, model, wave, known, data.covered,
        tuple(_notes(plan, data)), found,
    )  # fmt: skip


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
    from analysis.calibrationfigure import plot_calibration
    from analysis.svg import standalone
    from analysis.wholefile import write_whole

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


def _chosen(study: Study, plan: Plan, request: CalibrateRequest) -> tuple[int, str]:
    """The wave and the model to put leaks into."""
    waves = study.protocol.waves
    if request.wave is not None:
        study.protocol.wave_models(request.wave)
        if closed_wave(study, request.wave) is None:
            raise StudyError(
                f"wave {request.wave} is not closed; run `dosimeter sweep --wave {request.wave}` "
                "to its end first"
            )
    closed = [wave for wave in range(len(waves)) if closed_wave(study, wave) is not None]
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


def _table(study: Study, wave: int) -> Table:
    """The rows of the closed waves up to one, as the registered grader sees them."""
    records = [closed_wave(study, each) for each in range(wave + 1)]
    runs = [closing_manifest(study, record) for record in records if record is not None]
    rows: list[ResultRow] = list(read_rows(study, runs))
    table = make_table(rows)
    return table.where(table["grader"] == GRADER)


def _data(plan: Plan, cube: Cube, wave: int, model: str) -> Data:
    """The model's scores with the covariate that a new model would have at this wave. Its own
    runs are no part of it: they would foretell it better than they do another model."""
    rules = plan.standard
    before = [
        place
        for place, column in enumerate(cube.columns)
        if rules is not None
        and column.model in rules.pre_exposure
        and column.model != model
        and column.wave <= wave
    ]
    runs = 1 if rules is None else rules.covariate_runs
    return look_data(cube, cube.where(wave, [model]), before, runs)


def _known(
    study: Study, cube: Cube, wave: int, strata: NDArray[np.int64]
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


def _notes(plan: Plan, data: Data) -> list[str]:
    notes = []
    if plan.standard is not None and not data.covered:
        notes.append(
            "The plan adjusts by models released before publication; beside this one they have "
            "too few runs here, so nothing is adjusted."
        )
    if data.cube.missing.any():
        notes.append(
            "Missing runs stay missing; the plan's bounds on them are no part of this test."
        )
    return notes
