"""The calibration of a demonstration."""

from __future__ import annotations

from registry.provenance import utc_now
from study.extras.calibrate.from_scores import CalibrateRequest, calibrate_study, record_calibration
from study.workspace.study import Study

_GROUND = "before-4"  # the clean agent with most to gain by knowing


def after_demo_wave(study: Study, wave: int) -> None:
    """Record the size of leak that the first wave's scores would show, before any release."""
    if not wave:
        made = calibrate_study(study, CalibrateRequest(wave=0, model=_GROUND))
        record_calibration(study, made, utc_now())
