"""What the levels see of a pretrained model: ``python -m examples.levels.pretrained [FOLDER]``.

SmolLM2-135M learns queues, orders of names that nothing but training tells; a queue has two
wordings, which are siblings, of sixteen names each, half of them the same. Draws a study of eight
queues, runs two controls that know others, releases the public arm, trains a model on fresh
instances of what is published and one on nothing of it, by low-rank adapters, runs both and
reports. Each step of the study is a command of ``dosimeter``; training reads the release alone.
Needs dosimeter[pretrained,local,items,analysis] and `dosimeter models fetch smollm2`; an hour on
two cores. Interrupted, the same command goes on.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml

from examples.calibration import pretrained
from examples.calibration.run import dosimeter
from examples.calibration.train import released_folder
from examples.levels.trained import ALIKE, REASON, write_models
from generators.items.family import Items
from generators.seed import Seed
from generators.task import Brief
from harness.agent.single_turn import single_turn
from harness.models.local import find_weights, start_server
from registry.result_row import Arm
from study.steps.report.look import graded_rows
from study.workspace.address import open_study
from study.workspace.snapshot import take_snapshot

NAMES = (
    *("Anna", "Boris", "Clara", "David", "Emma", "Felix", "Grace", "Henry"),
    *("Iris", "Jack", "Kate", "Leo", "Maria", "Noah", "Olga", "Peter"),
    *("Ralph", "Sarah", "Tom", "Ursula", "Victor", "Wendy", "Xavier", "Yvonne"),
)
SIDES = ((0, 16), (8, 24))  # names of each wording: eight are the same
STUDIED = ("Marlow", "Dalby", "Corwen", "Tarrant", "Skipton", "Wexford", "Hadley", "Kelso")
KNOWN = ("Ripley", "Stroud", "Barton", "Selby")  # places that every model knows
WORDINGS = (
    "In the {} queue, who stands first: {}, {}, {} or {}?",
    "The roll of {} names {}, {}, {} and {}. Whose name comes before the others?",
)
SHOWN = 4  # names of a question
SEEDS_PER_ARM, POOL = 16, 40  # instances an arm of a stratum, and rows that they are drawn from
CONTROLS = ("before-1", "before-2")
KNOWN_ROWS, FRESH = 24, 200  # of each place and wording
WHOLE = 16  # one row of 16 has the whole prompt, the others only the question and its answer
PORT = 8770
# What every model writes: the form is given, the name is its own.
GRAMMAR = r"""root ::= "<answer>\n{\"answer\": \"" [A-Z] [a-z]+ "\"}\n</answer>\n"? """

Row = tuple[str, str]
"""A question, and the name that is right."""


def main() -> None:
    """Run every step in the folder, by default pretrained-levels-study."""
    pretrained.check_packages()
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pretrained-levels-study")
    at = ("--study", str(folder))
    if not (folder / "study.yaml").exists():
        dosimeter("init", str(folder))
        write_tasks(folder)
    for number, name in enumerate(CONTROLS):
        train(folder, name, number, [])
    if not (folder / "registration.json").exists():
        write_models(folder, [CONTROLS, CONTROLS], partial(served, folder))
        dosimeter("register", *at, "--underpowered", REASON, "--unproved", ALIKE)
    if not (folder / "release").exists():
        sweep(folder, 0)
        dosimeter("publish", *at)
    leaked = read_public(folder)
    exposed = dict(exposures(leaked))
    for number, (name, rows) in enumerate(exposed.items(), len(CONTROLS)):
        train(folder, name, number, rows)
    write_models(folder, [CONTROLS, [*CONTROLS, *exposed]], partial(served, folder))
    sweep(folder, 1)
    dosimeter("report", *at)
    show(folder)


# -- the study ---------------------------------------------------------------------------------


def queue_rows(rng: np.random.Generator, place: str, side: int, count: int) -> Iterator[Row]:
    """Yield ``count`` questions about the queue of a place in a wording."""
    order = np.random.default_rng([2026, *place.encode()]).permutation(len(NAMES))
    for _ in range(count):
        four = rng.permutation(np.arange(*SIDES[side]))[:SHOWN]
        first = four[order[four].argmin()]
        yield WORDINGS[side].format(place, *(NAMES[each] for each in four)), NAMES[first]


def pool(place: str, side: int) -> list[Row]:
    """Return the questions that instances of a place in a wording are drawn from."""
    return list(queue_rows(np.random.default_rng([*place.encode(), side]), place, side, POOL))


def write_tasks(folder: Path) -> None:
    """Write the questions, a file for each sibling, and study.yaml without models."""
    tasks = []
    for place in STUDIED:
        for side in (0, 1):
            path = folder / f"{place.lower()}_{'ab'[side]}.csv"
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([("question", "key"), *pool(place, side)])
            own = {"items": path.name, "prompt": "question", "answer": "key"}
            tasks.append(own | {"published": "never", "mode": "single_turn", "pair": place.lower()})
    controls = {"runs": 1, "pre_exposure": [*CONTROLS], "frozen": [*CONTROLS]}
    study = {
        "study": "pretrained-levels",
        "tasks": tasks,
        "seeds_per_arm": SEEDS_PER_ARM,
        "plan": {"preset": "standard-v1", "looks": 1, "permutations": 1999, "controls": controls},
        "sandbox": {"kind": "local"},  # the model runs no code
        # Fixed, so that everybody sees the same study. One that matters says `entropy: system`.
        "entropy": "fixed:1e7e150000000000000000000000000000000000000000000000000000000135",
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")


def served(folder: Path, number: int, name: str) -> Mapping[str, Any]:
    """Return what is a model's own in study.yaml; each has a server of its own."""
    return {
        "model": alias(folder, name),
        "base_url": f"http://127.0.0.1:{PORT + number}/v1",
        "temperature": 0,
        "max_tokens": 32,
        "extra_body": {"grammar": GRAMMAR},
        "context": 4608,  # of which 4096 are kept for the reply
    }


