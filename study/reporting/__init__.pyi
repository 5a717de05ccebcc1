from .context import find_report
from .contributors import LookContext, LookScope, LookShare
from .external_table import analyze_table
from .look import graded_rows, report_study, write_internal
from .status import read_status

__all__ = [
    "LookContext",
    "LookScope",
    "LookShare",
    "analyze_table",
    "find_report",
    "graded_rows",
    "read_status",
    "report_study",
    "write_internal",
]
