from .plan_section import ControlsSection, PlanFile, plan_options, refuse_idle_keys
from .protocol import FILE_NAME, Protocol, Task, read_protocol, relatives_of
from .sections import PANEL, BudgetSection, Tranches, write_tranches
from .yaml import MAX_BYTES, explain_fault, read_bounded, read_template, read_yaml

__all__ = [
    "FILE_NAME",
    "MAX_BYTES",
    "PANEL",
    "BudgetSection",
    "ControlsSection",
    "PlanFile",
    "Protocol",
    "Task",
    "Tranches",
    "explain_fault",
    "plan_options",
    "read_bounded",
    "read_protocol",
    "read_template",
    "read_yaml",
    "refuse_idle_keys",
    "relatives_of",
    "write_tranches",
]
