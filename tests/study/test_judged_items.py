"""Questions that only a reader can score: from the file to verdicts on a judge's scores."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.report.report import report_json
from generators.seed import Seed
from publish.leakcheck.check import find_leaks, release_needles
from registry.provenance import utc_now
from registry.result_row import GRADER, Arm
from study.extras.power.planning import rows_of
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.report.look import build_look, graded_table
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, completion, serve
from tests.study.cli.program import run_in as run
from tests.study.conftest import draw_tiny, run_wave

NUMBERS = range(1000, 1024)
STUDY, REFUSED = cases(__file__, "study"), cases(__file__, "refused")


def question(number: int) -> str:
    return f"Why did bridge {number * 7919:08d} fall?"


def rubric(number: int) -> str:
    return (
        f"It blames the flood of {number * 104729:09d}, in any words, and no engineer of that year."
    )


def judge(study: Study, *arguments: str) -> None:
    result = run(study, "judge", *arguments, "--allow-unknown-price")
    assert result.exit_code == 0, result.output


def answer(request: Json, known: set[str]) -> Answer:
    """A third of the questions is known to every model, and what was published to the new one; the
    judge finds the reference in the answer, in whatever case."""
    text = request["messages"][1]["content"]
    if request["model"] == "reader":
        given = re.search(r"\n<<<answer \w+>>>\n(.*)\n<<<end of", text, re.S)[1]
        asked = text[text.index("<<<end of answer") :]
        wanted = re.search(r'reference answer: "(.*?)"|is right: (\d+)', asked)
        blocks = re.findall(r'{"answer": (.*?)}', given)
        met = wanted[1].upper() in given if wanted[1] else blocks[-1:] == [wanted[2]]
        return completion(json.dumps({"verdicts": [{"id": "c1", "met": met}]}))
    number = int(re.search(r"bridge (\d+)", text)[1]) // 7919
    knows = number % 3 == 0 or (request["model"] == "new" and question(number) in known)
    cause = f"FLOOD {number}" if knows else "fatigue"
    return completion(f'<answer>\n{{"answer": "A {cause}."}}\n</answer>')


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A study with two closed waves and its release."""
    folder, known = tmp_path_factory.mktemp("judged") / "study", set[str]()
    with serve(always=lambda request: answer(request, known)) as served:
        init_study(folder, STUDY.replace("http://127.0.0.1:1", served.url))
        with (folder / "questions.csv").open("w", encoding="utf-8", newline="") as file:
            rows = [(question(n), f"Flood {n}", rubric(n)) for n in NUMBERS]
            csv.writer(file).writerows([("question", "key", "rubric"), *rows])
        study = pipeline.open_study(folder)
        draw_tiny(study)
        pipeline.register(study)
        run_wave(study, 0, parallel=4)
        pipeline.publish(study, None, lambda *step: None)
        known |= {question(n) for n in numbers(study, Arm.PUBLIC)}
        run_wave(study, 1, parallel=4)
        yield study


def numbers(study: Study, arm: Arm) -> set[int]:
    """The numbers of an arm's questions."""
    entries = [entry for entry in study.entries() if entry.arm is arm]
    items = b"".join(Seed.from_hex(entry.seed).item for entry in entries).decode()
    return {n for n in NUMBERS if question(n) in items}


def test_verdicts_rest_on_the_grades_of_a_judge_that_was_measured(swept: Study) -> None:
    refused = run(swept, "report")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "`dosimeter judge grade --judge reader --wave 0` makes them" in refused.stderr
    judge(swept, "grade", "--judge", "reader")
    notes = []
    for step in (("grade", "--judge", "reader", "--again-at", "1"), ("check", "reader")):
        (verdict,) = build_look(take_snapshot(swept), None, utc_now()).report.verdicts
        notes.append(verdict.note)
        judge(swept, *step)
    report, _ = pipeline.report(swept)
    assert "reader has not graded the answers of wave 0 again" in notes[0]
    assert "C3 (measured on answer sheets): reader: it was not measured" in notes[1]
    assert [verdict.verdict for verdict in report.verdicts] == ["contaminated"]
    assert report.exploratory == ()
    assert "grades of reader, an LLM judge" in " ".join(report.limits)
    (column,) = report_json(report)["judges"]
    assert [gap["exact"] for gap in column["gaps"]] == [None, None]
    assert "holds" in run(swept, "verify").stdout

    table = graded_table(take_snapshot(swept), take_snapshot(swept).closed_waves)
    scored = table.where(table["grader"] == GRADER)
    assert len(scored) == 2 * len(NUMBERS)
    assert 0 < scored["score"].mean() < 1
    assert rows_of(swept.folder, None)[1] == str(swept.folder)


def test_the_leak_check_finds_the_rubric_of_a_private_question(
    swept: Study, tmp_path: Path
) -> None:
    needles = release_needles(swept.entries(), swept.protocol.catalog.family)
    for arm, files in ((Arm.PUBLIC, set()), (Arm.PRIVATE, {"note.md"})):
        (tmp_path / "note.md").write_text(f"as in {rubric(min(numbers(swept, arm)))} so")
        assert {leak.file for leak in find_leaks(tmp_path, needles)} == files


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_a_judge_that_scores_is_refused_with_its_line(
    name: str, tmp_path: Path
) -> None:
    text, other, line, message = REFUSED[name]
    (tmp_path / "study.yaml").write_text(STUDY.replace(text, other))
    refused = CliRunner().invoke(main, ["lint", str(tmp_path)])
    assert (refused.exit_code, f"study.yaml:{line}: " in refused.stdout) == (2, True)
    assert message in " ".join(refused.stdout.split())


def test_a_pilot_has_no_judge(swept: Study) -> None:
    refused = run(swept, "pilot")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "a pilot has no judge, which items/questions need" in refused.stderr
