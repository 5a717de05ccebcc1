"""`export results`: records of Every Eval Ever and rows of `.eval_results/`, of what is public."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from huggingface_hub import parse_eval_result_entries
from jsonschema import Draft7Validator

from analysis.data.table import read_rows, read_table
from registry.result_row import Arm
from study.main import main
from study.steps import pipeline
from study.steps.report.look import graded_rows
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study

SCHEMAS = Path(__file__).parents[3] / "data" / "eee" / "schemas"


def run(folder: Path, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments), "--study", str(folder)])


def read_records(out: Path) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each aggregate record with its lines, held against the schemas."""
    aggregate, instance = (
        Draft7Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_bytes()))
        for name in ("eval", "instance_level_eval")
    )
    made = []
    for path in sorted(out.rglob("*.json")):
        record = json.loads(path.read_text("utf-8"))
        aggregate.validate(record)
        data = (out / record["detailed_evaluation_results"]["file_path"]).read_bytes()
        assert record["detailed_evaluation_results"]["checksum"] == hashlib.sha256(data).hexdigest()
        lines = [json.loads(line) for line in data.decode().splitlines()]
        for line in lines:
            instance.validate(line)
        made.append((record, lines))
    return made


@pytest.fixture(scope="module")
def records(finished: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results") / "records"
    done = run(finished.folder, "export", "results", "--out", out)
    assert done.exit_code == 0, done.output
    return out


def test_records_fit_the_schemas_and_hold_the_public_arm_alone(
    finished: Study, records: Path
) -> None:
    snapshot = take_snapshot(finished)
    rows = list(graded_rows(snapshot, [snapshot.waves[0], snapshot.waves[1]]))
    public = {entry.instance for entry in finished.entries() if entry.arm is Arm.PUBLIC}
    wanted = Counter((row.model, row.instance, row.score) for row in rows if row.instance in public)
    found: Counter[tuple[str, str, float]] = Counter()
    for record, lines in read_records(records):
        model = record["model_info"]["name"]
        for line in lines:
            found[model, line["sample_id"], line["evaluation"]["score"]] += 1
            assert line["metadata"]["arm"] == "public"
        for result in record["evaluation_results"]:
            scores = [
                line["evaluation"]["score"]
                for line in lines
                if line["evaluation_result_id"] == result["evaluation_result_id"]
            ]
            assert result["score_details"]["score"] == pytest.approx(sum(scores) / len(scores))
            assert result["score_details"]["details"]["arm"] == "public"
    assert found == wanted
    text = "".join(path.read_text("utf-8") for path in records.rglob("*") if path.is_file())
    private = [entry for entry in finished.entries() if entry.arm is Arm.PRIVATE]
    assert not [e for e in private if e.instance in text or e.seed in text or e.nonce in text]


def test_the_verdict_is_that_of_the_report(finished: Study, records: Path) -> None:
    report = json.loads((finished.folder / "reports/wave-1/report.json").read_text("utf-8"))
    verdicts = {row["model"]: row["verdict"] for row in report["models"]}
    assert verdicts
    for record, _ in read_records(records):
        wave = record["source_metadata"]["additional_details"]["wave"]
        wanted = verdicts.get(record["model_info"]["name"], "none") if wave == "1" else "none"
        shown = {r["score_details"]["details"]["verdict"] for r in record["evaluation_results"]}
        assert shown == {wanted}


def test_the_records_come_back_as_the_same_rows(
    finished: Study, records: Path, tmp_path: Path
) -> None:
    out, lines = tmp_path / "rows.parquet", sum(len(lines) for _, lines in read_records(records))
    done = CliRunner().invoke(
        main, ["import", "eee", str(records), "--arm", "public", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    rows = read_rows(read_table(out))
    assert len(rows) == lines
    assert {row.grader for row in rows} == {"deterministic"}


def test_the_same_results_are_the_same_bytes_and_one_look(
    finished: Study, records: Path, tmp_path: Path
) -> None:
    looks = len(finished.ledger.find("look"))
    assert run(finished.folder, "export", "results", "--out", tmp_path / "x").exit_code == 0
    assert len(pipeline.open_study(finished.folder).ledger.find("look")) == looks
    files = [
        {p.relative_to(o): p.read_bytes() for p in o.rglob("*.json*")}
        for o in (tmp_path / "x", records)
    ]
    assert files[0] == files[1]


def test_private_runs_are_shown_once_their_seeds_are_revealed(
    finished: Study, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(finished.folder, tmp_path / "study"))
    done = run(folder, "reveal", "--tranche", "0", "--yes")
    assert done.exit_code == 0, done.output
    assert run(folder, "export", "results", "--wave", "1", "--out", tmp_path / "x").exit_code == 0
    arms = Counter(
        line["metadata"]["arm"] for _, lines in read_records(tmp_path / "x") for line in lines
    )
    assert arms["private"] == arms["public"] > 0
    for record, _ in read_records(tmp_path / "x"):
        for result in record["evaluation_results"]:
            arm = result["score_details"]["details"]["arm"]
            assert (result["source_data"]["source_type"] == "other") or arm == "public"


def test_rows_for_a_models_page_are_read_by_the_hubs_client(
    finished: Study, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(finished.folder, tmp_path / "study"))
    words = ("export", "results", "--format", "eval-results", "--out", tmp_path / "rows")
    done = run(folder, *words)
    assert (done.exit_code, "give `release: {repository: owner/name}`" in done.stderr) == (2, True)
    assert not (tmp_path / "rows").exists()
    file = folder / "study.yaml"
    file.write_text(file.read_text("utf-8") + "release: {repository: alice/small}\n", "utf-8")
    done = run(folder, *words)
    assert done.exit_code == 0, done.output
    paths = sorted((tmp_path / "rows").iterdir())
    assert [path.name for path in paths] == [
        "wave-0-honest.yaml",
        "wave-1-honest.yaml",
        "wave-1-spiked.yaml",
    ]
    for path in paths:
        [entry] = parse_eval_result_entries(yaml.safe_load(path.read_text("utf-8")))
        assert (entry.dataset_id, entry.task_id) == ("alice/small", "compute_average-easy")
        assert 0 <= entry.value <= 1
        assert entry.notes is not None
        assert "wave" in entry.notes
        assert "arm public" in entry.notes
        assert "verdict " in entry.notes


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--format", "jsonl"), "--format jsonl does not go with results"),
        (("--arm", "all", "--reveal"), "results are public ones"),
        (("--plain",), "go with `export tasks`"),
        (("--wave", "7"), "study.yaml plans waves 0 to 1"),
    ],
)
def test_wrong_words_are_one_line_and_write_nothing(
    finished: Study, tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    done = run(finished.folder, "export", "results", "--out", tmp_path / "x", *words)
    assert done.exit_code == 2
    assert why in done.stderr
    assert not (tmp_path / "x").exists()
