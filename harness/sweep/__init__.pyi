from .leases import Progress
from .ray_env import prepare_ray
from .run_cell import RunContext, close_cell, instance_of, read_result
from .schedule import WaveInstance, schedule_cells

__all__ = [
    "Progress",
    "RunContext",
    "WaveInstance",
    "close_cell",
    "instance_of",
    "prepare_ray",
    "read_result",
    "schedule_cells",
]
