"""Small models that are trained on a study's release, at known doses.

Training reads the release as its users get it, and nothing else of the study: no private instance,
no seed, no key. The fresh rows come from seeds of the recipe; only after training are they compared
with the study's instances, by digest.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.calibration.model import (
    TASK,
    number_token,
    read_questions,
    served_name,
    weights_bytes,
)
from examples.calibration.training import (
    RECIPE,
    Rows,
    Weights,
    check_library,
    fresh_rows,
    initial_weights,
    train,
)
from generators.seed import Seed
from publish.leakcheck.check import regenerate
from publish.release import read_release
from registry.files import write_whole
from study.errors import StudyError
from study.steps.register.draw import is_drawn
from study.workspace.study import Study

FOLDER = Path("calibration/trained")  # in the study's


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model: the name that it is served under, its doses (one for all public instances, or
    several that are dealt to them; none for a base), the number of its training seed, and of its
    rows the count, the digest, and how many fresh ones are instances of the study."""

    served: str
    doses: tuple[int, ...]
    training_seed: int
    rows: int
    rows_digest: str
    collisions: int


def train_models(study: Study, doses: Sequence[int], seeds: int) -> dict[str, TrainedModel]:
    """Train for each of ``seeds`` numbers a base, which has read no release; and if there are doses
    one model of each, which is its number of copies of each public instance, and one whose public
    instances each have one of the doses. Writes their weights into the study's FOLDER, with
    ``trained.json``. Raises StudyError, PublishError."""
    check_library()
    public = read_release_rows(released_folder(study)) if doses else None
    folder = study.folder / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    digests: dict[str, set[bytes]] = {}  # of the fresh rows
    made: dict[str, TrainedModel] = {}
    for number in range(1, seeds + 1):
        begun = time.monotonic()
        for name, given, rows, fresh, weights in train_seed(number, doses, public):
            path = folder / f"{name}.npz"
            write_whole(path, weights_bytes(weights))
            digests[name] = set(_digests(fresh))
            digest = hashlib.sha256(rows.tobytes()).hexdigest()
            made[name] = TrainedModel(served_name(path), given, number, len(rows), digest, 0)
            print(f"trained {name}, {time.monotonic() - begun:.0f} s", flush=True)
            begun = time.monotonic()
    drawn = set(_digests(np.stack(list(drawn_rows(study).values())))) if is_drawn(study) else set()
    summary = {
        "recipe": asdict(RECIPE),
        "models": {
            name: asdict(model) | {"collisions": len(digests[name] & drawn)}
            for name, model in made.items()
        },
    }
    write_whole(folder / "trained.json", json.dumps(summary, indent=1) + "\n")
    return read_models(study.folder)


def read_models(folder: Path) -> dict[str, TrainedModel]:
    """Return the models that were trained in a study's folder, by name. Raises OSError."""
    models = json.loads((folder / FOLDER / "trained.json").read_text(encoding="utf-8"))["models"]
    return {
        name: TrainedModel(**{**fields, "doses": tuple(fields["doses"])})
        for name, fields in models.items()
    }


# -- what is read -----------------------------------------------------------------------------


def released_folder(study: Study) -> Path:
    """Return the folder of the release. Raises StudyError if nothing is released, or if the folder
    is not what was; PublishError for a folder whose files are not as its checksums have them."""
    entry = study.ledger.last("release")
    if entry is None:
        raise StudyError("nothing is released yet: `dosimeter publish`, then train on the release")
    folder = (study.folder / study.protocol.release.folder).absolute()
    content = read_release(folder).content
    if content != entry.record.content:
        raise StudyError(
            f"{folder}: its content is {content}, and the ledger has released "
            f"{entry.record.content}: train on the release itself, with nothing added or changed"
        )
    return folder


