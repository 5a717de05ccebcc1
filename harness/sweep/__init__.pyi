from .epochs import Epochs, Heartbeat, Process
from .governor import ModelProgress
from .leases import Progress, SweepOrder, WaveInstance, schedule_cells
from .run_cell import RunContext, close_cell, instance_of, open_budget
from .worker_process import prepare_ray

__all__ = [
    "Epochs",
    "Heartbeat",
    "ModelProgress",
    "Process",
    "Progress",
    "RunContext",
    "SweepOrder",
    "WaveInstance",
    "close_cell",
    "instance_of",
    "open_budget",
    "prepare_ray",
    "schedule_cells",
]
