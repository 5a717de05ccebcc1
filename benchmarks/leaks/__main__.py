"""What the registered test finds in models that were trained on a leak: small models, many draws.

    python -m benchmarks.leaks PART [MODELS [DRAWS]] [--write]

Parts, each of one JSON line, with --write put into docs/calibration.json and the page beside it;
training needs dosimeter[spike]:

blank   false alarms at dose 0: models of as many training seeds, each tested on draws of its own
doses   the share of models that are found, by dose and instances an arm, each trained on a draw of
        its own; beside it the forecast that `dosimeter power` makes for the mean gap
forms   leaks of other forms than whole instances with their answers, and at the skill ceiling:
        the gap, the verdict, and what log-probabilities of the answer and of all tokens show

    python -m benchmarks.leaks study FOLDER --write     what `make calibrate` found
    python -m benchmarks.leaks pretrained FILE --write  what `make calibrate-pretrained` found

All is the plan basic-v1 with one look and one model, one-sided alpha .025.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.json_values import plain_values
from analysis.plan.presets import basic_plan
from analysis.power.power import PowerDesign, PowerSetting, claims, power_at
from analysis.power.variance_components import Components, SimulationSize
from analysis.stats.proportions import wilson
from benchmarks.leaks.page import render_page
from examples.calibration.doses import area_under_curve
from examples.calibration.model import LENGTH, TASK, asked_place, likeliest_numbers, token_chances
from examples.calibration.train import continue_training, train_base
from examples.calibration.training import NO_ANSWER, Rows, Weights, fresh_rows
from generators.ladder.order_statistics.parameters import BY_DIFFICULTY
from generators.seed import Seed

ARM = 400
SIZES = (50, 100, 200, 400)  # instances an arm
DOSES = (0, 1, 2, 4)
FORM_DOSE = 8
CEILING_ROWS = 600_000  # of a base that knows nearly all smallest and largest numbers
NUMBERS = LENGTH - 1  # of a list
VALUES = BY_DIFFICULTY["easy"].numbers
STORED = Path(__file__).resolve().parents[2] / "docs/calibration.json"
PAGE, PICTURE = STORED.with_suffix(".md"), STORED.with_name("images") / "doses.svg"
Floats = NDArray[np.float64]


def main() -> None:
    part, *rest = [word for word in sys.argv[1:] if word != "--write"]
    if part in PARTS:
        outcome = PARTS[part](*map(int, rest))
        print(json.dumps({"benchmark": "leaks", "part": part, **outcome, "cpu_s": process_time()}))
    else:
        outcome = _read(part, Path(rest[0]))
    if "--write" in sys.argv:
        stored = json.loads(STORED.read_text()) if STORED.exists() else {}
        stored = dict(sorted({**stored, part: plain_values(outcome)}.items()))
        STORED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
        PAGE.write_text(render_page(PAGE.read_text(), stored))


def _read(part: str, place: Path) -> Any:
    """What a study has written: its numbers, and its figure beside the pages."""
    if part == "study":
        PICTURE.write_bytes((place / "calibration/doses.svg").read_bytes())
        place = place / "calibration/doses.json"
    return json.loads(place.read_text())


def measure_blank(models: int = 20, draws: int = 50) -> dict[str, Any]:
    """False alarms of models that have read no release."""
    found, gaps = [], []
    for number in range(1, models + 1):
        weights = continue_training(number, train_base(number)[1], _none())[2]
        right = np.stack(
            [_right(weights, draw_rows(f"blank/{number}/{draw}", 2 * ARM)) for draw in range(draws)]
        )
        found += find_all(right, number).tolist()
        gaps += (right[:, :ARM].mean(1) - right[:, ARM:].mean(1)).tolist()
        show(f"model {number} of {models}: {sum(found)} of {len(found)}")
    alarms = sum(found)
    return {
        "models": models,
        "draws": draws,
        "false_alarms": alarms,
        "rate": alarms / len(found),
        "interval": wilson(alarms / len(found), len(found)),
        "by_model": [sum(found[i * draws : (i + 1) * draws]) for i in range(models)],
        "sd_of_gaps": float(np.std(gaps, ddof=1)),
    }


def measure_doses(models: int = 20, draws: int = 5) -> dict[str, Any]:
    """Models found by dose and instances an arm, beside the forecast for the mean gap."""
    answers: dict[int, list[NDArray[np.bool_]]] = {dose: [] for dose in DOSES}
    for number in range(1, models + 1):
        base = train_base(number)[1]
        for draw in range(draws):
            rows = draw_rows(f"doses/{number}/{draw}", 2 * ARM)
            for dose in DOSES:
                leaked = np.tile(rows[:ARM], (dose, 1))
                weights = continue_training(number, base, leaked)[2]
                answers[dose].append(_right(weights, rows))
        show(f"training seed {number} of {models}")
    return {
        "training_seeds": models,
        "draws": draws,
        "doses": [_dose(dose, np.stack(right)) for dose, right in answers.items()],
    }


def _dose(dose: int, right: NDArray[np.bool_]) -> dict[str, Any]:
    public, private = right[:, :ARM].mean(1), right[:, ARM:].mean(1)
    gaps = public - private
    sizes = []
    for size in SIZES:
        part = np.concatenate([right[:, :size], right[:, ARM : ARM + size]], axis=1)
        found = int(find_all(part, dose).sum())
        sizes.append(
            {
                "instances": size,
                "found": found,
                "of": len(part),
                "interval": wilson(found / len(part), len(part)),
                "forecast": forecast(float(gaps.mean()), private, size) if dose else None,
            }
        )
    return {
        "dose": dose,
        "public": float(public.mean()),
        "private": float(private.mean()),
        "gap": float(gaps.mean()),
        "sd_of_gaps": float(gaps.std(ddof=1)),
        "by_size": sizes,
    }


def forecast(gap: float, private: Floats, size: int) -> float:
    """The power of a model with this gap and the SD of one without."""
    accuracy = float(private.mean())
    components = Components(
        sd=(min(0.5, (accuracy * (1 - accuracy)) ** 0.5),), seed_share=0.0, shared=0.0
    )
    design = PowerDesign(plan_of(size), components, PowerSetting(gap=gap))
    effort = SimulationSize(replications=2000, permutations=999, seed=1)
    return power_at(design, effort, study=False).power


def measure_forms(models: int = 3) -> dict[str, Any]:
    """Each form of leak: means over training seeds."""
    found: dict[str, list[dict[str, float]]] = {}
    for number in range(1, models + 1):
        bases = {False: train_base(number)[1]}
        bases[True] = train_base(number, CEILING_ROWS)[1]
        drawn = {False: draw_rows(f"forms/{number}", 2 * ARM), True: extreme_rows(number)}
        rng = np.random.default_rng(number)
        for name, (ceiling, leak) in FORMS.items():
            rows = drawn[ceiling]
            leaked = [leak(rows[:ARM], rng) for _ in range(FORM_DOSE)] if leak else []
            all_leaked = np.concatenate(leaked) if leaked else _none()
            weights = continue_training(number, bases[ceiling], all_leaked)[2]
            found.setdefault(name, []).append(_form(weights, rows, number))
            show(f"training seed {number} of {models}, {name}: {found[name][-1]}")
    return {
        "dose": FORM_DOSE,
        "training_seeds": models,
        "forms": {
            name: {key: fmean(each[key] for each in listed) for key in listed[0]}
            for name, listed in found.items()
        },
    }


def _form(weights: Weights, rows: Rows, number: int) -> dict[str, float]:
    right = _right(weights, rows)
    chances = token_chances(weights, rows)
    return {
        "public": float(right[:ARM].mean()),
        "private": float(right[ARM:].mean()),
        "found": float(find_all(right[None], number)[0]),
        "auc_answer": auc(chances[:, -1]),
        "auc_text": auc(chances.mean(axis=1)),
        "auc_prompt": auc(chances[:, :-1].mean(axis=1)),
    }


# -- forms of a leak: one copy of each public instance ----------------------------------------


def whole(rows: Rows, _: np.random.Generator) -> Rows:
    """Instances with their answers, as released."""
    return rows


def paraphrased(rows: Rows, rng: np.random.Generator) -> Rows:
    """The same lists with their numbers in another order, and the same answers."""
    lists = rng.permuted(rows[:, :NUMBERS], axis=1)
    return np.concatenate([lists, rows[:, NUMBERS:]], axis=1)


def without_answers(rows: Rows, _: np.random.Generator) -> Rows:
    """Inputs alone."""
    return np.concatenate([rows[:, :-1], np.full_like(rows[:, -1:], NO_ANSWER)], axis=1)


def answers_alone(rows: Rows, _: np.random.Generator) -> Rows:
    """Questions and answers, with one list for all instances that belongs to none."""
    return np.concatenate([np.zeros_like(rows[:, :NUMBERS]), rows[:, NUMBERS:]], axis=1)


def another_task(rows: Rows, rng: np.random.Generator) -> Rows:
    """As many instances of another task, from other lists: the number at the place asked for."""
    lists = np.stack([rng.permutation(VALUES)[:NUMBERS] for _ in rows]).astype(np.int32)
    places = rng.integers(0, NUMBERS, len(rows))
    answers = lists[np.arange(len(rows)), places]
    tokens = VALUES + places
    return np.concatenate([lists, np.stack([tokens, answers], axis=1)], axis=1).astype(np.int32)


def another_release(rows: Rows, rng: np.random.Generator) -> Rows:
    """As many instances of the same task that no arm holds, the same in each copy."""
    digest = hashlib.sha256(rows.tobytes()).hexdigest()
    return draw_rows(f"other/{digest}", len(rows))


Leak = Callable[[Rows, np.random.Generator], Rows]
FORMS: Mapping[str, tuple[bool, Leak | None]] = {
    "none": (False, None),
    "whole": (False, whole),
    "paraphrased": (False, paraphrased),
    "inputs without answers": (False, without_answers),
    "answers without inputs": (False, answers_alone),
    "another release of the task": (False, another_release),
    "another task": (False, another_task),
    "ceiling, none": (True, None),
    "ceiling, whole": (True, whole),
}


# -- draws, tests and probes ------------------------------------------------------------------


def draw_rows(name: str, count: int) -> Rows:
    """Return rows (count, LENGTH + 1) of instances of a draw: the public arm, then the private."""
    return fresh_rows(Seed(hashlib.sha256(f"benchmarks.leaks/{name}".encode()).digest()), count)


def extreme_rows(number: int) -> Rows:
    """Return as many rows that ask for the smallest or the largest number."""
    rows = draw_rows(f"extremes/{number}", 24 * ARM)
    places = np.array([asked_place(int(token)) for token in rows[:, -2]])
    chosen = rows[(places == 1) | (places == NUMBERS)]
    if len(chosen) < 2 * ARM:
        raise ValueError(f"{len(chosen)} of {len(rows)} rows ask for an extreme: draw more")
    return np.asarray(chosen[: 2 * ARM])


def _none() -> Rows:
    return np.zeros((0, LENGTH + 1), dtype=np.int32)


def _right(weights: Weights, rows: Rows) -> NDArray[np.bool_]:
    """Return for each row whether the likeliest number is its answer."""
    return np.asarray(likeliest_numbers(weights, rows[:, :-1]) == rows[:, -1])


def plan_of(size: int) -> Any:
    return basic_plan((TASK,), size, looks=1, outcomes=("score",))


def find_all(right: NDArray[np.bool_], seed: int) -> NDArray[np.bool_]:
    """Return for each study (B, 2 × instances an arm) whether the plan's rule finds its model."""
    size = right.shape[1] // 2
    public = np.arange(2 * size) < size
    values = right.T.astype(np.float64)[:, :, None, None]
    stratum = np.zeros(2 * size, dtype=np.int64)
    return np.asarray(claims(plan_of(size), values, None, stratum, public, seed)[:, 0])


def auc(values: Floats) -> float:
    """Return the area under the curve of public above private."""
    return area_under_curve(values[:ARM], values[ARM:])


def show(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


PARTS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "blank": measure_blank,
    "doses": measure_doses,
    "forms": measure_forms,
}


if __name__ == "__main__":
    main()
