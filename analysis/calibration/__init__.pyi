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
    one_model_studies,
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
    "one_model_studies",
    "read_calibration",
]
