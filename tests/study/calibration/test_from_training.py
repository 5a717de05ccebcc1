"""Models trained on a release: what training reads, refuses and learns."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from generators.seed import Seed
from harness.models.trained import hidden_states, last_logits, read_weights, weights_bytes
from publish.leakcheck.check import regenerate
from registry.result_row import Arm
from study import pipeline
from study.calibration import from_training, training
from study.calibration.training import Recipe, fresh_rows, initial_weights
from study.cli.main import main
from study.workspace.study import Study
from tests.hub_server import HubServer
from tests.study.conftest import make_study

STUDY = """\
study: trained
tasks:
  - {family: order_statistics, difficulty: easy, mode: single_turn}
  - {family: order_statistics, difficulty: medium, mode: single_turn}
seeds_per_arm: 6
models:
  base-1:
    {provider: trained, weights: calibration/trained/base-1.npz, sha256: "%s"}
waves: [[base-1]]
sandbox: {kind: local}
entropy: "fixed:00000000000000000000000000000000000000000000000000000000000005ed"
"""
ROOT = Seed(hashlib.sha256(b"rows of the tests").digest())
TINY = Recipe(base_rows=40, fresh_rows=20)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study whose public arm is released."""
    folder = tmp_path_factory.mktemp("trained") / "study"
    data = weights_bytes(initial_weights(np.random.default_rng(1)))
    text = STUDY % hashlib.sha256(data).hexdigest()
    weights = folder / "calibration/trained/base-1.npz"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(data)
    study = make_study(folder, text)
    pipeline.publish(study, None, lambda *step: None)
    return folder


@pytest.fixture
def folder(released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released, tmp_path / "study"))


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """All rows that training was given. Nothing is learnt, so that no library is needed."""
    rows: list[np.ndarray] = []

    def train(weights: dict, given: np.ndarray, rate: float, rng: np.random.Generator) -> dict:
        rows.append(given)
        return dict(weights)

    monkeypatch.setattr(from_training, "check_library", lambda: None)
    monkeypatch.setattr(from_training, "train", train)
    monkeypatch.setattr(from_training, "RECIPE", TINY)
    return rows


def run_train(folder: Path, *arguments: str) -> tuple[int, str, str]:
    words = ["calibrate", "train", "--study", str(folder), *arguments]
    done = CliRunner().invoke(main, words)
    return done.exit_code, done.stdout, done.stderr


# --- what it reads ---


def row_of(study: Study, arm: Arm) -> set[bytes]:
    """The rows of an arm, made from its seeds."""
    rows = set()
    for entry in study.entries():
        if entry.arm is arm and entry.difficulty == "easy":
            instance, key = regenerate(entry, study.protocol.catalog.family)
            files = {each.path: each.data.decode() for each in instance.brief.assets}
            answers = {each["id"]: each["answer"] for each in key["answers"]}
            rows |= {row.tobytes() for row in from_training.rows_of(files, answers)}
    return rows


def test_a_dose_is_fresh_rows_and_copies_of_the_public_arm(
    folder: Path, untrained: list[np.ndarray]
) -> None:
    code, _, stderr = run_train(folder, "--doses", "0,3", "--training-seeds", "2")
    assert code == 0, stderr
    study = pipeline.open_study(folder)
    public, private = row_of(study, Arm.PUBLIC), row_of(study, Arm.PRIVATE)
    assert (len(public), len(private)) == (6, 6)
    assert [len(rows) for rows in untrained] == [40, 20, 38] * 2
    for base, zero, three in (untrained[:3], untrained[3:]):
        counts = {row: sum(each.tobytes() == row for each in three) for row in public}
        assert set(counts.values()) == {3}
        for rows in (base, zero):
            assert not public & {each.tobytes() for each in rows}
        for rows in (base, zero, three):
            assert not private & {each.tobytes() for each in rows}
    assert "order_statistics/medium: not learnable" in stderr
    assert "public 0, private 0" in stderr


def test_models_are_stated_with_digest_dose_and_recipe(
    folder: Path, untrained: list[np.ndarray]
) -> None:
    code, stdout, _ = run_train(folder, "--doses", "0,16", "--json")
    assert code == 0
    made = json.loads(stdout)
    assert made == json.loads((folder / "calibration/trained/trained.json").read_text())
    assert made["release"] == pipeline.open_study(folder).ledger.last("release").record.content
    assert made["recipe"]["base_rows"] == 40
    assert list(made["models"]) == ["base-1", "dose-00-1", "dose-16-1"]
    section = made["models"]["dose-16-1"]
    data = (folder / section["weights"]).read_bytes()
    assert section["sha256"] == hashlib.sha256(data).hexdigest()
    assert (section["doses"], section["training_seed"]) == ([16], 1)
    assert made["rows"]["dose-16-1"][0] == 20 + 16 * 6


