"""The calibration example: models trained on a release, served over HTTP, and compared by dose.

The stored weights were made by ``examples/calibration/run.py``, whose study has a fixed entropy, so
that its draw is the one that they were trained on. Accuracies are asserted as bands, wide enough
for weights that another machine trained.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from statsmodels.stats.contingency_tables import Table

from analysis.plan.presets import basic_plan
from analysis.plan.verdict import CONTAMINATED
from examples.calibration import run, train
from examples.calibration.doses import DosedModel, DoseResponse, cochran_armitage, dose_response
from examples.calibration.model import (
    hidden_states,
    likeliest_numbers,
    read_weights,
    served_name,
    weights_bytes,
)
from examples.calibration.report import report_doses, show, write_doses
from examples.calibration.server import serving
from examples.calibration.train import FOLDER, TrainedModel
from examples.calibration.training import Recipe, fresh_rows, initial_weights
from generators.seed import Seed
from publish.leakcheck.check import regenerate
from registry.result_row import Arm
from study.errors import StudyError
from study.steps import pipeline
from study.workspace.study import Study
from tests.cases import cases
from tests.study.conftest import make_study, run_wave

STORED = Path(__file__).resolve().parents[1] / "data/trained"
ROOT = Seed(hashlib.sha256(b"rows of the tests").digest())
TINY = Recipe(base_rows=40, fresh_rows=20)


def weights_of(name: str) -> dict[str, np.ndarray]:
    return read_weights((STORED / f"{name}.npz").read_bytes())


# --- models that are served ---

MODELS = cases(__file__, "models")


def sweep_stored(folder: Path, models: Mapping[str, tuple[str, list[int]]], arm: int) -> Study:
    """Make the example's study with this many instances an arm and stored models, by name each the
    weights and doses: base-1 is swept over HTTP, the public arm is released, and the others are
    swept. With 400 the draw is the one that they were trained on. Nothing is reported."""
    (folder / FOLDER).mkdir(parents=True)
    trained = {}
    for name, (stored, doses) in models.items():
        path = folder / FOLDER / f"{name}.npz"
        shutil.copy(STORED / f"{stored}.npz", path)
        trained[name] = TrainedModel(served_name(path), tuple(doses), 1, 0, "", 0)
    summary = {"models": {name: asdict(model) for name, model in trained.items()}}
    (folder / FOLDER / "trained.json").write_text(json.dumps(summary))
    text = run.EXAMPLE.read_text().replace("seeds_per_arm: 400", f"seeds_per_arm: {arm}")
    (folder / "study.yaml").write_text(f"{text}\nplan: {{permutations: 1999}}\n")
    with serving(folder / FOLDER, port=0) as url:
        run.write_models(folder, trained, [["base-1"], [*models][1:]], url)
        stated = (folder / "study.yaml").read_text()
        (folder / "study.yaml").unlink()
        study = make_study(folder, stated)
        run_wave(study, 0, parallel=4)
        pipeline.publish(study, None, lambda *step: None)
        run_wave(study, 1, parallel=4)
    return study


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small study of it."""
    return sweep_stored(tmp_path_factory.mktemp("doses") / "study", MODELS, 10).folder


@pytest.fixture
def folder(swept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(swept, tmp_path / "study"))


