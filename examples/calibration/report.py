"""What a study found of models trained on its release: ``python -m examples.calibration.report``.

Compares the models of ``trained.json`` in the study's folder by dose: accuracy by arm, the verdicts
of the newest report, power by number of instances, and what probes see on the weights. Needs the
study's key; the ledger records the look.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.json_values import plain_values
from analysis.report.figures.style import standalone
from analysis.stats.intervals import counted, p_words, points, signed
from analysis.stats.permutation import Floats, permutation_seed
from examples.calibration.doses import (
    DosedModel,
    DoseResponse,
    DoseTrend,
    dose_response,
    mean_of_least,
)
from examples.calibration.figure import plot_doses
from examples.calibration.model import (
    LENGTH,
    asked_place,
    likeliest_numbers,
    read_weights,
    served_name,
    token_chances,
)
from examples.calibration.train import FOLDER, TrainedModel, deal_doses, drawn_rows, read_models
from examples.calibration.training import Rows, Weights
from generators.ladder.order_statistics.parameters import BY_DIFFICULTY, answer_bits
from registry.files import write_whole
from registry.ledger.records import record_digest
from registry.result_row import GRADER, Arm
from study.api import open_study
from study.errors import StudyError
from study.workspace.setup import registration_of

GIVEN = 3  # numbers of a list that the completion probe gives


@dataclass(frozen=True, slots=True)
class DoseStudy:
    """A study's response to doses. ``through_wave`` is the last wave of the report that has the
    verdicts; ``instances`` are those of an arm; ``models_of_the_look`` share its alpha."""

    study: str
    registration: str
    through_wave: int
    instances: int
    models_of_the_look: int
    response: DoseResponse

    def as_json(self) -> dict[str, Any]:
        """Return the fields of ``doses.json``."""
        fields = asdict(self)
        response = fields.pop("response")
        return {**fields, **response}


def report_doses(folder: Path) -> DoseStudy:
    """Compare a study's trained models by dose. Raises StudyError if no report has their verdicts,
    or if a file of weights is not the one that was served."""
    view, models = open_study(folder), read_models(folder)
    verdicts = view.verdicts()
    through = int(view.looks()["wave"].iloc[-1])
    tested = zip(verdicts["wave"], verdicts["model"], strict=True)
    verdict_of = dict(zip(tested, verdicts["verdict"], strict=True))
    table = view.results()
    table = table[(table["grader"] == GRADER) & (table["wave"] <= through)]
    waves = table.groupby("model")["wave"].max()
    swept = [name for name, model in models.items() if model.doses and name in waves.index]
    if not any(len(models[name].doses) == 1 for name in swept):
        raise StudyError(f"{folder}: no wave of the newest report has a model of one dose")
    rows = drawn_rows(view.study)
    units = table["instance"].drop_duplicates().tolist()
    arms = table.drop_duplicates("instance").set_index("instance")["arm"]
    public = np.array([arms[unit] == Arm.PUBLIC for unit in units])
    stacked = np.stack([rows[unit] for unit in units])
    dosed = []
    for name in swept:
        wave = waves[name]
        own = table[(table["model"] == name) & (table["wave"] == wave)]
        right = own.groupby("instance")["key_fraction"].mean().reindex(units).to_numpy(dtype=float)
        model = models[name]
        copies = np.zeros(len(units), dtype=np.int64)
        keys = [row.tobytes() for row in stacked[public]]
        copies[public] = deal_doses(keys, model.doses, model.training_seed)
        probes = probe(folder, name, models, stacked)
        dose = model.doses[0] if len(model.doses) == 1 else None
        verdict = verdict_of.get((wave, name))
        dosed.append(DosedModel(name, dose, copies, right, verdict, probes))
        print(f"measured {name}", file=sys.stderr, flush=True)
    registered = registration_of(view.study)
    digest = record_digest(registered)
    places = [asked_place(int(row[-2])) for row in stacked]
    bits = np.array([answer_bits(place, BY_DIFFICULTY["easy"]) for place in places])
    seed = permutation_seed(digest, "doses")
    return DoseStudy(
        study=view.study.protocol.name,
        registration=digest,
        through_wave=through,
        instances=int(public.sum()),
        models_of_the_look=int((verdicts["wave"] == through).sum()),
        response=dose_response(registered.plan, dosed, public, bits, seed),
    )


# -- probes -----------------------------------------------------------------------------------


def probe(
    folder: Path, name: str, models: Mapping[str, TrainedModel], rows: Rows
) -> dict[str, Floats]:
    """Return what probes measure of each row, higher where it was read: log-probability of the
    answer, that minus an unexposed model's, mean over all tokens, mean of the least likely, and
    the share of a list that the model completes from its first numbers. Raises StudyError."""
    weights = load(folder, name, models)
    chances = token_chances(weights, rows)
    base = load(folder, f"base-{models[name].training_seed}", models)
    return {
        "answer": chances[:, -1],
        "answer, minus the base's": chances[:, -1] - token_chances(base, rows)[:, -1],
        "whole text": chances.mean(axis=1),
        "Min-K%": np.array([mean_of_least(row) for row in chances]),
        "completion": _completed(weights, rows),
    }


def load(folder: Path, name: str, models: Mapping[str, TrainedModel]) -> Weights:
    """Return a model's weights. Raises StudyError if they are not those that were served."""
    path = folder / FOLDER / f"{name}.npz"
    if not path.exists() or served_name(path) != models[name].served:
        raise StudyError(f"{path}: not the weights of {models[name].served}")
    return read_weights(path.read_bytes())


