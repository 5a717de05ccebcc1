"""A study whose judge fails, in small, without Ray."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analysis.judge.error_rates import shortfall
from analysis.report.report import report_json
from registry.provenance import utc_now
from registry.verify.verify import verify_study
from study.errors import StudyError
from study.extras.judge.check import check_judge
from study.extras.judge.grade import GradeRequest, grade_study
from study.extras.judge.records import judge_pin, rates_of
from study.protocol.protocol import read_protocol
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.report.look import build_look
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests.cases import cases
from tests.study.conftest import draw_tiny, run_wave

PROTOCOL = cases(__file__, "protocol")
JUDGE = cases(__file__, "judge")


def _check(study: Study) -> str:
    """Measure the judge; return what it misses of the plan's minima."""
    pin = judge_pin(study, "careless")
    check_judge(study, pin.name, lambda *step: None, utc_now)
    (rule,) = study.protocol.registered_plan().judges
    return shortfall(rule, rates_of(study, pin))


def _grade(study: Study, wave: int) -> None:
    """Have the judge grade a wave; at a later one's look, the first one's answers again."""
    requests = [GradeRequest(("careless",), wave)]
    requests += [GradeRequest(("careless",), again_at=wave)] if wave else []
    for request in requests:
        grade_study(study, request, lambda *step: None, utc_now)


@pytest.mark.slow
def test_a_judge_that_fails_its_controls_withholds_what_the_exact_grader_says(
    tmp_path: Path,
) -> None:
    init_study(tmp_path / "study", PROTOCOL + JUDGE)
    study = pipeline.open_study(tmp_path / "study")
    draw_tiny(study)
    pipeline.register(study)
    run_wave(study, 0)
    missed = _check(study)
    _grade(study, 0)
    pipeline.publish(study, None, lambda *step: None)
    run_wave(study, 1)
    _grade(study, 1)
    assert re.fullmatch(r"specificity 0\.[5-8]\d+, the plan asks for 0\.9 or more", missed)

    report = build_look(take_snapshot(study), None, utc_now()).report
    (verdict,) = report.verdicts
    assert verdict.verdict == "withheld"
    assert "C3 (answers graded again): careless graded 16 answers of wave 0" in verdict.note
    assert "the change is not alike in the arms" in " ".join(report.deviations)
    (judge,) = report_json(report)["judges"]
    assert judge["withheld"] == missed
    whole = judge["drift"][0]
    assert (whole["model"], whole["wave"]) == (None, 1)
    assert whole["private"] == 0 < whole["public"]

    found = verify_study(study.store, study.identities())
    assert found.holds, found.problems
    counts = dict(found.counts)
    assert counts["checks of judges"] == counts["waves graded again by judges"] == 1
    assert counts["waves graded by judges"] == 2
    head = study.ledger.entries()[-1].digest
    _grade(study, 1)
    assert study.ledger.entries()[-1].digest == head, "nothing is done twice"


def test_the_judge_is_no_model(tmp_path: Path) -> None:
    text = PROTOCOL.replace("agent: honest, error_rate: 0.2", "agent: careless, error_rate: 0.2")
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(StudyError, match=r"study.yaml:9: .*'spiked' or 'trivial' is right"):
        read_protocol(tmp_path)
