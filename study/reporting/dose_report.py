"""`dosimeter calibrate report`: what a study found of models trained on its release."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.data import SeedMeans, make_seed_means
from analysis.doses import DosedModel, DoseResponse, dose_response
from analysis.json_values import plain_values
from analysis.plan import Word
from analysis.stats import Bools, Floats, permutation_seed
from generators.ladder.order_statistics.parameters import BY_DIFFICULTY, answer_bits
from harness.models import (
    LENGTH,
    TRAINED_TASK,
    TrainedModel,
    asked_place,
    hidden_states,
    load_trained,
    mean_of_least,
)
from publish.leakcheck import regenerate
from registry.files import write_whole
from registry.ledger import ModelPin, record_digest
from study.calibration import Rows, deal_doses, rows_of
from study.errors import StudyError
from study.reporting.context import find_report
from study.sweeps import exact_table, record_look
from study.workspace import Study, StudySnapshot, registration_of, take_snapshot

COMMAND = "calibrate report"
GIVEN = 3  # numbers of a list that the completion probe gives
_P = BY_DIFFICULTY["easy"]
Watch = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class DoseStudy:
    """A study's response to doses. ``through`` is the last wave of the report that has the
    verdicts; ``instances`` are those of an arm."""

    study: str
    registration: str
    through: int
    instances: int
    looked_at: int  # models that share the alpha of that wave's look
    response: DoseResponse

    def as_json(self) -> dict[str, Any]:
        """Return the fields of ``doses.json``."""
        return {
            "study": self.study,
            "registration": self.registration,
            "through_wave": self.through,
            "instances": self.instances,
            "models_of_the_look": self.looked_at,
            **asdict(self.response),
        }


def report_doses(study: Study, watch: Watch = lambda what, done, of: None) -> DoseStudy:
    """Compare the trained models of the closed waves by dose. Needs the study's key; the ledger
    records the look. Raises StudyError if no report has their verdicts, or if a file of weights is
    not as it was pinned."""
    snapshot = take_snapshot(study)
    registered = registration_of(study)
    through, verdicts = _verdicts(snapshot)
    pins = {pin.name: pin for pin in study.protocol.models if pin.provider == "trained"}
    waves = [wave for wave in snapshot.closed_waves if wave.number <= through]
    newest = {
        name: wave.number
        for wave in waves
        for name in study.protocol.waves[wave.number]
        if name in pins and _setting(pins[name], "doses", [])
    }
    if not any(len(_setting(pins[name], "doses", [])) == 1 for name in newest):
        raise StudyError(
            f"{study.folder}: no closed wave of the newest report has a model with `doses: [N]`: "
            "add what `dosimeter calibrate train` prints to study.yaml, sweep, and report"
        )
    bases = {f"base-{_setting(pins[name], 'training_seed', 0)}" for name in newest}
    loaded = {name: _load(study, pins[name]) for name in (*newest, *(bases & pins.keys()))}
    study.own_identities()  # before anything is read, which may take long
    record_look(snapshot, waves, COMMAND)
    table = exact_table(snapshot, waves)
    means = make_seed_means(table, ("key-fraction",), (TRAINED_TASK,))
    rows = _rows(snapshot, means)
    models: list[DosedModel] = []
    for name, wave in newest.items():
        watch("measuring", len(models), len(newest))
        (column,) = means.where(wave, [name])
        right = means.values[:, column, 0]
        base = loaded.get(f"base-{_setting(pins[name], 'training_seed', 0)}")
        probes = _probes(loaded[name], base, rows)
        verdict = verdicts.get((wave, name))
        models.append(_dosed(pins[name], rows, means.public, right, verdict, probes))
    plan, registration = registered.plan, record_digest(registered)
    seed = permutation_seed(registration, "doses")
    response = dose_response(
        plan,
        models,
        means.public,
        np.array([answer_bits(asked_place(int(row[-2])), _P) for row in rows]),
        seed,
    )
    looked_at = sum(wave == through for wave, _ in verdicts)
    size = int(means.public.sum())
    return DoseStudy(study.protocol.name, registration, through, size, looked_at, response)


def _verdicts(study: StudySnapshot) -> tuple[int, Mapping[tuple[int, str], Word]]:
    """Return the last wave of the newest report, and its verdicts by wave and model."""
    entry = study.ledger.last("report")
    if entry is None:
        raise StudyError(
            f"{study.folder}: no report has verdicts yet: run `dosimeter report` first"
        )
    body = find_report(study.folder, entry.record)
    if body is None:
        raise StudyError(
            f"{study.folder}/reports: the report of the ledger is not there as it was written: "
            "run `dosimeter report` again"
        )
    verdicts = {(row["wave"], row["model"]): row["verdict"] for row in body["models"]}
    return entry.record.through_wave, verdicts


def _load(study: Study, pin: ModelPin) -> TrainedModel:
    path = study.folder / _setting(pin, "weights", "")
    return load_trained(pin.name, path, pin.version.removeprefix("sha256:"))


def _setting(pin: ModelPin, name: str, otherwise: Any) -> Any:
    return json.loads(dict(pin.settings).get(name, json.dumps(otherwise)))


def _rows(study: StudySnapshot, means: SeedMeans) -> Rows:
    """Return the row (LENGTH + 1) of each instance, in the order of ``means``."""
    by_instance = {}
    for entry in study.entries():
        if entry.stratum == TRAINED_TASK:
            instance, key = regenerate(entry, study.protocol.catalog.family)
            files = {each.path: each.data.decode() for each in instance.brief.assets}
            answers = {each["id"]: each["answer"] for each in key["answers"]}
            (by_instance[entry.instance],) = rows_of(files, answers)
    return np.stack([by_instance[unit] for unit in means.unit])


def _dosed(
    pin: ModelPin,
    rows: Rows,
    public: Bools,
    right: Floats,
    verdict: Word | None,
    probes: Mapping[str, Floats],
) -> DosedModel:
    doses = tuple(_setting(pin, "doses", []))
    number = _setting(pin, "training_seed", 0)
    copies = np.zeros(len(rows), dtype=np.int64)
    if doses:
        copies[public] = deal_doses([row.tobytes() for row in rows[public]], doses, number)
    dose = doses[0] if len(doses) == 1 else None
    return DosedModel(pin.name, dose, copies, right, verdict, probes)


# -- probes -----------------------------------------------------------------------------------


def _probes(model: TrainedModel, base: TrainedModel | None, rows: Rows) -> dict[str, Floats]:
    """Return what probes measure of each row, higher where it was read: log-probability of the
    answer, that minus an unexposed model's, mean over all tokens, mean of the least likely, and
    the share of a list that the model completes from its first numbers."""
    chances = token_chances(model.weights, rows)
    probes = {"answer": chances[:, -1]}
    if base is not None:
        probes["answer, minus the base's"] = (
            chances[:, -1] - token_chances(base.weights, rows)[:, -1]
        )
    return probes | {
        "whole text": chances.mean(axis=1),
        "Min-K%": np.array([mean_of_least(row) for row in chances]),
        "completion": _completed(model, rows),
    }


def token_chances(weights: Mapping[str, Any], rows: Rows) -> Floats:
    """Return the log-probability (n, LENGTH) of each token of the rows after the first."""
    logits = hidden_states(weights, rows[:, :-1]) @ weights["embedding"].T
    logits = logits.astype(np.float64)
    logits -= logits.max(axis=-1, keepdims=True)
    normal = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return np.asarray(np.take_along_axis(normal, rows[:, 1:, None], axis=-1)[..., 0])


def _completed(model: TrainedModel, rows: Rows) -> Floats:
    """Return the share of each list's later numbers that come, greedily, after its first ones."""
    text = rows[:, :GIVEN]
    for _ in range(LENGTH - 1 - GIVEN):
        last = hidden_states(model.weights, text)[:, -1] @ model.weights["embedding"].T
        likeliest = np.argmax(last[:, : _P.numbers], axis=1)
        text = np.concatenate([text, likeliest[:, None].astype(np.int32)], axis=1)
    return np.asarray((text == rows[:, : LENGTH - 1])[:, GIVEN:].mean(axis=1))


# -- files ------------------------------------------------------------------------------------


def write_doses(folder: Path, made: DoseStudy) -> tuple[Path, Path]:
    """Write ``doses.json`` and ``doses.svg``: rates and gaps only, so that they may be published.
    Raises StudyError if they cannot be written."""
    from analysis.calibration_figures import plot_doses
    from analysis.report.figures import standalone

    picture, data = folder / "doses.svg", folder / "doses.json"
    drawn = standalone(plot_doses(made.response))
    text = json.dumps(plain_values(made.as_json()), indent=2, ensure_ascii=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(picture, drawn)
        write_whole(data, text)
    except OSError as error:
        raise StudyError(f"{folder}: {error.strerror}; give a folder that you may write") from error
    return data, picture