def _completed(weights: Weights, rows: Rows) -> Floats:
    """Return the share of each list's later numbers that come, greedily, after its first ones."""
    text = rows[:, :GIVEN]
    for _ in range(LENGTH - 1 - GIVEN):
        likeliest = likeliest_numbers(weights, text)
        text = np.concatenate([text, likeliest[:, None].astype(np.int32)], axis=1)
    return np.asarray((text == rows[:, : LENGTH - 1])[:, GIVEN:].mean(axis=1))


# -- words and files --------------------------------------------------------------------------


def dose_words(response: DoseResponse) -> Iterator[str]:
    """Yield what models trained at known doses show, in sentences."""
    if response.blank is not None and response.limit is not None:
        dose = response.dose_at_limit
        at = "no dose here reaches it" if dose is None else f"reached at {dose:.1f} copies"
        yield (
            f"Limit of blank {points(response.blank)} points; limit of detection "
            f"{points(response.limit)} points, {at}."
        )
    yield from map(_trend_words, response.trends)
    for row in response.rows:
        if row.private_rise is not None and row.rise_interval is not None:
            low, high = row.rise_interval
            yield (
                f"Private arm at {counted(row.dose, 'copy', 'copies')} against none: "
                f"{signed(row.private_rise)} points ({signed(low)} to {signed(high)})."
            )


def _trend_words(trend: DoseTrend) -> str:
    shares = ", ".join(
        f"{dose}: {right:g} of {count}"
        for dose, right, count in zip(trend.doses, trend.right, trend.instances, strict=True)
    )
    verdict = f"; {trend.verdict}" if trend.verdict else ""
    return (
        f"{trend.model}, right by copies of the instance: {shares}; private "
        f"{100 * trend.private.mean:.1f} %; trend z = {trend.z:.2f}, p {p_words(trend.p)}{verdict}."
    )


def write_doses(folder: Path, made: DoseStudy) -> None:
    """Write ``doses.json`` and ``doses.svg`` into a study's ``calibration``: rates and gaps only,
    so that they may be published. Raises OSError."""
    place = folder / "calibration"
    place.mkdir(exist_ok=True)
    text = json.dumps(plain_values(made.as_json()), indent=2, ensure_ascii=False)
    write_whole(place / "doses.svg", standalone(plot_doses(made.response)))
    write_whole(place / "doses.json", text + "\n")


def show(made: DoseStudy) -> None:
    """Print the result."""
    for row in made.response.rows:
        low, high = row.interval
        print(
            f"{counted(row.dose, 'copy', 'copies')}: public {100 * row.public.mean:.1f} %, private "
            f"{100 * row.private.mean:.1f} %, gap {signed(row.gap)} points ({signed(low)} to "
            f"{signed(high)}), {row.found} of {row.tested} contaminated"
        )
    for line in dose_words(made.response):
        print(line)


def main() -> None:
    """Report on the study in the folder that is given."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "calibration-study")
    made = report_doses(folder)
    write_doses(folder, made)
    show(made)


if __name__ == "__main__":
    main()
