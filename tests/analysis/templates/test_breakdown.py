"""Answers broken down: what the paper's tables say, from answers, without a table by hand."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import replace

import pytest

from analysis.csv_text import table_csv
from analysis.data.table import make_table
from analysis.errors import AnalysisError
from analysis.plan.look import analyse
from analysis.report.html import render_html
from analysis.report.report import ReportRequest, build_report, report_json
from analysis.report.write import write_report
from analysis.templates.breakdown import (
    AnswerRow,
    Answers,
    QuestionFacts,
    break_down,
    failure_modes,
    weakness_pattern,
)
from analysis.templates.breakdown_tables import make_tables, write_tables
from analysis.templates.part import templates_part
from tests.cases import cases

GROUP = "301+302+303+304"
FORMATS = {
    "301": QuestionFacts("301", "readfile_jsonmatch", "file", "json", GROUP),
    "302": QuestionFacts("302", "readfile_stringmatch", "file", "string", GROUP),
    "303": QuestionFacts("303", "jsonmatch", "direct", "json", GROUP),
    "304": QuestionFacts("304", "stringmatch", "direct", "string", GROUP),
}

# The paper's Tables 7 (right of 20, by format), 8 (%) and 6 (overall).
PAPER = cases(__file__, "paper")


def paper_answers():
    return Answers(
        tuple(
            AnswerRow(
                model, question, sample, sample < right, sample < right, rounds=2 + sample % 3
            )
            for model, counts, _, _ in PAPER
            for question, right in zip(FORMATS, counts, strict=True)
            for sample in range(20)
        ),
        FORMATS,
    )


@pytest.fixture(scope="module")
def paper():
    return break_down(paper_answers())


@pytest.mark.parametrize(("model", "counts", "percent", "pattern"), PAPER)
def test_table_8_of_the_paper_follows_from_its_table_7(paper, model, counts, percent, pattern):
    (row,) = (each for each in paper.failure_modes if each.subject.model == model)
    assert [rate.right for _, rate in row.formats] == list(counts)
    assert [name for name, _ in row.formats] == [
        "File + JSON", "File + String", "JSON Only", "String Only",
    ]  # fmt: skip
    averages = [100 * rate.mean for rate in (row.file, row.direct, row.overall)]
    assert averages == pytest.approx(percent, abs=0.0501)  # the paper has one decimal
    assert row.pattern == pattern


def test_the_pattern_follows_from_the_papers_own_averages():
    for _, _, (file, direct, _), pattern in PAPER:
        assert weakness_pattern(file / 100, direct / 100) == pattern


@pytest.mark.parametrize(("file", "direct", "pattern"), cases(__file__, "edges"))
def test_the_rule_of_the_pattern_at_its_edges(file, direct, pattern):
    assert weakness_pattern(file, direct) == pattern


def test_a_pattern_says_whether_chance_could_be_it(paper):
    clear = {row.subject.model: row.clear for row in paper.failure_modes}
    assert clear["Amazon Nova Premier"] is True
    assert clear["Llama4 Scout"] is False


def test_a_format_that_was_not_asked_leaves_its_average_empty():
    kept = tuple(row for row in paper_answers().rows if row.question != "304")
    row = break_down(Answers(kept, FORMATS)).failure_modes[0]
    assert row.file.mean == 1
    assert (row.direct.mean, row.overall.mean, row.gap) == (None, None, None)
    assert row.pattern == "Not known"


def test_who_answered_none_of_a_group_has_no_row():
    assert failure_modes(break_down(paper_answers()).overall[0].subject, {}, FORMATS) == []


def test_table_6_of_the_paper(paper):
    found = {row.subject.model: (row.strict.right, row.strict.answers) for row in paper.overall}
    assert found == {model: (sum(counts), 80) for model, counts, _, _ in PAPER}


def test_wrong_answers_fall_into_formatting_task_none_and_not_known():
    asked = AnswerRow("m", "303", 0, False, None)
    rows = (
        replace(asked, instance=1, strict=True, lenient=True),
        replace(asked, instance=2, lenient=True),
        replace(asked, instance=3, lenient=True),
        replace(asked, instance=4, lenient=False),
        replace(asked, instance=5, lenient=None),
        replace(asked, instance=6, lenient=False, answered=False),
        replace(asked, instance=7, strict=None),
    )
    (row,) = break_down(Answers(rows, FORMATS)).questions
    assert (row.formatting, row.task, row.unanswered, row.undetermined) == (2, 1, 1, 1)
    assert (row.strict.right, row.strict.answers, row.strict.missing) == (1, 6, 1)
    assert (row.lenient.right, row.lenient.answers, row.lenient.missing) == (3, 5, 2)


def test_a_missing_verdict_moves_no_average():
    full = paper_answers()
    more = replace(full.rows[0], instance="lost", strict=None, lenient=None, rounds=None)
    rates = {}
    for name, rows in (("before", full.rows), ("after", (*full.rows, more))):
        found = break_down(Answers(rows, FORMATS)).overall
        (rates[name],) = (row.strict for row in found if row.subject.model == more.model)
    assert rates["after"] == replace(rates["before"], missing=1)


def test_rounds_have_average_extremes_and_mode():
    rounds = [5, 3, 5, 4, 3, 0, None]  # 0: the server failed at once; it is a number
    rows = tuple(AnswerRow("m", "301", i, True, True, r) for i, r in enumerate(rounds))
    (row,) = break_down(Answers(rows, FORMATS)).rounds
    assert row.average == pytest.approx(20 / 6)
    assert (row.most, row.least, row.mode) == (5, 0, 3)  # 3 and 5 are as frequent
    assert (row.answers, row.missing) == (6, 1)
    low, high = row.interval
    assert (low + high) / 2 == pytest.approx(row.average)
    assert high - row.average == pytest.approx(2.5705818 * 1.8618987 / 6**0.5, rel=1e-6)  # t, s


def test_the_rounds_of_one_instance_count_as_one():
    rows = [AnswerRow("m", "301", i, True, True, r) for i, r in enumerate((4, 6, 5, 9))]
    twice = [replace(row, replicate=k) for row in rows for k in (0, 1)]
    once, again = (break_down(Answers(tuple(r), FORMATS)).rounds[0] for r in (rows, twice))
    assert again.interval == pytest.approx(once.interval)


def test_scoring_types_add_up_their_questions(paper):
    rows = [row for row in paper.scoring_types if row.subject.model == "Qwen3-Plus-latest"]
    assert {row.name: row.strict.right for row in rows} == {
        "jsonmatch": 13, "readfile_jsonmatch": 20, "readfile_stringmatch": 20, "stringmatch": 17,
    }  # fmt: skip


def test_the_order_of_answers_makes_no_difference():
    rows = list(paper_answers().rows)
    random.Random(4).shuffle(rows)
    first = make_tables(paper_answers(), "seed", of_study=False)
    assert make_tables(Answers(tuple(rows), FORMATS), "seed", of_study=False).tables == first.tables


def test_waves_and_arms_are_kept_apart():
    row = AnswerRow("m", "301", 1, True, True, wave=0, arm="public")
    rows = (row, replace(row, arm="private", instance=2, strict=False), replace(row, wave=1))
    found = break_down(Answers(rows, FORMATS)).overall
    assert [(*each.subject[:2], each.strict.mean) for each in found] == [
        (0, "private", 0.0), (0, "public", 1.0), (1, "public", 1.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((AnswerRow("m", "999", 1, True, True),), "'999', of which nothing is known; known: 301"),
        ((AnswerRow("m", "301", 1, True, True),) * 2, "question '301': two answers of model 'm'"),
    ],
)
def test_a_table_that_does_not_hold_is_refused(rows, said):
    with pytest.raises(AnalysisError, match=said):
        Answers(rows, FORMATS)


def test_tables_are_written_as_csv(tmp_path):
    (tmp_path / "failure_modes.csv").write_text("of a report before")
    alone = {"301": replace(FORMATS["301"], group="")}
    rows = tuple(AnswerRow('a, "b"', "301", i, i > 0, i > 0, None) for i in range(5))
    written = write_tables(tmp_path, make_tables(Answers(rows, alone), "seed", of_study=False))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(p.name for p in written)
    assert [path.name for path in written] == [
        "overall.csv", "questions.csv", "scoring_types.csv", "progressive.csv", "sample_sizes.csv",
    ]  # fmt: skip
    with open(tmp_path / "overall.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["model"] == 'a, "b"'
    assert (row["accuracy"], row["accuracy_low"], row["accuracy_high"]) == (
        "0.8", "0.375535", "0.963776",
    )  # fmt: skip
    assert "wave" not in row


def test_what_is_not_known_is_empty_and_not_0():
    rows = (AnswerRow("m", "301", 1, None, None, None),)
    tables = make_tables(Answers(rows, FORMATS), "seed", of_study=True).tables
    assert tables["overall"][0]["accuracy"] is None
    assert table_csv(tables["overall"]).splitlines()[1] == "0,,m,0,1,0,0,,,,0,0,,,,0,0,0,0"
    assert tables["sample_sizes"] == tables["rounds"] == ()


@pytest.fixture(scope="module")
def templated():
    rows = tuple(
        replace(row, wave=wave, arm=arm, instance=(arm, row.instance), model=f"<{row.model}>")
        for row in paper_answers().rows
        for wave, arm in ((0, "public"), (1, "private"))
    )
    return make_tables(Answers(rows, FORMATS), "seed", of_study=True)


@pytest.fixture(scope="module")
def report(records, study_rows, templated):
    table = make_table(study_rows)
    report = build_report(
        ReportRequest(
            registered=records.registered,
            sealed=records.sealed,
            runs=records.runs,
            table=table,
            analysis=analyse(records.plan, table, records.registration),
            issued="2026-01-02T03:04:05Z",
        )
    )
    return replace(report, parts=(templates_part(templated),))


def test_the_studys_report_has_a_section_on_templated_tasks(report, tmp_path):
    page = write_report(tmp_path, report)[0].read_text("utf-8")
    assert '<h2 id="templated">Templated tasks</h2>' in page
    assert "Both, or Task" in page
    assert "&lt;Mistral Large 2&gt;" in page
    assert "<Mistral" not in page


def test_a_study_without_templates_says_nothing_of_them(report):
    plain = replace(report, parts=())
    assert "Templated tasks" not in render_html(plain)
    assert "templates" not in report_json(plain)


def test_the_reports_json_and_csv_hold_the_tables(report, tmp_path):
    _, data = write_report(tmp_path, report)
    tables = json.loads(data.read_text())["templates"]
    assert list(tables) == [
        "overall", "questions", "scoring_types", "rounds", "failure_modes", "progressive",
        "sample_sizes",
    ]  # fmt: skip
    assert {row["weakness_pattern"] for row in tables["failure_modes"]} == {
        pattern for *_, pattern in PAPER
    }
    for name, rows in tables.items():
        with open(tmp_path / "templates" / f"{name}.csv", newline="") as file:
            held = list(csv.DictReader(file))
        assert len(held) == len(rows)
        assert list(held[0]) == list(rows[0])
        assert (held[0]["arm"], held[0]["wave"]) == ("public", "0")


def test_a_text_that_a_spreadsheet_would_run_is_escaped_and_numbers_stay() -> None:
    rows = [{"a": text, "b": -1.5} for text in ("=1+1", "+1", "-x", "@x", "\tx", "\rx", "x=1", "")]
    read = list(csv.DictReader(io.StringIO(table_csv(rows), newline="")))
    assert [row["a"] for row in read] == [
        "'=1+1", "'+1", "'-x", "'@x", "'\tx", "'\nx", "x=1", "",
    ]  # fmt: skip
    assert {row["b"] for row in read} == {"-1.5"}