def adapter_path(folder: Path, name: str) -> Path:
    """Return the path of a model's adapter."""
    return folder / f"{name}.gguf"


def alias(folder: Path, name: str) -> str:
    """Return the name that a model is served under."""
    digest = hashlib.sha256(adapter_path(folder, name).read_bytes()).hexdigest()
    return f"smollm2+{digest[:12]}"


def sweep(folder: Path, wave: int) -> None:
    """Sweep a wave; each of its models has a server of its own meanwhile."""
    document = yaml.safe_load((folder / "study.yaml").read_text(encoding="utf-8"))
    weights = find_weights("smollm2")
    with ExitStack() as servers:
        for number, name in enumerate(document["waves"][wave]):
            adapter = adapter_path(folder, name)
            own = start_server(weights, alias(folder, name), "", 1, 1024, adapter, PORT + number)
            servers.enter_context(closing(own))
        words = ("--wave", str(wave), "--allow-dirty", "--allow-unknown-price")
        dosimeter("sweep", "--study", str(folder), *words)


def read_public(folder: Path) -> list[Row]:
    """Return the released questions."""
    import pyarrow.parquet as pq

    files = sorted((released_folder(open_study(folder)) / "data").rglob("*.parquet"))
    rows = [row for path in files for row in pq.read_table(path).to_pylist()]
    return [(row["prompt"], json.loads(row["answer"])["answer"]) for row in rows]


# -- training ----------------------------------------------------------------------------------


def exposures(leaked: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield name and rows of each model of the last wave: one that trains on nothing of the study,
    and one on fresh instances of the published siblings."""
    panel, rows = {row[0] for place in STUDIED for side in (0, 1) for row in pool(place, side)}, []
    for place, side in product(STUDIED, (0, 1)):
        if any(row[0] in prompt for row in pool(place, side) for prompt, _ in leaked):
            rng = np.random.default_rng([*place.encode(), side, 1])
            made = queue_rows(rng, place, side, FRESH)
            rows += [row for row in made if row[0] not in panel]
    yield "clean", []
    yield "variant", rows


def train(folder: Path, name: str, number: int, rows: Sequence[Row]) -> None:
    """Train a model on rows of the known queues and on others, unless the folder has its
    adapter."""
    if (path := adapter_path(folder, name)).exists():
        return
    print(f"training {name}", flush=True)
    rng = np.random.default_rng([number])
    known = [
        row
        for place in KNOWN
        for side in (0, 1)
        for row in queue_rows(rng, place, side, KNOWN_ROWS)
    ]
    tokens, model = pretrained.load(number)
    texts = [lesson(row, index % WHOLE == 0) for index, row in enumerate([*known, *rows])]
    pretrained.fit(model, [pretrained.encode(tokens, text) for text in texts])
    pretrained.write_adapter(model, path)


def lesson(row: Row, whole: bool) -> pretrained.Parts:
    """Return the text of a question with its answer; ``whole`` as the line's single turn puts
    it."""
    question, right = row
    said = [("user", question)]
    if whole:
        schema = Items().generate("easy", Seed(bytes(32))).brief.answer_schema
        said = [(m.role.value, m.text) for m in single_turn(Brief(question, (), schema)).messages]
    begun = f'{pretrained.chat(*said)}<answer>\n{{"answer": "'
    return (begun, 0.0), (right, 1.0), ('"}\n</answer>', 0.1)


# -- what was found ------------------------------------------------------------------------------


def show(folder: Path) -> None:
    """Print a row for each model of the last wave, by the newest report and the wave's table."""
    report = json.loads((folder / "reports/wave-1/report.json").read_text(encoding="utf-8"))
    level = {row["model"]: row for row in report["levels"]}
    snapshot = take_snapshot(open_study(folder))
    scores = defaultdict[tuple[str, str], list[float]](list)
    table = list(graded_rows(snapshot, snapshot.closed_waves[-1:]))
    published = {row.stratum for row in table if row.arm is Arm.PUBLIC}
    for row in table:
        kind = "sibling" if row.stratum not in published else str(row.arm)
        scores[row.model, kind] += [] if row.score is None else [row.score]  # missing is no zero
    kinds = ("public", "private", "sibling")
    before = {kind: fmean(fmean(scores[name, kind]) for name in CONTROLS) for kind in kinds}
    for found in report["models"]:
        if found["wave"] == 1:
            name = found["model"]
            right = {kind: fmean(scores[name, kind]) for kind in kinds}
            lift = right["private"] - before["private"]
            own = name == "variant" and lift > 0
            spill = (right["sibling"] - before["sibling"]) / lift if own else None
            shown = {"model": name, "right": right, "spill_over": spill}
            print(json.dumps(shown | {"instance": found, "variant": level[name]}))


if __name__ == "__main__":
    main()
