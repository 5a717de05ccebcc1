"""``dosimeter template report``: run folders broken down; and a study's templated strata."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.templates.breakdown import break_down
from generators.templates.family import template_family
from generators.templates.language.parse import parse_template
from registry.result_row import Arm, ResultRow, Status
from study.extras.templates import answers as extra
from study.extras.templates.prepare import prepare_template
from study.main import main
from study.protocol.protocol import read_protocol
from study.protocol.yaml import read_template
from tests.cases import cases

GROUP = "301+302+303+304"
SAMPLES = 6


def library(name):
    return template_family(*read_template(Path(), name)).file


def answer_all(run: Path, spoil=lambda record: None, drop=()) -> None:
    """Answer each sample of a prepared folder: rightly, or as ``spoil`` would have it."""
    records = [json.loads(line) for line in (run / "precheck.jsonl").read_text().splitlines()]
    (run / "conversations").mkdir()
    with open(run / "responses.jsonl", "w") as file:
        for record in records:
            name = f"q{record['question_id']}_s{record['sample_number']}"
            if name in drop:
                continue
            right = record.get("expected_response") or record.get("expected_content")
            said = spoil(record) or right
            if "file_to_read" in record:
                (run / "sandbox" / name / record["file_to_read"]).write_text(said)
                said = "Done."
            row = {
                "question_id": record["question_id"],
                "sample_number": record["sample_number"],
                "response_text": said,
            }
            file.write(json.dumps(row) + "\n")
            talk = {"statistics": {"inference_rounds": 2 + record["sample_number"] % 3}}
            (run / "conversations" / f"{name}.json").write_text(json.dumps(talk))


def fenced(record):
    """JSON in a fence where only JSON is asked for; a wrong number in the last sample."""
    if record["scoring_type"] == "jsonmatch":
        return f"```json\n{record['expected_response']}\n```"
    return "-1" if record["question_id"] == 304 and record["sample_number"] == SAMPLES else None


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Two models asked the same: one that is always right, one that fences and leaves out."""
    folder = tmp_path_factory.mktemp("runs")
    prepare_template("formats", "11" * 32, folder / "good", SAMPLES, lambda *step: None)
    shutil.copytree(folder / "good", folder / "fences")
    answer_all(folder / "good")
    answer_all(folder / "fences", fenced, drop=("q304_s1",))
    return folder


