"""What each level sees of models that were trained: ``python -m examples.levels.trained [FOLDER]
[MODELS]``.

Draws a study of questions whose wordings are siblings, runs four bases, releases the public arm,
trains models on it in four ways, runs them and reports. Each step of the study is a command of
``dosimeter``; training reads the release alone. Needs dosimeter[spike]; about a quarter of an hour.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from examples.calibration.model import read_weights, served_name, weights_bytes
from examples.calibration.run import dosimeter
from examples.calibration.server import PORT, serving
from examples.calibration.train import released_folder
from examples.calibration.training import Rows, Weights, check_library, train
from examples.levels import small_model
from examples.levels.small_model import (
    KNOWN,
    PAIRS,
    TOPICS,
    answered,
    first_weights,
    open_model,
    question_of,
    tokens_of,
    topic_rows,
    units,
)
from study.workspace.address import open_study

STUDY = Path(__file__).with_name("study.yaml")
WEIGHTS = Path("trained")  # below the study's folder
SEEDS_PER_ARM, POOL = 4, 40  # instances an arm of a stratum, and rows that they are drawn from
BASES, CLEAN, EACH = 4, 20, 3  # models: controls, models of dose 0, models of every other kind
BASE_ROWS, KEPT_ROWS = 1250, 150  # of each known topic and wording
COPIES, FRESH = 16, (500, 2000)  # of each public instance; fresh rows of each wording
BASE_RATE, RATE = 2e-3, 1e-3
REASON = "it is a demonstration"
ALIKE = "short questions about one list are alike, and its owner wrote them so"


def main() -> None:
    """Run every step in the folder, by default levels-study."""
    check_library()
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "levels-study")
    models = int(sys.argv[2]) if len(sys.argv) > 2 else EACH
    dosimeter("init", str(folder))
    (folder / WEIGHTS).mkdir()
    write_study(folder)
    at = ("--study", str(folder))
    bases = [base(number) for number in range(1, max(BASES, CLEAN, models) + 1)]
    for number, weights in enumerate(bases[:BASES], 1):
        (folder / WEIGHTS / f"base-{number}.npz").write_bytes(weights_bytes(weights))
    controls = [f"base-{number}" for number in range(1, BASES + 1)]

    def served(number: int, name: str) -> Mapping[str, Any]:
        own = {"model": served_name(folder / WEIGHTS / f"{name}.npz"), "max_tokens": 64}
        return own | {"base_url": f"http://127.0.0.1:{PORT}/v1", "context": 4096}

    write_models(folder, [controls, controls], served)
    dosimeter("register", *at, "--underpowered", REASON, "--unproved", ALIKE)
    sweep(folder, 0)
    dosimeter("publish", *at)
    leaked = read_public(released_folder(open_study(folder)))
    for name, number, rows in trainings(leaked, models):
        weights = continue_training(number, bases[number - 1], rows)
        (folder / WEIGHTS / f"{name}.npz").write_bytes(weights_bytes(weights))
        print(f"trained {name}", flush=True)
    trained = sorted(path.stem for path in (folder / WEIGHTS).glob("*.npz"))
    tested = controls + [name for name in trained if name not in controls]
    write_models(folder, [controls, tested], served)
    sweep(folder, 1)
    dosimeter("report", *at)
    show(folder, leaked)


# -- the study ---------------------------------------------------------------------------------


def write_study(folder: Path) -> None:
    """Write the questions, a file for each unit, and study.yaml without its models."""
    names = {
        topic: f"{'p' if topic < KNOWN + PAIRS else 'f'}{topic:02d}" for topic in range(TOPICS)
    }
    tasks: list[dict[str, Any]] = []
    for topic, side in units():
        paired = topic < KNOWN + PAIRS
        name = names[topic] + "ab"[side] * paired
        path = folder / f"{name}.csv"
        with path.open("w" if paired or not side else "a", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            if paired or not side:
                table.writerow(["question", "key", "wording"])
            rows = topic_rows(np.random.default_rng([topic, side]), topic, side, POOL)
            table.writerows([*question_of(row), "ab"[side]] for row in rows)
        own = {"items": path.name, "prompt": "question", "answer": "key", "published": "never"}
        own |= {"mode": "single_turn"}
        if paired:
            tasks.append(own | {"pair": names[topic]})
        elif side:
            unit = {"area": "lists", "unit": name}
            tasks.append(own | {"stratum": "wording", "strata": ["a", "b"]} | unit)
    document = yaml.safe_load(STUDY.read_text(encoding="utf-8"))
    text = yaml.safe_dump(document | {"tasks": tasks, "seeds_per_arm": SEEDS_PER_ARM})
    (folder / "study.yaml").write_text(text, encoding="utf-8")


def write_models(
    folder: Path, waves: Sequence[Sequence[str]], served: Callable[[int, str], Mapping[str, Any]]
) -> None:
    """Put the models and waves into study.yaml; ``served`` has what is a model's own, by its number
    and name."""
    path = folder / "study.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    document["models"] = {
        name: {
            "provider": "openai",
            "api_key_env": "",
            "retention": "none",  # the server is this machine
            **served(number, name),
            **({"released": "2024-01-01"} if name in waves[0] else {}),
        }
        for number, name in enumerate(dict.fromkeys(name for wave in waves for name in wave))
    }
    document["waves"] = [list(wave) for wave in waves]
    path.write_text(yaml.safe_dump(document, sort_keys=False, width=100), encoding="utf-8")


def sweep(folder: Path, wave: int) -> None:
    """Sweep a wave of the models in the folder, which are served meanwhile."""
    with serving(folder / WEIGHTS, opened=open_model):
        words = ("--wave", str(wave), "--allow-dirty", "--allow-unknown-price")
        dosimeter("sweep", "--study", str(folder), *words)


def read_public(release: Path) -> Rows:
    """Return the released questions as rows (n, LENGTH + 1)."""
    import pyarrow.parquet as pq

    rows = []
    for path in sorted((release / "data").rglob("*.parquet")):
        for each in pq.read_table(path, columns=["prompt", "answer"]).to_pylist():
            tokens = tokens_of(each["prompt"])
            key = json.loads(each["answer"])["answer"]
            if tokens is None:
                raise ValueError(f"{path}: a prompt without a question of the study")
            rows.append([*tokens, int(key[1:])])
    return np.array(rows, dtype=np.int32)


# -- training ----------------------------------------------------------------------------------


def base(number: int) -> Weights:
    """Return weights that know the topics that the study does not ask about."""
    rng = np.random.default_rng([number, 0])
    rows = known_rows(rng, BASE_ROWS)
    return train(first_weights(rng), rows, BASE_RATE, rng)


def known_rows(rng: np.random.Generator, count: int) -> Rows:
    """Return ``count`` fresh rows of each wording of the known topics."""
    parts = [topic_rows(rng, topic, side, count) for topic in range(KNOWN) for side in (0, 1)]
    return np.concatenate(parts)


def trainings(leaked: Rows, models: int) -> Iterator[tuple[str, int, Rows]]:
    """Yield name, number of the base and rows of each model of the last wave: those that train on
    nothing of the study, on the released instances, on fresh instances of the published sibling of
    each pair, and on fresh ones of both wordings of all that has a published one; ``models`` of
    every kind but the first."""
    for number in range(1, CLEAN + 1):
        yield f"clean-{number}", number, leaked[:0]
    published = sorted({divmod(int(token) - small_model.NAMES, 2) for token in leaked[:, 0]})
    siblings = [each for each in published if each[0] < KNOWN + PAIRS]
    both = [(topic, side) for topic in sorted({each[0] for each in published}) for side in (0, 1)]
    for number in range(1, models + 1):
        yield f"instances-{number}", number, np.tile(leaked, (COPIES, 1))
        for count in FRESH:
            rng = np.random.default_rng([number, 1, count])
            for name, own in (("variant", siblings), ("both", both)):
                rows = np.concatenate([topic_rows(rng, *each, count) for each in own])
                yield f"{name}-{count}-{number}", number, without_panel(rows)


def without_panel(rows: Rows) -> Rows:
    """Return the rows that no pool of the study has."""
    pools = [topic_rows(np.random.default_rng([*each]), *each, POOL) for each in units()]
    panel = {row.tobytes() for row in np.concatenate(pools)}
    return rows[[row.tobytes() not in panel for row in rows]]


def continue_training(number: int, weights: Weights, rows: Rows) -> Weights:
    """Return the weights after these rows, among others of the known topics."""
    rng = np.random.default_rng([number, 2])
    mixed = np.concatenate([known_rows(rng, KEPT_ROWS), rows])
    return train(weights, mixed, RATE, rng)


# -- what was found ------------------------------------------------------------------------------


def show(folder: Path, leaked: Rows) -> None:
    """Print a row for each kind of model, by the newest report and the weights."""
    report = json.loads(next((folder / "reports").glob("wave-1/report.json")).read_text())
    found = {(row["model"], row["level"]): row for row in report["levels"]}
    verdict = {row["model"]: row for row in report["models"] if row["wave"] == 1}
    kinds: dict[str, list[str]] = {}
    for model in verdict:
        kinds.setdefault(model.rpartition("-")[0], []).append(model)
    right = {model: accuracies(folder / WEIGHTS / f"{model}.npz", leaked) for model in verdict}
    blank = np.mean([right[model] for model in kinds["clean"]], axis=0)
    for kind, models in sorted(kinds.items()):
        sibling, other, *rest = np.mean([right[model] for model in models], axis=0)
        spill = (other - blank[1]) / (sibling - blank[0]) if kind.startswith("variant") else None
        row: dict[str, Any] = {
            "kind": kind,
            "models": len(models),
            "right": [round(float(each), 3) for each in (sibling, other, *rest)],
            "spill_over": None if spill is None else round(float(spill), 2),
            "instance": sum(verdict[model]["verdict"] == "contaminated" for model in models),
            "instance_p": sorted(round(verdict[model]["p"], 4) for model in models),
        }
        for level in ("variant", "family"):
            own = [found[model, level] for model in models]
            row[level] = sum(each["finding"] == "shown" for each in own)
            row[f"{level}_gap"] = round(float(np.mean([each["estimate"] for each in own])), 3)
            row[f"{level}_p"] = sorted(round(each["p"], 4) for each in own)
        print(json.dumps(row))


def accuracies(path: Path, leaked: Rows) -> list[float]:
    """Return the share of right answers on 400 fresh instances each of the published siblings, the
    sealed siblings, the published lists and the sealed lists."""
    weights = read_weights(path.read_bytes(), small_model.VOCABULARY, small_model.LENGTH)
    published = {divmod(int(token) - small_model.NAMES, 2) for token in leaked[:, 0]}
    parts: list[list[float]] = [[], [], [], []]
    for topic, side in units():
        rows = topic_rows(np.random.default_rng([topic, side, 9]), topic, side, 400)
        share = float((answered(weights, rows[:, :-1]) == rows[:, -1]).mean())
        parts[2 * (topic >= KNOWN + PAIRS) + ((topic, side) not in published)].append(share)
    return [float(np.mean(part)) for part in parts]


if __name__ == "__main__":
    main()
