"""A study whose judge fails, in small: what `demo --judge careless` shows, without Ray."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pytest

from analysis.report.report import report_json
from registry.provenance import utc_now
from registry.verify.verify import verify_study
from study.errors import StudyError
from study.extras.judge.demo import after_demo_wave
from study.protocol.protocol import read_protocol
from study.steps import pipeline
from study.steps.demo.demo import Display, with_judge
from study.steps.init.folder import init_study
from study.steps.report.look import build_look
from study.workspace.snapshot import take_snapshot
from tests.study.conftest import draw_tiny, run_wave

PROTOCOL = """\
study: judged
description: >-
  An honest agent, before and after, and
  one that remembers all of it.

tasks: [compute_average/easy]
seeds_per_arm: 8
models:
  before: {provider: scripted, agent: honest, error_rate: 0.2, released: 2024-01-01}
  after: {provider: scripted, agent: honest, error_rate: 0.2, released: 2027-01-01}

waves:
  - [before]
  - [after]
plan:
  preset: standard-v1
  permutations: 999
  controls: {pre_exposure: [before], margin: 0.6}
sandbox: {kind: local}
entropy: "fixed:0000000000000000000000000000000000000000000000000000000000000bed"
"""


def _display(lines: list[str]) -> Display:
    @contextmanager
    def unwatched(step: str) -> Iterator[Callable[..., None]]:
        yield lambda *progress: None

    return Display(lines.append, unwatched, unwatched)


@pytest.mark.slow
def test_a_judge_that_fails_its_controls_withholds_what_the_exact_grader_says(
    tmp_path: Path,
) -> None:
    init_study(tmp_path / "study", with_judge(PROTOCOL, "careless"))
    study = pipeline.open_study(tmp_path / "study")
    said: list[str] = []
    draw_tiny(study)
    pipeline.register(study)
    run_wave(study, 0)
    after_demo_wave(study, 0, _display(said))
    pipeline.publish(study, None, lambda *step: None)
    run_wave(study, 1)
    after_demo_wave(study, 1, _display(said))
    assert re.fullmatch(
        r"judge careless: specificity 0\.[5-8]\d+, the plan asks for 0\.9 or more", said[0]
    )

    report = build_look(take_snapshot(study), None, utc_now()).report
    (verdict,) = report.verdicts
    assert verdict.verdict == "withheld"
    assert "C3 (answers graded again): careless graded 16 answers of wave 0" in verdict.note
    assert "the change is not alike in the arms" in " ".join(report.deviations)
    (judge,) = report_json(report)["judges"]
    assert judge["withheld"] == said[0].removeprefix("judge careless: ")
    whole = judge["drift"][0]
    assert (whole["model"], whole["wave"]) == (None, 1)
    assert whole["private"] == 0 < whole["public"]

    found = verify_study(study.store, study.identities())
    assert found.holds, found.problems
    counts = dict(found.counts)
    assert counts["checks of judges"] == counts["waves graded again by judges"] == 1
    assert counts["waves graded by judges"] == 2
    head = study.ledger.entries()[-1].digest
    after_demo_wave(study, 1, _display(said))
    assert study.ledger.entries()[-1].digest == head, "nothing is done twice"


def test_the_demos_study_is_the_same_but_for_the_judge(tmp_path: Path) -> None:
    text = (files("study.steps.demo") / "demo.yaml").read_text(encoding="utf-8")
    for name, own in (("plain", text), ("judged", with_judge(text, "careless"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.yaml").write_text(own, encoding="utf-8")
    plain, judged = read_protocol(tmp_path / "plain"), read_protocol(tmp_path / "judged")
    assert (plain.judges, plain.plan.second_grader) == ((), None)
    assert [pin.version for pin in judged.judges] == ["careless/1"]
    assert judged.plan.second_grader == "careless"
    assert judged.registered_plan().judges[0].min_specificity == 0.9
    assert judged.description.startswith(plain.description)
    for same in ("models", "waves", "tasks", "seeds_per_arm", "entropy", "facts"):
        assert getattr(plain, same) == getattr(judged, same)


def test_the_judge_is_no_model(tmp_path: Path) -> None:
    text = PROTOCOL.replace("agent: honest, error_rate: 0.2", "agent: careless, error_rate: 0.2")
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(StudyError, match=r"study.yaml:9: .*'spiked' or 'trivial' is right"):
        read_protocol(tmp_path)
