from .from_agents import RunRequest, plan_run, run_calibration
from .from_scores import (
    FOLDER,
    Calibrated,
    CalibrateRequest,
    as_kept,
    calibrate_study,
    calibrations_of,
    record_calibration,
    write_calibration,
)

__all__ = [
    "FOLDER",
    "CalibrateRequest",
    "Calibrated",
    "RunRequest",
    "as_kept",
    "calibrate_study",
    "calibrations_of",
    "plan_run",
    "record_calibration",
    "run_calibration",
    "write_calibration",
]
