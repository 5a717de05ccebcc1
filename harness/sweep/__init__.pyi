from .epochs import Epochs, Heartbeat, Process
from .governor import Consumption, FailedAttempts, ModelProgress, WaitReason
from .leases import Progress, SweepOrder, WaveInstance, schedule_cells
from .run_cell import RunContext, close_cell, instance_of, open_budget
from .worker_process import prepare_ray

__all__ = [
    "Consumption",
    "Epochs",
    "FailedAttempts",
    "Heartbeat",
    "ModelProgress",
    "Process",
    "Progress",
    "RunContext",
    "SweepOrder",
    "WaitReason",
    "WaveInstance",
    "close_cell",
    "instance_of",
    "open_budget",
    "prepare_ray",
    "schedule_cells",
]
