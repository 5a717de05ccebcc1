from .calibrate import (
    DOSES,
    REPLICATES,
    WANTED,
    Calibration,
    Ground,
    Trials,
    calibrate,
    calibration_json,
    check_doses,
    detection,
    measure,
)
from .records import RESAMPLED, RUN, KeptCalibration, read_calibrated

__all__ = [
    "DOSES",
    "REPLICATES",
    "RESAMPLED",
    "RUN",
    "WANTED",
    "Calibration",
    "Ground",
    "KeptCalibration",
    "Trials",
    "calibrate",
    "calibration_json",
    "check_doses",
    "detection",
    "measure",
    "read_calibrated",
]