@pytest.fixture(scope="module")
def made(runs, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "tables"
    return extra.report_runs([f"{runs}/good", f"{runs}/fences"], out), out


def table(out: Path, name: str) -> list[dict[str, str]]:
    with open(out / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_questions_of_one_task_are_found_from_the_template():
    facts = {each.question: each for each in extra.facts_of_template(library("formats"))}
    assert {(each.output, each.format) for each in facts.values()} == {
        ("file", "json"),
        ("file", "string"),
        ("direct", "json"),
        ("direct", "string"),
    }
    assert {each.group for each in facts.values()} == {GROUP}


def test_questions_of_other_tasks_are_in_no_group():
    facts = extra.facts_of_template(library("past"))
    assert len(facts) == 10
    assert {each.group for each in facts} == {""}


PAIR = cases(__file__, "pair")


@pytest.mark.parametrize(
    ("scoring", "call", "setup", "grouped"),
    cases(__file__, "tasks"),
    ids=["the same", "otherwise put", "another function", "one format", "another sandbox"],
)
def test_one_task_is_one_sandbox_and_the_same_functions(scoring, call, setup, grouped):
    text = PAIR.replace("SCORING", scoring).replace("CALL", call).replace("SETUP", setup)
    facts = extra.facts_of_template(parse_template(text, "pair.yml"))
    assert [each.group for each in facts] == (["a+b"] * 2 if grouped else ["", ""])


def test_a_precheck_says_what_its_template_says(runs):
    lines = (runs / "good" / "precheck.jsonl").read_text().splitlines()
    found = extra.facts_of_precheck(json.loads(line) for line in lines)
    assert found == extra.facts_of_template(library("formats"))


def test_who_is_always_right_has_no_weakness(made):
    (row,) = (r for r in table(made[1], "failure_modes") if r["model"] == "good")
    assert (row["group"], row["weakness_pattern"]) == (GROUP, "None")
    assert (row["file"], row["direct"], row["overall"]) == ("1.0", "1.0", "1.0")


def test_fences_are_a_weakness_in_direct_output(made):
    (row,) = (r for r in table(made[1], "failure_modes") if r["model"] == "fences")
    assert (row["json_only_right"], row["string_only_right"]) == ("0", "4")
    assert (row["file"], row["direct"], row["weakness_pattern"]) == (
        "1.0",
        "0.333333",
        "Direct Output",
    )
    assert row["gap_excludes_zero"] == "True"


def test_formatting_task_and_missing_responses_are_told_apart(made):
    (row,) = (r for r in table(made[1], "overall") if r["model"] == "fences")
    counts = [row[name] for name in ("formatting_failures", "task_failures", "unanswered")]
    assert counts == ["6", "1", "1"]
    assert (row["answers"], row["right"], row["lenient_right"]) == ("24", "16", "22")
    assert row["missing"] == "0"  # a response that is not there is wrong


def test_rounds_come_from_the_conversations(made):
    rows = {r["question"]: r for r in table(made[1], "rounds") if r["model"] == "fences"}
    assert [rows["301"][name] for name in ("average", "maximum", "minimum", "mode")] == [
        "3.0",
        "4",
        "2",
        "2",
    ]
    assert (rows["304"]["answers"], rows["304"]["missing"]) == ("5", "1")


def test_the_same_folders_give_the_same_bytes(runs, made, tmp_path):
    extra.report_runs([f"{runs}/good", f"{runs}/fences"], tmp_path)
    first = {path.name: path.read_bytes() for path in made[1].iterdir()}
    assert first == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(first) == 7


def test_a_second_run_of_a_model_adds_answers_and_no_samples(runs, tmp_path):
    twice = extra.report_runs([f"m={runs}/good", f"m={runs}/fences"], tmp_path)
    (row,) = twice.tables.breakdown.overall
    assert (row.strict.answers, row.strict.instances) == (48, 24)
    assert row.strict.effective < 48


def test_the_template_may_tell_what_the_precheck_does_not(runs, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(runs / "good", run)
    path = run / "precheck.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [{k: v for k, v in r.items() if "_before_" not in k} for r in records]
    path.write_text("".join(json.dumps(record) + "\n" for record in kept))
    untold = extra.report_runs([str(run)], tmp_path / "a")
    assert not untold.tables.breakdown.failure_modes
    assert "give the template with --template" in untold.warnings[0]
    told = extra.report_runs([str(run)], tmp_path / "b", templates=["formats"])
    assert [row.group for row in told.tables.breakdown.failure_modes] == [GROUP]
    assert not told.warnings


def test_a_run_of_some_questions_compares_when_the_template_is_told(runs, tmp_path):
    shutil.copytree(runs / "good", tmp_path / "some")
    path = tmp_path / "some" / "precheck.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[: 2 * SAMPLES]))
    folders = [f"{runs}/good", f"{tmp_path}/some"]
    found = extra.report_runs(folders, tmp_path / "out", templates=["formats"]).tables.breakdown
    assert [(row.subject.model, row.pattern) for row in found.failure_modes] == [
        ("good", "None"),
        ("some", "Not known"),
    ]


def test_the_command_prints_and_writes(runs, tmp_path):
    args = ["template", "report", f"{runs}/good", f"b={runs}/fences", "--out", str(tmp_path)]
    shown = CliRunner().invoke(main, args)
    assert shown.exit_code == 0, shown.output
    assert "Direct Output" in shown.output
    assert f"wrote {tmp_path}/failure_modes.csv" in shown.output
    assert "samples_for_width_0.2_cautious" in table(tmp_path, "sample_sizes")[0]
    body = json.loads(CliRunner().invoke(main, [*args, "--json"]).stdout)
    assert [row["model"] for row in body["overall"]] == ["b", "good"]
    assert len(body["questions"]) == 8


@pytest.mark.parametrize(
    ("args", "said"),
    cases(__file__, "refused"),
    ids=["one name", "no folder", "another template", "other questions"],
)
def test_what_cannot_be_compared_is_refused(runs, tmp_path, args, said):
    shutil.copytree(runs / "good", tmp_path / "good")
    shutil.copytree(runs / "good", tmp_path / "other")
    path = tmp_path / "other" / "precheck.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:SAMPLES]))  # one question, alone
    given = [arg.format(runs, tmp_path) for arg in args]
    out = tmp_path / "out"
    shown = CliRunner().invoke(main, ["template", "report", *given, "--out", str(out)])
    assert shown.exit_code == 2
    assert said in shown.stderr
    assert not out.exists()


STUDY = cases(__file__, "study")


def result(instance, **given) -> ResultRow:
    row = dict.fromkeys(ResultRow.__dataclass_fields__) | {
        "wave": 0,
        "model": "m",
        "arm": Arm.PRIVATE,
        "stratum": "formats/304",
        "family": "formats",
        "difficulty": "304",
        "instance": instance,
        "replicate": 0,
        "grader": "deterministic",
        "status": Status.SCORED,
        "score": 1.0,
        "turns": 3,
    }
    return ResultRow(**(row | given))


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.yaml").write_text(STUDY)
    return extra.facts_of_study(read_protocol(folder))


def test_a_study_knows_its_templated_strata(facts):
    assert list(facts) == ["formats/301", "formats/304"]
    assert {each.group for each in facts.values()} == {"formats/301+304"}


def test_the_rows_of_a_study_become_answers(facts):
    wrong = result("b", score=0.0)
    failed = result("c", score=0.0, status=Status.MODEL_FAILURE)
    lost = result("d", score=None, status=Status.MISSING, turns=0)
    rows = [
        result("a"),
        replace(result("a"), grader="lenient"),
        wrong,
        replace(wrong, grader="lenient", score=1.0),
        failed,
        replace(failed, grader="lenient", score=None),
        lost,
        replace(lost, grader="lenient"),
        result("a", grader="a judge", score=0.2),
        result("e", stratum="count_circles/easy", score=0.5),
    ]
    answers = extra.answers_of_rows(rows, facts)
    assert [(row.instance, row.strict, row.lenient, row.rounds) for row in answers.rows] == [
        ("a", True, True, 3),
        ("b", False, True, 3),
        ("c", False, False, 3),
        ("d", None, None, None),
    ]
    (row,) = break_down(answers).questions
    assert (row.formatting, row.task, row.unanswered, row.strict.missing) == (1, 0, 1, 1)
    assert row.subject == (0, "private", "m")
