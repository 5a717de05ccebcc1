"""``dosimeter import`` of other harnesses' logs: joined without a lost or doubled sample."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analysis.data.table import read_rows, read_table
from registry.result_row import ResultRow, Status
from study.main import main
from tests.cases import cases


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["import", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def imported(folder: Path, kind: str, *places: str | Path) -> list[ResultRow]:
    out = folder / "rows.parquet"
    code, _, error = run(kind, *places, "--arm", "public", "--out", out)
    assert code == 0, error
    return read_rows(read_table(out))


def write_lines(path: Path, rows: list[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


# -- Inspect: logs that it has written itself


@pytest.fixture(scope="module")
def inspect_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two logs by a mocked model: six samples in two epochs, and four of which one fails."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset
    from inspect_ai.dataset import Sample as Question
    from inspect_ai.model import ChatMessageUser, ContentImage, ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import exact, includes
    from inspect_ai.solver import Generate, Solver, TaskState, solver

    @solver
    def fails_at(number: int) -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            if state.sample_id == number:
                raise RuntimeError("the sandbox is gone")
            return await generate(state)

        return solve

    def answer(*request: Any) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", "yes, it is")
        output.usage = ModelUsage(input_tokens=7, output_tokens=3, total_tokens=10)
        return output  # with its usage: to count tokens, Inspect would fetch a vocabulary

    folder = tmp_path_factory.mktemp("inspect")
    model = get_model("mockllm/model", custom_outputs=answer)
    given = MemoryDataset([Question(input=f"q{n}", target=("yes", "no")[n % 2]) for n in range(6)])
    options: dict[str, Any] = {"display": "none", "model": model, "score_display": False}
    eval(
        Task(given, scorer=includes(), name="sums"), epochs=2, log_dir=str(folder / "a"), **options
    )
    other = MemoryDataset([Question(input=f"p{n}", target=("yes", "no")[n % 2]) for n in range(6)])
    eval(
        Task(other, scorer=includes(), name="kept"), epochs=2, log_dir=str(folder / "c"), **options
    )
    for name in "de":
        picture = ContentImage(image=f"data:image/png;base64,{name}")
        seen = MemoryDataset([Question(input=[ChatMessageUser(content=[picture])], target="yes")])
        eval(Task(seen, scorer=includes(), name="seen"), log_dir=str(folder / name), **options)
    broken = Task(given[:4], solver=fails_at(2), scorer=[includes(), exact()], name="fails")
    eval(broken, fail_on_error=False, log_dir=str(folder / "b"), **options)
    return folder


def test_every_sample_and_epoch_of_inspect_is_a_row(tmp_path: Path, inspect_logs: Path) -> None:
    rows = imported(tmp_path, "inspect", inspect_logs / "a")
    assert len(rows) == 12
    assert {row.model for row in rows} == {"mockllm/model"}
    assert len({row.instance for row in rows}) == 6
    assert {row.replicate for row in rows} == {0, 1}
    assert sum(row.score or 0 for row in rows) == 6
    assert {(row.stratum, row.input_tokens, row.output_tokens) for row in rows} == {("sums", 7, 3)}


def test_a_sample_that_failed_is_missing_by_each_scorer(tmp_path: Path, inspect_logs: Path) -> None:
    rows = imported(tmp_path, "inspect", f"s={inspect_logs / 'b'}")
    assert len(rows) == 8
    assert {row.grader for row in rows} == {"includes", "exact"}
    lost = [row for row in rows if row.status is Status.MISSING]
    assert [row.score for row in lost] == [None, None]
    assert {row.error_class for row in lost} == {"error"}


def test_a_log_that_is_there_twice_counts_once(tmp_path: Path, inspect_logs: Path) -> None:
    log = next((inspect_logs / "a").glob("*.eval"))
    twice = tmp_path / "logs"
    twice.mkdir()
    for name in ("one.eval", "two.eval"):
        shutil.copy(log, twice / name)
    assert len(imported(tmp_path, "inspect", twice)) == 12


def test_logs_of_both_arms_are_analysed_and_the_same_questions_in_both_refused(
    tmp_path: Path, inspect_logs: Path
) -> None:
    """Both arms number their samples from one; what they ask differs."""
    out = tmp_path / "rows.parquet"
    for arm, name in (("public", "a"), ("private", "c")):
        assert run("inspect", f"s={inspect_logs / name}", "--arm", arm, "--out", out)[0] == 0
    plan = tmp_path / "plan.yaml"
    plan.write_text("allocation: random\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["analyze", str(out), "--plan", str(plan), "--json"])
    assert result.exit_code == 0, result.stderr
    [row] = json.loads(result.stdout)["models"]
    assert (row["n_public"], row["n_private"], row["estimate"]) == (6, 6, 0.0)
    before = out.read_bytes()
    code, _, error = run("inspect", f"s={inspect_logs / 'a'}", "--arm", "private", "--out", out)
    assert (code, "in both arms" in error) == (2, True)
    assert out.read_bytes() == before


def test_questions_that_differ_by_their_picture_are_two(tmp_path: Path, inspect_logs: Path) -> None:
    one = imported(tmp_path, "inspect", inspect_logs / "d")
    (tmp_path / "rows.parquet").unlink()
    other = imported(tmp_path, "inspect", inspect_logs / "e")
    assert len({row.instance for row in (*one, *other)}) == 2


@pytest.mark.parametrize("kept", [0, 40, 400])
def test_a_log_that_is_cut_off_is_refused(tmp_path: Path, inspect_logs: Path, kept: int) -> None:
    log = next((inspect_logs / "a").glob("*.eval"))
    (cut := tmp_path / "cut.eval").write_bytes(log.read_bytes()[:kept])
    code, _, error = run("inspect", cut, "--arm", "public", "--out", tmp_path / "rows.parquet")
    assert (code, error.count("\n")) == (2, 1)
    assert f"{cut}: not a log of Inspect that can be read" in error
    assert not (tmp_path / "rows.parquet").exists()


def test_a_log_without_its_last_samples_is_taken_as_far_as_it_goes(
    tmp_path: Path, inspect_logs: Path
) -> None:
    """What lacks is no zero: another model's rows make it a missing run."""
    log, short = next((inspect_logs / "a").glob("*.eval")), tmp_path / "short.eval"
    with zipfile.ZipFile(log) as whole, zipfile.ZipFile(short, "w") as part:
        for name in whole.namelist():
            text = whole.read(name)
            if name == "summaries.json":
                text = json.dumps(json.loads(text)[:7]).encode()
            part.writestr(name, text)
    out = tmp_path / "rows.parquet"
    code, _, error = run("inspect", short, "--arm", "public", "--out", out)
    assert code == 0
    assert "7 of 12 samples" in error
    assert len(read_table(out)) == 7


