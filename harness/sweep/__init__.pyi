from .coordinator import SweepOptions
from .epochs import Epochs, Heartbeat, Process, Pulse
from .governor import Consumption, FailedAttempts, ModelProgress, StatedLimit, WaitReason
from .leases import Progress, SweepOrder
from .run_cell import close_cell, open_budget
from .schedule import INSTANCES_CODEC, Schedule, WaveInstance, schedule_cells
from .spool import StorePause
from .workbench import RunContext, instance_of
from .worker_process import prepare_ray

__all__ = [
    "INSTANCES_CODEC",
    "Consumption",
    "Epochs",
    "FailedAttempts",
    "Heartbeat",
    "ModelProgress",
    "Process",
    "Progress",
    "Pulse",
    "RunContext",
    "Schedule",
    "StatedLimit",
    "StorePause",
    "SweepOptions",
    "SweepOrder",
    "WaitReason",
    "WaveInstance",
    "close_cell",
    "instance_of",
    "open_budget",
    "prepare_ray",
    "schedule_cells",
]
