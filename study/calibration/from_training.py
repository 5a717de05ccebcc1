"""`dosimeter calibrate train`: small models that were trained on the release, at known doses.

Training reads the release as its users get it, and nothing else of the study: no private instance,
no seed, no key. The fresh rows come from seeds of the recipe; only after training are they compared
with the study's instances, by digest.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from generators.seed import Seed
from generators.templates import TemplateFamily
from harness.episode import Mode
from harness.models import (
    TRAINED_TASK,
    number_token,
    read_questions,
    weights_bytes,
)
from publish.leakcheck import regenerate
from publish.release import read_release
from registry.canonical import canonical_bytes
from registry.errors import RegistryError
from registry.files import write_whole
from registry.result_row import Arm
from study.calibration.training import (
    RECIPE,
    Rows,
    Weights,
    check_library,
    fresh_rows,
    initial_weights,
    train,
)
from study.errors import StudyError
from study.workspace import Study, is_drawn

TRAINED = "trained"  # folder, in that of calibrations
MOST_DOSE, MOST_SEEDS = 64, 50
Watch = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """Models to train: for each of ``training_seeds`` numbers a base, which has read no release,
    and one model of each dose, which is its number of copies of each public instance. ``mixed``
    adds one whose public instances each have one of the doses (``deal_doses``). ``release`` is a
    copy of the release; None for the study's own folder."""

    doses: tuple[int, ...]
    training_seeds: int = 1
    release: Path | None = None
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class ReadRelease:
    """What training has read of a release: its content's digest, a row for each question, and the
    strata that the small model cannot learn. Without a release ``content`` is "" ."""

    content: str
    rows: Rows
    not_learnable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrainedFile:
    """A model: its file of weights, its doses (one for all public instances, or several that are
    dealt to them; none for a base) and the digest of all its rows."""

    name: str
    file: Path
    sha256: str
    doses: tuple[int, ...]
    training_seed: int
    rows: int
    rows_digest: str

    def section(self, folder: Path) -> dict[str, Any]:
        """Return the model's section of study.yaml, its path from the study's folder."""
        stated = {"doses": list(self.doses)} if self.doses else {}
        path = self.file.relative_to(folder) if self.file.is_relative_to(folder) else self.file
        return {
            "provider": "trained",
            "weights": str(path),
            "sha256": self.sha256,
            **stated,
            "training_seed": self.training_seed,
            "recipe": RECIPE.name,
        }


@dataclass(frozen=True, slots=True)
class Training:
    """Trained models, with the collisions of their fresh rows: with public instances, and with
    private ones, None if the study's key is not here."""

    release: ReadRelease
    models: tuple[TrainedFile, ...]
    public_collisions: int
    private_collisions: int | None

    def as_json(self, folder: Path) -> dict[str, Any]:
        """Return the fields of ``trained.json``."""
        return {
            "recipe": RECIPE.as_json(),
            "release": self.release.content,
            "task": TRAINED_TASK,
            "instances": len(self.release.rows),
            "not_learnable": list(self.release.not_learnable),
            "public_collisions": self.public_collisions,
            "private_collisions": self.private_collisions,
            "rows": {model.name: [model.rows, model.rows_digest] for model in self.models},
            "models": {model.name: model.section(folder) for model in self.models},
        }


def check_request(study: Study, request: TrainRequest) -> tuple[str, ...]:
    """Return the study's strata that the small model cannot learn. Raises StudyError for what
    cannot be trained, before anything is read."""
    for dose in request.doses:
        if not 0 <= dose <= MOST_DOSE:
            raise StudyError(
                f"dose {dose}: give copies of each public instance, from 0 to {MOST_DOSE}"
            )
    if not 1 <= request.training_seeds <= MOST_SEEDS:
        raise StudyError(f"{request.training_seeds} training seeds: give 1 to {MOST_SEEDS}")
    check_library()
    for task in study.protocol.tasks:
        if isinstance(study.protocol.catalog.family(task.family), TemplateFamily):
            raise StudyError(
                f"{task.stratum} has no single-turn form, and the small model has no tools: "
                f"train it for a study of {TRAINED_TASK}"
            )
        if task.mode is not Mode.SINGLE_TURN:
            raise StudyError(
                f"{task.stratum} is given in `mode: agentic`, and the small model has no tools: "
                "give it in `mode: single_turn`"
            )
    strata = [task.stratum for task in study.protocol.tasks]
    if TRAINED_TASK not in strata:
        raise StudyError(
            f"not learnable by the small model: {', '.join(strata)}; it learns {TRAINED_TASK}"
        )
    return tuple(stratum for stratum in strata if stratum != TRAINED_TASK)


def released_folder(study: Study, folder: Path | None = None) -> tuple[Path, str]:
    """Return the folder of the release, or of a copy of it, and the digest of its content. Raises
    StudyError if nothing is released, or if the folder is not what was; PublishError for a folder
    whose files are not as its checksums have them."""
    entry = study.ledger.last("release")
    if entry is None:
        raise StudyError("nothing is released yet: `dosimeter publish`, then train on the release")
    folder = (folder or study.folder / study.protocol.release.folder).absolute()
    manifest = read_release(folder, downloaded=True)
    if manifest.content != entry.record.content:
        raise StudyError(
            f"{folder}: its content is {manifest.content}, and the ledger has released "
            f"{entry.record.content}: train on the release itself, with nothing added or changed"
        )
    return folder, manifest.content


