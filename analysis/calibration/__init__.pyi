from .calibrate import (
    DOSES,
    REPLICATES,
    WANTED,
    Calibration,
    CleanScores,
    DoseTrials,
    calibrate,
    calibration_json,
    check_doses,
    detection,
    measure,
)
from .records import RESAMPLED, RUN, RecordedCalibration, read_calibration

__all__ = [
    "DOSES",
    "REPLICATES",
    "RESAMPLED",
    "RUN",
    "WANTED",
    "Calibration",
    "CleanScores",
    "DoseTrials",
    "RecordedCalibration",
    "calibrate",
    "calibration_json",
    "check_doses",
    "detection",
    "measure",
    "read_calibration",
]