def read_release_rows(folder: Path) -> Rows:
    """Return the rows of a release that the model can learn. Raises StudyError without any."""
    import pyarrow.parquet as pq

    columns = ["input_files", "answer"]
    rows = [
        row
        for path in sorted((folder / "data").rglob("*.parquet"))
        for each in pq.read_table(path, columns=columns).to_pylist()
        for row in rows_of(
            {file["path"]: file["text"] for file in each["input_files"]}, json.loads(each["answer"])
        )
    ]
    if not rows:
        raise StudyError(f"{folder}: holds no instance of {TASK}")
    return np.array(rows, dtype=np.int32)


def rows_of(files: Mapping[str, str], key: Mapping[str, Any]) -> Iterator[Any]:
    """Yield a row (LENGTH + 1,) for each question of an instance that the model can read."""
    answers = {each["id"]: each["answer"] for each in key.get("answers", ())}
    for id_, prompt in read_questions(files):
        yield np.append(prompt, np.int32(number_token(answers[id_])))


def drawn_rows(study: Study) -> dict[str, Any]:
    """Return the row (LENGTH + 1,) of each instance of the study's draw. Needs its key."""
    by_instance = {}
    for entry in study.entries():
        instance, key = regenerate(entry, study.protocol.catalog.family)
        files = {each.path: each.data.decode() for each in instance.brief.assets}
        (by_instance[entry.instance],) = rows_of(files, key)
    return by_instance


def _digests(rows: Rows) -> Iterator[bytes]:
    return (hashlib.sha256(row.tobytes()).digest() for row in rows)


# -- training ---------------------------------------------------------------------------------


def train_seed(
    number: int, doses: Sequence[int], public: Rows | None
) -> Iterator[tuple[str, tuple[int, ...], Rows, Rows, Weights]]:
    """Yield a base and its continuations: name, doses, all rows, the fresh ones, weights."""
    fresh, base = train_base(number)
    yield f"base-{number}", (), fresh, fresh, base
    if public is None:
        return
    for dose in doses:
        fresh, rows, weights = continue_training(number, base, np.tile(public, (dose, 1)))
        yield f"dose-{dose:02d}-{number}", (dose,), rows, fresh, weights
    copies = deal_doses([row.tobytes() for row in public], doses, number)
    fresh, rows, weights = continue_training(number, base, np.repeat(public, copies, axis=0))
    yield f"mixed-{number}", tuple(doses), rows, fresh, weights


def deal_doses(public: Sequence[bytes], doses: Sequence[int], number: int) -> NDArray[np.int64]:
    """Return the copies (n,) of each public instance in the training of a mixed model: the doses in
    turn, over the instances by a digest of the training seed and of what identifies them."""
    keys = [hashlib.sha256(b"dose %d " % number + each).digest() for each in public]
    copies = np.zeros(len(public), dtype=np.int64)
    copies[sorted(range(len(public)), key=keys.__getitem__)] = np.resize(doses, len(public))
    return copies


def train_base(number: int, rows: int | None = None) -> tuple[Rows, Weights]:
    """Return the fresh rows of a training seed's base, as many as the recipe's if not stated, and
    its weights."""
    root = _root(number)
    fresh = fresh_rows(root.child("base"), RECIPE.base_rows if rows is None else rows)
    rng = _draws(root, "base")
    return fresh, train(initial_weights(rng), fresh, RECIPE.base_rate, rng)


def continue_training(number: int, base: Weights, leaked: Rows) -> tuple[Rows, Rows, Weights]:
    """Return the fresh rows of a training seed's continuations, all rows, and the weights after
    them."""
    root = _root(number)
    fresh = _continuation_rows(root, RECIPE.fresh_rows)
    rows = np.concatenate([fresh, leaked]) if len(leaked) else fresh
    return fresh, rows, train(base, rows, RECIPE.dose_rate, _draws(root, "dose"))


@functools.lru_cache(maxsize=1)
def _continuation_rows(root: Seed, count: int) -> Rows:
    return fresh_rows(root.child("dose"), count)


def _root(number: int) -> Seed:
    return Seed(hashlib.sha256(f"dosimeter/{RECIPE.name}/{number}".encode()).digest())


def _draws(root: Seed, name: str) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(root.child(name, "order").value))