def read_for_training(study: Study, folder: Path | None) -> tuple[str, Rows]:
    """Return the digest of the release's content, and its rows of what the model can learn. Raises
    as ``released_folder``, and StudyError if it has none."""
    folder, content = released_folder(study, folder)
    rows = list(_release_rows(folder))
    if not rows:
        raise StudyError(f"{folder}: holds no instance of {TRAINED_TASK}")
    return content, np.array(rows, dtype=np.int32)


def _release_rows(folder: Path) -> Iterator[Any]:
    import pyarrow.parquet as pq

    columns = ["task", "difficulty", "input_files", "answer"]
    for path in sorted((folder / "data").rglob("*.parquet")):
        for row in pq.read_table(path, columns=columns).to_pylist():
            if f"{row['task']}/{row['difficulty']}" == TRAINED_TASK:
                yield from rows_of(
                    {each["path"]: each["text"] for each in row["input_files"]},
                    {each["id"]: each["answer"] for each in json.loads(row["answer"])["answers"]},
                )


def rows_of(files: Mapping[str, str], answers: Mapping[str, int]) -> Iterator[Any]:
    """Yield a row (LENGTH + 1,) for each question of an instance that the model can read."""
    for id_, prompt in read_questions(files):
        yield np.append(prompt, np.int32(number_token(answers[id_])))


def train_models(study: Study, request: TrainRequest, out: Path, watch: Watch) -> Training:
    """Train all models of a request and write them below ``out``, with ``trained.json``; a model
    without a dose in its name is a base. Nothing is written before the last check of the input.
    Raises StudyError, PublishError."""
    not_learnable = check_request(study, request)
    content, public = "", np.zeros((0, 0), dtype=np.int32)
    if request.doses:
        content, public = read_for_training(study, request.release)
    folder = out / TRAINED
    folder.mkdir(parents=True, exist_ok=True)
    models: list[TrainedFile] = []
    seen: set[bytes] = set()  # digests of fresh rows
    of = request.training_seeds * (1 + len(request.doses) + request.mixed)
    for number in range(1, request.training_seeds + 1):
        for name, doses, rows, fresh, weights in train_seed(number, request, public):
            seen.update(_digests(fresh))
            data = weights_bytes(weights)
            path = (folder / f"{name}.npz").absolute()
            write_whole(path, data)
            sha256, read = hashlib.sha256(data).hexdigest(), hashlib.sha256(rows.tobytes())
            made = TrainedFile(name, path, sha256, doses, number, len(rows), read.hexdigest())
            models.append(made)
            watch(f"training {name}", len(models), of)
    made_all = Training(
        ReadRelease(content, public, not_learnable),
        tuple(models),
        len(seen.intersection(_digests(public))),
        _private_collisions(study, seen),
    )
    data = canonical_bytes(made_all.as_json(study.folder.absolute()))
    write_whole(folder / "trained.json", data + b"\n")
    return made_all


def train_seed(
    number: int, request: TrainRequest, public: Rows
) -> Iterator[tuple[str, tuple[int, ...], Rows, Rows, Weights]]:
    """Yield a base and its continuations: name, doses, all rows, the fresh ones, weights."""
    fresh, base = train_base(number)
    yield f"base-{number}", (), fresh, fresh, base
    for dose in request.doses:
        fresh, rows, weights = continue_training(number, base, np.tile(public, (dose, 1)))
        yield f"dose-{dose:02d}-{number}", (dose,), rows, fresh, weights
    if request.mixed:
        copies = deal_doses([row.tobytes() for row in public], request.doses, number)
        fresh, rows, weights = continue_training(number, base, np.repeat(public, copies, axis=0))
        yield f"mixed-{number}", request.doses, rows, fresh, weights


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


def _digests(rows: Rows) -> Iterator[bytes]:
    return (hashlib.sha256(row.tobytes()).digest() for row in rows)


def _private_collisions(study: Study, seen: set[bytes]) -> int | None:
    """Return the number of private instances whose rows training has read, by digest; None if
    nothing is drawn or the study's key is not here. Called when every model is written."""
    if not is_drawn(study):
        return None
    try:
        entries = study.entries()
    except RegistryError:
        return None
    hits = 0
    for entry in entries:
        if entry.arm is Arm.PRIVATE and entry.stratum == TRAINED_TASK:
            instance, key = regenerate(entry, study.protocol.catalog.family)
            files = {each.path: each.data.decode() for each in instance.brief.assets}
            answers = {each["id"]: each["answer"] for each in key["answers"]}
            rows = np.array(list(rows_of(files, answers)), dtype=np.int32)
            hits += any(digest in seen for digest in _digests(rows))
    return hits
