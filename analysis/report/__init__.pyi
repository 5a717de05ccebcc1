from .changes import changes_since
from .deviations import table_departures
from .report import ModelFact, Report, ReportRequest, build_report, build_table_report, report_json
from .tool_use_page import write_tool_files
from .write import DATA, check_folder, report_files, write_files, write_report

__all__ = [
    "DATA",
    "ModelFact",
    "Report",
    "ReportRequest",
    "build_report",
    "build_table_report",
    "changes_since",
    "check_folder",
    "report_files",
    "report_json",
    "table_departures",
    "write_files",
    "write_report",
    "write_tool_files",
]
