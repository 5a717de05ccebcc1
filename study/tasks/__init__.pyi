from .catalog import EXAMPLE_SEED, TaskView, check_tasks, list_tasks, make, make_task, show_task
from .check_page import write_page
from .fetch_weights import fetch_weights
from .scaffold import new_task

__all__ = [
    "EXAMPLE_SEED",
    "TaskView",
    "check_tasks",
    "fetch_weights",
    "list_tasks",
    "make",
    "make_task",
    "new_task",
    "show_task",
    "write_page",
]
