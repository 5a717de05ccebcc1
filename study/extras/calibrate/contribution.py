"""A calibration in a look at the data."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.calibrate.calibration import RecordedCalibration
from analysis.calibrate.part import calibration_part
from analysis.report.part import Part
from study.extras.calibrate.from_scores import calibration_of
from study.steps.report.contributors import LookContext, LookScope, LookShare


class CalibrationShare(LookShare):
    """The share of a calibration: that of the ledger, which the look's record names."""

    def __init__(self, scope: LookScope) -> None:
        super().__init__(scope)
        self.shown: RecordedCalibration | None = None

    def results(self, registration: str) -> Sequence[str]:
        """Return the digest of the calibration that is shown."""
        self.shown = calibration_of(self.scope.study, registration, self.scope.numbers[-1])
        return [] if self.shown is None else [self.shown.result]

    def parts(self, look: LookContext) -> Sequence[Part]:
        """Return the part with the calibration."""
        return (calibration_part(self.shown),)


look = CalibrationShare
