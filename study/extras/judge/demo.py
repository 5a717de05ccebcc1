"""The judge of a demonstration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.judge.error_rates import shortfall
from registry.ledger.records import JudgePin
from registry.provenance import utc_now
from study.extras.judge.check import CheckRequest, check_judge
from study.extras.judge.grade import GradeRequest, grade_study
from study.extras.judge.records import rates_of
from study.steps.demo.demo import Display
from study.workspace.study import Study

if TYPE_CHECKING:
    pass


def after_demo_wave(study: Study, wave: int, display: Display) -> None:
    """Have the study's judges, if it has any, grade a wave: measured before the first, and at a
    later one's look asked once more about the first wave's answers."""
    for pin in study.protocol.judges:
        if wave == 0:
            _measure(study, pin, display)
        _grade(study, GradeRequest((pin.name,), wave), display)
        if wave:
            _grade(study, GradeRequest((pin.name,), again_at=wave), display)
        again = ", and the answers of wave 0 again" if wave else ""
        display.line(f"judge {pin.name}: has graded wave {wave}{again}")


def _grade(study: Study, request: GradeRequest, display: Display) -> None:
    with display.progress("grading") as watch:
        grade_study(study, request, watch, utc_now)


def _measure(study: Study, pin: JudgePin, display: Display) -> None:
    if rates_of(study, pin) is None:
        with display.progress("checking the judge") as watch:
            check_judge(study, CheckRequest(pin.name), watch, utc_now)
    rates = rates_of(study, pin)
    missed = [
        shortfall(rule, rates)
        for rule in study.protocol.registered_plan().judges
        if rule.name == pin.name
    ]
    display.line(
        f"judge {pin.name}: {'; '.join(filter(None, missed)) or 'as good as the plan asks'}"
    )