# -- lm-evaluation-harness, in the form of its release 0.4.13


def lm_eval_folder(folder: Path, **changes: Any) -> Path:
    """What its EvaluationTracker writes of a task with two filters and a metric beyond 0 to 1."""
    rows = []
    for number in range(4):
        for name in ("strict-match", "flexible-extract"):
            doc = {"question": f"q{number}"}
            hashed = hashlib.sha256(json.dumps(doc, indent=2).encode()).hexdigest()
            right = float(number % 2 or name == "flexible-extract")
            rows.append(
                {"doc_id": number, "doc": doc, "target": "a", "filter": name, "doc_hash": hashed}
                | {
                    "metrics": ["exact_match", "perplexity"],
                    "exact_match": right,
                    "perplexity": 7.5,
                }
                | changes
            )
    place, date = folder / "org__model", "2026-11-01T10-00-00.123456"
    write_lines(place / f"samples_sums_hard_{date}.jsonl", rows)
    results = {"model_source": "hf", "model_name": "org/model", "results": {}}
    (place / f"results_{date}.json").write_text(json.dumps(results), encoding="utf-8")
    return folder


def test_samples_of_lm_eval_have_a_row_for_each_filter(tmp_path: Path) -> None:
    rows = imported(tmp_path, "lm-eval", lm_eval_folder(tmp_path / "out"))
    assert len(rows) == 8
    assert {(row.model, row.stratum) for row in rows} == {("org/model", "sums_hard")}
    scores = {
        g: sum(row.score or 0 for row in rows if row.grader == g) for g in {r.grader for r in rows}
    }
    assert scores == {"exact_match,strict-match": 2, "exact_match,flexible-extract": 4}


def test_a_metric_that_is_no_score_is_named_and_left_out(tmp_path: Path) -> None:
    folder = lm_eval_folder(tmp_path / "out")
    code, _, error = run("lm-eval", folder, "--arm", "public", "--out", tmp_path / "rows.parquet")
    assert (code, "perplexity,strict-match is no number from 0 to 1" in error) == (0, True)


def test_a_metric_is_a_score_of_all_samples_or_of_none(tmp_path: Path) -> None:
    """One of 0 to 100 is no score where it happens to be small; one that lacks is no zero."""
    folder = lm_eval_folder(tmp_path / "out", metrics=["bleu", "acc"], acc=1.0)
    path = next(folder.rglob("samples_*"))
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for number, row in enumerate(rows):
        row |= {"bleu": 0.5 * number, "filter": "none", "doc_id": number, "doc_hash": str(number)}
    rows[3]["acc"], rows[4]["acc"] = float("nan"), None
    write_lines(path, rows)
    found = imported(tmp_path, "lm-eval", folder)
    assert [row.score for row in found] == [1, 1, 1, None, None, 1, 1, 1]
    assert {row.grader for row in found} == {"deterministic"}


