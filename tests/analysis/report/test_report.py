"""The report says what was found, holds no single instance, and loads nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from analysis.data.table import make_table
from analysis.plan.look import analyse, explore
from analysis.plan.verdict import Rule, decide_nothing
from analysis.report.html import render_html
from analysis.report.part import Part
from analysis.report.report import ReportRequest, build_report, report_json
from tests.cases import cases

pytestmark = pytest.mark.filterwarnings("error")

ISSUED = "2026-01-02T03:04:05Z"
SCHEMA = cases(__file__, "schema")


def make_report(records, rows, **changes):
    table = make_table(rows)
    given = {
        "registered": records.registered,
        "sealed": records.sealed,
        "runs": records.runs,
        "table": table,
        "analysis": analyse(records.plan, table, records.registration),
        "issued": ISSUED,
    }
    return build_report(ReportRequest(**(given | changes)))


@pytest.fixture(scope="module")
def report(records, study_rows):
    table = make_table(study_rows)
    other = explore(records.plan, table, records.registration, "score alone", outcomes=("score",))
    part = Part(name="other", title="Other", after="effort", exploratory=other.verdicts)
    return make_report(records, study_rows, parts=[part])


@pytest.fixture(scope="module")
def html(report):
    return render_html(report)


def test_json_has_the_promised_shape(report):
    body = json.loads(json.dumps(report_json(report), allow_nan=False))
    jsonschema.validate(body, SCHEMA)
    assert [(m["wave"], m["model"]) for m in body["models"]] == [
        (0, "honest-a"), (0, "honest-b"), (1, "honest-a"), (1, "spiked"),
    ]  # fmt: skip
    spiked = body["models"][-1]
    assert spiked["verdict"] == "contaminated"
    assert spiked["interval"][0] < spiked["estimate"] < spiked["interval"][1]
    assert body["deviations"] == []


def test_exploratory_results_stand_apart_and_say_so(report, html):
    body = report_json(report)
    assert len(body["models"]) == 4
    assert {m["hypothesis"] for m in body["exploratory"]} == {"score alone"}
    assert all(m["exploratory"] for m in body["exploratory"])
    assert html.count("score alone (exploratory)") == 4


def test_the_funnel_adds_up(report):
    for row in report_json(report)["episodes"]:
        assert row["owed"] == 48
        assert row["scored"] + row["model_failure"] + row["missing"] + row["absent"] == 48


def test_no_instance_of_either_arm_is_in_the_report(report, html, study_rows):
    text = html + json.dumps(report_json(report))
    for instance in {r.instance for r in study_rows}:
        assert instance not in text
        assert instance.removeprefix("sha256:")[:12] not in text


def test_deviations_are_shown(records, study_rows):
    demo = make_report(records, study_rows, sealed=replace(records.sealed, entropy="fixed"))
    assert "drawn from fixed entropy" in demo.deviations[0]
    assert "this is a demonstration, not evidence" in render_html(demo)
    runs = [replace(run, plan="sha256:other") for run in records.runs]
    assert "under another registration" in make_report(records, study_rows, runs=runs).deviations[0]
    other = analyse(replace(records.plan, margin=0.2), make_table(study_rows), records.registration)
    found = make_report(records, study_rows, analysis=other).deviations
    assert found == ("The plan that was run is not the plan that was registered.",)


def test_names_are_escaped(records, study_rows):
    evil = "<script>alert('$x_1$')</script>&"
    rows = [replace(r, model=evil if r.model == "spiked" else r.model) for r in study_rows]
    text = render_html(make_report(records, rows))
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_an_untestable_model_is_reported(records, study_rows, report):
    odd = decide_nothing("honest-a", 0, (0, 24), Rule(0.0125, 0.05))
    assert "Not testable: no scored seed" in render_html(
        replace(report, verdicts=(odd, *report.verdicts[1:]))
    )
