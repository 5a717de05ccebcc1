"""Calibrations in a look at the data."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.calibrate.calibration import RecordedCalibration
from analysis.calibrate.part import calibration_part
from analysis.report.part import Part
from study.extras.calibrate.from_scores import calibrations_of
from study.steps.report.contributors import LookContext, LookScope, LookShare


class CalibrationShare(LookShare):
    """The share of calibrations: those of the ledger, which the look's record names."""

    def __init__(self, scope: LookScope) -> None:
        super().__init__(scope)
        self.shown: tuple[RecordedCalibration, ...] = ()

    def results(self, registration: str) -> Sequence[str]:
        """Return the digests of the calibrations that are shown."""
        self.shown = calibrations_of(self.scope.study, registration, self.scope.numbers[-1])
        return [made.result for made in self.shown]

    def parts(self, look: LookContext) -> Sequence[Part]:
        """Return the part with the calibrations."""
        return (calibration_part(self.shown),)


look = CalibrationShare