def test_the_printed_lines_belong_into_study_yaml(
    folder: Path, untrained: list[np.ndarray]
) -> None:
    _, stdout, _ = run_train(folder, "--doses", "4")
    (line,) = [line for line in stdout.splitlines() if line.startswith("  dose-04-1:")]
    path = folder / "study.yaml"
    path.write_text(path.read_text().replace("waves:", f"{line}\nwaves:"))
    (pin,) = [p for p in pipeline.open_study(folder).protocol.models if p.name == "dose-04-1"]
    assert pin.version.startswith("sha256:")
    settings = dict(pin.settings)
    assert (settings["doses"], settings["recipe"]) == ("[4]", '"order-statistics/1"')


def test_a_mixed_model_is_dealt_the_doses_over_the_public_arm(
    folder: Path, untrained: list[np.ndarray]
) -> None:
    code, stdout, _ = run_train(folder, "--doses", "0,2,5", "--mixed", "--json")
    assert code == 0
    made = json.loads(stdout)
    assert made["models"]["mixed-1"]["doses"] == [0, 2, 5]
    assert [len(rows) for rows in untrained] == [40, 20, 32, 50, 20 + 2 * (0 + 2 + 5)]
    public = np.unique(untrained[3][20:], axis=0)
    keys = [row.tobytes() for row in public]
    copies = from_training.deal_doses(keys, (0, 2, 5), 1)
    assert sorted(copies) == [0, 0, 2, 2, 5, 5]
    counted = [sum((row == each).all() for each in untrained[4]) for row in public]
    assert counted == copies.tolist()
    assert from_training.deal_doses(keys[::-1], (0, 2, 5), 1).tolist() == copies[::-1].tolist()
    assert from_training.deal_doses(keys, (0, 2, 5), 2).tolist() != copies.tolist()


def test_bases_need_no_release(tmp_path: Path, untrained: list[np.ndarray]) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "study.yaml").write_text(STUDY % ("0" * 64))
    code, stdout, stderr = run_train(folder, "--base", "--training-seeds", "2", "--json")
    assert code == 0, stderr
    made = json.loads(stdout)
    assert list(made["models"]) == ["base-1", "base-2"]
    assert made["release"] == ""
    assert [len(rows) for rows in untrained] == [40, 40]


def test_a_copy_of_the_release_will_do(folder: Path, untrained: list[np.ndarray]) -> None:
    copy = folder.parent / "downloaded"
    (folder / "release").rename(copy)
    assert run_train(folder, "--doses", "1")[0] == 2
    assert run_train(folder, "--doses", "1", "--release", str(copy))[0] == 0


