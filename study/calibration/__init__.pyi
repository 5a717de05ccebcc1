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
from .from_training import TrainRequest, deal_doses, rows_of, train_models
from .training import Rows

__all__ = [
    "FOLDER",
    "CalibrateRequest",
    "Calibrated",
    "Rows",
    "RunRequest",
    "TrainRequest",
    "as_kept",
    "calibrate_study",
    "calibrations_of",
    "deal_doses",
    "plan_run",
    "record_calibration",
    "rows_of",
    "run_calibration",
    "train_models",
    "write_calibration",
]
