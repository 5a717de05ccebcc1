from .context import find_report
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
    "report_study",
    "tool_records",
    "tool_tables",
    "write_internal",
]