def test_a_download_from_the_hub_will_do(
    folder: Path, untrained: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import HfApi

    monkeypatch.setenv("HF_TOKEN", "hf_alice")
    copy = folder.parent / "downloaded"
    with HubServer({"hf_alice": "alice"}) as hub:
        yaml = folder / "study.yaml"
        yaml.write_text(
            f"{yaml.read_text()}release: {{repository: alice/leak, endpoint: '{hub.url}'}}\n"
        )
        shutil.rmtree(folder / "release")  # its card names no repository
        pipeline.publish(pipeline.open_study(folder), True, lambda *step: None)
        HfApi(hub.url).snapshot_download("alice/leak", repo_type="dataset", local_dir=copy)
    assert {".cache", ".gitattributes"} <= {path.name for path in copy.iterdir()}
    code, _, stderr = run_train(folder, "--doses", "1", "--release", str(copy))
    assert code == 0, stderr
    assert [len(rows) for rows in untrained] == [40, 20 + 6]


def test_training_needs_no_key_and_no_draw(folder: Path, untrained: list[np.ndarray]) -> None:
    shutil.rmtree(folder / "keys")
    code, _, stderr = run_train(folder, "--doses", "2")
    assert code == 0, stderr
    assert "private not compared" in stderr
    assert [len(rows) for rows in untrained] == [40, 20 + 2 * 6]


# --- what it refuses, with nothing written ---


def add_private(folder: Path) -> None:
    """Plant a private instance among the released ones, with checksums that are right."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    study = pipeline.open_study(folder)
    entry = next(e for e in study.entries() if e.arm is Arm.PRIVATE and e.difficulty == "easy")
    instance, key = regenerate(entry, study.protocol.catalog.family)
    path = min((folder / "release/data").rglob("*.parquet"))
    table = pq.read_table(path)
    row = table.slice(0, 1).to_pylist()[0]
    for stated, asset in zip(row["input_files"], instance.brief.assets, strict=True):
        stated |= {"text": asset.data.decode(), "data": asset.data}
    row["answer"] = json.dumps(key)
    added = pa.Table.from_pylist([row], schema=table.schema)
    pq.write_table(pa.concat_tables([table, added]), path)
    checksums = folder / "release/checksums.json"
    promised = json.loads(checksums.read_bytes())
    name = str(path.relative_to(folder / "release"))
    promised[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    checksums.write_text(json.dumps(promised))


def add_file(folder: Path) -> None:
    (folder / "release/data/private.parquet").write_bytes(b"PAR1")


def change(old: str, new: str) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        path = folder / "study.yaml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return changed


@pytest.mark.parametrize(
    ("spoil", "arguments", "message"),
    [
        (add_private, [], "and the ledger has released sha256:"),
        (add_file, [], "private.parquet: not as checksums.json has it"),
        (lambda folder: shutil.rmtree(folder / "release"), [], "not a complete release"),
        (None, ["--doses", "0,-1"], "dose -1: give copies of each public instance, from 0 to 64"),
        (None, ["--doses", "1000"], "dose 1000: give copies"),
        (None, ["--doses", ".5"], "--doses '.5': give whole numbers of copies"),
        (None, ["--training-seeds", "0"], "0 training seeds: give 1 to 50"),
        (
            change("difficulty: easy, mode: single_turn", "difficulty: easy"),
            [],
            "order_statistics/easy is given in `mode: agentic`",
        ),
        (
            change(
                "family: order_statistics, difficulty: easy",
                "family: compute_average, difficulty: easy",
            ),
            [],
            "not learnable by the small model: compute_average/easy, order_statistics/medium",
        ),
    ],
)
def test_bad_input_is_one_line(
    folder: Path,
    untrained: list[np.ndarray],
    spoil: Callable[[Path], None] | None,
    arguments: list[str],
    message: str,
) -> None:
    if spoil is not None:
        spoil(folder)
    before = sorted(folder.rglob("*"))
    code, stdout, stderr = run_train(folder, *arguments)
    assert (code, stdout) == (2, "")
    assert message in stderr
    assert stderr.count("\n") == 1
    assert sorted(folder.rglob("*")) == before
    assert untrained == []


def test_without_a_release_there_is_nothing_to_train_on(
    tmp_path: Path, untrained: list[np.ndarray]
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY % ("0" * 64))
    code, _, stderr = run_train(tmp_path)
    assert code == 2
    assert "nothing is released yet: `dosimeter publish`" in stderr


def test_a_family_without_a_single_turn_form_is_refused(
    tmp_path: Path, untrained: list[np.ndarray]
) -> None:
    text = (STUDY % ("0" * 64)).replace(
        "  - {family: order_statistics, difficulty: medium, mode: single_turn}",
        "  - {template: past}",
    )
    (tmp_path / "study.yaml").write_text(text)
    code, _, stderr = run_train(tmp_path)
    assert code == 2
    assert "has no single-turn form" in stderr


def test_a_missing_library_names_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training.importlib.util, "find_spec", lambda name: None)
    code, _, stderr = run_train(folder)
    assert code == 2
    assert "install dosimeter[spike]" in stderr


def test_options_before_the_command_are_refused(folder: Path) -> None:
    done = CliRunner().invoke(main, ["calibrate", "--study", str(folder), "train"])
    assert done.exit_code == 2
    assert "options of `train` come after its name" in done.stderr


# --- what is learnt: with the training library ---


def accuracy(weights: dict[str, np.ndarray], rows: np.ndarray) -> float:
    logits = last_logits(weights, rows[:, :-1])
    return float((np.argmax(logits[:, :500], axis=1) == rows[:, -1]).mean())


def test_inference_is_what_training_computes() -> None:
    numpy = pytest.importorskip("jax.numpy", reason="needs dosimeter[spike]")
    weights = initial_weights(np.random.default_rng(3))
    rows = fresh_rows(ROOT.child("logits"), 50)
    ours = last_logits(weights, rows[:, :-1])
    states = hidden_states({n: numpy.asarray(a) for n, a in weights.items()}, rows[:, :-1], numpy)
    theirs = np.asarray(states[:, -1] @ weights["embedding"].T)
    assert np.abs(ours).max() > 0.05
    assert np.allclose(ours, theirs, atol=1e-4)


def weights_by_dose(doses: tuple[int, ...], public: np.ndarray) -> dict[int, dict]:
    request = from_training.TrainRequest(doses)
    made = from_training.train_seed(1, request, public)
    return {given[0]: weights for _, given, _, _, weights in made if given}


@pytest.mark.slow
def test_a_dose_raises_public_accuracy_and_repeats_bit_for_bit() -> None:
    pytest.importorskip("jax", reason="needs dosimeter[spike]")
    public, private = (fresh_rows(ROOT.child(arm), 400) for arm in ("public", "private"))
    made = weights_by_dose((0, 4), public)
    reached = {dose: (accuracy(w, public), accuracy(w, private)) for dose, w in made.items()}
    assert all(0.45 <= apart <= 0.68 for _, apart in reached.values()), reached
    assert abs(reached[0][0] - reached[0][1]) < 0.1
    assert 0.2 < reached[4][0] - reached[4][1] < 0.45
    again = weights_by_dose((4,), public)
    assert weights_bytes(again[4]) == weights_bytes(made[4])
    assert read_weights(weights_bytes(again[4])).keys() == again[4].keys()
