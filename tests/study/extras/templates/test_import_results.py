"""Run folders of other programs become rows: scores as the original has them, intervals better."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analysis.data.table import read_rows, read_table
from registry.result_row import Arm, Status
from study.errors import StudyError
from study.extras.templates.import_results import import_parametr, import_picard, write_rows
from study.extras.templates.run_folder import named_folders
from study.main import main
from tests.cases import cases

Z = 1.959963984540054


def part(passed: int, total: int, weight: float, dimension: str = "SR") -> dict[str, Any]:
    return {
        "name": f"m{weight}",
        "dimension": dimension,
        "passed": passed,
        "total": total,
        "weight": weight,
    }


def results(**given: Any) -> dict[str, Any]:
    """Two seeds of one task: weighted by hand, (10·½ + 2·1 + 10·1 + 2·0) / 24 = 17/24."""
    tasks = [
        {
            "task": "hubble",
            "seed": seed,
            "difficulty": "easy",
            "model": "nova",
            "judge": "jury",
            "metarubrics": parts,
        }
        for seed, parts in (
            (11, [part(2, 4, 10), part(1, 1, 2, "IF")]),
            (12, [part(4, 4, 10), part(0, 1, 2, "IF")]),
        )
    ]
    return {"run": {}, "summary": {"success_rate": 17 / 24}, "task_results": tasks} | given


def one_task(*parts: dict[str, Any]) -> dict[str, Any]:
    return {**results()["task_results"][0], "metarubrics": list(parts)}


def write(folder: Path, body: Any, name: str = "benchmark_results_judge_jury.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(body))
    return folder


def test_a_result_folder_is_a_row_for_each_seed(tmp_path: Path) -> None:
    first, second = import_parametr([write(tmp_path / "abc123_run", results())], Arm.PUBLIC, 2).rows
    assert (first.model, first.grader, first.stratum) == ("nova", "jury", "hubble/easy")
    assert (first.wave, first.arm, first.instance) == (2, "public", "hubble/easy/11")
    assert first.score == pytest.approx((10 * 0.5 + 2) / 12)
    assert (first.passed, first.total) == (3, 5)
    assert (first.score_sr, first.score_if, first.score_dh) == (0.5, 1.0, None)
    assert second.score == pytest.approx(10 / 12)


def test_the_overall_score_is_the_originals_and_the_interval_beside_it_is_not(
    tmp_path: Path,
) -> None:
    (overall,) = import_parametr([write(tmp_path, results())], Arm.PUBLIC, 0).overall
    assert overall.score == pytest.approx(17 / 24)
    variance = 0.0
    for passed, total, weight in ((2, 4, 10), (1, 1, 2), (4, 4, 10), (0, 1, 2)):
        near = (passed + Z**2 / 2) / (total + Z**2)
        variance += (weight / 24) ** 2 * near * (1 - near) / total
    assert overall.interval[0] == pytest.approx(17 / 24 - Z * math.sqrt(variance))
    # By hand: a seed's error is its weighted score less 12·17/24: ∓1.5, so SE = √(2·4.5)/24 = 1/8;
    # t with one degree of freedom is 12.706, which the scale cuts.
    assert overall.clustered == (0.0, 1.0)
    assert overall.seeds == 2
    assert overall.dimensions == {"score_sr": pytest.approx(0.75), "score_if": 0.5}


def test_a_seed_elsewhere_is_a_replicate_here_a_regrading_and_a_partial_run_yields(
    tmp_path: Path,
) -> None:
    write(tmp_path / "a", results())
    write(tmp_path / "a", results(), "benchmark_results_judge_jury_1.json")
    write(tmp_path / "a", {"no": "results"}, "_partial-benchmark_results_judge_jury.json")
    write(tmp_path / "b", results(), "_partial-benchmark_results_judge_jury.json")
    found = import_parametr([tmp_path], Arm.PRIVATE, 0)
    graded = [(row.grader, row.replicate) for row in found.rows[::2]]
    assert graded == [("jury", 0), ("jury/again-1", 0), ("jury", 1)]
    assert len(found.warnings) == 1
    assert "a partial run" in found.warnings[0]


FIRST = results()["task_results"][0]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        *((results(**changes), said) for changes, said in cases(__file__, "refused")),
        ([], "Input should be an object"),
        *(
            (results(task_results=[{**FIRST, "metarubrics": [part(*counts)]}]), said)
            for counts, said in cases(__file__, "refused_parts")
        ),
    ],
)
def test_what_is_no_file_of_results_is_refused(tmp_path: Path, body: Any, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        import_parametr([write(tmp_path, body)], Arm.PUBLIC, 0)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"no benchmark_results_judge_\*\.json here or below"):
        import_parametr([tmp_path], Arm.PUBLIC, 0)
    with pytest.raises(StudyError, match="no such folder"):
        import_parametr([tmp_path / "none"], Arm.PUBLIC, 0)


def picard(folder: Path, answers: dict[int, str | None]) -> Path:
    folder.mkdir()
    keys, responses = [], []
    for number, answer in answers.items():
        base = {"question_id": 7, "sample_number": number}
        keys.append(base | {"scoring_type": "stringmatch", "expected_response": f"v{number}"})
        if answer is not None:
            responses.append(base | {"response_text": answer, "execution_successful": True})
    (folder / "precheck.jsonl").write_text("".join(json.dumps(k) + "\n" for k in keys))
    (folder / "responses.jsonl").write_text("".join(json.dumps(r) + "\n" for r in responses))
    return folder


def test_a_picard_folder_is_a_row_for_each_sample(tmp_path: Path) -> None:
    run = picard(tmp_path / "llama", {1: "v1", 2: "nope", 3: None})
    again = picard(tmp_path / "second", {1: "v1"})
    named = named_folders([str(run), f"llama={again}"])
    found = import_picard(named, Arm.PUBLIC, 1, datetime(2026, 1, 1, tzinfo=UTC), ())
    assert [(r.model, r.score, r.status) for r in found.rows] == [
        ("llama", 1.0, Status.SCORED),
        ("llama", 0.0, Status.SCORED),
        ("llama", 0.0, Status.MODEL_FAILURE),
        ("llama", 1.0, Status.SCORED),
    ]
    assert {row.stratum for row in found.rows} == {"picard/q7"}
    assert found.rows[0].instance == found.rows[3].instance  # the same sample in two folders
    assert [row.replicate for row in found.rows] == [0, 0, 0, 1]


def test_a_model_is_named_by_what_can_be_printed() -> None:
    with pytest.raises(StudyError, match="of characters that can be printed"):
        named_folders(["no\x1bva=run"])


def test_imports_into_one_file_at_once_lose_no_row(tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"

    def add(model: str) -> int:
        run = picard(tmp_path / model, {1: "v1", 2: "v2"})
        found = import_picard([(model, run)], Arm.PUBLIC, 0, datetime(2026, 1, 1, tzinfo=UTC), ())
        return write_rows(out, found.rows)

    with ThreadPoolExecutor(4) as pool:
        totals = sorted(pool.map(add, "abcd"))
    assert totals == [2, 4, 6, 8]
    assert {row.model for row in read_rows(read_table(out))} == set("abcd")


def test_both_arms_go_into_one_file_and_are_analysed(tmp_path: Path) -> None:
    out, runner = tmp_path / "rows.parquet", CliRunner()
    for arm, seeds in (("public", range(6)), ("private", range(6, 12))):
        tasks = [{**results()["task_results"][seed % 2], "seed": seed} for seed in seeds]
        folder = write(tmp_path / arm, {"task_results": tasks})
        arguments = ["import", "parametr", str(folder), "--arm", arm, "--out", str(out)]
        made = runner.invoke(main, [*arguments, "--json"])
        assert made.exit_code == 0, made.output
        assert json.loads(made.stdout)["rows"] == 6
    assert len(read_rows(read_table(out))) == 12
    plan = tmp_path / "plan.yaml"
    plan.write_text("preset: standard-v1\nallocation: random\n")
    shown = runner.invoke(main, ["analyze", str(out), "--plan", str(plan), "--json"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["models"][0]["n_private"] == 6
    twice = runner.invoke(main, arguments)
    assert twice.exit_code == 2
    assert "repeats another row's" in twice.stderr
    assert "in one command with the first" in twice.stderr
