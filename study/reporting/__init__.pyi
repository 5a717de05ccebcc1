from .context import find_report
from .dose_report import report_doses, write_doses
from .external_table import analyze_table
from .look import graded_rows, report_study, write_internal
from .status import read_status
from .tool_use import model_records, tool_records, tool_tables

__all__ = [
    "analyze_table",
    "find_report",
    "graded_rows",
    "model_records",
    "read_status",
    "report_doses",
    "report_study",
    "tool_records",
    "tool_tables",
    "write_doses",
    "write_internal",
]
