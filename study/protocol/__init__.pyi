from .draw_checks import (
    LEAST_CONTROL_RUNS,
    design_shortfalls,
    draw_faults,
    missing_controls,
    tested_models,
)
from .plan_section import ControlsSection, Faults, PlanFile, idle_keys, plan_options
from .protocol import FILE_NAME, Protocol, Task, examine_protocol, read_protocol, relatives_of
from .schema import SCHEMA_NAME, study_schema
from .sections import (
    CLUSTER,
    NAME,
    OPERATOR_KEYS,
    PANEL,
    URL,
    VARIABLE,
    BudgetSection,
    Tranches,
    write_tranches,
)
from .yaml import MAX_BYTES, TemplateSource, explain_fault, read_bounded, read_template, read_yaml

__all__ = [
    "CLUSTER",
    "FILE_NAME",
    "LEAST_CONTROL_RUNS",
    "MAX_BYTES",
    "NAME",
    "OPERATOR_KEYS",
    "PANEL",
    "SCHEMA_NAME",
    "URL",
    "VARIABLE",
    "BudgetSection",
    "ControlsSection",
    "Faults",
    "PlanFile",
    "Protocol",
    "Task",
    "TemplateSource",
    "Tranches",
    "design_shortfalls",
    "draw_faults",
    "examine_protocol",
    "explain_fault",
    "idle_keys",
    "missing_controls",
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