def test_served_models_are_compared_by_dose(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = pipeline.open_study(folder)
    verdicts = {row.model: str(row.verdict) for row in pipeline.report(study)[0].verdicts}
    assert set(verdicts) == {"dose-00-1", "dose-04-1", "mixed-1"}
    made = report_doses(folder)
    look = study.ledger.last("look")
    assert look is not None
    assert look.record.command == "python: results()"
    assert (made.instances, made.models_of_the_look, made.through_wave) == (10, 3, 1)
    response = made.response
    assert [row.dose for row in response.rows] == [0, 4]
    for row in response.rows:
        (one,) = row.models
        assert one.verdict == verdicts[one.model]
        assert row.public.instances == row.private.instances == 10
        names = ["right answers", "answer", "answer, minus the base's"]
        names += ["whole text", "Min-K%", "completion"]
        assert [probe.probe for probe in row.probes] == names
    # What was served is what the weights say of the same instances.
    rows = train.drawn_rows(study)
    arms = {entry.instance: entry.arm for entry in study.entries()}
    for row, name in zip(response.rows, ("dose-00-1", "dose-04-1"), strict=True):
        for arm, rate in ((Arm.PUBLIC, row.public), (Arm.PRIVATE, row.private)):
            own = np.stack([rows[unit] for unit in rows if arms[unit] is arm])
            assert rate.mean == pytest.approx(accuracy(weights_of(name), own))
    (trend,) = response.trends
    assert (trend.doses, trend.instances) == ((0, 4), (5, 5))
    write_doses(folder, made)
    show(made)
    assert "mixed-1, right by copies" in capsys.readouterr().out
    written = json.loads((folder / "calibration/doses.json").read_text())
    assert written["rows"][1]["gap"] == pytest.approx(response.rows[1].gap)
    assert "4 copies: public" in (folder / "calibration/doses.svg").read_text()


# --- models that are trained ---


def accuracy(weights: dict[str, np.ndarray], rows: np.ndarray) -> float:
    return float((likeliest_numbers(weights, rows[:, :-1]) == rows[:, -1]).mean())


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The example's study: its draw is the one that the stored models were trained on."""
    return make_study(tmp_path_factory.mktemp("trained") / "study", run.EXAMPLE.read_text())


def rows_by_arm(study: Study) -> dict[Arm, np.ndarray]:
    rows = train.drawn_rows(study)
    return {
        arm: np.stack([rows[entry.instance] for entry in study.entries() if entry.arm is arm])
        for arm in Arm
    }


def test_public_accuracy_rises_with_the_dose_and_private_does_not(drawn: Study) -> None:
    arms = rows_by_arm(drawn)
    clean, dosed = (
        {arm: accuracy(weights_of(name), rows[:200]) for arm, rows in arms.items()}
        for name in ("dose-00-1", "dose-04-1")
    )
    assert 0.45 <= clean[Arm.PUBLIC] <= 0.68
    assert 0.75 <= dosed[Arm.PUBLIC] <= 0.97
    assert all(0.4 <= reached[Arm.PRIVATE] <= 0.7 for reached in (clean, dosed))
    assert abs(clean[Arm.PUBLIC] - clean[Arm.PRIVATE]) < 0.1


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """All rows that training was given. Nothing is learnt, so that no library is needed."""
    rows: list[np.ndarray] = []

    def learn(weights: dict, read: np.ndarray, rate: float, rng: np.random.Generator) -> dict:
        rows.append(read)
        return dict(weights)

    monkeypatch.setattr(train, "check_library", lambda: None)
    monkeypatch.setattr(train, "train", learn)
    monkeypatch.setattr(train, "RECIPE", TINY)
    return rows


def test_training_reads_fresh_rows_and_copies_of_the_public_arm(
    swept: Path, tmp_path: Path, given: list[np.ndarray]
) -> None:
    folder = Path(shutil.copytree(swept, tmp_path / "study"))
    study = pipeline.open_study(folder)
    made = train.train_models(study, (0, 3), seeds=1)
    assert made == train.read_models(folder)
    assert [(name, each.doses, each.collisions) for name, each in made.items()] == [
        ("base-1", (), 0),
        ("dose-00-1", (0,), 0),
        ("dose-03-1", (3,), 0),
        ("mixed-1", (0, 3), 0),
    ]
    assert [len(rows) for rows in given] == [40, 20, 20 + 3 * 10, 20 + 3 * 5]
    public, private = (
        {row.tobytes() for row in rows_by_arm(study)[arm]} for arm in (Arm.PUBLIC, Arm.PRIVATE)
    )
    read = [[row.tobytes() for row in rows] for rows in given]
    assert all(not private & {*rows} for rows in read)
    assert all(not public & {*rows} for rows in read[:2])
    assert {read[2].count(row) for row in public} == {3}
    assert sorted(read[3].count(row) for row in public) == [0] * 5 + [3] * 5


def add_private(study: Study) -> None:
    """Plant a private instance among the released ones, with checksums that are right."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    release = study.folder / "release"
    entry = next(entry for entry in study.entries() if entry.arm is Arm.PRIVATE)
    instance, key = regenerate(entry, study.protocol.catalog.family)
    path = min((release / "data").rglob("*.parquet"))
    table = pq.read_table(path)
    row = table.slice(0, 1).to_pylist()[0]
    for stated, asset in zip(row["input_files"], instance.brief.assets, strict=True):
        stated |= {"text": asset.data.decode(), "data": asset.data}
    row["answer"] = json.dumps(key)
    added = pa.Table.from_pylist([row], schema=table.schema)
    pq.write_table(pa.concat_tables([table, added]), path)
    promised = json.loads((release / "checksums.json").read_bytes())
    promised[str(path.relative_to(release))] = hashlib.sha256(path.read_bytes()).hexdigest()
    (release / "checksums.json").write_text(json.dumps(promised))


def test_a_release_with_a_private_instance_is_refused(
    folder: Path, given: list[np.ndarray]
) -> None:
    study = pipeline.open_study(folder)
    add_private(study)
    with pytest.raises(StudyError, match="and the ledger has released sha256:"):
        train.train_models(study, (1,), seeds=1)
    assert given == []


def test_inference_is_what_training_computes() -> None:
    numpy = pytest.importorskip("jax.numpy", reason="needs dosimeter[spike]")
    weights = initial_weights(np.random.default_rng(3))
    rows = fresh_rows(ROOT.child("logits"), 50)[:, :-1]
    ours = hidden_states(weights, rows)
    theirs = hidden_states({n: numpy.asarray(a) for n, a in weights.items()}, rows, numpy)
    assert np.abs(ours).max() > 0.05
    assert np.allclose(ours, np.asarray(theirs), atol=1e-4)


@pytest.mark.slow
def test_a_dose_raises_public_accuracy_and_repeats_bit_for_bit() -> None:
    pytest.importorskip("jax", reason="needs dosimeter[spike]")
    public, private = (fresh_rows(ROOT.child(arm), 400) for arm in ("public", "private"))
    made = {given: weights for _, given, _, _, weights in train.train_seed(1, (0, 4), public)}
    reached = {
        dose: (accuracy(made[dose,], public), accuracy(made[dose,], private)) for dose in (0, 4)
    }
    assert all(0.45 <= apart <= 0.68 for _, apart in reached.values()), reached
    assert abs(reached[0][0] - reached[0][1]) < 0.1
    assert 0.2 < reached[4][0] - reached[4][1] < 0.45
    again = {given: weights for _, given, _, _, weights in train.train_seed(1, (4,), public)}
    assert weights_bytes(again[4,]) == weights_bytes(made[4,])


# --- what is found by dose ---

N = 200  # instances an arm
PUBLIC = np.arange(2 * N) < N
BITS = np.tile([7.0, 7.5, 8.0, 8.2, 8.3], 2 * N // 5)
PLAN = basic_plan(("order_statistics/easy",), N, looks=1, permutations=999)


def dosed(
    name: str, dose: int | None, shares: tuple[float, float], copies: np.ndarray | None = None
) -> DosedModel:
    """A model with these shares of right answers, public and private, spread over key sizes."""
    right = np.zeros(2 * N)
    for arm, share in zip((PUBLIC, ~PUBLIC), shares, strict=True):
        right[np.flatnonzero(arm)[: round(share * N)]] = 1
    given = np.where(PUBLIC, dose or 0, 0) if copies is None else copies
    verdict = CONTAMINATED if shares[0] - shares[1] > 0.1 else None
    return DosedModel(name, dose, given, right, verdict, {"answer": right + PUBLIC})


def response(*models: DosedModel) -> DoseResponse:
    return dose_response(PLAN, models, PUBLIC, BITS, 7)


def test_the_trend_is_statsmodels_up_to_its_finite_correction() -> None:
    right, total, dose = [10, 14, 30, 41], [40, 45, 50, 52], [0, 1, 4, 16]
    z, p = cochran_armitage(right, total, dose)
    table = np.array([[t - r for r, t in zip(right, total, strict=True)], right])
    peer = Table(table).test_ordinal_association(np.array([0, 1]), np.array(dose))
    count = sum(total)
    assert z == pytest.approx(peer.zscore * np.sqrt(count / (count - 1)), rel=1e-9)
    assert p == pytest.approx(norm.sf(z), rel=1e-9)


def test_models_are_compared_by_dose() -> None:
    made = response(
        dosed("a", 0, (0.6, 0.6)), dosed("b", 0, (0.62, 0.58)), dosed("c", 4, (0.9, 0.5))
    )
    clean, exposed = made.rows
    assert (clean.dose, clean.public.mean, clean.private.mean) == (0, 0.61, 0.59)
    assert clean.gap == pytest.approx(0.02)
    assert (clean.found, clean.tested, exposed.found, exposed.tested) == (0, 0, 1, 1)
    assert exposed.interval[0] < exposed.gap < exposed.interval[1]
    assert exposed.private_rise == pytest.approx(-0.09)
    assert clean.private_rise is None
    # Two models on the same instances are no two samples: the interval is that of 200.
    low, high = clean.public.interval
    assert 0.12 < high - low < 0.15


def test_limits_are_those_of_the_clean_models_and_are_reached_between_doses() -> None:
    made = response(dosed("a", 0, (0.5, 0.5)), dosed("b", 8, (0.9, 0.5)))
    error = (2 * 0.25 / (N - 1)) ** 0.5
    assert made.blank == pytest.approx(1.645 * error)
    assert made.limit == pytest.approx(3.29 * error)
    assert made.dose_at_limit == pytest.approx(8 * made.limit / 0.4)
    assert response(dosed("b", 8, (0.9, 0.5))).limit is None
    assert response(dosed("a", 0, (0.5, 0.5)), dosed("b", 8, (0.6, 0.5))).dose_at_limit is None


def test_power_rises_with_the_instances_and_is_that_of_the_plans_rule() -> None:
    made = response(dosed("a", 2, (0.75, 0.5)))
    powers = {each.instances: each.found for each in made.rows[0].by_size}
    assert list(powers) == [50, 100, 200]
    assert powers[50] < powers[100] < powers[200] == 1
    # By formula: (0.25 / SE - 1.96), SE with the finite population of 200 left out of account.
    assert 0.5 < powers[50] < 0.95


def test_missing_answers_are_left_out_and_are_not_zero() -> None:
    whole = dosed("a", 1, (0.8, 0.6))
    right = whole.right.copy()
    right[N - 20 : N] = np.nan  # of wrong public answers
    (row,) = response(DosedModel("a", 1, whole.copies, right, None, {})).rows
    assert row.public.instances == N - 20
    assert row.public.mean == pytest.approx(160 / 180)
    assert [each.instances for each in row.by_size] == [50, 100]


# --- the pretrained model, without the packages that it trains with ---
