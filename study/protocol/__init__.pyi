from .draw_checks import LEAST_CONTROL_RUNS, design_shortfalls, draw_faults, tested_models
from .lint import EveryKey, lint_protocol
from .plan_section import ControlsSection, Faults, PlanFile, idle_keys, plan_options
from .protocol import FILE_NAME, Protocol, Task, read_protocol, relatives_of
from .schema import study_schema
from .sections import NAME, PANEL, URL, VARIABLE, BudgetSection, Tranches, write_tranches
from .yaml import MAX_BYTES, explain_fault, read_bounded, read_template, read_yaml

__all__ = [
    "FILE_NAME",
    "LEAST_CONTROL_RUNS",
    "MAX_BYTES",
    "NAME",
    "PANEL",
    "URL",
    "VARIABLE",
    "BudgetSection",
    "ControlsSection",
    "EveryKey",
    "Faults",
    "PlanFile",
    "Protocol",
    "Task",
    "Tranches",
    "design_shortfalls",
    "draw_faults",
    "explain_fault",
    "idle_keys",
    "lint_protocol",
    "plan_options",
    "read_bounded",
    "read_protocol",
    "read_template",
    "read_yaml",
    "relatives_of",
    "study_schema",
    "tested_models",
    "write_tranches",
]