def test_without_the_file_of_results_the_model_has_no_name(tmp_path: Path) -> None:
    folder = lm_eval_folder(tmp_path / "out")
    next(folder.rglob("results_*")).unlink()
    code, _, error = run("lm-eval", folder, "--arm", "public", "--out", tmp_path / "rows.parquet")
    assert (code, "results_2026-11-01T10-00-00.123456.json beside it" in error) == (2, True)


# -- Every Eval Ever


def eee_row(number: int, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "schema_version": "instance_level_eval_0.2.1",
        "evaluation_id": "sums/org/model/1",
        "model_id": "org/model",
        "evaluation_name": "sums",
        "sample_id": f"s{number}",
        "interaction_type": "single_turn",
        "input": {"raw": "1+1", "reference": ["2"]},
        "output": {"raw": ["2"]},
        "answer_attribution": [],
        "evaluation": {"score": float(number % 2), "is_correct": bool(number % 2)},
        "token_usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
    }
    return row | changes


def test_instances_of_every_eval_ever_are_rows(tmp_path: Path) -> None:
    lines = [eee_row(0), eee_row(1), eee_row(1), eee_row(2, error="timeout")]
    rows = imported(tmp_path, "eee", write_lines(tmp_path / "log.jsonl", lines))
    assert [(row.score, row.replicate) for row in rows] == [(0, 0), (1, 0), (1, 1), (None, 0)]
    assert [row.input_tokens for row in rows] == [5] * 4


# -- Harbor


def trial(task: str, number: int, **changes: Any) -> dict[str, Any]:
    value: dict[str, Any] = {
        "id": f"{task}-{number}",
        "task_name": f"org/{task}",
        "trial_name": f"{task}__{number}",
        "source": "shell-tasks",
        "agent_info": {"name": "terminus", "version": "2", "model_info": {"name": "nova"}},
        "verifier_result": {"rewards": {"reward": 1.0}},
        "exception_info": None,
        "reward_valid": True,
    }
    return value | changes


def test_trials_of_harbor_are_rows_and_a_lost_one_is_missing(tmp_path: Path) -> None:
    gone = {"exception_type": "EnvironmentStartTimeoutError", "exception_message": "no host"}
    late = {"exception_type": "AgentTimeoutError", "exception_message": "time is over"}
    trials = [
        trial("a", 1),
        trial("a", 2, verifier_result={"rewards": {"reward": 0}}, exception_info=late),
        trial("b", 1, verifier_result=None, exception_info=gone, reward_valid=False),
    ]
    job = tmp_path / "job"
    for value in trials:
        write_lines(job / value["trial_name"] / "result.json", [value])
    write_lines(job / "result.json", [{"n_total_trials": 3, "stats": {}}])
    rows = imported(tmp_path, "harbor", job)
    found = [(row.instance, row.score, row.error_class) for row in rows]
    assert found == list(map(tuple, cases(__file__, "trials")))
    assert {row.model for row in rows} == {"nova by terminus"}


# -- lines of JSON


def test_lines_of_json_are_rows(tmp_path: Path) -> None:
    lines: list[Mapping[str, Any]] = cases(__file__, "lines")
    rows = imported(tmp_path, "jsonl", write_lines(tmp_path / "log.jsonl", lines))
    assert [(row.instance, row.score, row.replicate) for row in rows] == list(
        map(tuple, cases(__file__, "rows"))
    )


# -- bad input


@pytest.mark.parametrize(
    ("kind", "name", "text", "why"),
    [
        *cases(__file__, "bad_logs"),
        *(
            ("eee", "log.jsonl", json.dumps(eee_row(0, **changes)), why)
            for changes, why in cases(__file__, "bad_eee")
        ),
        *(
            ("harbor", "result.json", json.dumps(trial("a", 1, **changes)), why)
            for changes, why in cases(__file__, "bad_trials")
        ),
        ("eee", "log.jsonl", b"\xed\xa0\xbd", "not a line of JSON in UTF-8"),
    ],
)
def test_a_bad_log_is_one_line_and_writes_nothing(
    tmp_path: Path, kind: str, name: str, text: str | bytes, why: str
) -> None:
    (path := tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    code, _, error = run(kind, path, "--arm", "public", "--out", tmp_path / "rows.parquet")
    assert (code, error.count("\n")) == (2, 1), error
    assert why in error
    assert not (tmp_path / "rows.parquet").exists()
